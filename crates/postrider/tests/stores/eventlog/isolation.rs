//! Handlers of one outbox do not wait for each other. `HANDLER_EVENTS` sets how many events they get.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use postrider::handler::{Context, Handlers};
use postrider::relay::Subscription;
use postrider::route::Router;
use postrider::{Clock, Event, Result, SystemClock};
use tokio::sync::Semaphore;
use uuid::Uuid;

use super::calls::fails;
use super::{EventlogDatabase, cases, fast_policy, utc};
use crate::row_database::RowDatabase;

cases! {
    a_slow_handler_and_a_failing_one_delay_no_other,
}

/// Models whose events must keep their order.
const MODELS: usize = 97;

/// Events in one INSERT.
const WRITTEN_AT_ONCE: usize = 500;

/// The numbers that one handler was called with, by model.
type CallsByModel = Arc<Mutex<HashMap<usize, Vec<usize>>>>;

async fn a_slow_handler_and_a_failing_one_delay_no_other<D: RowDatabase>(
    log: EventlogDatabase<D>,
) -> Result<()> {
    let events: usize = std::env::var("HANDLER_EVENTS").map_or(400, |text| text.parse().unwrap());
    write(&log, events).await?;
    let clock = SystemClock::new();
    let begun = clock.now().elapsed;
    let (fine, slow, failing): (CallsByModel, CallsByModel, CallsByModel) = Default::default();
    let fine_calls = Arc::new(AtomicUsize::new(0));
    // The slow handler gets no further than a quarter until the fine one has finished.
    let permits = Arc::new(Semaphore::new(events / 4 - 1));
    let relay = log
        .relay([
            handler("fine", {
                let (calls, finished, permits) = (fine.clone(), fine_calls.clone(), permits.clone());
                move |event, _| {
                    record(&calls, &event);
                    if finished.fetch_add(1, Ordering::SeqCst) + 1 == events {
                        permits.add_permits(events);
                    }
                    std::future::ready(Ok(()))
                }
            }),
            handler("slow", {
                let calls = slow.clone();
                move |event, _| {
                    let (calls, permits) = (calls.clone(), permits.clone());
                    async move {
                        permits.acquire().await.unwrap().forget();
                        record(&calls, &event);
                        Ok(())
                    }
                }
            }),
            handler("failing", {
                let calls = failing.clone();
                move |event, cx: Context| {
                    record(&calls, &event);
                    let fails_now = number(&event).is_multiple_of(10) && cx.attempt() == 1;
                    std::future::ready(if fails_now { fails("every tenth fails once") } else { Ok(()) })
                }
            }),
        ])
        .await?;
    let all = (3 * events).to_string();
    log.wait_for("SELECT count(*) FROM event_notifications WHERE state = 'SUCCEEDED'", &all).await?;
    relay.shutdown().await?;

    for (calls, expected) in [(&fine, events), (&slow, events), (&failing, events + events.div_ceil(10))] {
        let calls = calls.lock().unwrap();
        assert_eq!(calls.values().map(Vec::len).sum::<usize>(), expected);
        for (model, numbers) in calls.iter() {
            let mut distinct = numbers.clone();
            distinct.dedup();
            let in_order: Vec<usize> = (0..events).filter(|number| number % MODELS == *model).collect();
            assert_eq!(distinct, in_order, "model {model}");
        }
    }
    assert_eq!(log.one("SELECT count(*) FROM event_notifications").await?, all);
    println!(
        "{events} events to three handlers: each {events} times, {} failures retried, order of {MODELS} models kept, {:.1} s",
        events.div_ceil(10),
        (clock.now().elapsed - begun).as_secs_f64()
    );
    Ok(())
}

fn handler<F, R>(name: &str, function: F) -> Subscription
where
    F: Fn(Arc<Event>, Context) -> R + Send + Sync + 'static,
    R: Future<Output = postrider::handler::Result> + Send + 'static,
{
    let handlers = Handlers::new().on(function).concurrency(64);
    // Calls are counted exactly: on a machine that is busy for seconds, a lost lease would repeat some.
    let policy = fast_policy().lease(Duration::from_secs(60));
    Subscription::handlers(name, handlers).router(Router::to(name).only(["Placed"])).policy(policy)
}

fn number(event: &Event) -> usize {
    let payload: serde_json::Value = serde_json::from_slice(&event.payload).unwrap();
    usize::try_from(payload["n"].as_u64().unwrap()).unwrap()
}

fn record(calls: &CallsByModel, event: &Event) {
    let number = number(event);
    calls.lock().unwrap().entry(number % MODELS).or_default().push(number);
}

/// Writes events as a program that does not know Postrider would, many at a time.
async fn write<D: RowDatabase>(log: &EventlogDatabase<D>, events: usize) -> Result<()> {
    let now = utc::<D>();
    for from in (0..events).step_by(WRITTEN_AT_ONCE) {
        let rows = (from..events.min(from + WRITTEN_AT_ONCE)).map(|number| {
            format!(
                "('{}', 'shop', '{}', 'Place', '{{}}', {now}, {now}, '{}', 'Order', 'Placed', '{{\"n\": {number}}}', {now}, FALSE)",
                Uuid::now_v7(),
                Uuid::now_v7(),
                number % MODELS
            )
        });
        let rows: Vec<String> = rows.collect();
        log.run(&format!(
            "INSERT INTO events (id, namespace, action_id, action_name, action_params, started_date, completion_date,
                                 model_id, model_type, event_type, payload, event_date, delivered)
             VALUES {}",
            rows.join(", ")
        ))
        .await?;
    }
    Ok(())
}
