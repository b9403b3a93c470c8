//! Where the database is, and a connection to it with everything checked.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio_postgres::tls::{MakeTlsConnect, TlsConnect};
use tokio_postgres::{Client, Config, NoTls, Socket, Statement};

use super::failure::{connect_failed, failed};
use super::history::Incarnation;
use super::migrate;
use crate::store::AfterFailover;
use crate::store::holes::Patience;
use crate::{BoxFuture, Code, Error, Ident, Result};

/// The oldest server this program runs on: `xid8` columns and the lock view as the hole rule needs them.
const SERVER_VERSION_MIN: i32 = 140_000;

/// What every connection is told. A statement that cannot get a lock gives up, so that nobody waits longer
/// than a lease behind somebody who has stopped; and a transaction that is left open is ended by the server.
/// The planner is kept to the one index there is: it may not have statistics yet, and a plan with a sort of
/// the whole outbox would be found out only when the outbox is large.
const SETTINGS: &str = "
    SET lock_timeout = '5s';
    SET idle_in_transaction_session_timeout = '30s';
    SET default_transaction_isolation = 'read committed';
    SET jit = off;
    SET plan_cache_mode = force_generic_plan;
    SET enable_seqscan = off;
    SET enable_bitmapscan = off";

/// How to reach an outbox in PostgreSQL.
#[derive(Clone)]
pub struct PostgresConfig {
    config: Config,
    schema: Ident,
    connector: Connector,
    patience: Patience,
    after_failover: AfterFailover,
}

/// Makes a connection with the TLS of the caller's choice, and spawns the task that drives it.
type Connector = Arc<dyn Fn(Config) -> BoxFuture<'static, Result<Client>> + Send + Sync>;

impl PostgresConfig {
    /// From a URL (`postgres://user:password@host/database`) or libpq's `key=value` words. Without TLS,
    /// until [`tls`](Self::tls) is called.
    ///
    /// # Errors
    /// [`Code::ConfigValue`] if it is neither. The text is not repeated: it may hold a password.
    pub fn new(url: &str) -> Result<Self> {
        let mut config: Config = url.parse().map_err(|error: tokio_postgres::Error| {
            Error::new(Code::ConfigValue, "the address of the PostgreSQL database cannot be read")
                .hint("write it as postgres://user:password@host:5432/database")
                .source(error)
        })?;
        if config.get_application_name().is_none() {
            config.application_name("postrider");
        }
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(Duration::from_secs(10));
        }
        // Who does not answer what was sent is taken for dead after this, not after the system's 15 minutes.
        if config.get_tcp_user_timeout().is_none() {
            config.tcp_user_timeout(Duration::from_secs(30));
        }
        let patience = Patience { list_after: Duration::from_secs(1), holes_max: 10_000 };
        Ok(Self {
            config,
            schema: Ident::default(),
            connector: connector(NoTls),
            patience,
            after_failover: AfterFailover::default(),
        })
    }

    /// The schema with the outbox; `postrider` if not given.
    #[must_use]
    pub fn schema(mut self, schema: Ident) -> Self {
        self.schema = schema;
        self
    }

    /// How to encrypt the connection. Whether it is demanded is for the URL's `sslmode` to say.
    #[must_use]
    pub fn tls<T>(mut self, tls: T) -> Self
    where
        T: MakeTlsConnect<Socket> + Clone + Send + Sync + 'static,
        T::Stream: Send + 'static,
        T::TlsConnect: Send,
        <T::TlsConnect as TlsConnect<Socket>>::Future: Send,
    {
        self.connector = connector(tls);
        self
    }

    /// Holes older than this are looked up in the lock table of the server; a second if not given.
    #[must_use]
    pub fn list_writers_after(mut self, age: Duration) -> Self {
        self.patience.list_after = age;
        self
    }

    /// Holes to keep in mind before nothing new is read; 10,000 if not given.
    #[must_use]
    pub fn holes_max(mut self, holes_max: usize) -> Self {
        self.patience.holes_max = holes_max.max(1);
        self
    }

    /// What a failover of the server means; subscriptions halt if not given.
    #[must_use]
    pub fn after_failover(mut self, choice: AfterFailover) -> Self {
        self.after_failover = choice;
        self
    }

    pub(super) fn failover_choice(&self) -> AfterFailover {
        self.after_failover
    }

    pub(super) fn schema_name(&self) -> &Ident {
        &self.schema
    }

    pub(super) fn patience(&self) -> Patience {
        self.patience
    }

    /// A connection on which nothing is checked yet.
    pub(super) async fn connect_unchecked(&self) -> Result<Session> {
        let client = (self.connector)(self.config.clone()).await?;
        client.batch_execute(SETTINGS).await.map_err(failed)?;
        let incarnation = Incarnation::of(&client).await?;
        refuse(&incarnation)?;
        Ok(Session { client, statements: Statements::new(self.schema.clone()), incarnation })
    }

    /// A connection to a primary with the schema this program knows.
    pub(super) async fn connect(&self) -> Result<Session> {
        let session = self.connect_unchecked().await?;
        migrate::check(&session.client, &self.schema).await?;
        Ok(session)
    }
}

impl fmt::Debug for PostgresConfig {
    /// Without the password: the driver's own `Config` hides it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresConfig")
            .field("config", &self.config)
            .field("schema", &self.schema)
            .finish_non_exhaustive()
    }
}

fn connector<T>(tls: T) -> Connector
where
    T: MakeTlsConnect<Socket> + Clone + Send + Sync + 'static,
    T::Stream: Send + 'static,
    T::TlsConnect: Send,
    <T::TlsConnect as TlsConnect<Socket>>::Future: Send,
{
    Arc::new(move |config| {
        let tls = tls.clone();
        Box::pin(async move {
            let (client, connection) = config.connect(tls).await.map_err(connect_failed)?;
            // Ends with the client. Its error is also told to whoever waits for an answer.
            tokio::spawn(async move { _ = connection.await });
            Ok(client)
        })
    })
}

fn refuse(server: &Incarnation) -> Result<()> {
    if server.version < SERVER_VERSION_MIN {
        let (major, least) = (server.version / 10_000, SERVER_VERSION_MIN / 10_000);
        let what = format!("the server is PostgreSQL {major}, at least {least} is needed");
        return Err(Error::new(Code::ServerTooOld, what));
    }
    if server.in_recovery {
        return Err(Error::new(Code::StoreReadOnly, "the server is a standby")
            .hint("connect to the primary: give several hosts and target_session_attrs=read-write"));
    }
    Ok(())
}

/// A connection, what is prepared on it, and which server it leads to.
pub(super) struct Session {
    pub(super) client: Client,
    pub(super) statements: Statements,
    pub(super) incarnation: Incarnation,
}

/// Statements of one connection, prepared when first used.
pub(super) struct Statements {
    schema: Ident,
    prepared: Mutex<HashMap<&'static str, Statement>>,
}

impl Statements {
    fn new(schema: Ident) -> Self {
        Self { schema, prepared: Mutex::default() }
    }

    /// The statement with the schema's name put in. The first use costs a round trip.
    pub(super) async fn get(&self, client: &Client, statement: &'static str) -> Result<Statement> {
        let known = self.prepared.lock().unwrap_or_else(PoisonError::into_inner).get(statement).cloned();
        if let Some(known) = known {
            return Ok(known);
        }
        let prepared = client.prepare(&self.schema.put_into(statement)).await.map_err(failed)?;
        let mut all = self.prepared.lock().unwrap_or_else(PoisonError::into_inner);
        all.insert(statement, prepared.clone());
        Ok(prepared)
    }
}
