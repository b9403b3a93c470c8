//! Tables as people have them, each with its map: the same on every database, except for what a database calls
//! differently.

use std::sync::atomic::{AtomicU32, Ordering};

use postrider::Result;
use postrider::layout::{ColumnMap, Field, StateWord, States};

/// How a table says that a row was delivered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A state in words of their own; ids that are texts; names that need quotes.
    Status,
    /// A time that is NULL until then; ids that are numbers.
    Time,
    /// Not at all: Debezium's columns, and one with a time.
    Noted,
    /// By its absence: Debezium's columns.
    Deleted,
}

pub(crate) const KINDS: [Kind; 4] = [Kind::Status, Kind::Time, Kind::Noted, Kind::Deleted];

/// Rows that our notes call given up.
pub(crate) const GIVEN_UP: &str = "n.state IN ('dead', 'unrouted')";

impl Kind {
    /// The map of the shop's table, with the columns that the database has besides or calls otherwise.
    pub(crate) fn map(self, also: &[(Field, &str)]) -> Result<ColumnMap> {
        let shared: &[(Field, &str)] = match self {
            Self::Status => &[
                (Field::Id, "eventId"),
                (Field::Type, "kind"),
                (Field::Key, "group by"),
                (Field::Payload, "body"),
                (Field::Headers, "extra"),
                (Field::CreatedAt, "made"),
                (Field::Status, "step"),
                (Field::Attempts, "tries"),
            ],
            Self::Time => &[
                (Field::Id, "number"),
                (Field::Type, "name"),
                (Field::Key, "part"),
                (Field::Payload, "data"),
                (Field::CreatedAt, "made"),
                (Field::DeliveredAt, "sent"),
            ],
            Self::Noted | Self::Deleted => &[],
        };
        let begin = if shared.is_empty() { ColumnMap::debezium() } else { ColumnMap::new() };
        let map = with(with(begin, shared)?, also)?;
        Ok(match self {
            Self::Status => map.states(states(["new"], "out", Some("stuck"))?),
            Self::Deleted => map.deleting(),
            Self::Time | Self::Noted => map,
        })
    }

    /// The INSERT of a program that knows nothing of Postrider, and the id of its row, unless the database gives it. Ids
    /// that are texts fall while rows are written. The quote is the database's for names.
    pub(crate) fn insert_with_id(
        self,
        table: &str,
        quote: char,
        key: &str,
        number: usize,
    ) -> (String, Option<String>) {
        static ID: AtomicU32 = AtomicU32::new(900_000);
        let id = format!("e-{}", ID.fetch_sub(1, Ordering::Relaxed));
        let table = format!("{quote}{table}{quote}");
        let payload = format!("{{\"n\": {number}}}");
        let sql = match self {
            Self::Status => format!(
                "INSERT INTO {table} ({quote}eventId{quote}, kind, {quote}group by{quote}, body)
                 VALUES ('{id}', 'order.placed', '{key}', '{payload}')"
            ),
            Self::Time => {
                format!(
                    "INSERT INTO {table} (name, part, data) VALUES ('order.placed', '{key}', '{payload}')"
                )
            }
            Self::Noted | Self::Deleted => format!(
                "INSERT INTO {table} (id, aggregatetype, aggregateid, type, payload)
                 VALUES ('{id}', 'Order', '{key}', 'order.placed', '{payload}')"
            ),
        };
        (sql, (self != Self::Time).then_some(id))
    }

    /// Whether a row says itself that it was delivered.
    pub(crate) const fn says_delivered(self) -> bool {
        matches!(self, Self::Status | Self::Time)
    }
}

/// A map with these columns.
pub(crate) fn columns(columns: &[(Field, &str)]) -> Result<ColumnMap> {
    with(ColumnMap::new(), columns)
}

fn with(map: ColumnMap, columns: &[(Field, &str)]) -> Result<ColumnMap> {
    columns.iter().try_fold(map, |map, (field, name)| map.with(*field, name))
}

/// The words of a state: those of rows that wait, of delivered ones and of given up ones.
pub(crate) fn states<const N: usize>(waiting: [&str; N], done: &str, failed: Option<&str>) -> Result<States> {
    let mut waiting = waiting.into_iter().map(StateWord::new).collect::<Result<Vec<_>>>()?;
    let pending = waiting.remove(0);
    let failed = failed.map(StateWord::new).transpose()?;
    Ok(States { pending, also_pending: waiting, done: StateWord::new(done)?, failed })
}

/// The columns of watermill's tables.
pub(crate) fn watermill() -> Result<ColumnMap> {
    columns(&[
        (Field::Id, "offset"),
        (Field::EventId, "uuid"),
        (Field::Payload, "payload"),
        (Field::Headers, "metadata"),
        (Field::CreatedAt, "created_at"),
        (Field::Order, "offset"),
    ])
}

/// The columns of CAP's table and those beside them. A row waits as `Scheduled` or as `Delayed`.
pub(crate) fn cap(failed: Option<&str>, also: &[(Field, &str)]) -> Result<ColumnMap> {
    let map = columns(&[
        (Field::Id, "Id"),
        (Field::Type, "Name"),
        (Field::Payload, "Content"),
        (Field::CreatedAt, "Added"),
        (Field::Attempts, "Retries"),
        (Field::Status, "StatusName"),
    ])?;
    Ok(with(map, also)?.states(states(["Scheduled", "Delayed"], "Succeeded", failed)?))
}
