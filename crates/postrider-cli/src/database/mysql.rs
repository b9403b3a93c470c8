//! A MySQL or MariaDB database.

use std::fmt;
use std::sync::Arc;

use mysql_async::{Conn, TxOpts};
use postrider::adopt::HandsOver;
use postrider::layout::{Dialect, RowLayout, RowTable};
use postrider::store::mysql::{MySqlConfig, MySqlRowStore, MySqlStore, commit_failed, statement_failed};
use postrider::store::{
    EventFilter, ListedEvent, Migration, Overview, RowExtras, Schema as Found, Store, Tally, TallyBy,
};
use postrider::{BoxFuture, Code, Error, Event, Ident, Outbox, Recovery, Result, Written};

use super::{
    Address, Database, EventWriter, Extras, Made, PoolerChoice, Refused, Schema, alone, no_roles,
    table_to_make,
};
use crate::config::url;
use crate::doctor::{self, Options, Subject};

/// `mysql://user@host:3306/database` or `mariadb://`, with the driver's parameters and MySQL's own for TLS.
pub(super) fn read(address: &Address) -> Result<Arc<dyn Database>, Refused> {
    let url = address.url.expose_secret();
    let refused = |key| move |error: Error| Refused::new(key, error.message());
    let mut config = MySqlConfig::new(url).map_err(refused("url"))?;
    let schema = address.schema.as_deref().map_or_else(|| Ok(Ident::default()), Ident::new);
    let schema = schema.map_err(refused("schema"))?;
    config = config.schema(schema.clone()).after_failover(address.after_failover);
    if address.listen {
        return Err(Refused::new("listen", "this database has no notifications for new events"));
    }
    if address.pooler == PoolerChoice::Transaction {
        let why = "a pooler in transaction mode is not supported for this database";
        return Err(Refused::new("pooler", why));
    }
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
    let rows = address.rows.clone().map(|rows| placed(rows, &config)).transpose()?;
    Ok(Arc::new(MySql { config, schema, rows, shown: url::masked(url) }))
}

/// The table in the database that the URL names, unless the configuration names another.
fn placed(rows: RowTable, config: &MySqlConfig) -> Result<RowTable, Refused> {
    let refused = |error: Error| Refused::new("table_schema", error.message());
    if rows.columns().is_none() && rows.layout().shapes_on(Dialect::MySql).is_empty() {
        return Err(Refused::new("layout", "this layout does not exist for MySQL and MariaDB"));
    }
    match config.database() {
        _ if rows.is_placed() => Ok(rows),
        Some(database) => Ok(rows.or_in_schema(Ident::new(&database).map_err(refused)?)),
        None => {
            Err(Refused::new("table_schema", "set the database that contains the table, here or in the URL"))
        }
    }
}

#[derive(Debug)]
struct MySql {
    config: MySqlConfig,
    schema: Ident,
    /// The table with a state per row, if that is the outbox.
    rows: Option<RowTable>,
    shown: String,
}

impl fmt::Display for MySql {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown)
    }
}

impl MySql {
    async fn open(&self) -> Result<Arc<dyn Store>> {
        Ok(match &self.rows {
            Some(rows) => Arc::new(MySqlRowStore::connect(&self.config, rows).await?),
            None => Arc::new(MySqlStore::connect(&self.config).await?),
        })
    }

    /// Says of what went wrong in which database it did.
    async fn named<T>(&self, answer: impl Future<Output = Result<T>> + Send) -> Result<T> {
        answer.await.map_err(|error| error.within(&self.shown))
    }
}

impl Database for MySql {
    fn store(&self) -> BoxFuture<'_, Result<Arc<dyn Store>>> {
        Box::pin(self.named(async move {
            let store = self.open().await?;
            if self.config.is_exposed() {
                tracing::warn!(database = %self, "not encrypted (ssl-mode=disabled): anyone on the network path can read and modify the traffic");
            }
            Ok(store)
        }))
    }

    fn overview(&self, backlog_max: u64) -> BoxFuture<'_, Result<Overview>> {
        Box::pin(self.named(async move {
            if self.rows.is_none() {
                // Any process that only looks needs none of what a relay needs.
                return MySqlStore::read_overview(&self.config, backlog_max).await;
            }
            let store = self.open().await?;
            let overview = store.overview(backlog_max).await;
            store.close().await;
            overview
        }))
    }

    /// Who may not list them gets that from `doctor`.
    fn undecided(&self) -> BoxFuture<'_, Vec<String>> {
        Box::pin(async move { MySqlStore::prepared(&self.config).await.unwrap_or_default() })
    }

    fn tally(&self, by: TallyBy, groups_max: usize) -> BoxFuture<'_, Result<Tally>> {
        Box::pin(self.named(async move {
            match &self.rows {
                Some(rows) => MySqlRowStore::tally(&self.config, rows, by, groups_max).await,
                None => MySqlStore::tally(&self.config, by, groups_max).await,
            }
        }))
    }

    fn schema(&self) -> BoxFuture<'_, Result<Schema>> {
        Box::pin(self.named(async move {
            let Found { found, needed } = match &self.rows {
                Some(_) => MySqlRowStore::schema(&self.config).await?,
                None => MySqlStore::schema(&self.config).await?,
            };
            Ok(Schema { found, needed })
        }))
    }

    /// These servers commit every CREATE at once: what breaks off is completed the next time.
    fn migrate(&self) -> BoxFuture<'_, Result<Schema>> {
        Box::pin(async move { Ok(self.migrate_as(None, Extras::default()).await?.before) })
    }

    fn migrate_as(&self, layout: Option<RowLayout>, extras: Extras) -> BoxFuture<'_, Result<Made>> {
        Box::pin(self.named(async move {
            match table_to_make(self.rows.as_ref(), layout, extras)? {
                Some(table) => {
                    let wrong = |refused: Refused| Error::new(Code::ConfigValue, refused.why);
                    let table = placed(table, &self.config).map_err(wrong)?;
                    Ok(MySqlRowStore::migrate(&self.config, &table, extras.into()).await?.into())
                }
                None => {
                    let migrated = MySqlStore::migrate(&self.config).await?;
                    if extras.views {
                        MySqlStore::make_views(&self.config).await?;
                    }
                    Ok(migrated.into())
                }
            }
        }))
    }

    fn migrations(&self) -> String {
        let steps: Vec<Migration> = match &self.rows {
            // A layout that these servers do not have is refused by every other verb.
            Some(rows) => {
                MySqlRowStore::migrations(&self.schema, rows, RowExtras::default()).unwrap_or_default()
            }
            None => MySqlStore::migrations(&self.schema).collect(),
        };
        let steps: Vec<String> =
            steps.into_iter().map(|step| format!("-- Schema {}\n{}", step.version, step.sql)).collect();
        steps.join("\n")
    }

    fn roles(&self) -> Result<String> {
        match &self.rows {
            Some(rows) => Err(no_roles(rows)),
            None => MySqlStore::roles(&self.schema),
        }
    }

    fn rows(&self) -> Option<&RowTable> {
        self.rows.as_ref()
    }

    fn place(&self) -> String {
        url::server(&self.shown).to_owned()
    }

    fn source(&self) -> BoxFuture<'_, Result<Arc<dyn HandsOver>>> {
        Box::pin(self.named(async move {
            Ok(match &self.rows {
                Some(rows) => {
                    Arc::new(MySqlRowStore::connect(&self.config, &alone(rows)).await?) as Arc<dyn HandsOver>
                }
                None => Arc::new(MySqlStore::connect(&self.config).await?),
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
            let client = self.config.client().await?;
            Ok(Box::new(MySqlWriter { client, outbox }) as Box<dyn EventWriter>)
        }))
    }

    fn list<'a>(&'a self, filter: &'a EventFilter) -> BoxFuture<'a, Result<Vec<ListedEvent>>> {
        Box::pin(self.named(async move {
            match &self.rows {
                Some(rows) => MySqlRowStore::list(&self.config, rows, filter).await,
                None => MySqlStore::list(&self.config, filter).await,
            }
        }))
    }

    fn list_plan<'a>(&'a self, filter: &'a EventFilter) -> BoxFuture<'a, Result<Vec<String>>> {
        Box::pin(self.named(async move {
            match &self.rows {
                Some(rows) => MySqlRowStore::list_plan(&self.config, rows, filter).await,
                None => MySqlStore::list_plan(&self.config, filter).await,
            }
        }))
    }

    fn check<'a>(&'a self, options: &'a Options, subject: &'a mut Subject<'_>) -> BoxFuture<'a, bool> {
        let place = doctor::mysql::Place {
            config: &self.config,
            schema: &self.schema,
            rows: self.rows.as_ref(),
            shown: &self.shown,
        };
        Box::pin(doctor::mysql::check(place, options, subject))
    }

    /// A server that is down or starts, or a replica that is not the primary yet.
    fn may_come_up(&self, error: &Error) -> bool {
        error.code().recovery() != Recovery::Person || error.code() == Code::StoreReadOnly
    }
}

struct MySqlWriter {
    client: Conn,
    outbox: Outbox,
}

impl EventWriter for MySqlWriter {
    fn write(&mut self, events: Vec<Event>) -> BoxFuture<'_, Result<Vec<Written>>> {
        Box::pin(async move {
            let begun = self.client.start_transaction(TxOpts::default()).await;
            let mut tx = begun.map_err(|e| told(statement_failed(e)))?;
            let written = self.outbox.write_all(&mut tx, events).await.map_err(told)?;
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
        _ => error,
    }
}
