//! Handlers without a database.

use std::time::Duration;

use postrider::Event;
use postrider::handler::{Context, HandlerError, Handlers, Result};
use postrider_testkit::{Handled, HandlerTest};

use super::{OrderBilled, OrderPlaced, placed};

async fn handle(placed: OrderPlaced, cx: Context) -> Result {
    match placed.order {
        1 => Ok(()),
        2 => Err(HandlerError::skip("not for us")),
        3 => Err(HandlerError::dead("no such order")),
        4 => Err(HandlerError::retry_after(Duration::from_secs(60), "rate limit")),
        5 => panic!("a bug"),
        6 => std::future::pending().await,
        _ => Err(format!("attempt {} of {}", cx.attempt(), cx.subscription()).into()),
    }
}

fn test() -> HandlerTest {
    HandlerTest::new("mail", Handlers::new().on(handle).timeout(Duration::from_secs(3_600)))
}

fn retry(reason: &str, after: Option<Duration>) -> Handled {
    Handled::Retry { reason: reason.to_owned(), after }
}

#[tokio::test]
async fn every_way_to_end_a_call_is_reported() {
    let test = test();
    assert_eq!(test.deliver(&placed(1)).await, Handled::Done);
    assert_eq!(test.deliver(&placed(2)).await, Handled::Skipped);
    assert_eq!(test.deliver(&placed(3)).await, Handled::Dead { reason: "no such order".to_owned() });
    assert_eq!(test.deliver(&placed(4)).await, retry("rate limit", Some(Duration::from_secs(60))));
    assert_eq!(test.deliver(&placed(5)).await, retry("the handler panicked: a bug", None));
    assert_eq!(test.deliver(&OrderBilled { order: 1 }).await, Handled::NotTaken);
    let Handled::Retry { reason, .. } = test.deliver(Event::new("order.placed", "{}")).await else {
        panic!()
    };
    assert!(reason.starts_with("the payload is not a "), "{reason}");
}

#[tokio::test]
async fn an_event_that_is_delivered_again_is_the_next_attempt() {
    let test = test();
    let event = Event::new("order.placed", r#"{"order": 9, "cents": 1}"#);
    assert_eq!(test.deliver(&event).await, retry("attempt 1 of mail", None));
    assert_eq!(test.deliver(&placed(9)).await, retry("attempt 1 of mail", None));
    assert_eq!(test.deliver(&event).await, retry("attempt 2 of mail", None));
}

#[tokio::test(start_paused = true)]
async fn an_hour_of_timeout_passes_at_once_in_a_paused_runtime() {
    assert_eq!(test().deliver(&placed(6)).await, retry("the handler did not finish within 3600s", None));
}

#[test]
#[should_panic(expected = "it has no function")]
fn handlers_that_a_relay_refuses_are_refused() {
    HandlerTest::new("mail", Handlers::new());
}
