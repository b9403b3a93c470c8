//! A database of its own for every case, on the one server of its kind in the test process.

use std::marker::PhantomData;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use mysql_async::prelude::{FromValue, Queryable};
use mysql_async::{Conn, Params, Value};
use postrider::store::mysql::{MySqlConfig, MySqlStore};
use postrider::{Code, Error, Event, Ident, Position, Result, Timestamp};
use postrider_testkit::servers::mysql::Kind;
use tokio::sync::Mutex;

/// One of the two servers, as a type.
pub(crate) trait Which: Send + Sync + 'static {
    const KIND: Kind;
}

pub(crate) struct MySql;
pub(crate) struct MariaDb;

impl Which for MySql {
    const KIND: Kind = Kind::MySql;
}

impl Which for MariaDb {
    const KIND: Kind = Kind::MariaDb;
}

pub(crate) struct Case<W> {
    pub(crate) config: MySqlConfig,
    pub(crate) schema: Ident,
    /// A connection of the application.
    pub(crate) client: Mutex<Conn>,
    _which: PhantomData<W>,
}

impl<W: Which> Case<W> {
    pub(crate) fn is_available() -> bool {
        W::KIND.url().is_some()
    }

    /// An empty outbox.
    pub(crate) async fn new() -> Result<Self> {
        let case = Self::without_tables().await?;
        MySqlStore::migrate(&case.config).await?;
        Ok(case)
    }

    pub(crate) async fn without_tables() -> Result<Self> {
        let url = W::KIND.url().ok_or_else(|| failed(std::io::Error::other("there is no server")))?;
        Self::at(url).await
    }

    /// The same on a server of the test's own.
    pub(crate) async fn at(url: &str) -> Result<Self> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let schema = Ident::new(&format!("case_{}_{number}", std::process::id()))?;
        let config = MySqlConfig::new(url)?.schema(schema.clone()).list_writers_after(Duration::ZERO);
        let client = Mutex::new(config.client().await?);
        let case = Self { config, schema, client, _which: PhantomData };
        case.run("DROP DATABASE IF EXISTS {schema}").await?;
        Ok(case)
    }

    pub(crate) async fn store(&self) -> Result<MySqlStore> {
        MySqlStore::connect(&self.config).await
    }

    /// One more connection of the application.
    pub(crate) async fn another(&self) -> Result<Conn> {
        self.config.client().await
    }

    /// Puts the name of the database in.
    pub(crate) fn sql(&self, text: &str) -> String {
        text.replace("{schema}", self.schema.as_str())
    }

    pub(crate) async fn run(&self, sql: &str) -> Result<()> {
        self.client.lock().await.query_drop(self.sql(sql)).await.map_err(failed)
    }

    pub(crate) async fn one<T: FromValue + Send + 'static>(&self, sql: &str) -> Result<T> {
        let value: Option<T> = self.client.lock().await.query_first(self.sql(sql)).await.map_err(failed)?;
        value.ok_or_else(|| failed(std::io::Error::other("no row")))
    }

    /// Writes events in whatever transaction is open on the connection.
    pub(crate) async fn insert(&self, client: &mut Conn, events: &[Event]) -> Result<Vec<Position>> {
        let mut positions = Vec::new();
        for event in events {
            let sql = self.sql(
                "INSERT INTO {schema}.events (id, type, aggregate_type, aggregate_id, `key`, payload, headers, time,
                                              topic, max_attempts, expires_at, action, namespace, producer)
                 VALUES (?, ?, ?, ?, ?, ?, ?, TIMESTAMPADD(MICROSECOND, ?, '1970-01-01'), ?, ?,
                         TIMESTAMPADD(MICROSECOND, ?, '1970-01-01'), ?, ?, ?)",
            );
            client.exec_drop(sql, columns(event)).await.map_err(failed)?;
            let last = client.last_insert_id().unwrap_or(0);
            positions.push(Position::new(i64::try_from(last).unwrap()));
        }
        Ok(positions)
    }
}

fn columns(event: &Event) -> Params {
    let aggregate = event.aggregate.as_ref();
    let object: std::collections::BTreeMap<_, _> = event.headers.iter().collect();
    let headers = (!event.headers.is_empty()).then(|| serde_json::to_string(&object).unwrap());
    let action = event.action.as_ref().map(|action| {
        format!(
            r#"{{"id":"{}","name":"{}","params":{},"started":{},"completed":{}}}"#,
            action.id,
            action.name,
            action.params,
            action.started.as_micros(),
            action.completed.as_micros()
        )
    });
    let key = event.key.as_ref().filter(|key| aggregate.map(|of| &of.id) != Some(*key));
    Params::Positional(vec![
        Value::from(event.id.as_bytes().to_vec()),
        Value::from(&event.event_type),
        Value::from(aggregate.map(|of| &of.kind)),
        Value::from(aggregate.map(|of| &of.id)),
        Value::from(key),
        Value::from(event.payload.to_vec()),
        Value::from(headers),
        Value::from(event.time.as_micros()),
        Value::from(event.topic.as_ref()),
        Value::from(event.max_attempts),
        Value::from(event.expires_at.map(Timestamp::as_micros)),
        Value::from(action),
        Value::from(event.namespace.as_ref()),
        Value::from(event.producer.as_ref()),
    ])
}

pub(crate) fn failed(cause: impl std::error::Error + Send + Sync + 'static) -> Error {
    Error::new(Code::StoreFailed, "the test could not do its part").source(cause)
}
