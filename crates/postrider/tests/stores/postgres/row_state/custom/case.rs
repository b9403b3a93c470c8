//! Tables as people have them, each with its map.

use postrider::Result;
use postrider::layout::{ColumnMap, Field, RowLayout, RowTable, StateWord, States};
use postrider::store::postgres::{PostgresRowStore, RowExtras};
use postrider::{Ident, store::Store};
use postrider_testkit::conformance::rows::ATTEMPTS_MAX;
use std::sync::Arc;

use crate::postgres::row_state::case::Case;

/// How a table says that a row was delivered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A state in words of their own, an enum; ids that are texts; names that need quotes.
    Status,
    /// A time that is NULL until then, without a zone; ids that are numbers.
    Time,
    /// Not at all: Debezium's columns, and one with a time.
    Noted,
    /// By its absence: Debezium's columns, and a number for their order.
    Deleted,
}

pub(crate) const KINDS: [Kind; 4] = [Kind::Status, Kind::Time, Kind::Noted, Kind::Deleted];

impl Kind {
    pub(crate) fn ddl(self) -> &'static str {
        match self {
            Self::Status => {
                "CREATE TYPE step AS ENUM ('new', 'out', 'stuck');
                 CREATE TABLE shop_events (
                     \"eventId\" varchar(40) PRIMARY KEY DEFAULT 'e-' || gen_random_uuid()::text,
                     \"kind\" text NOT NULL, \"orderId\" bigint NOT NULL, \"group by\" text,
                     body text NOT NULL, extra jsonb, step step NOT NULL DEFAULT 'new',
                     tries smallint NOT NULL DEFAULT 0, \"madeAt\" timestamptz NOT NULL DEFAULT now())"
            }
            Self::Time => {
                "CREATE TABLE shop_events (
                     number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, name text NOT NULL, part text,
                     data json NOT NULL, made timestamp NOT NULL DEFAULT (clock_timestamp() AT TIME ZONE 'UTC'),
                     sent timestamp)"
            }
            Self::Noted => {
                "CREATE TABLE shop_events (
                     id uuid PRIMARY KEY DEFAULT gen_random_uuid(), aggregatetype varchar(255) NOT NULL,
                     aggregateid varchar(255) NOT NULL, type varchar(255) NOT NULL, payload jsonb,
                     \"timestamp\" timestamptz NOT NULL DEFAULT now())"
            }
            Self::Deleted => {
                "CREATE TABLE shop_events (
                     id uuid PRIMARY KEY DEFAULT gen_random_uuid(), aggregatetype varchar(255) NOT NULL,
                     aggregateid varchar(255) NOT NULL, type varchar(255) NOT NULL, payload text,
                     seq bigint GENERATED ALWAYS AS IDENTITY)"
            }
        }
    }

    pub(crate) fn map(self) -> Result<ColumnMap> {
        let named = |map: ColumnMap, columns: &[(Field, &str)]| {
            columns.iter().try_fold(map, |map, (field, name)| map.with(*field, name))
        };
        match self {
            Self::Status => {
                let columns = [
                    (Field::Id, "eventId"),
                    (Field::Type, "kind"),
                    (Field::Key, "group by"),
                    (Field::Payload, "body"),
                    (Field::Headers, "extra"),
                    (Field::CreatedAt, "madeAt"),
                    (Field::Status, "step"),
                    (Field::Attempts, "tries"),
                ];
                let states = States {
                    pending: StateWord::new("new")?,
                    also_pending: Vec::new(),
                    done: StateWord::new("out")?,
                    failed: Some(StateWord::new("stuck")?),
                };
                Ok(named(ColumnMap::new(), &columns)?.states(states))
            }
            Self::Time => named(
                ColumnMap::new(),
                &[
                    (Field::Id, "number"),
                    (Field::Type, "name"),
                    (Field::Key, "part"),
                    (Field::Payload, "data"),
                    (Field::CreatedAt, "made"),
                    (Field::DeliveredAt, "sent"),
                ],
            ),
            Self::Noted => ColumnMap::debezium().with(Field::CreatedAt, "timestamp"),
            Self::Deleted => Ok(ColumnMap::debezium().with(Field::Order, "seq")?.deleting()),
        }
    }

    pub(crate) async fn case(self) -> Result<Case> {
        let case = self.unmapped().await?;
        PostgresRowStore::migrate(&case.config, &case.table, RowExtras::default()).await?;
        Ok(case)
    }

    /// With its table, and none of ours.
    pub(crate) async fn unmapped(self) -> Result<Case> {
        let mut case = Case::without_tables(RowLayout::Custom).await?;
        case.table = RowTable::custom(Ident::new("shop_events")?, self.map()?)?
            .in_schema(Ident::new(&case.schema)?)
            .max_attempts(ATTEMPTS_MAX);
        case.run(self.ddl()).await?;
        Ok(case)
    }

    /// The INSERT of a program that knows nothing of Postrider.
    pub(crate) fn insert(self, key: &str, number: usize) -> String {
        let payload = format!("{{\"n\": {number}}}");
        match self {
            Self::Status => format!(
                "INSERT INTO shop_events (\"kind\", \"orderId\", \"group by\", body, extra)
                 VALUES ('order.placed', 7, '{key}', '{payload}', '{{\"tenant\": \"north\"}}')
                 RETURNING \"eventId\""
            ),
            Self::Time => format!(
                "INSERT INTO shop_events (name, part, data) VALUES ('order.placed', '{key}', '{payload}')
                 RETURNING number::text"
            ),
            Self::Noted | Self::Deleted => format!(
                "INSERT INTO shop_events (aggregatetype, aggregateid, type, payload)
                 VALUES ('Order', '{key}', 'order.placed', '{payload}') RETURNING id::text"
            ),
        }
    }

    pub(crate) async fn write(self, case: &Case, key: &str, rows: usize) -> Result<Vec<String>> {
        let mut ids = Vec::new();
        case.run("BEGIN").await?;
        for number in 0..rows {
            ids.push(case.one(&self.insert(key, number)).await?);
        }
        case.run("COMMIT").await?;
        Ok(ids)
    }

    /// Rows that were not delivered, by what table and notes say together.
    pub(crate) async fn left(self, case: &Case) -> Result<i64> {
        case.one(match self {
            Self::Status => "SELECT count(*) FROM shop_events WHERE step <> 'out'",
            Self::Time => "SELECT count(*) FROM shop_events WHERE sent IS NULL",
            Self::Noted => {
                "SELECT count(*) FROM shop_events AS t
                 WHERE NOT EXISTS (SELECT FROM {ledger}.row_done AS d WHERE d.row_id = t.id::text)"
            }
            Self::Deleted => "SELECT count(*) FROM shop_events",
        })
        .await
    }
}

pub(crate) async fn store(case: &Case) -> Result<Arc<dyn Store>> {
    case.store().await
}
