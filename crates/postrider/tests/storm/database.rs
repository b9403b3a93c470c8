//! The operations of a database that the storm needs. Everything else is the same for all databases.

use std::collections::BTreeSet;
use std::sync::Arc;

use postrider::Result;
use postrider::store::Store;
use postrider_testkit::verify::Sighting;

/// An empty outbox, and a table of keys with a version each, which writers lock and increment.
pub(crate) trait Database: Send + Sync + Sized + 'static {
    type Session: Session;
    type Probe: Probe;

    fn connect(&self) -> impl Future<Output = Result<Self::Session>> + Send;

    /// How many times longer than usual the library's readers run without a crash. If it takes longer to prove a hole
    /// empty, a reader that crashes more often never proves one.
    fn patience(&self) -> u64 {
        1
    }

    /// A connection for a reader that does not use the library.
    fn probe(&self) -> impl Future<Output = Result<Self::Probe>> + Send;

    /// The library's store.
    fn store(&self, proof: Proof) -> impl Future<Output = Result<Arc<dyn Store>>> + Send;

    /// Every event committed so far, in the order of positions.
    fn committed(&self) -> impl Future<Output = Result<Vec<Found>>> + Send;

    /// The activity of every connection and prepared transaction, and which one waits for which, as text.
    fn activity(&self) -> impl Future<Output = Result<String>> + Send;

    /// Removes the outbox and the keys.
    fn remove(&self) -> impl Future<Output = Result<()>> + Send;
}

/// The proofs by which a store may declare a hole empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Proof {
    /// The default.
    Default,
    /// The list of writers, without waiting first.
    WritersAtOnce,
    /// Only the horizon.
    HorizonOnly,
}

/// An event and its position.
#[derive(Debug, Clone)]
pub(crate) struct Found {
    pub(crate) position: i64,
    pub(crate) sighting: Sighting,
}

/// A connection of the application, with at most one open transaction.
pub(crate) trait Session: Send + 'static {
    /// Begins a transaction. With a name, it will be prepared under that name.
    fn begin(&mut self, prepared_as: Option<&str>) -> impl Future<Output = Result<()>> + Send;

    /// Runs SQL, with `{schema}` the schema of the outbox.
    fn run(&mut self, sql: &str) -> impl Future<Output = Result<()>> + Send;

    fn commit(&mut self) -> impl Future<Output = Result<()>> + Send;
    fn rollback(&mut self) -> impl Future<Output = Result<()>> + Send;

    /// Ends the first phase of a prepared transaction; [`Session::decide`] ends the second one.
    fn prepare(&mut self, name: &str) -> impl Future<Output = Result<()>> + Send;
    fn decide(&mut self, name: &str, commit: bool) -> impl Future<Output = Result<()>> + Send;

    fn savepoint(&mut self) -> impl Future<Output = Result<()>> + Send {
        self.run("SAVEPOINT s")
    }

    fn rollback_to_savepoint(&mut self) -> impl Future<Output = Result<()>> + Send {
        self.run("ROLLBACK TO SAVEPOINT s")
    }

    fn release_savepoint(&mut self) -> impl Future<Output = Result<()>> + Send {
        self.run("RELEASE SAVEPOINT s")
    }

    /// Registers the transaction with the database long before it writes an event.
    fn register_early(&mut self) -> impl Future<Output = Result<()>> + Send;

    /// Locks the row of the key, increments its version and writes that as an event.
    fn write(&mut self, key: &str) -> impl Future<Output = Result<()>> + Send;

    /// The same for several keys, ascending, and this many versions of each, with one `INSERT ... SELECT`.
    fn write_many(&mut self, keys: &[String], versions: i64) -> impl Future<Output = Result<()>> + Send;

    /// Takes a position with a statement that fails. Some databases need a rollback after it.
    fn fail(&mut self) -> impl Future<Output = Result<()>> + Send;
}

/// The queries of a reader. Each is one statement with its own snapshot, unless stated otherwise.
pub(crate) trait Probe: Send + 'static {
    /// The transactions that have the outbox open for writing.
    fn writers(&mut self) -> impl Future<Output = Result<BTreeSet<String>>> + Send;

    /// Those of them that run a statement now, if the database reports that.
    fn busy_writers(&mut self) -> impl Future<Output = Result<BTreeSet<String>>> + Send {
        std::future::ready(Ok(BTreeSet::new()))
    }

    /// The transactions that the engine lists, if the database has such a list.
    fn transactions(&mut self) -> impl Future<Output = Result<BTreeSet<String>>> + Send {
        std::future::ready(Ok(BTreeSet::new()))
    }

    /// The locks of the transactions that have the outbox open for writing, each by its current name.
    fn locks(&mut self) -> impl Future<Output = Result<BTreeSet<String>>> + Send {
        std::future::ready(Ok(BTreeSet::new()))
    }

    /// The same transactions, each with the start time that the engine reports, and the time of the reader's own clock,
    /// in any time zone.
    fn begun(&mut self) -> impl Future<Output = Result<(Vec<i64>, i64)>> + Send {
        std::future::ready(Ok((Vec::new(), 0)))
    }

    /// One snapshot: its horizon, its upper end, and the requested events in the order of positions.
    fn poll(&mut self, asked: PollRequest<'_>) -> impl Future<Output = Result<PollResult>> + Send;

    /// Events of transactions that are older than all running ones, in the order of (transaction, position).
    fn below_horizon(&mut self, after: (i64, i64)) -> impl Future<Output = Result<Vec<(i64, Found)>>> + Send;
}

/// Positions to query.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PollRequest<'a> {
    pub(crate) holes: &'a [i64],
    /// At most this many events from the holes.
    pub(crate) holes_limit: i64,
    /// All events above this position.
    pub(crate) above: Option<i64>,
}

#[derive(Debug, Default)]
pub(crate) struct PollResult {
    pub(crate) xmin: i64,
    pub(crate) xmax: i64,
    pub(crate) found: Vec<Found>,
}
