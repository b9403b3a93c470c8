//! A PostgreSQL database.

use std::fmt;
use std::sync::Arc;

use postrider::adopt::HandsOver;
use postrider::layout::{RowLayout, RowTable};
use postrider::store::postgres::{
    BEGIN_GUARDED, GUARD, Pooler, PostgresConfig, PostgresRowStore, PostgresStore, RowExtras, commit_failed,
    statement_failed,
};
use postrider::store::{
    EventFilter, ListedEvent, Migration, Overview, Schema as Found, Store, Tally, TallyBy,
};
use postrider::{BoxFuture, Code, Error, Event, Ident, Outbox, Recovery, Result, Written};
use tokio_postgres::Client;

use super::{
    Address, Database, EventWriter, Extras, Made, PoolerChoice, Refused, Schema, alone, no_roles,
    table_to_make,
};
use crate::config::url;
use crate::doctor::{self, Options, Subject};

/// `postgres://user@host:5432/database`, with libpq's parameters as far as the driver knows them.
pub(super) fn read(address: &Address) -> Result<Arc<dyn Database>, Refused> {
    let url = address.url.expose_secret();
    let refused = |key| move |error: Error| Refused::new(key, error.message());
    let mut config = PostgresConfig::new(url).map_err(refused("url"))?;
    let schema = address.schema.as_deref().map_or_else(|| Ok(Ident::default()), Ident::new);
    let schema = schema.map_err(refused("schema"))?;
    config = config.schema(schema.clone());
    config = config.after_failover(address.after_failover).listen(address.listen);
    config = config.pooler(match address.pooler {
        PoolerChoice::Detect => Pooler::Detect,
        PoolerChoice::Transaction => Pooler::Transaction,
        PoolerChoice::None => Pooler::None,
    });
    if let Some(password) = &address.password {
        config = config.password(password.expose_secret());
    }
    if let Some(file) = &address.tls_root_cert {
        config = config.tls_root(file);
    }
    config = match (&address.tls_client_cert, &address.tls_client_key) {
        (None, None) => config,
        (Some(certificate), Some(key)) => config.tls_client(certificate, key),
        (Some(_), None) => return Err(Refused::new("tls_client_key", "tls_client_cert is set without it")),
        (None, Some(_)) => return Err(Refused::new("tls_client_cert", "tls_client_key is set without it")),
    };
    Ok(Arc::new(Postgres { config, schema, rows: address.rows.clone(), shown: url::masked(url) }))
}

#[derive(Debug)]
struct Postgres {
    config: PostgresConfig,
    schema: Ident,
    /// The table with a state per row, if that is the outbox.
    rows: Option<RowTable>,
    shown: String,
}

impl fmt::Display for Postgres {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown)
    }
}

impl Postgres {
    async fn open(&self) -> Result<Arc<dyn Store>> {
        Ok(match &self.rows {
            Some(rows) => Arc::new(PostgresRowStore::connect(&self.config, rows).await?),
            None => Arc::new(PostgresStore::connect(&self.config).await?),
        })
    }

    /// Says of what went wrong in which database it did.
    async fn named<T>(&self, answer: impl Future<Output = Result<T>> + Send) -> Result<T> {
        answer.await.map_err(|error| error.within(&self.shown))
    }
}

impl Database for Postgres {
    fn store(&self) -> BoxFuture<'_, Result<Arc<dyn Store>>> {
        Box::pin(self.named(async move {
            let store = self.open().await?;
            if self.config.is_exposed() {
                tracing::warn!(database = %self, "not encrypted (sslmode=disable): anyone on the network path can read and modify the traffic");
            }
            Ok(store)
        }))
    }

    fn overview(&self, backlog_max: u64) -> BoxFuture<'_, Result<Overview>> {
        Box::pin(self.named(async move {
            let store = self.open().await?;
            let overview = store.overview(backlog_max).await;
            store.close().await;
            overview
        }))
    }

    fn tally(&self, by: TallyBy, groups_max: usize) -> BoxFuture<'_, Result<Tally>> {
        Box::pin(self.named(async move {
            match &self.rows {
                Some(rows) => PostgresRowStore::tally(&self.config, rows, by, groups_max).await,
                None => PostgresStore::tally(&self.config, by, groups_max).await,
            }
        }))
    }

    fn schema(&self) -> BoxFuture<'_, Result<Schema>> {
        Box::pin(self.named(async move {
            let Found { found, needed } = match &self.rows {
                Some(_) => PostgresRowStore::schema(&self.config).await?,
                None => PostgresStore::schema(&self.config).await?,
            };
            Ok(Schema { found, needed })
        }))
    }

    fn migrate(&self) -> BoxFuture<'_, Result<Schema>> {
        Box::pin(async move { Ok(self.migrate_as(None, Extras::default()).await?.before) })
    }

    fn migrate_as(&self, layout: Option<RowLayout>, extras: Extras) -> BoxFuture<'_, Result<Made>> {
        Box::pin(self.named(async move {
            match table_to_make(self.rows.as_ref(), layout, extras)? {
                Some(table) => {
                    Ok(PostgresRowStore::migrate(&self.config, &table, extras.into()).await?.into())
                }
                None => {
                    let migrated = PostgresStore::migrate(&self.config).await?;
                    if extras.views {
                        PostgresStore::make_views(&self.config).await?;
                    }
                    Ok(migrated.into())
                }
            }
        }))
    }

    /// Each step in one transaction.
    fn migrations(&self) -> String {
        let steps: Vec<Migration> = match &self.rows {
            Some(rows) => PostgresRowStore::migrations(&self.schema, rows, RowExtras::default()),
            None => PostgresStore::migrations(&self.schema).collect(),
        };
        let steps: Vec<String> = steps
            .into_iter()
            .map(|step| {
                let Migration { version, sql, .. } = step;
                format!("-- Schema {version}\n{BEGIN_GUARDED};\n\n{sql}\nCOMMIT;\n")
            })
            .collect();
        format!("CREATE SCHEMA IF NOT EXISTS {};\n\n{}", self.schema, steps.join("\n"))
    }

    fn roles(&self) -> Result<String> {
        if let Some(rows) = &self.rows {
            return Err(no_roles(rows));
        }
        PostgresStore::roles(&self.schema)
    }

    fn rows(&self) -> Option<&RowTable> {
        self.rows.as_ref()
    }

    fn place(&self) -> String {
        url::place(&self.shown).to_owned()
    }

    fn source(&self) -> BoxFuture<'_, Result<Arc<dyn HandsOver>>> {
        Box::pin(self.named(async move {
            Ok(match &self.rows {
                Some(rows) => Arc::new(PostgresRowStore::connect(&self.config, &alone(rows)).await?)
                    as Arc<dyn HandsOver>,
                None => Arc::new(PostgresStore::connect(&self.config).await?),
            })
        }))
    }

    fn target(&self, outbox: Outbox) -> Outbox {
        match &self.rows {
            Some(rows) => outbox.rows(rows.clone()),
            None => outbox.schema(self.schema.clone()),
        }
    }

    fn writer(&self, outbox: Outbox) -> BoxFuture<'_, Result<Box<dyn EventWriter>>> {
        let outbox = self.target(outbox);
        Box::pin(self.named(async move {
            let (client, is_pooled) = self.config.guarded_client().await?;
            Ok(Box::new(PostgresWriter { client, is_pooled, outbox }) as Box<dyn EventWriter>)
        }))
    }

    fn list<'a>(&'a self, filter: &'a EventFilter) -> BoxFuture<'a, Result<Vec<ListedEvent>>> {
        Box::pin(self.named(async move {
            match &self.rows {
                Some(rows) => PostgresRowStore::list(&self.config, rows, filter).await,
                None => PostgresStore::list(&self.config, filter).await,
            }
        }))
    }

    fn list_plan<'a>(&'a self, filter: &'a EventFilter) -> BoxFuture<'a, Result<Vec<String>>> {
        Box::pin(self.named(async move {
            match &self.rows {
                Some(rows) => PostgresRowStore::list_plan(&self.config, rows, filter).await,
                None => PostgresStore::list_plan(&self.config, filter).await,
            }
        }))
    }

    fn check<'a>(&'a self, options: &'a Options, subject: &'a mut Subject<'_>) -> BoxFuture<'a, bool> {
        let place = doctor::postgres::Place {
            config: &self.config,
            schema: &self.schema,
            rows: self.rows.as_ref(),
            shown: &self.shown,
        };
        Box::pin(doctor::postgres::check(place, options, subject))
    }

    /// A server that is down or starts, or a standby that is not the primary yet.
    fn may_come_up(&self, error: &Error) -> bool {
        error.code().recovery() != Recovery::Person || error.code() == Code::StoreReadOnly
    }
}

struct PostgresWriter {
    client: Client,
    /// What the session was told does not hold.
    is_pooled: bool,
    outbox: Outbox,
}

impl EventWriter for PostgresWriter {
    fn write(&mut self, events: Vec<Event>) -> BoxFuture<'_, Result<Vec<Written>>> {
        Box::pin(async move {
            let tx = self.client.transaction().await.map_err(|e| told(statement_failed(e)))?;
            if self.is_pooled {
                tx.batch_execute(GUARD).await.map_err(|e| told(statement_failed(e)))?;
            }
            let written = self.outbox.write_all(&tx, events).await.map_err(told)?;
            tx.commit().await.map_err(|e| told(commit_failed(e)))?;
            Ok(written)
        })
    }
}

/// What it means for the events. What the codes say in general is about a relay, which goes on by itself.
fn told(error: Error) -> Error {
    match error.code() {
        Code::OutcomeUnknown => error
            .with_effect("either all of the events were written or none")
            .with_hint("check the outbox before you write these events again"),
        Code::StoreBusy => error.with_effect("nothing was written").with_hint("write the events again"),
        Code::StoreFailed => {
            error.with_effect("nothing was written").with_hint("see the database's message above")
        }
        // What this code says of rows holds while a relay settles.
        Code::RowRefused => told(Error::new(Code::StoreFailed, error.one_line())),
        _ => error,
    }
}
