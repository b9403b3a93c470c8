//! The events that a transaction wrote.

use std::fmt::Write as _;
use std::sync::Arc;

use postrider::store::Store;
use postrider::{Event, Position, Result, StoredEvent};

use super::Expected;

/// Positions that are read at a time.
const PAGE: i64 = 1_000;
/// More than a page of events.
const PAGE_BYTES_MAX: usize = 1 << 30;

/// The events in an outbox of the default layout, in the order of their positions, for assertions.
///
/// From a store, on every database, after the commit:
///
/// ```no_run
/// # async fn test(store: std::sync::Arc<dyn postrider::store::Store>) -> postrider::Result<()> {
/// use postrider_testkit::{Emitted, Expected};
///
/// let before = Emitted::committed(&*store).await?;
/// // ... call the code that is tested ...
/// let emitted = Emitted::committed(&*store).await?.since(&before);
/// emitted.assert(&[Expected::new("order.placed").aggregate("Order", 42)]);
/// # Ok(())
/// # }
/// ```
///
/// With the feature `sqlite`, [`Emitted::in_sqlite`] also reads what an open transaction has written.
#[derive(Debug, Clone, Default)]
pub struct Emitted {
    events: Vec<StoredEvent>,
}

impl Emitted {
    /// The committed events that are in the outbox now.
    ///
    /// # Errors
    /// What the database reports.
    pub async fn committed(store: &dyn Store) -> Result<Self> {
        let last = store.overview(1).await?.last.get();
        let mut events = Vec::new();
        for first in (1..=last).step_by(PAGE as usize) {
            let mut missing: Vec<Position> =
                (first..=last.min(first + PAGE - 1)).map(Position::new).collect();
            while !missing.is_empty() {
                let read = store.peek(missing.clone(), PAGE_BYTES_MAX).await?;
                if read.events.is_empty() && read.gone.is_empty() && read.taken.is_empty() {
                    break;
                }
                let known = |position: &Position| {
                    read.gone.contains(position)
                        || read.taken.contains(position)
                        || read.events.iter().any(|stored| stored.position == *position)
                };
                missing.retain(|position| !known(position));
                events.extend(read.events);
            }
        }
        events.sort_by_key(|stored| stored.position);
        Ok(Self { events })
    }

    /// The events in a SQLite file as this connection sees them. Inside of a transaction these are also the ones that it
    /// has written and not committed.
    ///
    /// ```
    /// use postrider::{Event, Outbox};
    /// use postrider_testkit::{Emitted, Expected, TestOutbox};
    ///
    /// /// The code that is tested.
    /// fn place_order(tx: &rusqlite::Transaction<'_>, order: u64) -> postrider::Result<()> {
    ///     let payload = format!(r#"{{"order": {order}, "cents": 1200}}"#);
    ///     Outbox::new().write(tx, Event::new("order.placed", payload).with_aggregate("Order", order.to_string()))?;
    ///     Ok(())
    /// }
    ///
    /// let outbox = TestOutbox::new();
    /// let mut database = outbox.connect();
    /// let tx = database.transaction().unwrap();
    /// place_order(&tx, 42).unwrap();
    /// Emitted::in_sqlite(&tx).assert(&[Expected::new("order.placed")
    ///     .aggregate("Order", 42)
    ///     .payload(serde_json::json!({"cents": 1200}))]);
    /// tx.rollback().unwrap();
    /// Emitted::in_sqlite(&database).assert_none();
    /// ```
    ///
    /// # Panics
    /// If the file has no outbox.
    #[cfg(feature = "sqlite")]
    #[allow(clippy::panic, reason = "a test that cannot go on fails")]
    pub fn in_sqlite(connection: &rusqlite::Connection) -> Self {
        let events = postrider::store::sqlite::SqliteStore::read_events(connection);
        Self { events: events.unwrap_or_else(|error| panic!("the outbox cannot be read: {error}")) }
    }

    /// The events on the plan of an action, in the order of staging, before anything is written.
    #[cfg(feature = "actions")]
    pub fn planned(plan: &postrider::action::Plan) -> Self {
        Self::numbered(plan.events().cloned())
    }

    /// Events with positions from 1.
    #[cfg(feature = "actions")]
    pub(super) fn numbered(events: impl IntoIterator<Item = Event>) -> Self {
        let stored =
            |(position, event)| StoredEvent { position: Position::new(position), event: Arc::new(event) };
        Self { events: (1..).zip(events).map(stored).collect() }
    }

    /// Only the events that an earlier reading does not have.
    #[must_use]
    pub fn since(mut self, earlier: &Self) -> Self {
        let last = earlier.events.last().map_or(Position::ZERO, |stored| stored.position);
        self.events.retain(|stored| stored.position > last);
        self
    }

    /// Only the events of a type.
    #[must_use]
    pub fn of_type(mut self, event_type: &str) -> Self {
        self.events.retain(|stored| stored.event.event_type == event_type);
        self
    }

    /// The events, for assertions that are not here.
    pub fn events(&self) -> impl ExactSizeIterator<Item = &Arc<Event>> {
        self.events.iter().map(|stored| &stored.event)
    }

    /// Asserts that these events were emitted, in this order, and no others.
    ///
    /// # Panics
    /// If not, with a line per event and per difference.
    #[track_caller]
    #[allow(clippy::panic, reason = "this is an assertion")]
    pub fn assert(&self, expected: &[Expected]) {
        if let Some(report) = self.compare(expected) {
            panic!("{report}");
        }
    }

    /// Asserts that an event like this was emitted, among others.
    ///
    /// # Panics
    /// If not, with what is different in each event of its type.
    #[track_caller]
    #[allow(clippy::panic, reason = "this is an assertion")]
    pub fn assert_contains(&self, expected: &Expected) {
        if self.events().any(|event| expected.differences(event).is_empty()) {
            return;
        }
        let mut report = format!("no emitted event is the expected one: {}\n", expected.title());
        for (number, event) in self.events().enumerate() {
            line(&mut report, number, event, &expected.differences(event));
        }
        panic!("{report}");
    }

    /// Asserts that no event was emitted.
    ///
    /// # Panics
    /// If there is one, with all of them.
    #[track_caller]
    pub fn assert_none(&self) {
        self.assert(&[]);
    }

    /// The differences as text; `None` if there are none.
    fn compare(&self, expected: &[Expected]) -> Option<String> {
        let mut report = "the emitted events are not the expected ones\n".to_owned();
        let mut differs = self.events.len() != expected.len();
        for (number, event) in self.events().enumerate() {
            match expected.get(number) {
                Some(expected) => {
                    let differences = expected.differences(event);
                    differs |= !differences.is_empty();
                    line(&mut report, number, event, &differences);
                }
                None => line(&mut report, number, event, &["this event is not expected".to_owned()]),
            }
        }
        for (number, missing) in expected.iter().enumerate().skip(self.events.len()) {
            _ = writeln!(report, "  {}. {}\n       this event was not emitted", number + 1, missing.title());
        }
        differs.then_some(report)
    }
}

/// An event and what is wrong with it.
fn line(report: &mut String, number: usize, event: &Event, differences: &[String]) {
    let about = event.aggregate.as_ref().map_or(String::new(), |of| format!(" {}/{}", of.kind, of.id));
    let fine = if differences.is_empty() { ": as expected" } else { "" };
    _ = writeln!(report, "  {}. {}{about}{fine}", number + 1, event.event_type);
    for difference in differences {
        _ = writeln!(report, "       {difference}");
    }
}
