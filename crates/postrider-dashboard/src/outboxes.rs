//! The outboxes, and their state: one query per outbox every few seconds, however many pages are open.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, RwLock, Weak};
use std::time::Duration;

use postrider::store::admin::Admin;
use postrider::store::{Overview, ParkedState, Store, SubscriptionOverview};
use postrider::{Result, Timestamp};
use tokio::sync::{Mutex, Notify, watch};
use tokio::task::JoinSet;

use crate::history::{History, Sample};

/// Undelivered events are counted up to this number.
const BACKLOG_MAX: u64 = 100_000;

/// The time between two queries while a page is open, and while none is: then only charts need them.
const LIVE: Duration = Duration::from_secs(2);
const IDLE: Duration = Duration::from_secs(5);

/// A database that does not answer within this time is shown as not available.
const ANSWER_MAX: Duration = Duration::from_secs(10);

/// A page waits at most this long for the first answer.
const FIRST_MAX: Duration = Duration::from_secs(3);

/// Subscriptions with a history, per outbox.
const HISTORIES_MAX: usize = 1_000;

/// An outbox to show. Every [`Admin`] is one.
pub trait Source: Send + Sync + 'static {
    /// The operations on the outbox.
    fn admin(&self) -> &dyn Admin;
}

/// The result of one check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The result.
    pub severity: Severity,
    /// The code of the check.
    pub code: String,
    /// What was checked.
    pub subject: String,
    /// What was found.
    pub what: String,
    /// Why it matters.
    pub meaning: String,
    /// What to do, unless it passed.
    pub fix: Option<String>,
}

/// How a check ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// It passed.
    Ok,
    /// It works, but an operator should look.
    Warn,
    /// It does not work.
    Fail,
}

/// All outboxes.
pub(crate) struct Outboxes {
    all: Vec<Arc<Outbox>>,
    /// Counts the answers of all databases.
    changed: watch::Sender<u64>,
    viewers: AtomicUsize,
    /// A page was opened.
    opened: Notify,
    queries: AtomicU64,
    _tasks: std::sync::Mutex<JoinSet<()>>,
}

/// One outbox.
pub(crate) struct Outbox {
    pub(crate) name: String,
    pub(crate) source: Arc<dyn Source>,
    /// For pages. The state has a connection of its own: a long list does not delay it.
    store: Mutex<Option<Arc<dyn Store>>>,
    state: RwLock<State>,
}

#[derive(Default)]
struct State {
    overview: Option<Arc<Overview>>,
    error: Option<String>,
    histories: HashMap<String, History>,
}

/// The state of an outbox for a page.
#[derive(Clone)]
pub(crate) struct Seen {
    pub(crate) name: String,
    pub(crate) overview: Option<Arc<Overview>>,
    /// Why the database did not answer, if it did not. The overview is then the last one.
    pub(crate) error: Option<String>,
}

/// While it exists, a page is open.
pub(crate) struct Viewer(Arc<Outboxes>);

impl Drop for Viewer {
    fn drop(&mut self) {
        self.0.viewers.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Outboxes {
    /// Reads the state of each outbox from now on, until this is dropped.
    pub(crate) fn watch(sources: Vec<(String, Arc<dyn Source>)>) -> Arc<Self> {
        let outbox = |(name, source)| {
            Arc::new(Outbox { name, source, store: Mutex::new(None), state: RwLock::default() })
        };
        let outboxes = Arc::new(Self {
            all: sources.into_iter().map(outbox).collect(),
            changed: watch::Sender::new(0),
            viewers: AtomicUsize::new(0),
            opened: Notify::new(),
            queries: AtomicU64::new(0),
            _tasks: std::sync::Mutex::default(),
        });
        if let Ok(mut tasks) = outboxes._tasks.lock() {
            for outbox in &outboxes.all {
                tasks.spawn(keep_reading(outbox.clone(), Arc::downgrade(&outboxes)));
            }
        }
        outboxes
    }

    /// The outbox with this name.
    pub(crate) fn get(&self, name: &str) -> Option<Arc<Outbox>> {
        self.all.iter().find(|outbox| outbox.name == name).cloned()
    }

    /// The names of all outboxes, in their order.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.all.iter().map(|outbox| outbox.name.as_str())
    }

    /// All outboxes.
    pub(crate) fn all(&self) -> &[Arc<Outbox>] {
        &self.all
    }

    /// The state of all outboxes; waits a little for the first answers.
    pub(crate) async fn seen(&self) -> Vec<Seen> {
        let mut changed = self.changed.subscribe();
        let answered = async {
            while self.all.iter().any(|outbox| !outbox.has_answered()) {
                if changed.changed().await.is_err() {
                    break;
                }
            }
        };
        // Late answers are shown as missing.
        let _ = tokio::time::timeout(FIRST_MAX, answered).await;
        self.all.iter().map(|outbox| outbox.seen()).collect()
    }

    /// Whenever there is something new, for an open page.
    pub(crate) fn open_page(self: &Arc<Self>) -> (Viewer, watch::Receiver<u64>) {
        self.viewers.fetch_add(1, Ordering::SeqCst);
        self.opened.notify_waiters();
        (Viewer(self.clone()), self.changed.subscribe())
    }

    #[cfg(test)]
    pub(crate) fn queries(&self) -> u64 {
        self.queries.load(Ordering::SeqCst)
    }
}

/// Reads the state of one outbox again and again.
async fn keep_reading(outbox: Arc<Outbox>, all: Weak<Outboxes>) {
    let mut store = None;
    loop {
        let answer = tokio::time::timeout(ANSWER_MAX, read(&outbox, &mut store)).await;
        let Some(all) = all.upgrade() else { return };
        all.queries.fetch_add(1, Ordering::SeqCst);
        match answer {
            Ok(Ok(overview)) => outbox.set(Arc::new(overview)),
            Ok(Err(error)) => outbox.set_error(error.one_line()),
            Err(_) => {
                outbox.set_error(format!("the database did not answer within {} s", ANSWER_MAX.as_secs()))
            }
        }
        all.changed.send_modify(|answers| *answers += 1);
        let opened = all.opened.notified();
        let idle = all.viewers.load(Ordering::SeqCst) == 0;
        let wait = if idle { IDLE } else { LIVE };
        tokio::select! {
            () = tokio::time::sleep(wait) => {}
            () = opened, if idle => tokio::time::sleep(LIVE / 4).await,
        }
    }
}

async fn read(outbox: &Outbox, store: &mut Option<Arc<dyn Store>>) -> Result<Overview> {
    let opened = match store {
        Some(store) => store.clone(),
        None => store.insert(outbox.source.admin().open().await?).clone(),
    };
    opened.overview(BACKLOG_MAX).await
}

impl Outbox {
    /// The store for a page.
    pub(crate) async fn store(&self) -> Result<Arc<dyn Store>> {
        let mut store = self.store.lock().await;
        if let Some(store) = store.as_ref() {
            return Ok(store.clone());
        }
        Ok(store.insert(self.source.admin().open().await?).clone())
    }

    /// Reads the state now, after a change.
    pub(crate) async fn read_now(&self) -> Result<()> {
        let overview = self.store().await?.overview(BACKLOG_MAX).await?;
        self.set(Arc::new(overview));
        Ok(())
    }

    fn has_answered(&self) -> bool {
        self.state.read().is_ok_and(|state| state.overview.is_some() || state.error.is_some())
    }

    pub(crate) fn seen(&self) -> Seen {
        let (overview, error) =
            self.state.read().map(|state| (state.overview.clone(), state.error.clone())).unwrap_or_default();
        Seen { name: self.name.clone(), overview, error }
    }

    /// What the charts of a subscription show.
    pub(crate) fn history<T>(&self, subscription: &str, read: impl FnOnce(&History) -> T) -> Option<T> {
        let state = self.state.read().ok()?;
        state.histories.get(subscription).map(read)
    }

    fn set(&self, overview: Arc<Overview>) {
        let Ok(mut state) = self.state.write() else { return };
        let names = |name: &String| overview.subscriptions.iter().any(|of| of.name == *name);
        state.histories.retain(|name, _| names(name));
        for of in overview.subscriptions.iter().take(HISTORIES_MAX) {
            let history = state.histories.entry(of.name.clone()).or_default();
            history.add(sample(of, overview.now));
        }
        (state.overview, state.error) = (Some(overview), None);
    }

    fn set_error(&self, error: String) {
        if let Ok(mut state) = self.state.write() {
            state.error = Some(error);
        }
    }
}

fn sample(of: &SubscriptionOverview, now: Timestamp) -> Sample {
    let leader = of.leader(now).and_then(|lease| of.relays.iter().find(|relay| relay.relay == lease.holder));
    Sample {
        at: now,
        rate: leader.and_then(|relay| relay.facts.rate()),
        oldest: of.oldest().map_or(0.0, |oldest| oldest.until(now).as_secs_f64()),
        backlog: of.backlog.events,
        parked: ParkedState::ALL.iter().map(|state| of.parked.count(*state)).sum(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use postrider::store::RowExtras;
    use postrider::store::admin::SqliteAdmin;

    #[tokio::test]
    async fn fifty_open_pages_ask_the_database_as_often_as_one() {
        let folder = tempfile::tempdir().unwrap();
        let admin = SqliteAdmin::new(folder.path().join("shop.db"), None).unwrap();
        admin.migrate(None, RowExtras::default()).await.unwrap();
        let outboxes = Outboxes::watch(vec![("shop".to_owned(), Arc::new(admin) as Arc<dyn Source>)]);
        let mut pages: Vec<_> = (0..50).map(|_| outboxes.open_page()).collect();
        for _ in 0..3 {
            for (_, changed) in &mut pages {
                changed.changed().await.unwrap();
            }
        }
        let (_, last) = &mut pages[0];
        assert_eq!(outboxes.queries(), *last.borrow_and_update(), "one query per answer, for all pages");
        assert!(outboxes.queries() <= 4, "{}", outboxes.queries());
        drop(pages);
        assert_eq!(outboxes.viewers.load(Ordering::SeqCst), 0);
    }
}
