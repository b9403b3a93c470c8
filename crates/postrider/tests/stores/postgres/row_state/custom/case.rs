//! Tables as people have them, each with its map.

use postrider::Result;
use postrider::layout::{ColumnMap, Field, RowLayout, RowTable};
use postrider::store::postgres::{PostgresRowStore, RowExtras};
use postrider::{Ident, store::Store};
use postrider_testkit::conformance::rows::ATTEMPTS_MAX;
use std::sync::Arc;

use crate::mapped::GIVEN_UP;
pub(crate) use crate::mapped::{KINDS, Kind};
use crate::postgres::row_state::case::Case;

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

    pub(crate) fn columns(self) -> Result<ColumnMap> {
        self.map(match self {
            Self::Status => &[(Field::CreatedAt, "madeAt")],
            Self::Time => &[],
            Self::Noted => &[(Field::CreatedAt, "timestamp")],
            Self::Deleted => &[(Field::Order, "seq")],
        })
    }

    /// The id, the conditions of a delivered and of a given up row, and its tries.
    pub(crate) fn reported(self) -> [&'static str; 4] {
        match self {
            Self::Status => ["t.\"eventId\"", "t.step = 'out'", "t.step = 'stuck'", "t.tries"],
            Self::Time => ["t.number::text", "t.sent IS NOT NULL", GIVEN_UP, "n.attempts"],
            Self::Noted => ["t.id::text", "d.row_id IS NOT NULL", GIVEN_UP, "n.attempts"],
            Self::Deleted => ["t.id::text", "false", GIVEN_UP, "n.attempts"],
        }
    }

    /// Every row with our notes.
    pub(crate) fn from(self) -> String {
        let [id, ..] = self.reported();
        format!(
            "FROM shop_events AS t LEFT JOIN {{ledger}}.row_notes AS n ON n.row_id = {id}
             LEFT JOIN {{ledger}}.row_done AS d ON d.row_id = {id}"
        )
    }

    pub(crate) async fn case(self) -> Result<Case> {
        let case = self.unmapped().await?;
        PostgresRowStore::migrate(&case.config, &case.table, RowExtras::default()).await?;
        Ok(case)
    }

    /// With its table, and none of ours.
    pub(crate) async fn unmapped(self) -> Result<Case> {
        let mut case = Case::without_tables(RowLayout::Custom).await?;
        case.table = RowTable::custom(Ident::new("shop_events")?, self.columns()?)?
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
        case.write_rows(rows, |number| self.insert(key, number)).await
    }

    /// Rows that were not delivered, by what table and notes say together.
    pub(crate) async fn left(self, case: &Case) -> Result<i64> {
        let [_, done, ..] = self.reported();
        case.one(&format!("SELECT count(*) {} WHERE NOT ({done})", self.from())).await
    }
}

pub(crate) async fn store(case: &Case) -> Result<Arc<dyn Store>> {
    case.store().await
}
