//! Where the database is, and a connection to it with everything checked.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use mysql_async::{Conn, Opts, OptsBuilder};

use super::address::Address;
use super::engine;
use super::failure::connect_failed;
use super::server::Server;
use super::session::{ANSWER_WITHIN, Session};
use super::{migrate, row_state};
use crate::layout::RowTable;
use crate::store::AfterFailover;
use crate::store::holes::Patience;
use crate::{Code, Error, Ident, Result};

/// A server that has not finished the login by then is taken for dead, or after the time of this many answers if
/// that is shorter.
const LOGIN_WITHIN: Duration = Duration::from_secs(20);
const LOGIN_ANSWERS: u32 = 4;

/// No writer is held up for this long between taking its position and writing its row: that is one call of the engine.
const STATEMENTS_END: Duration = Duration::from_secs(60);

/// What every connection says first, whatever the defaults of the server and of the user are. `READ COMMITTED`: otherwise a
/// locking read at the end of the table blocks every INSERT. UTC; strict, and no quotes or operators that mean something
/// else; locks are not waited for longer than a lease; a quiet connection stays.
///
/// What would cut answers off or end statements early is turned off: a list of writers that is not complete would lose events.
const SETTINGS: [&str; 3] = [
    "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED, READ WRITE",
    "SET NAMES utf8mb4 COLLATE utf8mb4_bin, time_zone = '+00:00', autocommit = 1, completion_type = 0,
         sql_mode = 'STRICT_TRANS_TABLES,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION',
         innodb_lock_wait_timeout = 5, lock_wait_timeout = 5, wait_timeout = 28800",
    "SET sql_select_limit = 18446744073709551615, sql_big_selects = 1, sql_safe_updates = 0, sql_auto_is_null = 0
         /*M! , max_statement_time = 0 */",
];
/// MySQL alone knows these. The dictionary answers with what is, not with what was yesterday.
const SETTINGS_OF_MYSQL: &str = "/*!80000 SET information_schema_stats_expiry = 0, max_execution_time = 0 */";

/// How to reach an outbox in MySQL or MariaDB.
#[derive(Clone)]
pub struct MySqlConfig {
    address: Address,
    schema: Ident,
    patience: Patience,
    statements_end: Duration,
    after_failover: AfterFailover,
    answer_within: Duration,
    /// A table with a state per row in place of the default layout.
    rows: Option<Arc<RowTable>>,
}

impl MySqlConfig {
    /// From a URL: `mysql://user:password@host:3306`, or `mariadb://`. A database in it is where the application
    /// lives; the outbox has one of its own, see [`schema`](Self::schema).
    ///
    /// Whatever leaves this machine is encrypted, and the server must prove that it is the host of that name;
    /// `ssl-mode=disabled` alone does without, and loopback addresses unless `ssl-mode=required` is given. Needs the
    /// feature `mysql-tls`. A URL may also name files: `ssl-ca` (else the system's authorities), `ssl-cert` and
    /// `ssl-key`.
    ///
    /// # Errors
    /// [`ConfigValue`](crate::Code::ConfigValue) if it is none. The text is not repeated: it may hold a password.
    pub fn new(url: &str) -> Result<Self> {
        Ok(Self {
            address: Address::parse(url)?,
            schema: Ident::default(),
            // There is no cheaper proof than the list, so it is asked for early.
            patience: Patience { list_after: Duration::from_millis(200), holes_max: 10_000 },
            statements_end: STATEMENTS_END,
            after_failover: AfterFailover::default(),
            answer_within: ANSWER_WITHIN,
            rows: None,
        })
    }

    /// The database with the outbox; `postrider` if not given.
    #[must_use]
    pub fn schema(mut self, schema: Ident) -> Self {
        self.schema = schema;
        self
    }

    /// The database that the URL names: where the application lives.
    pub fn database(&self) -> Option<String> {
        Opts::from(self.address.opts.clone()).db_name().map(str::to_owned)
    }

    /// The password, kept elsewhere than in the URL.
    #[must_use]
    pub fn password(mut self, password: &str) -> Self {
        self.address.opts = self.address.opts.pass(Some(password));
        self
    }

    /// A file with the authorities to believe, in PEM, in place of the system's. Read at every connection.
    #[must_use]
    pub fn tls_root(mut self, file: impl Into<PathBuf>) -> Self {
        self.address.certificates.root = Some(file.into());
        self
    }

    /// Files with a certificate (and those that vouch for it) and its key, in PEM, that tell the server who
    /// this is. Read at every connection.
    #[must_use]
    pub fn tls_client(mut self, certificate: impl Into<PathBuf>, key: impl Into<PathBuf>) -> Self {
        self.address.certificates.client = Some(certificate.into());
        self.address.certificates.client_key = Some(key.into());
        self
    }

    /// Whether what is sent can be read on a network: the URL says `ssl-mode=disabled` and the server is elsewhere.
    pub fn is_exposed(&self) -> bool {
        self.address.is_exposed()
    }

    /// Holes older than this are looked up in the lock table of the server; 200 ms if not given.
    #[must_use]
    pub fn list_writers_after(mut self, age: Duration) -> Self {
        self.patience.list_after = age;
        self
    }

    /// The longest that a statement may need from taking a position to writing there; a minute if not given. Asked only of a
    /// server that does not tell metadata locks: there, a position that was rolled back is kept in mind for at least this
    /// long. A writer that needs longer, as one on a server that stands still for so long while others on it go on,
    /// may lose its event.
    #[must_use]
    pub fn statements_end_within(mut self, time: Duration) -> Self {
        self.statements_end = time;
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

    /// A server that has not answered by then is taken for dead, though its network says it is there, and another
    /// connection is made; 30 seconds if not given. Not less than the 5 seconds that a settle may wait for a lock.
    #[must_use]
    pub fn answer_within(mut self, limit: Duration) -> Self {
        self.answer_within = limit;
        self
    }

    pub(crate) fn schema_name(&self) -> &Ident {
        &self.schema
    }

    pub(super) fn failover_choice(&self) -> AfterFailover {
        self.after_failover
    }

    pub(super) fn statements_end(&self) -> Duration {
        self.statements_end
    }

    /// The same for a table with a state per row.
    pub(super) fn with_rows(&self, rows: RowTable) -> Self {
        Self { rows: Some(Arc::new(rows)), ..self.clone() }
    }

    pub(super) fn patience(&self) -> Patience {
        self.patience
    }

    /// A connection for the caller, to read the database or write to it, without any check of the server and
    /// its tables. Its session is set up as the store's own: UTC, strict, `READ COMMITTED`.
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
        Ok(opts.ssl_opts(super::tls::encryption(&self.address.certificates)?))
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

    /// A connection to look at a database with the schema this program knows, on any server.
    pub(super) async fn connect_read_only(&self) -> Result<Session> {
        let mut session = self.connect_unchecked().await?;
        migrate::check(&mut session).await?;
        Ok(session)
    }

    /// A connection to a primary with the schema this program knows, on a server that tells who may still commit.
    pub(super) async fn connect(&self) -> Result<Session> {
        let mut session = self.connect_unchecked().await?;
        if let Some(rows) = &self.rows {
            // Rows are due by their state, whatever else writes and whatever the numbers are.
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
        LOGIN_WITHIN.min(self.answer_within.saturating_mul(LOGIN_ANSWERS))
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
        Ok(Session::new(conn, server, self.schema.clone(), self.answer_within))
    }
}

impl fmt::Debug for MySqlConfig {
    /// Without user and password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MySqlConfig")
            .field("address", &self.address)
            .field("schema", &self.schema)
            .field("after_failover", &self.after_failover)
            .finish_non_exhaustive()
    }
}
