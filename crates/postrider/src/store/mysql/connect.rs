//! Where the database is, and a connection to it with everything checked.

use std::fmt;
use std::time::Duration;

use mysql_async::{Conn, Opts, OptsBuilder};

use super::address::Address;
use super::engine;
use super::failure::connect_failed;
use super::server::Server;
use super::session::Session;
use super::{migrate, row_state};
use crate::store::server_options::{ServerOptions, server_setters};
use crate::{Code, Error, Result};

/// A server that has not finished the login within this time is considered dead; or within the time of
/// [`LOGIN_ANSWERS`] answers, if that is shorter.
const LOGIN_WITHIN: Duration = Duration::from_secs(20);
const LOGIN_ANSWERS: u32 = 4;

/// The default of [`MySqlConfig::insert_duration_max`]. Taking a position and writing the row is one call of the
/// storage engine, which does not take this long.
const INSERT_DURATION_MAX: Duration = Duration::from_secs(60);

/// The age from which on writers are listed for a hole. Early, because these servers have no cheaper proof.
const LIST_WRITERS_AFTER: Duration = Duration::from_millis(200);

/// The settings of every session, independent of the defaults of the server and the user. `READ COMMITTED`: otherwise
/// a locking read at the end of the table blocks every INSERT. UTC; strict mode without options that change quotes or
/// operators; waits for locks are shorter than a lease; an idle connection is not closed.
///
/// Settings that truncate results or end statements early are turned off: with an incomplete list of writers, events
/// would be lost.
const SETTINGS: [&str; 3] = [
    "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED, READ WRITE",
    "SET NAMES utf8mb4 COLLATE utf8mb4_bin, time_zone = '+00:00', autocommit = 1, completion_type = 0,
         sql_mode = 'STRICT_TRANS_TABLES,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION',
         innodb_lock_wait_timeout = 5, lock_wait_timeout = 5, wait_timeout = 28800",
    "SET sql_select_limit = 18446744073709551615, sql_big_selects = 1, sql_safe_updates = 0, sql_auto_is_null = 0
         /*M! , max_statement_time = 0 */",
];
/// Settings that only MySQL has. The first makes `information_schema` return current values instead of cached ones.
const SETTINGS_OF_MYSQL: &str = "/*!80000 SET information_schema_stats_expiry = 0, max_execution_time = 0 */";

/// How to reach an outbox in MySQL or MariaDB.
#[derive(Clone)]
pub struct MySqlConfig {
    address: Address,
    options: ServerOptions,
    insert_duration_max: Duration,
}

impl MySqlConfig {
    /// From a URL: `mysql://user:password@host:3306`, or `mariadb://`. A database in the URL is the application's; the
    /// outbox has a separate one, see [`schema`](Self::schema).
    ///
    /// Connections to other machines use TLS, and the server's certificate is verified, including its host name;
    /// `ssl-mode=disabled` turns that off. Loopback addresses are not encrypted, unless `ssl-mode=required` is given.
    /// TLS needs the feature `mysql-tls`. A URL may also name files: `ssl-ca` (the default is the system's root
    /// certificates), `ssl-cert` and `ssl-key`.
    ///
    /// # Errors
    /// [`ConfigValue`](crate::Code::ConfigValue) if the text is not such a URL. The error does not repeat it: it may
    /// contain a password.
    pub fn new(url: &str) -> Result<Self> {
        let (address, certificates) = Address::parse(url)?;
        let options = ServerOptions::new(certificates, LIST_WRITERS_AFTER);
        Ok(Self { address, options, insert_duration_max: INSERT_DURATION_MAX })
    }

    /// The database in the URL, which is the application's.
    pub fn database(&self) -> Option<String> {
        Opts::from(self.address.opts.clone()).db_name().map(str::to_owned)
    }

    /// The password, if it is not in the URL.
    #[must_use]
    pub fn password(mut self, password: &str) -> Self {
        self.address.opts = self.address.opts.pass(Some(password));
        self
    }

    /// Whether traffic crosses a network unencrypted: the URL has `ssl-mode=disabled` and the server is another
    /// machine.
    pub fn is_exposed(&self) -> bool {
        self.address.is_exposed()
    }

    /// The longest time that an INSERT of a writer may take between getting its position and writing the row. Default:
    /// one minute. Used only on a server that does not report metadata locks: there, the relay waits at least this long
    /// before it skips a position that was rolled back. If one writer stalls for longer while others on the server
    /// continue, its event may be lost.
    #[must_use]
    pub fn insert_duration_max(mut self, duration: Duration) -> Self {
        self.insert_duration_max = duration;
        self
    }

    pub(super) fn insert_duration(&self) -> Duration {
        self.insert_duration_max
    }

    /// A connection for the caller, without any check of the server and its tables. Its session has the settings of the
    /// store's sessions: UTC, strict mode, `READ COMMITTED`.
    ///
    /// # Errors
    /// [`StoreFailed`](crate::Code::StoreFailed) if the server does not answer, `LoginRefused`, `TlsFailed`.
    pub async fn client(&self) -> Result<Conn> {
        let settings = SETTINGS.into_iter().chain([SETTINGS_OF_MYSQL]).map(str::to_owned).collect();
        let opts = self.address.opts.clone().init(settings).client_found_rows(true);
        let opts = opts.tcp_keepalive(Some(Duration::from_secs(60)));
        let opts = Opts::from(self.encrypted(opts)?);
        let opened = tokio::time::timeout(self.login_within(), Conn::new(opts)).await;
        opened
            .unwrap_or_else(|_| Err(mysql_async::DriverError::ConnectionClosed.into()))
            .map_err(connect_failed)
    }

    #[cfg(feature = "mysql-tls")]
    fn encrypted(&self, opts: OptsBuilder) -> Result<OptsBuilder> {
        if !self.address.is_encrypted {
            return Ok(opts);
        }
        Ok(opts.ssl_opts(super::tls::encryption(&self.options.certificates)?))
    }

    #[cfg(not(feature = "mysql-tls"))]
    fn encrypted(&self, opts: OptsBuilder) -> Result<OptsBuilder> {
        if self.address.is_encrypted {
            let what = "the connection must be encrypted, but this program was built without TLS";
            return Err(Error::new(Code::TlsFailed, what)
                .with_hint("enable the feature `mysql-tls`, or use ssl-mode=disabled"));
        }
        Ok(opts)
    }

    /// A connection for reading a database with the schema that this program needs, on any server.
    pub(super) async fn connect_read_only(&self) -> Result<Session> {
        let mut session = self.connect_unchecked().await?;
        migrate::check(&mut session).await?;
        Ok(session)
    }

    /// A connection to a primary with the schema that this program needs, on a server that reports which transactions
    /// may still commit.
    pub(super) async fn connect(&self) -> Result<Session> {
        let mut session = self.connect_unchecked().await?;
        if let Some(rows) = &self.options.rows {
            // Rows are due by their state: neither other writers nor the order of positions matters.
            row_state::check(&mut session, rows).await?;
            return Ok(session);
        }
        session.server.refuse_positions()?;
        migrate::check(&mut session).await?;
        if session.server.locks.is_none() {
            engine::check(&mut session).await?;
        }
        Ok(session)
    }

    fn login_within(&self) -> Duration {
        LOGIN_WITHIN.min(self.options.answer_within.saturating_mul(LOGIN_ANSWERS))
    }

    /// A connection to a primary, whatever its schema.
    pub(super) async fn connect_unchecked(&self) -> Result<Session> {
        let mut conn = self.client().await?;
        let within = self.login_within();
        let asked = tokio::time::timeout(within, Server::of(&mut conn)).await;
        let server = asked.unwrap_or_else(|_| {
            let what = format!("the database accepted the connection but did not answer within {within:?}");
            Err(Error::new(Code::StoreFailed, what))
        })?;
        Ok(Session::new(conn, server, self.schema_name().clone(), self.options.answer_within))
    }
}

server_setters! {
    MySqlConfig;
    schema: "The database with the outbox. Default: `postrider`.";
    check_rollbacks_after: "200 ms";
}

impl fmt::Debug for MySqlConfig {
    /// Without user and password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MySqlConfig")
            .field("address", &self.address)
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}
