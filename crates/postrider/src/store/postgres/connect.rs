//! Where the database is, and a connection to it with everything checked.

use std::collections::HashMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio_postgres::config::SslMode;
use tokio_postgres::tls::{MakeTlsConnect, TlsConnect};
use tokio_postgres::{Client, Config, NoTls, Socket, Statement};

use super::address::{Address, Certificates};
use super::failure::{connect_failed, failed};
use super::history::Incarnation;
use super::migrate;
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
    certificates: Certificates,
    is_plain_by_choice: bool,
    /// The caller's; ours if there is none.
    connector: Option<Connector>,
    patience: Patience,
}

/// Makes a connection with the TLS of the caller's choice, and spawns the task that drives it.
type Connector = Arc<dyn Fn(Config) -> BoxFuture<'static, Result<Client>> + Send + Sync>;

impl PostgresConfig {
    /// From a URL (`postgres://user:password@host/database`) or libpq's `key=value` words.
    ///
    /// Whatever leaves this machine is encrypted, and the server must prove that it is the host of that name;
    /// `sslmode=disable` alone does without, and loopback addresses and sockets unless `sslmode=require` is
    /// given. Needs the feature `postgres-tls`, or a connector given to [`tls`](Self::tls). A URL may also name
    /// files: `sslrootcert` (else the system's authorities), `sslcert` and `sslkey`.
    ///
    /// # Errors
    /// [`Code::ConfigValue`] if it is neither. The text is not repeated: it may hold a password.
    pub fn new(url: &str) -> Result<Self> {
        let Address { mut config, certificates, is_plain_by_choice } = Address::parse(url)?;
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
        let schema = Ident::default();
        Ok(Self { config, schema, certificates, is_plain_by_choice, connector: None, patience })
    }

    /// The schema with the outbox; `postrider` if not given.
    #[must_use]
    pub fn schema(mut self, schema: Ident) -> Self {
        self.schema = schema;
        self
    }

    /// The password, kept elsewhere than in the URL.
    #[must_use]
    pub fn password(mut self, password: &str) -> Self {
        self.config.password(password);
        self
    }

    /// A file with the authorities to believe, in PEM, in place of the system's. Read at every connection.
    #[must_use]
    pub fn tls_root(mut self, file: impl Into<PathBuf>) -> Self {
        self.certificates.root = Some(file.into());
        self
    }

    /// Files with a certificate (and those that vouch for it) and its key, in PEM, that tell the server who
    /// this is. Read at every connection.
    #[must_use]
    pub fn tls_client(mut self, certificate: impl Into<PathBuf>, key: impl Into<PathBuf>) -> Self {
        self.certificates.client = Some(certificate.into());
        self.certificates.client_key = Some(key.into());
        self
    }

    /// Whether what is sent can be read on a network: the URL says `sslmode=disable` and the server is
    /// elsewhere.
    pub fn is_exposed(&self) -> bool {
        Address::is_exposed(&self.config)
    }

    /// How to encrypt the connection, for those who do it themselves. Demanded, unless the URL says
    /// `sslmode=disable`; what is checked is the connector's affair.
    #[must_use]
    pub fn tls<T>(mut self, tls: T) -> Self
    where
        T: MakeTlsConnect<Socket> + Clone + Send + Sync + 'static,
        T::Stream: Send + 'static,
        T::TlsConnect: Send,
        <T::TlsConnect as TlsConnect<Socket>>::Future: Send,
    {
        if !self.is_plain_by_choice {
            self.config.ssl_mode(SslMode::Require);
        }
        self.connector = Some(connector(tls));
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

    pub(super) fn schema_name(&self) -> &Ident {
        &self.schema
    }

    pub(super) fn patience(&self) -> Patience {
        self.patience
    }

    /// A connection for whoever wants to look at the database or write to it, without any check of the
    /// server and its tables.
    ///
    /// # Errors
    /// [`Code::StoreFailed`] if the server does not answer, [`Code::LoginRefused`], [`Code::TlsFailed`].
    pub async fn client(&self) -> Result<Client> {
        let connector = match &self.connector {
            Some(given) => given.clone(),
            None => self.own_connector()?,
        };
        connector(self.config.clone()).await
    }

    #[cfg(feature = "postgres-tls")]
    fn own_connector(&self) -> Result<Connector> {
        match self.config.get_ssl_mode() {
            SslMode::Disable => Ok(connector(NoTls)),
            _ => super::tls::encryption(&self.certificates).map(connector),
        }
    }

    #[cfg(not(feature = "postgres-tls"))]
    fn own_connector(&self) -> Result<Connector> {
        if self.config.get_ssl_mode() != SslMode::Disable {
            let what = "the connection has to be encrypted, and this program was built without TLS";
            return Err(Error::new(Code::TlsFailed, what).hint(
                "turn on the feature `postgres-tls`, give a connector to PostgresConfig::tls, or say sslmode=disable",
            ));
        }
        Ok(connector(NoTls))
    }

    /// A connection on which nothing is checked yet.
    pub(super) async fn connect_unchecked(&self) -> Result<Session> {
        let client = self.client().await?;
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
            .field("certificates", &self.certificates)
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
