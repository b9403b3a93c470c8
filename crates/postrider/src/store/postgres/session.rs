//! One connection: what is ready on it, which server it leads to, and what goes out in one round trip.

use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, Error as SqlError, IsolationLevel, Row, Transaction};

use super::begin::Begins;
use super::failure::{commit_failed, failed};
use super::history::{Incarnation, Kind, WHO};
use super::pooler::{BEGIN_READ, newer_settings};
use super::row::get;
use super::statement::{Params, Ready, RowsReceived, Statements};
use crate::store::server_options::ServerOptions;
use crate::{Code, Error, Result};

/// The oldest server this program runs on: `xid8` columns and the lock view as the hole rule needs them.
const SERVER_VERSION_MIN: i32 = 140_000;

/// How many times longer an answer within a transaction may take: an operator's command may read all of a large
/// outbox.
const LONG_ANSWER_FACTOR: u32 = 20;

/// Who else uses the server process behind a connection. See [`pooler`](super::pooler).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sharing {
    /// None: what is set and prepared stays.
    Own,
    /// Others between our transactions: nothing stays, and the server itself may change.
    Pooled,
}

/// A connection to one incarnation of one server. When that changes, the connection is of no use any more.
pub(in crate::store) struct Session {
    pub(super) client: Client,
    pub(super) statements: Statements,
    pub(super) incarnation: Incarnation,
    pub(super) sharing: Sharing,
    begins: Begins,
    trust: Trust,
}

/// Whether a connection can still be trusted to lead to the server it was made to.
#[derive(Debug)]
struct Trust {
    /// Another server has answered, or none in time.
    is_lost: AtomicBool,
    /// How long nothing may come of an answer.
    answer_within: Duration,
    /// Rows that came.
    received: RowsReceived,
}

/// Whether a statement or transaction writes: without an answer, the outcome of one that writes is unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    Reads,
    Writes,
}

impl Session {
    /// Asks the server who it is, and refuses one that cannot be used.
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
        Ok(Self { client, statements, incarnation, sharing, begins, trust })
    }

    /// Whether anything can still be asked on it.
    pub(super) fn is_usable(&self) -> bool {
        !self.client.is_closed() && !self.trust.is_lost.load(Ordering::Relaxed)
    }

    /// Another server has answered: nothing more is asked on this connection.
    pub(super) fn give_up(&self) -> Error {
        self.trust.replaced()
    }

    /// The `BEGIN` of a transaction with one snapshot of the events that writes nothing.
    pub(super) fn begin_events(&self) -> &str {
        &self.begins.events
    }

    /// Runs one statement in a transaction that is over before the next statement: what a session was told is not known
    /// to a shared connection.
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

    /// The answer to a question, if it comes in time; else nothing more is asked on this connection.
    pub(super) async fn in_time<T>(
        &self,
        access: Access,
        answer: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        self.trust.in_time(1, access, answer).await
    }

    /// Runs one statement as a transaction of its own, in one round trip.
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
        let Self { client, statements, incarnation, sharing, begins, trust } = self;
        let unanswered = if access == Access::Writes { commit_failed } else { failed };
        let ready = statements.get(client, statement, params).await?;
        if *sharing == Sharing::Own {
            return ready.query(client, params).await.map_err(unanswered);
        }
        let begin = if access == Access::Writes { &begins.write } else { &begins.read };
        let who = statements.get(client, WHO, &[]).await?;
        // Each future sends its statement when it is first asked, and they are asked in this order. All of it
        // is on its way before anything is waited for, so a caller that stops leaves no lock behind.
        let (begun, who, rows, ended) = tokio::join!(
            biased;
            client.batch_execute(begin),
            who.query(client, &[]),
            ready.query(client, params),
            client.batch_execute("COMMIT"),
        );
        begun.map_err(unanswered)?;
        trust.check(incarnation, who, unanswered)?;
        let rows = rows.map_err(unanswered)?;
        ended.map_err(unanswered)?;
        Ok(rows)
    }

    /// Begins a transaction that stays open when this returns, for its locks alone. The server ends it should nothing be asked
    /// anything for a minute.
    pub(super) async fn hold(&self) -> Result<()> {
        let begin = async {
            self.client.batch_execute(&self.begins.hold).await.map_err(failed)?;
            let who = self.statements.get(&self.client, WHO, &[]).await?;
            self.trust.check(&self.incarnation, who.query(&self.client, &[]).await, failed)
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

    /// Begins a transaction of several statements; dropped without a commit it is rolled back. One that reads sees one
    /// snapshot of the events.
    pub(super) async fn begin(&mut self, access: Access) -> Result<Tx<'_>> {
        let Self { client, statements, incarnation, sharing, begins, trust } = self;
        let writes = access == Access::Writes;
        let isolation = if writes { IsolationLevel::ReadCommitted } else { IsolationLevel::RepeatableRead };
        let beginning = client.build_transaction().isolation_level(isolation).read_only(!writes);
        let begun = async { beginning.start().await.map_err(failed) };
        let transaction = trust.in_time(1, Access::Reads, begun).await?;
        let first = begins.after[usize::from(!writes)].as_str();
        let client = transaction.client();
        if *sharing == Sharing::Pooled {
            let who = statements.get(client, WHO, &[]).await?;
            let (set, who) = tokio::join!(biased; client.batch_execute(first), who.query(client, &[]));
            set.map_err(failed)?;
            trust.check(incarnation, who, failed)?;
        } else if !first.is_empty() {
            let said = async { client.batch_execute(first).await.map_err(failed) };
            trust.in_time(1, Access::Reads, said).await?;
        }
        Ok(Tx { transaction, statements, trust, server: incarnation })
    }
}

/// Asks something in a transaction in which every name is ours, on whichever connection. After an error the connection is
/// of no use any more.
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
}

impl Tx<'_> {
    /// Which server it runs on.
    pub(super) fn server(&self) -> &Incarnation {
        self.server
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

    /// The connection, for a writer to write in this transaction.
    pub(super) fn client(&self) -> &Client {
        self.transaction.client()
    }

    /// What a writer says, if it comes in time.
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
    /// Another server has answered: the connection is of no use any more.
    fn replaced(&self) -> Error {
        self.is_lost.store(true, Ordering::Relaxed);
        Error::new(Code::StoreFailed, "the server behind the connection to PostgreSQL was replaced")
            .with_hint("nothing to do: the subscription is loaded again")
    }

    /// An answer, unless nothing of it comes for too long. Then the connection is of no use: what comes next on it would
    /// wait behind this. While rows come, however slowly, it is waited for.
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

    /// Refuses the answer to [`WHO`] of another server, and that of one which cannot tell: a standby. Any other
    /// failure says nothing about the server, and is what it is.
    fn check(
        &self,
        known: &Incarnation,
        who: Result<Vec<Row>, SqlError>,
        otherwise: fn(SqlError) -> Error,
    ) -> Result<()> {
        let who = match who {
            Ok(who) => who,
            Err(error) if error.code() == Some(&SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE) => {
                return Err(self.replaced().with_source(error));
            }
            Err(error) => return Err(otherwise(error)),
        };
        let same = match who.first() {
            Some(row) => known.is_same(get(row, 0)?, get(row, 1)?),
            None => false,
        };
        if same { Ok(()) } else { Err(self.replaced()) }
    }
}

fn refuse(server: &Kind) -> Result<()> {
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
