//! The search next to the fan-out, over notifications that answer as the test wants.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::Notify;

use super::super::fan_out::FanOutTask;
use super::*;
use crate::Code;
use crate::layout::RegisteredHandler;
use crate::store::{MissedPage, RefusedEvent, Skipped, Start, Store};
use crate::{BoxFuture, Now, Timestamp};

/// A clock on which no sleep takes time.
struct NoWait;

impl Clock for NoWait {
    fn now(&self) -> Now {
        Now { elapsed: Duration::ZERO, wall: Timestamp::default() }
    }

    fn sleep_until(&self, _: Duration) -> BoxFuture<'static, ()> {
        Box::pin(tokio::task::yield_now())
    }
}

/// Missed notifications, in pages.
#[derive(Default)]
struct Fake {
    pages: Mutex<Vec<MissedPage>>,
    /// How many insertions fail because the lock is held.
    busy: AtomicUsize,
    searches: AtomicUsize,
    inserted: Mutex<Vec<String>>,
    recorded: Mutex<Vec<Timestamp>>,
    fan_outs: AtomicUsize,
    /// A search never ends.
    hangs: bool,
    progress: Notify,
}

impl Notifications for Fake {
    fn register(&self, _: &RegisteredHandler, _: Start) -> BoxFuture<'_, Result<bool>> {
        Box::pin(std::future::ready(Ok(true)))
    }

    fn store_of(&self, _: RegisteredHandler) -> Result<Arc<dyn Store>> {
        Err(Error::new(Code::LayoutDiffers, "not needed here"))
    }

    fn fan_out<'a>(&'a self, _: usize, _: &'a Skipped) -> BoxFuture<'a, Result<FannedOut>> {
        self.fan_outs.fetch_add(1, Ordering::SeqCst);
        self.progress.notify_one();
        Box::pin(std::future::ready(Ok(FannedOut::default())))
    }

    fn search_missed<'a>(
        &'a self,
        _: Duration,
        _: Option<&'a MissedNotification>,
    ) -> BoxFuture<'a, Result<MissedSearch>> {
        self.searches.fetch_add(1, Ordering::SeqCst);
        if self.hangs {
            return Box::pin(std::future::pending());
        }
        let page = self.pages.lock().unwrap().pop();
        let found = page.map_or(MissedSearch::NotDue(Duration::from_secs(600)), MissedSearch::Page);
        Box::pin(std::future::ready(Ok(found)))
    }

    fn insert_missed<'a>(&'a self, missed: &'a [MissedNotification]) -> BoxFuture<'a, Result<FannedOut>> {
        let one_less = |busy: usize| busy.checked_sub(1);
        if self.busy.fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_less).is_ok() {
            let busy = Error::new(Code::StoreBusy, "the lock is held");
            return Box::pin(std::future::ready(Err(busy)));
        }
        self.inserted.lock().unwrap().extend(missed.iter().map(|missed| missed.event.clone()));
        let refused = missed.iter().filter(|missed| missed.event == "bad");
        let refused = refused.map(|missed| RefusedEvent {
            event: missed.event.clone(),
            event_type: missed.event_type.clone(),
            event_date: missed.event_date,
            reason: "a CHECK".to_owned(),
        });
        let refused = refused.collect();
        let events = missed.len() as u64;
        Box::pin(std::future::ready(Ok(FannedOut {
            events,
            notifications: events,
            refused,
            ..FannedOut::default()
        })))
    }

    fn record_search(&self, begun: Timestamp) -> BoxFuture<'_, Result<()>> {
        self.recorded.lock().unwrap().push(begun);
        Box::pin(std::future::ready(Ok(())))
    }
}

fn page(begun: i64, events: &[&str], more: bool) -> MissedPage {
    let missed = events.iter().map(|event| MissedNotification {
        event: (*event).to_owned(),
        event_type: "Placed".to_owned(),
        event_date: Timestamp::default(),
        handler: "mail".to_owned(),
    });
    MissedPage { begun: Timestamp::from_micros(begun), missed: missed.collect(), more }
}

fn task(fake: &Arc<Fake>) -> MissedSearchTask {
    let settings = FanOutPolicy::default().events_max(2);
    MissedSearchTask::new(fake.clone(), settings, Arc::new(NoWait), Vec::new())
}

#[tokio::test]
async fn a_search_that_takes_long_does_not_delay_the_fan_out() {
    let fake = Arc::new(Fake { hangs: true, ..Fake::default() });
    let (_stop, stopped) = watch::channel(false);
    let search = tokio::spawn(task(&fake).run(stopped.clone()));
    let fan_out = FanOutTask::new(
        fake.clone(),
        FanOutPolicy::default(),
        Arc::new(NoWait),
        Vec::new(),
        Arc::new(Notify::new()),
    );
    let fan_out = tokio::spawn(fan_out.run(stopped));
    while fake.fan_outs.load(Ordering::SeqCst) < 5 {
        fake.progress.notified().await;
    }
    assert_eq!(fake.searches.load(Ordering::SeqCst), 1);
    search.abort();
    fan_out.abort();
}

#[tokio::test]
async fn an_insertion_that_finds_the_lock_held_is_repeated_without_the_search() {
    let fake = Arc::new(Fake { busy: AtomicUsize::new(3), ..Fake::default() });
    *fake.pages.lock().unwrap() = vec![page(1, &["a", "b", "c"], false)];
    task(&fake).search_once().await.unwrap();
    assert_eq!(*fake.inserted.lock().unwrap(), ["a", "b", "c"]);
    assert_eq!(fake.searches.load(Ordering::SeqCst), 1);
    assert_eq!(*fake.recorded.lock().unwrap(), [Timestamp::from_micros(1)]);
}

#[tokio::test]
async fn a_search_of_several_pages_is_recorded_with_the_time_of_its_first() {
    let fake = Arc::new(Fake::default());
    *fake.pages.lock().unwrap() = vec![page(9, &["c"], false), page(5, &["a", "b"], true)];
    task(&fake).search_once().await.unwrap();
    assert_eq!(*fake.inserted.lock().unwrap(), ["a", "b", "c"]);
    assert_eq!(*fake.recorded.lock().unwrap(), [Timestamp::from_micros(5)]);
}

#[tokio::test]
async fn a_search_whose_events_are_refused_is_not_recorded() {
    let fake = Arc::new(Fake::default());
    *fake.pages.lock().unwrap() = vec![page(9, &["c"], false), page(5, &["a", "bad"], true)];
    task(&fake).search_once().await.unwrap();
    assert_eq!(*fake.inserted.lock().unwrap(), ["a", "bad", "c"]);
    assert_eq!(*fake.recorded.lock().unwrap(), []);
}
