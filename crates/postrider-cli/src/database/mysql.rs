//! A MySQL or MariaDB database.

use std::fmt;
use std::sync::Arc;

use mysql_async::{Conn, TxOpts};
use postrider::store::mysql::{MySqlConfig, MySqlStore, commit_failed, statement_failed};
use postrider::store::{Migrated, Overview, Schema as Found, Store};
use postrider::{BoxFuture, Code, Error, Event, Ident, Outbox, Recovery, Result, Written};

use super::{Address, Database, EventWriter, PoolerChoice, Refused, Schema};
use crate::config::url;
use crate::doctor::{self, Examination, Patient};

/// `mysql://user@host:3306/database` or `mariadb://`, with the driver's parameters and MySQL's own for TLS.
pub(super) fn read(address: &Address) -> Result<Arc<dyn Database>, Refused> {
    let url = address.url.expose_secret();
    let refused = |key| move |error: Error| Refused::new(key, error.what());
    let mut config = MySqlConfig::new(url).map_err(refused("url"))?;
    let schema = address.schema.as_deref().map_or_else(|| Ok(Ident::default()), Ident::new);
    let schema = schema.map_err(refused("schema"))?;
    config = config.schema(schema.clone()).after_failover(address.after_failover);
    if address.listen {
        return Err(Refused::new("listen", "this kind of database tells nobody that something was written"));
    }
    if address.rows.is_some() {
        return Err(Refused::new("layout", "tables with a state per row are worked on PostgreSQL only"));
    }
    if address.pooler == PoolerChoice::Transaction {
        let why =
            "a pooler that hands connections around between transactions cannot stand before this database";
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
        (Some(_), None) => return Err(Refused::new("tls_client_key", "tls_client_cert is given without it")),
        (None, Some(_)) => return Err(Refused::new("tls_client_cert", "tls_client_key is given without it")),
    };
    Ok(Arc::new(MySql { config, schema, shown: url::masked(url) }))
}

#[derive(Debug)]
struct MySql {
    config: MySqlConfig,
    schema: Ident,
    shown: String,
}

impl fmt::Display for MySql {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown)
    }
}

impl MySql {
    /// Says of what went wrong in which database it did.
    async fn named<T>(&self, answer: impl Future<Output = Result<T>> + Send) -> Result<T> {
        answer.await.map_err(|error| error.within(&self.shown))
    }
}

impl Database for MySql {
    fn store(&self) -> BoxFuture<'_, Result<Arc<dyn Store>>> {
        Box::pin(self.named(async move {
            let store = MySqlStore::connect(&self.config).await?;
            if self.config.is_exposed() {
                tracing::warn!(database = %self, "not encrypted, as ssl-mode=disabled says: who is on the way can read and change everything");
            }
            Ok(Arc::new(store) as Arc<dyn Store>)
        }))
    }

    fn overview(&self, backlog_max: u64) -> BoxFuture<'_, Result<Overview>> {
        Box::pin(self.named(async move {
            let store = MySqlStore::connect(&self.config).await?;
            let overview = store.overview(backlog_max).await;
            store.close().await;
            overview
        }))
    }

    fn schema(&self) -> BoxFuture<'_, Result<Schema>> {
        Box::pin(self.named(async move {
            let Found { found, needed } = MySqlStore::schema(&self.config).await?;
            Ok(Schema { found, needed })
        }))
    }

    /// These servers commit every CREATE at once: what breaks off is completed the next time.
    fn migrate(&self) -> BoxFuture<'_, Result<Schema>> {
        Box::pin(self.named(async move {
            let Migrated { from, to } = MySqlStore::migrate(&self.config).await?;
            Ok(Schema { found: from, needed: to })
        }))
    }

    fn migrations(&self) -> String {
        let steps: Vec<String> = MySqlStore::migrations(&self.schema)
            .map(|step| format!("-- Schema {}\n{}", step.version, step.sql))
            .collect();
        steps.join("\n")
    }

    fn roles(&self) -> Result<String> {
        MySqlStore::roles(&self.schema)
    }

    fn writer(&self, outbox: Outbox) -> BoxFuture<'_, Result<Box<dyn EventWriter>>> {
        let outbox = outbox.schema(self.schema.clone());
        Box::pin(self.named(async move {
            let client = self.config.client().await?;
            Ok(Box::new(MySqlWriter { client, outbox }) as Box<dyn EventWriter>)
        }))
    }

    fn examine<'a>(
        &'a self,
        examination: &'a Examination,
        patient: &'a mut Patient<'_>,
    ) -> BoxFuture<'a, bool> {
        Box::pin(doctor::mysql::examine(&self.config, &self.schema, &self.shown, examination, patient))
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
            .effect("the events may be written, all of them or none")
            .hint("look into the outbox before you write these events again"),
        Code::StoreBusy => error.effect("nothing was written").hint("write the events again"),
        Code::StoreFailed => error.effect("nothing was written").hint("see the database's own message"),
        _ => error,
    }
}
