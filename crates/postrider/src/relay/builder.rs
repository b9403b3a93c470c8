//! Configures a relay and starts it.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinSet;
use uuid::Uuid;

use super::handle::RelayHandle;
use super::health_log::{HealthLog, Operation};
use super::served_outbox::{OutboxOptions, ServedOutbox, TaskCx};
use super::{Relay, Subscription};
use crate::store::{Backlog, IntoStore, Store};
use crate::{Clock, Code, Error, Result, SystemClock};

/// First delay before an unreachable database is tried again; doubles with each attempt.
const WAIT_MIN: Duration = Duration::from_millis(100);

/// Longest wait between two attempts.
const WAIT_MAX: Duration = Duration::from_secs(5);

/// Maximum number of events that are counted for the log line about a new subscription.
const BACKLOG_COUNTED_MAX: u64 = 10_000;
/// Longest name of a relay. The column for holders has 255 characters on MySQL.
const NAME_CHARS_MAX: usize = 200;

/// Separates the name of a relay from its random part.
pub(super) const UNIQUE_MARK: char = '#';

/// Configures a relay: which outboxes, and which subscriptions of each.
#[derive(Default)]
#[must_use = "a relay starts with `spawn`"]
pub struct RelayBuilder {
    name: Option<String>,
    clock: Option<Arc<dyn Clock>>,
    outboxes: Vec<ServedOutbox>,
    fail_fast: bool,
}

impl RelayBuilder {
    pub(super) fn new() -> Self {
        Self::default()
    }

    /// The name of this relay in `status` and logs. The relay holds leases as `NAME#` plus a random number, so that two
    /// relays with the same name do not take each other's lease; the one that stands by logs the conflict. The default
    /// is a random name. At most 200 characters.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Serves these subscriptions of an outbox, with the default options. Can be called for several outboxes. Delivered
    /// events of the layout `postrider` are deleted after seven days; from a table with a state per row nothing is
    /// deleted.
    pub fn outbox(
        self,
        store: impl IntoStore,
        subscriptions: impl IntoIterator<Item = Subscription>,
    ) -> Self {
        self.outbox_with(store, subscriptions, OutboxOptions::default())
    }

    /// As [`outbox`](Self::outbox), with these options.
    pub fn outbox_with(
        mut self,
        store: impl IntoStore,
        subscriptions: impl IntoIterator<Item = Subscription>,
        options: OutboxOptions,
    ) -> Self {
        let subscriptions = subscriptions.into_iter().collect();
        self.outboxes.push(ServedOutbox { store: store.into_store(), subscriptions, options });
        self
    }

    /// Replaces the system clock, for tests. The relay reads the time and waits with it. Leases in the database, and the
    /// age of events for retention, are measured by the database's clock.
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = Some(clock);
        self
    }

    /// Returns an error when a database is not reachable at startup, instead of waiting for it.
    pub fn fail_fast(mut self) -> Self {
        self.fail_fast = true;
        self
    }

    /// Creates the subscriptions that do not exist yet and starts a task for each. A subscription is stored in the
    /// database: every event committed after this returns is delivered to it, even if this process dies.
    ///
    /// Waits for a database that is unreachable, busy or read-only, and logs this once; see
    /// [`fail_fast`](Self::fail_fast).
    ///
    /// # Errors
    /// [`Code::PolicyInvalid`], [`Code::NameInvalid`], [`Code::SubscriptionTwice`], [`Code::HandlerInvalid`],
    /// [`Code::RetentionUnfit`], [`Code::OrderUndefined`], rules that do not fit the sink
    /// ([`Router::for_destinations`](crate::route::Router::for_destinations)), or an error of the database that waiting
    /// cannot resolve. Then no task was started.
    ///
    /// # Cancel safety
    /// Dropping the future starts nothing; subscriptions may have been created.
    pub async fn spawn(mut self) -> Result<Relay> {
        let holder = holder(self.name)?;
        let clock = self.clock.unwrap_or_else(|| Arc::new(SystemClock::new()));
        for outbox in &mut self.outboxes {
            if outbox.store.notifications().is_some() {
                outbox.subscriptions.iter_mut().for_each(Subscription::use_defaults_of_notifications);
            } else if let Some(renamed) = outbox.subscriptions.iter().find(|of| !of.aliases.is_empty()) {
                let what = format!("subscription {:?} has an alias, and this outbox has none", renamed.name);
                return Err(Error::new(Code::HandlerInvalid, what)
                    .with_hint("only layout eventlog has aliases; elsewhere keep the earlier name"));
            }
            check(&mut outbox.subscriptions)?;
            outbox.check()?;
        }
        for ServedOutbox { store, subscriptions, .. } in &self.outboxes {
            for subscription in subscriptions {
                subscribe(&**store, subscription, self.fail_fast).await?;
            }
        }
        let (stop, stopped) = watch::channel(false);
        let (mut served, mut tasks) = (Vec::new(), JoinSet::new());
        let cx = TaskCx { holder: &holder, clock, stopped };
        for outbox in self.outboxes {
            served.extend(outbox.start(&cx, &mut tasks)?);
        }
        Ok(Relay { handle: RelayHandle::new(holder, served, stop), tasks })
    }
}

/// The name under which a relay holds leases: its own name and a random part.
fn holder(name: Option<String>) -> Result<String> {
    let unique = Uuid::now_v7();
    let Some(name) = name else { return Ok(format!("relay-{unique}")) };
    if name.is_empty() || name.chars().count() > NAME_CHARS_MAX {
        let what = format!("the relay name has {} characters", name.chars().count());
        return Err(Error::new(Code::NameInvalid, what).with_hint("use 1 to 200 characters"));
    }
    // The last bits of a UUIDv7 are random.
    Ok(format!("{name}{UNIQUE_MARK}{:08x}", unique.as_u64_pair().1 & 0xffff_ffff))
}

/// Logs that a subscription was created, where it begins, and how many existing events it will deliver. If it skips
/// events, that is a warning. If the overview fails, only the creation is logged.
async fn log_created(store: &dyn Store, of: &Subscription) {
    let Ok(overview) = store.overview(BACKLOG_COUNTED_MAX).await else {
        tracing::info!(subscription = of.name, start = ?of.start, "subscription created");
        return;
    };
    let created = overview.subscriptions.iter().find(|subscription| subscription.name == of.name);
    let (skipped, backlog) =
        created.map_or((0, Backlog::default()), |created| (created.floor.get(), created.backlog));
    let (subscription, start, waiting) = (&of.name, of.start, backlog.events);
    if skipped > 0 {
        tracing::warn!(
            subscription,
            ?start,
            last_position_skipped = skipped,
            waiting,
            "subscription created; events before its start are not delivered to it"
        );
    } else if waiting > 0 {
        let at_least = if backlog.more { "at least " } else { "" };
        tracing::info!(
            subscription,
            ?start,
            "subscription created; it starts with the {at_least}{waiting} event(s) already in the outbox"
        );
    } else {
        tracing::info!(subscription, ?start, "subscription created");
    }
}

/// Creates a subscription if it does not exist; waits for a database that is unavailable unless `fail_fast`.
async fn subscribe(store: &dyn Store, subscription: &Subscription, fail_fast: bool) -> Result<()> {
    let notifications = store.notifications();
    let health = HealthLog::new(&subscription.name);
    let mut wait = WAIT_MIN;
    loop {
        let answer = match &notifications {
            Some(notifications) => {
                notifications.register(&subscription.to_handler(), subscription.start).await
            }
            None => store.subscribe(&subscription.name, subscription.start).await,
        };
        if answer.as_ref().is_err_and(|error| fail_fast || !error.code().may_recover_by_itself()) {
            return answer.map(|_| ());
        }
        if let Ok(is_new) = health.record(Operation::Subscribe, answer) {
            if is_new {
                log_created(store, subscription).await;
            }
            return Ok(());
        }
        tokio::time::sleep(wait).await;
        wait = WAIT_MAX.min(wait * 2);
    }
}

/// Rejects invalid settings before anything is changed, and fits each router to its sink.
fn check(subscriptions: &mut [Subscription]) -> Result<()> {
    let all: HashSet<String> = subscriptions.iter().map(|of| of.name.clone()).collect();
    for of in &*subscriptions {
        if let Some(alias) = of.aliases.iter().find(|alias| all.contains(*alias)) {
            let what = format!("{alias:?} is a subscription of this relay and an alias of {:?}", of.name);
            return Err(Error::new(Code::HandlerInvalid, what).with_hint("an alias is an earlier name"));
        }
    }
    let mut names = HashSet::new();
    for Subscription { name, policy, router, sink, invalid, .. } in subscriptions {
        if let Some(error) = invalid.take() {
            return Err(error);
        }
        let valid = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
        if name.is_empty() || name.len() > 100 || !name.chars().all(valid) {
            let what = format!("subscription name {:?}", name.chars().take(120).collect::<String>());
            return Err(
                Error::new(Code::NameInvalid, what).with_hint("1 to 100 letters, digits, '_', '-', '.'")
            );
        }
        if !names.insert(name.clone()) {
            return Err(Error::new(
                Code::SubscriptionTwice,
                format!("subscription {name:?} is defined twice"),
            ));
        }
        policy.check()?;
        let fitting = router.clone().for_destinations(sink.capabilities().destinations);
        *router = fitting.map_err(|error| error.within(&format!("subscription {name:?}")))?;
    }
    Ok(())
}

impl std::fmt::Debug for RelayBuilder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let subscriptions: Vec<_> = self.outboxes.iter().flat_map(|outbox| &outbox.subscriptions).collect();
        f.debug_struct("RelayBuilder")
            .field("name", &self.name)
            .field("subscriptions", &subscriptions)
            .finish_non_exhaustive()
    }
}
