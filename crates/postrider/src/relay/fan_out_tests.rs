//! The fan-out over a table in memory, with events that the table refuses.

use std::collections::BTreeMap;
use std::sync::Mutex;

use super::*;
use crate::Code;
use crate::layout::RegisteredHandler;
use crate::store::{MissedNotification, MissedSearch, Start, Store};
use crate::{BoxFuture, Now, Timestamp};

/// A clock that the test moves.
#[derive(Default)]
struct TestClock(Mutex<Duration>);

impl Clock for TestClock {
    fn now(&self) -> Now {
        Now { elapsed: *self.0.lock().unwrap(), wall: Timestamp::default() }
    }
}

/// Events that wait: by date, whether the table refuses them. All have one type.
#[derive(Default)]
struct Table {
    waiting: Mutex<BTreeMap<i64, bool>>,
    /// The largest number of ids that a fan-out was given.
    ids_most: Mutex<usize>,
    /// How many fan-outs have read events of all types.
    of_all_types: Mutex<usize>,
}

impl Table {
    fn write(&self, dates: std::ops::Range<i64>, is_refused: bool) {
        self.waiting.lock().unwrap().extend(dates.map(|date| (date, is_refused)));
    }

    fn waiting(&self) -> (usize, usize) {
        let waiting = self.waiting.lock().unwrap();
        let refused = waiting.values().filter(|is_refused| **is_refused).count();
        (refused, waiting.len() - refused)
    }
}

impl Notifications for Table {
    fn register(&self, _: &RegisteredHandler, _: Start) -> BoxFuture<'_, Result<bool>> {
        Box::pin(std::future::ready(Ok(true)))
    }

    fn store_of(&self, _: RegisteredHandler) -> Result<Arc<dyn Store>> {
        Err(Error::new(Code::LayoutDiffers, "not needed here"))
    }

    fn fan_out<'a>(&'a self, events_max: usize, skipped: &'a Skipped) -> BoxFuture<'a, Result<FannedOut>> {
        let mut most = self.ids_most.lock().unwrap();
        *most = skipped.ids.len().max(*most);
        *self.of_all_types.lock().unwrap() += usize::from(!skipped.unmatched_types);
        let ids: std::collections::HashSet<&str> = skipped.ids.iter().map(String::as_str).collect();
        let from = skipped.older_than.get("Placed").map_or(i64::MIN, |date| date.as_micros());
        let mut waiting = self.waiting.lock().unwrap();
        let taken: Vec<(i64, bool)> = waiting
            .range(from..)
            .filter(|(date, _)| !ids.contains(date.to_string().as_str()))
            .take(events_max)
            .map(|(date, is_refused)| (*date, *is_refused))
            .collect();
        let mut batch = FannedOut { more: taken.len() >= events_max, ..FannedOut::default() };
        for (date, is_refused) in taken {
            if is_refused {
                batch.refused.push(RefusedEvent {
                    event: date.to_string(),
                    event_type: "Placed".to_owned(),
                    event_date: Timestamp::from_micros(date),
                    reason: "a CHECK".to_owned(),
                });
            } else {
                waiting.remove(&date);
                batch.events += 1;
                batch.notifications += 1;
            }
        }
        Box::pin(std::future::ready(Ok(batch)))
    }

    fn search_missed<'a>(
        &'a self,
        every: Duration,
        _: Option<&'a MissedNotification>,
    ) -> BoxFuture<'a, Result<MissedSearch>> {
        Box::pin(std::future::ready(Ok(MissedSearch::NotDue(every))))
    }

    fn insert_missed<'a>(&'a self, _: &'a [MissedNotification]) -> BoxFuture<'a, Result<FannedOut>> {
        Box::pin(std::future::ready(Ok(FannedOut::default())))
    }

    fn record_search(&self, _: Timestamp) -> BoxFuture<'_, Result<()>> {
        Box::pin(std::future::ready(Ok(())))
    }
}

/// Steps until there is nothing to do now.
async fn fan_out_all(task: &mut FanOutTask) {
    for _ in 0..10_000 {
        if task.step().await.unwrap().is_some() {
            return;
        }
    }
    panic!("the fan-out does not come to an end");
}

fn task(table: &Arc<Table>) -> (FanOutTask, Arc<TestClock>) {
    let clock = Arc::new(TestClock::default());
    let wake = Arc::new(Notify::new());
    (FanOutTask::new(table.clone(), FanOutPolicy::default(), clock.clone(), Vec::new(), wake), clock)
}

#[tokio::test]
async fn later_events_do_not_wait_for_any_number_of_refused_ones() {
    let table = Arc::new(Table::default());
    let (mut task, _) = task(&table);
    table.write(0..30_000, true);
    table.write(30_000..30_010, false);
    fan_out_all(&mut task).await;
    assert_eq!(table.waiting(), (30_000, 0));
    assert!(*table.ids_most.lock().unwrap() <= 5_200, "what it remembers is bounded");
    table.write(40_000..40_010, false);
    fan_out_all(&mut task).await;
    assert_eq!(table.waiting(), (30_000, 0));
}

#[tokio::test]
async fn refused_events_are_tried_again_after_ten_minutes_and_new_ones_do_not_wait_for_them() {
    let table = Arc::new(Table::default());
    let (mut task, clock) = task(&table);
    table.write(0..20_000, true);
    fan_out_all(&mut task).await;
    // Events that commit late, with an older date than the refused ones, wait for the next pass at most.
    table.write(-5..0, false);
    fan_out_all(&mut task).await;
    assert_eq!(table.waiting(), (20_000, 5));
    *clock.0.lock().unwrap() += REFUSED_RETRY;
    table.write(20_000..20_010, false);
    task.step().await.unwrap();
    assert_eq!(table.waiting(), (20_000, 0), "both are fanned out at once");
    fan_out_all(&mut task).await;
    // The table accepts half of them now.
    for (date, is_refused) in table.waiting.lock().unwrap().iter_mut() {
        *is_refused = date % 2 == 0;
    }
    fan_out_all(&mut task).await;
    assert_eq!(table.waiting(), (10_000, 10_000), "they are not tried again before their time");
    *clock.0.lock().unwrap() += REFUSED_RETRY;
    fan_out_all(&mut task).await;
    assert_eq!(table.waiting(), (10_000, 0));
}

#[tokio::test]
async fn types_that_no_pattern_matches_are_read_at_the_start_and_every_ten_minutes() {
    let table = Arc::new(Table::default());
    let (mut task, clock) = task(&table);
    let of_all_types = || *table.of_all_types.lock().unwrap();
    for passes in 1..=3 {
        for _ in 0..5 {
            fan_out_all(&mut task).await;
        }
        assert_eq!(of_all_types(), passes);
        *clock.0.lock().unwrap() += ALL_TYPES_EVERY;
    }
    // A pass that is not complete is continued.
    table.write(0..250, false);
    fan_out_all(&mut task).await;
    assert_eq!((of_all_types(), table.waiting()), (5, (0, 0)));
}
