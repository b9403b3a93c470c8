//! User-defined tables, each with its column map.

use postrider::Ident;
use postrider::Result;
use postrider::layout::{ColumnMap, MappedField, RowLayout, RowTable};
use postrider::store::RowExtras;
use postrider::store::postgres::PostgresRowStore;
use postrider_testkit::conformance::rows::ATTEMPTS_MAX;

use crate::mapped::MappedDatabase;
pub(crate) use crate::mapped::{KINDS, Kind};
use crate::postgres::row_state::case::Case;
use crate::row_database::RowDatabase;

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
            Self::Status => &[(MappedField::CreatedAt, "madeAt")],
            Self::Time => &[],
            Self::Noted => &[(MappedField::CreatedAt, "timestamp")],
            Self::Deleted => &[(MappedField::Order, "seq")],
        })
    }

    pub(crate) async fn case(self) -> Result<Case> {
        let case = self.unmapped().await?;
        case.migrate().await?;
        Ok(case)
    }

    /// Without Postrider's own tables.
    pub(crate) async fn unmapped(self) -> Result<Case> {
        Case::create_unmapped(self).await
    }

    pub(crate) fn insert(self, key: &str, number: usize) -> String {
        Case::insert_mapped(self, key, number).0
    }

    pub(crate) async fn write(self, case: &Case, key: &str, rows: usize) -> Result<Vec<String>> {
        case.insert_rows((0..rows).map(|number| Case::insert_mapped(self, key, number)).collect()).await
    }
}

impl MappedDatabase for Case {
    const TABLE: &'static str = "shop_events";
    const QUOTE: char = '"';
    const ATTEMPTS_TOP: u32 = 32_767;

    async fn create_unmapped(kind: Kind) -> Result<Self> {
        let mut case = Case::without_tables(RowLayout::Custom).await?;
        case.table = RowTable::custom(Ident::new("shop_events")?, kind.columns()?)?
            .in_schema(Ident::new(&case.schema)?)
            .max_attempts(ATTEMPTS_MAX);
        case.run(kind.ddl()).await?;
        Ok(case)
    }

    async fn migrate(&self) -> Result<()> {
        PostgresRowStore::migrate(&self.config, &self.table, RowExtras::default()).await.map(|_| ())
    }

    fn insert_mapped(kind: Kind, key: &str, number: usize) -> (String, Option<String>) {
        let payload = format!("{{\"n\": {number}}}");
        let sql = match kind {
            Kind::Status => format!(
                "INSERT INTO shop_events (\"kind\", \"orderId\", \"group by\", body, extra)
                 VALUES ('order.placed', 7, '{key}', '{payload}', '{{\"tenant\": \"north\"}}')
                 RETURNING \"eventId\""
            ),
            Kind::Time => format!(
                "INSERT INTO shop_events (name, part, data) VALUES ('order.placed', '{key}', '{payload}')
                 RETURNING number::text"
            ),
            Kind::Noted | Kind::Deleted => format!(
                "INSERT INTO shop_events (aggregatetype, aggregateid, type, payload)
                 VALUES ('Order', '{key}', 'order.placed', '{payload}') RETURNING id::text"
            ),
        };
        (sql, None)
    }

    fn times(kind: Kind) -> &'static [&'static str] {
        match kind {
            Kind::Status => &["\"madeAt\""],
            Kind::Time => &["made", "sent"],
            Kind::Noted | Kind::Deleted => &["\"timestamp\""],
        }
    }
}
