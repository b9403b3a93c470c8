//! Where the database is, and a connection to it with everything checked.

use std::fmt;
use std::future::poll_fn;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio_postgres::config::SslMode;
use tokio_postgres::tls::{MakeTlsConnect, TlsConnect};
use tokio_postgres::{AsyncMessage, Client, Config, Error as SqlError, NoTls, Socket};

use super::address::Address;
use super::failure::connect_failed;
use super::pooler::{Pooler, SessionSettings, StartupToken, options_refused, set_for_session};
use super::session::{ANSWER_WITHIN, Access, Session, Sharing, read_transaction};
use super::{migrate, row_state};
use crate::layout::RowTable;
use crate::store::AfterFailover;
use crate::store::address::Certificates;
use crate::store::holes::Patience;
use crate::{BoxFuture, Ident, Result};

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
    pooler: Pooler,
    listens: bool,
    after_failover: AfterFailover,
    answer_within: Duration,
    /// The table with a state per row, if that is the outbox.
    rows: Option<Arc<RowTable>>,
}

/// Makes a connection with the TLS of the caller's choice, and spawns the task that drives it.
type Connector =
    Arc<dyn Fn(Config, Option<WakeSignal>) -> BoxFuture<'static, Result<Client, SqlError>> + Send + Sync>;

/// Rung when a notification arrives, and when the connection has ended.
pub(super) type WakeSignal = Arc<Notify>;

impl PostgresConfig {
    /// From a URL (`postgres://user:password@host/database`) or libpq's `key=value` words.
    ///
    /// Whatever leaves this machine is encrypted, and the server must prove that it is the host of that name;
    /// `sslmode=disable` alone does without, and loopback addresses and sockets unless `sslmode=require` is
    /// given. Needs the feature `postgres-tls`, or a connector given to [`tls`](Self::tls). A URL may also name
    /// files: `sslrootcert` (else the system's authorities), `sslcert` and `sslkey`.
    ///
    /// # Errors
    /// [`ConfigValue`](crate::Code::ConfigValue) if it is neither. The text is not repeated: it may hold a password.
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
        // The same for who listens and never sends; the driver's own default is two hours.
        if config.get_keepalives_idle() == Duration::from_secs(2 * 60 * 60) {
            config.keepalives_idle(Duration::from_secs(60));
        }
        let patience = Patience { list_after: Duration::from_secs(1), holes_max: 10_000 };
        Ok(Self {
            config,
            schema: Ident::default(),
            certificates,
            is_plain_by_choice,
            connector: None,
            patience,
            pooler: Pooler::Detect,
            listens: false,
            after_failover: AfterFailover::default(),
            answer_within: ANSWER_WITHIN,
            rows: None,
        })
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

    /// What stands between us and the server; found out if not given.
    #[must_use]
    pub fn pooler(mut self, pooler: Pooler) -> Self {
        self.pooler = pooler;
        self
    }

    /// Whether a relay on this outbox LISTENs for the [`PostgresNotifier`](super::PostgresNotifier) of writers,
    /// over one more connection. Not if not given: without a notifier there is nothing to hear, and polling
    /// finds every event anyway. Behind a transaction pooler this does nothing.
    #[must_use]
    pub fn listen(mut self, listens: bool) -> Self {
        self.listens = listens;
        self
    }

    /// Whether it listens, as far as nothing stands between; see [`listen`](Self::listen).
    pub fn listens(&self) -> bool {
        self.listens
    }

    /// What is taken to stand between this program and the server; see [`pooler`](Self::pooler).
    pub fn pooler_choice(&self) -> Pooler {
        self.pooler
    }

    /// What a failover of the server means; subscriptions halt if not given.
    #[must_use]
    pub fn after_failover(mut self, choice: AfterFailover) -> Self {
        self.after_failover = choice;
        self
    }

    /// A server that has not answered by then is taken for dead, though its network says it is there, and another
    /// connection is made; 30 seconds if not given. Not less than a settle may wait for a lock.
    #[must_use]
    pub fn answer_within(mut self, limit: Duration) -> Self {
        self.answer_within = limit;
        self
    }

    pub(super) fn failover_choice(&self) -> AfterFailover {
        self.after_failover
    }

    /// The same database with a table of another layout as its outbox.
    pub(super) fn with_rows(&self, rows: RowTable) -> Self {
        Self { rows: Some(Arc::new(rows)), ..self.clone() }
    }

    pub(crate) fn schema_name(&self) -> &Ident {
        &self.schema
    }

    pub(super) fn patience(&self) -> Patience {
        self.patience
    }

    /// A connection for the caller, to read the database or write to it, with the settings that the server has for
    /// the user, and without any check of the server and its tables.
    ///
    /// # Errors
    /// [`StoreFailed`](crate::Code::StoreFailed) if the server does not answer, `LoginRefused`, `TlsFailed`.
    pub async fn client(&self) -> Result<Client> {
        let dial = self.connector()?;
        dial(self.config.clone(), None).await.map_err(connect_failed)
    }

    /// The same with every name looked up in `pg_catalog` alone, without rows that policies hide unsaid, and without the
    /// time limits of the user. Also says whether a transaction pooler stands between: then nothing of it holds, and every
    /// transaction has to begin with [`BEGIN_GUARDED`](super::BEGIN_GUARDED).
    ///
    /// # Errors
    /// As [`client`](Self::client).
    pub async fn guarded_client(&self) -> Result<(Client, bool)> {
        let (client, sharing) = self.open_with(None, SessionSettings::Guard).await?;
        Ok((client, sharing == Sharing::Pooled))
    }

    /// Makes connections with nothing said on them yet.
    fn connector(&self) -> Result<Connector> {
        match &self.connector {
            Some(given) => Ok(given.clone()),
            None => self.own_connector(),
        }
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
            let what = "the connection must be encrypted, but this program was built without TLS";
            return Err(crate::Error::new(crate::Code::TlsFailed, what).with_hint(
                "enable the feature `postgres-tls`, pass a connector to PostgresConfig::tls, or use sslmode=disable",
            ));
        }
        Ok(connector(NoTls))
    }

    /// A connection to a primary with the schema this program knows.
    pub(super) async fn connect(&self) -> Result<Session> {
        let mut session = self.connect_unchecked().await?;
        let check = async {
            let client = &session.client;
            match &self.rows {
                Some(rows) => read_transaction(client, row_state::check(client, &self.schema, rows)).await,
                None => read_transaction(client, migrate::check(client, &self.schema)).await.map(|()| None),
            }
        };
        if let Some(rows) = session.in_time(Access::Reads, check).await? {
            session.statements.learn(rows);
        }
        Ok(session)
    }

    /// A connection to a primary, whatever its schema.
    pub(super) async fn connect_unchecked(&self) -> Result<Session> {
        // The driver's own limit ends with the TCP connection; who then says nothing would be waited for forever.
        let opened = async {
            let (client, sharing) = self.open(None).await?;
            Session::new(client, sharing, self.schema.clone(), self.rows.clone(), self.answer_within).await
        };
        let within =
            self.config.get_connect_timeout().map_or(self.answer_within, |limit| limit.saturating_mul(2));
        tokio::time::timeout(within, opened).await.unwrap_or_else(|_| {
            let what =
                format!("PostgreSQL accepted the connection but did not finish the login within {within:?}");
            Err(crate::Error::new(crate::Code::StoreFailed, what))
        })
    }

    /// A connection, and whether it is ours alone. Notifications ring `wake`.
    pub(super) async fn open(&self, wake: Option<WakeSignal>) -> Result<(Client, Sharing)> {
        self.open_with(wake, SessionSettings::All).await
    }

    async fn open_with(
        &self,
        wake: Option<WakeSignal>,
        settings: SessionSettings,
    ) -> Result<(Client, Sharing)> {
        let dial = self.connector()?;
        if self.pooler == Pooler::Transaction {
            let client = dial(self.config.clone(), wake).await.map_err(connect_failed)?;
            return Ok((client, Sharing::Pooled));
        }
        let token = StartupToken::new();
        match dial(token.startup_options(&self.config, settings), wake.clone()).await {
            Ok(client) if token.is_known_to(&client).await? => Ok((client, Sharing::Own)),
            Ok(client) => self.without_options(client, settings).await,
            Err(error) if !options_refused(&error) => Err(connect_failed(error)),
            Err(_) => {
                let client = dial(self.config.clone(), wake).await.map_err(connect_failed)?;
                self.without_options(client, settings).await
            }
        }
    }

    /// What a connection is on which our startup options did not arrive.
    async fn without_options(&self, client: Client, settings: SessionSettings) -> Result<(Client, Sharing)> {
        if self.pooler != Pooler::None {
            return Ok((client, Sharing::Pooled));
        }
        set_for_session(&client, settings).await?;
        Ok((client, Sharing::Own))
    }
}

impl fmt::Debug for PostgresConfig {
    /// Without the password: the driver's own `Config` hides it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresConfig")
            .field("config", &self.config)
            .field("schema", &self.schema)
            .field("certificates", &self.certificates)
            .field("pooler", &self.pooler)
            .field("listens", &self.listens)
            .field("after_failover", &self.after_failover)
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
    Arc::new(move |config, wake| {
        let tls = tls.clone();
        Box::pin(async move {
            let (client, mut connection) = config.connect(tls).await?;
            // Ends with the client. Its error also reaches every caller that waits for an answer.
            tokio::spawn(async move {
                while let Some(Ok(message)) = poll_fn(|cx| connection.poll_message(cx)).await {
                    if let (AsyncMessage::Notification(_), Some(wake)) = (message, &wake) {
                        wake.notify_one();
                    }
                }
                // The client learns that it is closed before the listener looks.
                drop(connection);
                if let Some(wake) = wake {
                    wake.notify_one();
                }
            });
            Ok(client)
        })
    })
}
