//! One connection: its prepared statements, its server, and its transactions.

use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, Error as SqlError, IsolationLevel, Row, Transaction};
use uuid::Uuid;

use super::begin::Begins;
use super::failure::{commit_failed, failed};
use super::history::{Incarnation, SERVER_IDENTITY, ServerProperties};
use super::pooler::{BEGIN_READ, newer_settings};
use super::row::get;
use super::statement::{Params, Ready, RowsReceived, Statements};
use crate::store::server_options::ServerOptions;
use crate::{Code, Error, Result};

/// The oldest supported server: it has `xid8` columns, and a lock view that can prove holes empty.
const SERVER_VERSION_MIN: i32 = 140_000;

/// How many times longer an answer within a transaction may take: an operator's command may read all of a large
/// outbox.
const LONG_ANSWER_FACTOR: u32 = 20;

/// Whether other clients use the server process of a connection. See [`pooler`](super::pooler).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sharing {
    /// No other client: settings and prepared statements last.
    Own,
    /// Other clients use it between our transactions: nothing lasts, and the server itself may change.
    Pooled,
}

/// A connection to one run of one server. It is not used any more when that changes.
pub(in crate::store) struct Session {
    pub(super) client: Client,
    pub(super) statements: Statements,
    pub(super) incarnation: Incarnation,
    pub(super) sharing: Sharing,
    /// The key of the advisory lock that shows others that this session exists. A pooled connection has none: the lock
    /// would stay with a server process that other clients use.
    session_lock: Option<i64>,
    begins: Begins,
    trust: Trust,
}

/// Whether a connection still leads to the server that it was opened to.
#[derive(Debug)]
struct Trust {
    /// Another server has answered, or the server has not answered in time.
    is_lost: AtomicBool,
    /// How long to wait for the next row of an answer.
    answer_within: Duration,
    /// The number of rows received.
    received: RowsReceived,
}

/// Whether a statement or transaction writes: without an answer, the outcome of one that writes is unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    Reads,
    Writes,
}

impl Session {
    /// Queries the identity and properties of the server, and refuses one that cannot be used.
    pub(super) async fn new(client: Client, sharing: Sharing, options: &ServerOptions) -> Result<Self> {
        let ServerOptions { schema, rows, answer_within, .. } = options.clone();
        let (incarnation, kind) = read_transaction(&client, Incarnation::of(&client)).await?;
        refuse(&kind)?;
        let newer = newer_settings(kind.version, "SET");
        if sharing == Sharing::Own && !newer.is_empty() {
            client.batch_execute(newer.trim_start_matches("; ")).await.map_err(failed)?;
        }
        let begins = Begins::new(sharing, kind.version, rows.is_none().then_some(&schema));
        let received = RowsReceived::default();
        let statements = Statements::new(schema, rows, sharing == Sharing::Own, received.clone());
        let trust = Trust { is_lost: AtomicBool::new(false), answer_within, received };
        let session_lock = (sharing == Sharing::Own).then(|| Uuid::now_v7().as_u64_pair().1.cast_signed());
        Ok(Self { client, statements, incarnation, sharing, session_lock, begins, trust })
    }

    /// Whether the connection can still be used.
    pub(super) fn is_usable(&self) -> bool {
        !self.client.is_closed() && !self.trust.is_lost.load(Ordering::Relaxed)
    }

    /// Another server has answered: marks the connection as unusable and returns the error for the caller.
    pub(super) fn give_up(&self) -> Error {
        self.trust.replaced()
    }

    /// The `BEGIN` of a transaction that sees one snapshot of the events and writes nothing.
    pub(super) fn begin_events(&self) -> &str {
        &self.begins.events
    }

    /// Runs one statement in a transaction that ends before the next statement. A pooled connection needs its settings
    /// in the transaction.
    pub(super) async fn in_own_transaction(
        &self,
        ready: &Ready,
        params: Params<'_>,
    ) -> Result<Vec<Row>, SqlError> {
        if self.sharing == Sharing::Own {
            return ready.query(&self.client, params).await;
        }
        let (begun, rows, ended) = tokio::join!(
            biased;
            self.client.batch_execute(&self.begins.write),
            ready.query(&self.client, params),
            self.client.batch_execute("COMMIT"),
        );
        begun?;
        ended?;
        rows
    }

    /// Waits for an answer. If it takes too long, the connection is not used any more.
    pub(super) async fn in_time<T>(
        &self,
        access: Access,
        answer: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        self.trust.in_time(1, access, answer).await
    }

    /// Runs one statement as a transaction, in one round trip.
    pub(super) async fn autocommit(
        &self,
        access: Access,
        statement: &'static str,
        params: Params<'_>,
    ) -> Result<Vec<Row>> {
        self.in_time(access, self.autocommit_unbounded(access, statement, params)).await
    }

    async fn autocommit_unbounded(
        &self,
        access: Access,
        statement: &'static str,
        params: Params<'_>,
    ) -> Result<Vec<Row>> {
        let Self { client, statements, incarnation, sharing, begins, trust, .. } = self;
        let unanswered = if access == Access::Writes { commit_failed } else { failed };
        let ready = statements.get(client, statement, params).await?;
        if *sharing == Sharing::Own {
            return ready.query(client, params).await.map_err(unanswered);
        }
        let begin = if access == Access::Writes { &begins.write } else { &begins.read };
        let identity = statements.get(client, SERVER_IDENTITY, &[]).await?;
        // Each future sends its statement when it is first polled, and `biased` polls them in this order. All
        // statements are sent before any answer is awaited, so a caller that is cancelled leaves no lock behind.
        let (begun, identity, rows, ended) = tokio::join!(
            biased;
            client.batch_execute(begin),
            identity.query(client, &[]),
            ready.query(client, params),
            client.batch_execute("COMMIT"),
        );
        begun.map_err(unanswered)?;
        trust.check(incarnation, identity, unanswered)?;
        let rows = rows.map_err(unanswered)?;
        ended.map_err(unanswered)?;
        Ok(rows)
    }

    /// Begins a transaction that stays open for its locks. The server ends it if it is idle for a minute.
    pub(super) async fn hold(&self) -> Result<()> {
        let begin = async {
            self.client.batch_execute(&self.begins.hold).await.map_err(failed)?;
            let identity = self.statements.get(&self.client, SERVER_IDENTITY, &[]).await?;
            self.trust.check(&self.incarnation, identity.query(&self.client, &[]).await, failed)
        };
        self.in_time(Access::Reads, begin).await
    }

    /// Runs one statement in the transaction that is held.
    pub(super) async fn held(&self, statement: &'static str, params: Params<'_>) -> Result<Vec<Row>> {
        let rows = async {
            let ready = self.statements.get(&self.client, statement, params).await?;
            ready.query(&self.client, params).await.map_err(failed)
        };
        self.in_time(Access::Reads, rows).await
    }

    /// Ends the transaction that is held.
    pub(super) async fn let_go(&self) -> Result<()> {
        let end = async { self.client.batch_execute("ROLLBACK").await.map_err(failed) };
        self.in_time(Access::Reads, end).await
    }

    /// Begins a transaction of several statements. It is rolled back if it is dropped without a commit. One that reads
    /// sees one snapshot of the events.
    pub(super) async fn begin(&mut self, access: Access) -> Result<Tx<'_>> {
        let Self { client, statements, incarnation, sharing, session_lock, begins, trust } = self;
        let writes = access == Access::Writes;
        let isolation = if writes { IsolationLevel::ReadCommitted } else { IsolationLevel::RepeatableRead };
        let beginning = client.build_transaction().isolation_level(isolation).read_only(!writes);
        let begun = async { beginning.start().await.map_err(failed) };
        let transaction = trust.in_time(1, Access::Reads, begun).await?;
        let first = begins.after[usize::from(!writes)].as_str();
        let client = transaction.client();
        if *sharing == Sharing::Pooled {
            let identity = statements.get(client, SERVER_IDENTITY, &[]).await?;
            let (set, identity) =
                tokio::join!(biased; client.batch_execute(first), identity.query(client, &[]));
            set.map_err(failed)?;
            trust.check(incarnation, identity, failed)?;
        } else if !first.is_empty() {
            let set = async { client.batch_execute(first).await.map_err(failed) };
            trust.in_time(1, Access::Reads, set).await?;
        }
        Ok(Tx { transaction, statements, trust, server: incarnation, session_lock: *session_lock })
    }
}

/// Runs queries in a guarded transaction, on any connection. After an error the connection must not be used any more.
pub(super) async fn read_transaction<T>(
    client: &Client,
    answer: impl Future<Output = Result<T>>,
) -> Result<T> {
    client.batch_execute(BEGIN_READ).await.map_err(failed)?;
    let answer = answer.await?;
    client.batch_execute("COMMIT").await.map_err(failed)?;
    Ok(answer)
}

/// A transaction of several statements.
pub(super) struct Tx<'a> {
    transaction: Transaction<'a>,
    statements: &'a Statements,
    trust: &'a Trust,
    server: &'a Incarnation,
    session_lock: Option<i64>,
}

impl Tx<'_> {
    /// Which server it runs on.
    pub(super) fn server(&self) -> &Incarnation {
        self.server
    }

    /// The key of the advisory lock with which the session shows that it exists; `None` on a pooled connection.
    pub(super) fn session_lock(&self) -> Option<i64> {
        self.session_lock
    }

    pub(super) async fn query(&self, statement: &'static str, params: Params<'_>) -> Result<Vec<Row>> {
        let client = self.transaction.client();
        let rows = async {
            self.statements.get(client, statement, params).await?.query(client, params).await.map_err(failed)
        };
        self.trust.in_time(LONG_ANSWER_FACTOR, Access::Reads, rows).await
    }

    /// The first row, if there is one.
    pub(super) async fn query_opt(&self, statement: &'static str, params: Params<'_>) -> Result<Option<Row>> {
        Ok(self.query(statement, params).await?.into_iter().next())
    }

    /// How many rows were changed.
    pub(super) async fn execute(&self, statement: &'static str, params: Params<'_>) -> Result<u64> {
        let client = self.transaction.client();
        let rows = async {
            self.statements
                .get(client, statement, params)
                .await?
                .execute(client, params)
                .await
                .map_err(failed)
        };
        self.trust.in_time(LONG_ANSWER_FACTOR, Access::Reads, rows).await
    }

    /// The connection, to write events in this transaction.
    pub(super) fn client(&self) -> &Client {
        self.transaction.client()
    }

    /// Waits for a writer in this transaction.
    pub(super) async fn in_time<T>(&self, written: impl Future<Output = Result<T>>) -> Result<T> {
        self.trust.in_time(LONG_ANSWER_FACTOR, Access::Reads, written).await
    }

    pub(super) async fn commit(self) -> Result<()> {
        let Self { transaction, trust, .. } = self;
        let committed = async { transaction.commit().await.map_err(commit_failed) };
        trust.in_time(1, Access::Writes, committed).await
    }
}

impl Trust {
    /// Another server has answered: marks the connection as unusable and returns the error for the caller.
    fn replaced(&self) -> Error {
        self.is_lost.store(true, Ordering::Relaxed);
        Error::new(Code::StoreFailed, "the server behind the connection to PostgreSQL was replaced")
            .with_hint("nothing to do: the subscription is loaded again")
    }

    /// Waits for an answer as long as rows arrive. If none arrives for too long, the connection is marked as unusable:
    /// a later statement on it would wait for this one.
    async fn in_time<T>(
        &self,
        times: u32,
        access: Access,
        answer: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        let within = self.answer_within.saturating_mul(times);
        let (mut answer, mut received) = (pin!(answer), self.received.load(Ordering::Relaxed));
        let answer = loop {
            let waited = tokio::time::timeout(within, &mut answer).await.ok();
            let now = self.received.load(Ordering::Relaxed);
            if waited.is_some() || now == received {
                break waited;
            }
            received = now;
        };
        let Some(answer) = answer else {
            self.is_lost.store(true, Ordering::Relaxed);
            let code = if access == Access::Writes { Code::OutcomeUnknown } else { Code::StoreFailed };
            return Err(Error::new(code, format!("PostgreSQL has not answered within {within:?}"))
                .with_hint("nothing to do: the relay reconnects and loads the subscription again"));
        };
        answer
    }

    /// Refuses the answer to [`SERVER_IDENTITY`] if it comes from another server, or from a standby, which cannot
    /// answer it. Any other error is returned as it is.
    fn check(
        &self,
        known: &Incarnation,
        identity: Result<Vec<Row>, SqlError>,
        otherwise: fn(SqlError) -> Error,
    ) -> Result<()> {
        let identity = match identity {
            Ok(identity) => identity,
            Err(error) if error.code() == Some(&SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE) => {
                return Err(self.replaced().with_source(error));
            }
            Err(error) => return Err(otherwise(error)),
        };
        let same = match identity.first() {
            Some(row) => known.is_same(get(row, 0)?, get(row, 1)?),
            None => false,
        };
        if same { Ok(()) } else { Err(self.replaced()) }
    }
}

fn refuse(server: &ServerProperties) -> Result<()> {
    if server.version < SERVER_VERSION_MIN {
        let (major, least) = (server.version / 10_000, SERVER_VERSION_MIN / 10_000);
        let what = format!("the server is PostgreSQL {major}; at least {least} is required");
        return Err(Error::new(Code::ServerTooOld, what));
    }
    if server.in_recovery {
        return Err(Error::new(Code::StoreReadOnly, "the server is a standby")
            .with_hint("connect to the primary: use several hosts and target_session_attrs=read-write"));
    }
    if server.encoding != "UTF8" {
        let what = format!("the encoding of the database is {}; UTF8 is required", server.encoding);
        return Err(Error::new(Code::EncodingUnfit, what));
    }
    Ok(())
}
