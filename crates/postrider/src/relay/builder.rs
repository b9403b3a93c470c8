//! Configures a relay and starts it.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use uuid::Uuid;

use super::bring_up::BringUp;
use super::effects::prepare;
use super::handle::RelayHandle;
use super::served_outbox::{OutboxOptions, ServedOutbox};
use super::{Relay, Subscription};
use crate::store::IntoStore;
use crate::{Clock, Code, Error, Result, SystemClock};

/// Longest name of a relay. The column for holders has 255 characters on MySQL.
const NAME_CHARS_MAX: usize = 200;

/// Separates the name of a relay from its random part.
pub(super) const UNIQUE_MARK: char = '#';

/// Separates the name of a relay from the number of an outbox.
const OUTBOX_MARK: char = '/';

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
    pub fn clock(mut self, clock: impl Clock) -> Self {
        self.clock = Some(Arc::new(clock));
        self
    }

    /// Returns an error when a database is not reachable at startup, instead of waiting for it.
    pub fn fail_fast(mut self) -> Self {
        self.fail_fast = true;
        self
    }

    /// Creates the subscriptions that do not exist yet and starts a task for each. A subscription is stored in the
    /// database: every event committed after it is created is delivered to it, even if this process dies. When this
    /// returns, it is created in every outbox whose database was available.
    ///
    /// Waits until one outbox is ready. A database that is unreachable, busy or read-only, or that does not answer within
    /// two seconds, delays only its own outbox: it is logged once, and served as soon as it is available. Until then
    /// [`status`](RelayHandle::status) contains its error. With one outbox this waits for its database. See
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
    pub async fn spawn(self) -> Result<Relay> {
        let name = unique(self.name)?;
        let clock = self.clock.unwrap_or_else(|| Arc::new(SystemClock::new()));
        // Ends everything that was started if this future is dropped or returns an error.
        let relay = Relay { handle: RelayHandle::new(name, clock) };
        let mut checked = Vec::new();
        for outbox in self.outboxes {
            checked.push(outbox.checked()?);
        }
        prepare_all(&checked, self.fail_fast).await?;
        relay.handle.serve(checked, BringUp::new(self.fail_fast)).await?;
        Ok(relay)
    }
}

/// How long the start waits for encoders. A registry that is slow or down delays only its own subscriptions.
const PREPARE_MAX: Duration = Duration::from_secs(2);

/// Refuses the start if an encoder cannot load what it needs, and waiting would not help. Otherwise it is called again
/// before its subscription is served.
async fn prepare_all(outboxes: &[ServedOutbox], fail_fast: bool) -> Result<()> {
    let subscriptions = outboxes.iter().flat_map(|outbox| &outbox.subscriptions);
    let prepared = join_all(subscriptions.map(|of| prepare(&*of.encoder, PREPARE_MAX))).await;
    let refuses = |error: &Error| fail_fast || !error.code().may_recover_by_itself();
    prepared.into_iter().filter_map(Result::err).find(refuses).map_or(Ok(()), Err)
}

/// The name under which a relay holds the leases of an outbox that it serves besides `earlier` ones.
pub(super) fn holder_of(relay: &str, earlier: usize) -> String {
    match earlier {
        0 => relay.to_owned(),
        earlier => format!("{relay}{OUTBOX_MARK}{}", earlier + 1),
    }
}

/// The relay that holds leases under this name.
pub(super) fn relay_of(holder: &str) -> &str {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    match holder.rsplit_once(OUTBOX_MARK) {
        Some((relay, number)) if is_number(number) => relay,
        _ => holder,
    }
}

/// The name of a relay: the configured name and a random part.
fn unique(name: Option<String>) -> Result<String> {
    let unique = Uuid::now_v7();
    let Some(name) = name else { return Ok(format!("relay-{unique}")) };
    if name.is_empty() || name.chars().count() > NAME_CHARS_MAX {
        let what = format!("the relay name has {} characters", name.chars().count());
        return Err(Error::new(Code::NameInvalid, what).with_hint("use 1 to 200 characters"));
    }
    // The last bits of a UUIDv7 are random.
    Ok(format!("{name}{UNIQUE_MARK}{:08x}", unique.as_u64_pair().1 & 0xffff_ffff))
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
