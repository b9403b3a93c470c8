//! How long a notification may be handled.

use std::time::Duration;

use postrider::relay::Subscription;
use postrider::sink::{Failure, Message, Outcome, Sink};
use postrider::{BoxFuture, Clock, Result, SystemClock, Timestamp, route::Router};
use tokio::sync::watch;

use super::calls::{Calls, fails};
use super::{EventlogDatabase, cases, fast_fan_out, fast_policy, utc};
use crate::row_database::RowDatabase;

cases! {
    a_new_handler_gets_events_that_are_thirty_days_old,
    a_notification_past_its_time_expires_without_a_call,
    a_retry_past_the_time_expires_at_once,
    nothing_expires_while_a_destination_is_down,
}

async fn a_new_handler_gets_events_that_are_thirty_days_old<D: RowDatabase>(
    log: EventlogDatabase<D>,
) -> Result<()> {
    let calls = Calls::default();
    log.write_aged("OrderPlaced", "1", 1, "interval '30' day").await?;
    let relay = log.relay([calls.handler("mail", &["OrderPlaced"])]).await?;
    log.wait_for("SELECT state FROM event_notifications", "SUCCEEDED").await?;
    relay.shutdown().await?;
    assert_eq!(calls.of("mail"), ["OrderPlaced 1 1"]);
    Ok(())
}

async fn a_notification_past_its_time_expires_without_a_call<D: RowDatabase>(
    log: EventlogDatabase<D>,
) -> Result<()> {
    let calls = Calls::default();
    for number in 0..2 {
        log.write_aged("OrderPlaced", "1", number, "interval '30' day").await?;
    }
    let failing = calls.answering("mail", &["OrderPlaced"], |_, _| fails("no"));
    let relay = log.relay([failing]).await?;
    log.wait_for("SELECT count(*) FROM event_notifications WHERE state = 'FAILED'", "1").await?;
    relay.shutdown().await?;
    // Eight days pass for the first, six for the second.
    let now = utc::<D>();
    for (number, days) in [(0, 8), (1, 6)] {
        log.run(&format!(
            "UPDATE event_notifications SET created_date = {now} - interval '{days}' day, next_retry_at = {now}
             WHERE event_date = (SELECT {} FROM events)",
            if number == 0 { "min(event_date)" } else { "max(event_date)" }
        ))
        .await?;
    }
    let relay = log.relay([calls.handler("mail", &["OrderPlaced"])]).await?;
    log.wait_for("SELECT count(*) FROM event_notifications WHERE state IN ('EXPIRED', 'SUCCEEDED')", "2")
        .await?;
    relay.shutdown().await?;
    assert_eq!(calls.all(), ["mail OrderPlaced 1 0", "mail OrderPlaced 1 1"]);
    assert_eq!(
        log.rows("SELECT state, attempts FROM event_notifications ORDER BY event_date").await?,
        ["EXPIRED 1", "SUCCEEDED 0"]
    );
    // The row itself says that it expired.
    assert_eq!(log.one("SELECT count(*) FROM {ledger}.row_notes").await?, "0");
    Ok(())
}

async fn a_retry_past_the_time_expires_at_once<D: RowDatabase>(log: EventlogDatabase<D>) -> Result<()> {
    let calls = Calls::default();
    let log = EventlogDatabase(log.0.with_fan_out(fast_fan_out().handle_within(Duration::from_secs(20))));
    log.write("OrderPlaced", "1", 1).await?;
    log.write("OrderPlaced", "1", 2).await?;
    let first_fails = |event: &postrider::Event, _: &_| match &event.payload[..] {
        payload if payload.ends_with(b"1}") => fails("no"),
        _ => Ok(()),
    };
    let relay = log.relay([calls.answering("mail", &["OrderPlaced"], first_fails)]).await?;
    log.wait_for("SELECT count(*) FROM event_notifications WHERE state IN ('EXPIRED', 'SUCCEEDED')", "2")
        .await?;
    relay.shutdown().await?;
    assert_eq!(
        log.rows("SELECT state, attempts FROM event_notifications ORDER BY event_date, event_id").await?,
        ["EXPIRED 1", "SUCCEEDED 0"]
    );
    Ok(())
}

fn now() -> Timestamp {
    SystemClock::new().now().wall
}

/// A destination that cannot be reached. Reports when it was tried last.
struct Down(watch::Sender<Option<Timestamp>>);

impl Sink for Down {
    fn publish<'a>(&'a self, messages: &'a [Message]) -> BoxFuture<'a, Vec<Outcome>> {
        self.0.send_replace(Some(now()));
        let outcomes = messages.iter().map(|_| Outcome::Down(Failure::new("no answer"))).collect();
        Box::pin(std::future::ready(outcomes))
    }
}

const HANDLE_WITHIN: Duration = Duration::from_secs(1);

async fn nothing_expires_while_a_destination_is_down<D: RowDatabase>(log: EventlogDatabase<D>) -> Result<()> {
    let log = EventlogDatabase(log.0.with_fan_out(fast_fan_out().handle_within(HANDLE_WITHIN)));
    for number in 0..4 {
        log.write("OrderPlaced", &number.to_string(), number).await?;
    }
    let policy = fast_policy().probe_min(Duration::from_millis(20)).probe_max(Duration::from_millis(40));
    let tried = watch::Sender::new(None);
    let down = Subscription::new("broker", Down(tried.clone()))
        .router(Router::to("orders").only(["OrderPlaced"]))
        .policy(policy);
    let relay = log.relay([down]).await?;
    log.wait_for("SELECT count(*) FROM event_notifications", "4").await?;
    // All of them are past their time when the destination is tried after this.
    let expired = now().after(HANDLE_WITHIN);
    tried.subscribe().wait_for(|at| at.is_some_and(|at| at > expired)).await.unwrap();
    relay.shutdown().await?;
    assert_eq!(log.rows("SELECT DISTINCT state, attempts FROM event_notifications").await?, ["PENDING 0"]);
    Ok(())
}
