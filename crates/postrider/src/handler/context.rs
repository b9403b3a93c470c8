//! What a handler knows besides the payload.

use std::fmt;
use std::sync::Arc;

use uuid::Uuid;

use crate::inbox::{Inbox, Received};
use crate::write::Transaction;
use crate::{Event, Position};

/// The event that a handler is called for, and the attempt. Cheap to clone.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Context {
    pub(super) subscription: Arc<str>,
    pub(super) event: Arc<Event>,
    pub(super) position: Position,
    pub(super) attempt: u32,
    pub(super) crash_hook: CrashHook,
}

/// What a crash test calls at each point of a handler; nothing outside of tests.
#[derive(Clone, Default)]
pub(super) struct CrashHook(pub(super) Option<Arc<Reached>>);

/// Gets the name of a point.
type Reached = dyn Fn(&str) + Send + Sync;

impl CrashHook {
    pub(super) fn reach(&self, point: &str) {
        if let Some(hook) = &self.0 {
            hook(point);
        }
    }
}

impl fmt::Debug for CrashHook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "CrashHook" } else { "None" })
    }
}

impl Context {
    /// The id of the event. The same in every attempt: pass it to services that take an idempotency key.
    pub fn event_id(&self) -> Uuid {
        self.event.id
    }

    /// The whole event: time, headers, aggregate, action and the payload's bytes.
    pub fn event(&self) -> &Arc<Event> {
        &self.event
    }

    /// The position of the event in the outbox. On a table with a state per row it is assigned when the row is read.
    pub fn position(&self) -> Position {
        self.position
    }

    /// The name of the subscription.
    pub fn subscription(&self) -> &str {
        &self.subscription
    }

    /// Which attempt this is, counted from 1. After a crash the last attempt may be repeated under its number.
    pub fn attempt(&self) -> u32 {
        self.attempt
    }

    /// Marks a point of the handler at which the process could die. The crash test of the crate `postrider-testkit` ends
    /// the handler at each of these points in turn. Does nothing otherwise.
    pub fn crash_point(&self, name: &str) {
        self.crash_hook.reach(name);
    }

    /// Records in your transaction that this handler applies the event, and reports whether it is new to it:
    /// [`Inbox::receive`] with the name of the subscription as the consumer group. Run the effect in the same transaction
    /// if the answer is [`Received::First`], commit, and return `Ok(())`.
    ///
    /// The effect, the events that you write with an [`Outbox`](crate::Outbox), and the record that the event is applied
    /// are committed together. So in this database each of them happens once, however often the event is handled. If the
    /// process dies before the commit, none of them exists, and the event is handled again. If it dies after the commit,
    /// the event is handled again and the answer is [`Received::Duplicate`]. This holds
    /// as long as the inbox keeps its rows, see [`Inbox::retention`], and the subscription keeps its name.
    ///
    /// ```
    /// # #[cfg(all(feature = "sqlx-sqlite", feature = "relay", feature = "derive"))]
    /// # mod example {
    /// use postrider::handler::{Context, Result};
    /// use postrider::inbox::{Inbox, Received};
    /// use postrider::Outbox;
    /// # use postrider::Event;
    /// # #[derive(Event, serde::Serialize, serde::Deserialize)]
    /// # #[event(type = "order.placed")]
    /// # struct OrderPlaced { order: i64 }
    /// # #[derive(Event, serde::Serialize, serde::Deserialize)]
    /// # #[event(type = "order.billed")]
    /// # struct OrderBilled { order: i64 }
    ///
    /// async fn bill(pool: sqlx::SqlitePool, placed: OrderPlaced, cx: Context) -> Result {
    ///     let mut tx = pool.begin().await?;
    ///     if cx.receive(&Inbox::new(), &mut tx).await? == Received::First {
    ///         sqlx::query("INSERT INTO bills (order_id) VALUES (?)").bind(placed.order).execute(&mut *tx).await?;
    ///         Outbox::new().write(&mut tx, &OrderBilled { order: placed.order }).await?;
    ///     }
    ///     tx.commit().await?; // the bill, the event, and that this event is handled: all of them or none
    ///     Ok(())
    /// }
    /// # pub fn subscription(pool: sqlx::SqlitePool) -> postrider::Subscription {
    /// #     postrider::Subscription::handler("billing", move |placed, cx| bill(pool.clone(), placed, cx))
    /// # }
    /// # }
    /// ```
    ///
    /// Returns what the driver's own calls return: a result from rusqlite, a future from the others.
    ///
    /// # Errors
    /// As [`Inbox::receive`]. Return the error without a commit: the transaction is rolled back, and the event is retried.
    ///
    /// # Cancel safety
    /// As [`Inbox::receive`].
    pub fn receive<X: Transaction>(&self, inbox: &Inbox, tx: X) -> X::Out<Received> {
        inbox.receive(tx, &self.subscription, self.event.id)
    }
}
