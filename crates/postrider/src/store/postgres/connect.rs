//! Where the database is, and a connection to it with everything checked.

use std::fmt;
use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio_postgres::config::SslMode;
use tokio_postgres::tls::{MakeTlsConnect, TlsConnect};
use tokio_postgres::{AsyncMessage, Client, Config, Error as SqlError, NoTls, Socket};

use super::address::Address;
use super::failure::connect_failed;
use super::pooler::{Pooler, SessionSettings, StartupToken, options_refused, set_for_session};
use super::session::{Access, Session, Sharing, read_transaction};
use super::{migrate, row_state};
use crate::store::server_options::{ServerOptions, server_setters};
use crate::{BoxFuture, Result};

/// The age from which on writers are listed for a hole; until then the cheaper proof by horizon is enough.
const LIST_WRITERS_AFTER: Duration = Duration::from_secs(1);

/// How to reach an outbox in PostgreSQL.
#[derive(Clone)]
pub struct PostgresConfig {
    config: Config,
    options: ServerOptions,
    /// The URL has `sslmode=disable`.
    is_plain_by_choice: bool,
    /// The caller's connector; `None` for the built-in one.
    connector: Option<Connector>,
    pooler: Pooler,
    listens: bool,
}

/// Opens a connection, with or without TLS, and spawns the task that drives it.
type Connector =
    Arc<dyn Fn(Config, Option<WakeSignal>) -> BoxFuture<'static, Result<Client, SqlError>> + Send + Sync>;

/// Notified when a notification arrives, and when the connection has ended.
pub(super) type WakeSignal = Arc<Notify>;

impl PostgresConfig {
    /// From a URL (`postgres://user:password@host/database`) or a libpq connection string (`key=value ...`).
    ///
    /// Connections to other machines use TLS, and the server's certificate is verified, including its host name;
    /// `sslmode=disable` turns that off. Loopback addresses and Unix sockets are not encrypted, unless
    /// `sslmode=require` is given for a loopback address. TLS needs the feature `postgres-tls`, or a connector given
    /// to [`tls`](Self::tls). A URL may also name files: `sslrootcert` (the default is the system's root
    /// certificates), `sslcert` and `sslkey`.
    ///
    /// # Errors
    /// [`ConfigValue`](crate::Code::ConfigValue) if the text is neither. The error does not repeat it: it may contain
    /// a password.
    pub fn new(url: &str) -> Result<Self> {
        let Address { mut config, certificates, is_plain_by_choice } = Address::parse(url)?;
        if config.get_application_name().is_none() {
            config.application_name("postrider");
        }
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(Duration::from_secs(10));
        }
        // A server that does not acknowledge packets is considered dead after this, not after the system's 15 minutes.
        if config.get_tcp_user_timeout().is_none() {
            config.tcp_user_timeout(Duration::from_secs(30));
        }
        // The same for a connection that only listens; the driver's default is two hours.
        if config.get_keepalives_idle() == Duration::from_secs(2 * 60 * 60) {
            config.keepalives_idle(Duration::from_secs(60));
        }
        Ok(Self {
            config,
            options: ServerOptions::new(certificates, LIST_WRITERS_AFTER),
            is_plain_by_choice,
            connector: None,
            pooler: Pooler::Detect,
            listens: false,
        })
    }

    /// The password, if it is not in the URL.
    #[must_use]
    pub fn password(mut self, password: &str) -> Self {
        self.config.password(password);
        self
    }

    /// Whether traffic crosses a network unencrypted: the URL has `sslmode=disable` and the server is another machine.
    pub fn is_exposed(&self) -> bool {
        Address::is_exposed(&self.config)
    }

    /// A connector for TLS instead of the built-in one. TLS is then required, unless the URL has `sslmode=disable`. The
    /// connector decides what is verified.
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

    /// The pooler between this program and the server. Default: it is detected.
    #[must_use]
    pub fn pooler(mut self, pooler: Pooler) -> Self {
        self.pooler = pooler;
        self
    }

    /// Whether a relay on this outbox LISTENs, over one more connection, for the
    /// [`PostgresNotifier`](super::PostgresNotifier) of writers. Default: no, because without a notifier there is
    /// nothing to receive, and polling finds every event anyway. Behind a transaction pooler this has no effect.
    #[must_use]
    pub fn listen(mut self, listens: bool) -> Self {
        self.listens = listens;
        self
    }

    /// Whether the relay listens; see [`listen`](Self::listen).
    pub fn listens(&self) -> bool {
        self.listens
    }

    /// The configured pooler; see [`pooler`](Self::pooler).
    pub fn pooler_choice(&self) -> Pooler {
        self.pooler
    }

    /// A connection for the caller, with the user's own settings, and without any check of the server and its tables.
    ///
    /// # Errors
    /// [`StoreFailed`](crate::Code::StoreFailed) if the server does not answer, `LoginRefused`, `TlsFailed`.
    pub async fn client(&self) -> Result<Client> {
        let dial = self.connector()?;
        dial(self.config.clone(), None).await.map_err(connect_failed)
    }

    /// The same with guarded settings: names are looked up in `pg_catalog` only, row-level security raises an error
    /// instead of hiding rows, and the user's time limits are off. Also returns whether the connection goes through a
    /// transaction pooler: then these settings do not last, and every transaction must begin with
    /// [`BEGIN_GUARDED`](super::BEGIN_GUARDED).
    ///
    /// # Errors
    /// As [`client`](Self::client).
    pub async fn guarded_client(&self) -> Result<(Client, bool)> {
        let (client, sharing) = self.open_with(None, SessionSettings::Guard).await?;
        Ok((client, sharing == Sharing::Pooled))
    }

    /// Opens connections on which no statement was run yet.
    fn connector(&self) -> Result<Connector> {
        match &self.connector {
            Some(given) => Ok(given.clone()),
            None => self.built_in_connector(),
        }
    }

    #[cfg(feature = "postgres-tls")]
    fn built_in_connector(&self) -> Result<Connector> {
        match self.config.get_ssl_mode() {
            SslMode::Disable => Ok(connector(NoTls)),
            _ => super::tls::encryption(&self.options.certificates).map(connector),
        }
    }

    #[cfg(not(feature = "postgres-tls"))]
    fn built_in_connector(&self) -> Result<Connector> {
        if self.config.get_ssl_mode() != SslMode::Disable {
            let what = "the connection must be encrypted, but this program was built without TLS";
            return Err(crate::Error::new(crate::Code::TlsFailed, what).with_hint(
                "enable the feature `postgres-tls`, pass a connector to PostgresConfig::tls, or use sslmode=disable",
            ));
        }
        Ok(connector(NoTls))
    }

    /// A connection to a primary with the schema that this program needs.
    pub(super) async fn connect(&self) -> Result<Session> {
        let mut session = self.connect_unchecked().await?;
        let check = async {
            let client = &session.client;
            let schema = self.schema_name();
            match &self.options.rows {
                Some(rows) => read_transaction(client, row_state::check(client, schema, rows)).await,
                None => read_transaction(client, migrate::check(client, schema)).await.map(|()| None),
            }
        };
        if let Some(rows) = session.in_time(Access::Reads, check).await? {
            session.statements.learn(rows);
        }
        Ok(session)
    }

    /// A connection to a primary, whatever its schema.
    pub(super) async fn connect_unchecked(&self) -> Result<Session> {
        // The driver's limit covers only the TCP connection; a server that is then silent needs a limit, too.
        let opened = async {
            let (client, sharing) = self.open(None).await?;
            Session::new(client, sharing, &self.options).await
        };
        let connect_timeout = self.config.get_connect_timeout();
        let within = connect_timeout.map_or(self.options.answer_within, |limit| limit.saturating_mul(2));
        tokio::time::timeout(within, opened).await.unwrap_or_else(|_| {
            let what =
                format!("PostgreSQL accepted the connection but did not finish the login within {within:?}");
            Err(crate::Error::new(crate::Code::StoreFailed, what))
        })
    }

    /// A connection, and whether it is private. Notifications notify `wake`.
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

    /// How to use a connection that did not accept our startup options.
    async fn without_options(&self, client: Client, settings: SessionSettings) -> Result<(Client, Sharing)> {
        if self.pooler != Pooler::None {
            return Ok((client, Sharing::Pooled));
        }
        set_for_session(&client, settings).await?;
        Ok((client, Sharing::Own))
    }
}

server_setters! {
    PostgresConfig;
    schema: "The schema with the outbox. Default: `postrider`.";
    check_rollbacks_after: "one second";
}

impl fmt::Debug for PostgresConfig {
    /// Without the password: the driver's `Config` hides it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresConfig")
            .field("config", &self.config)
            .field("options", &self.options)
            .field("pooler", &self.pooler)
            .field("listens", &self.listens)
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
            // Ends when the client is dropped. Its error also reaches every caller that waits for an answer.
            tokio::spawn(async move {
                while let Some(Ok(message)) = poll_fn(|cx| connection.poll_message(cx)).await {
                    if let (AsyncMessage::Notification(_), Some(wake)) = (message, &wake) {
                        wake.notify_one();
                    }
                }
                // First close the client, so that the listener finds it closed.
                drop(connection);
                if let Some(wake) = wake {
                    wake.notify_one();
                }
            });
            Ok(client)
        })
    })
}
