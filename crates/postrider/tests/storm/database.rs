//! What the storm needs of a database. Everything else about it is the same for all of them.

use std::collections::BTreeSet;
use std::sync::Arc;

use postrider::Result;
use postrider::store::Store;
use postrider_testkit::audit::Sighting;

/// An empty outbox, and a table of keys with a version each that writers lock and raise.
pub(crate) trait Database: Send + Sync + Sized + 'static {
    type Session: Session;
    type Probe: Probe;

    fn connect(&self) -> impl Future<Output = Result<Self::Session>> + Send;

    /// How many times longer than usual the library's readers keep their memory: where it takes longer to prove that a
    /// hole is empty, who forgets all of them sooner never proves anything.
    fn patience(&self) -> u64 {
        1
    }

    /// A connection for a reader that is not the library's.
    fn probe(&self) -> impl Future<Output = Result<Self::Probe>> + Send;

    /// The library's own store.
    fn store(&self, proof: Proof) -> impl Future<Output = Result<Arc<dyn Store>>> + Send;

    /// Every event committed so far, in the order of positions.
    fn committed(&self) -> impl Future<Output = Result<Vec<Found>>> + Send;

    /// What every connection and every prepared transaction is doing, and who waits for whom, for people.
    fn activity(&self) -> impl Future<Output = Result<String>> + Send;

    /// Takes it all away.
    fn remove(&self) -> impl Future<Output = Result<()>> + Send;
}

/// By which proofs a store may take a hole for empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Proof {
    /// As everybody has it.
    Default,
    /// The list of writers, from the first moment.
    WritersAtOnce,
    /// The horizon alone.
    HorizonAlone,
}

/// An event where it was found.
#[derive(Debug, Clone)]
pub(crate) struct Found {
    pub(crate) position: i64,
    pub(crate) sighting: Sighting,
}

/// A connection of the application, with at most one transaction open.
pub(crate) trait Session: Send + 'static {
    /// Opens a transaction; with a name it is one that will be prepared under it.
    fn begin(&mut self, prepared_as: Option<&str>) -> impl Future<Output = Result<()>> + Send;

    /// Runs SQL, with `{schema}` the schema of the outbox.
    fn run(&mut self, sql: &str) -> impl Future<Output = Result<()>> + Send;

    fn commit(&mut self) -> impl Future<Output = Result<()>> + Send;
    fn rollback(&mut self) -> impl Future<Output = Result<()>> + Send;

    /// Ends the first phase of a prepared transaction; [`Session::decide`] ends the second.
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

    /// Makes the database know the transaction long before it writes an event.
    fn show_up_early(&mut self) -> impl Future<Output = Result<()>> + Send;

    /// Locks the key's row, raises its version and writes that as an event.
    fn write(&mut self, key: &str) -> impl Future<Output = Result<()>> + Send;

    /// The same for several keys, ascending, and this many versions of each, with one `INSERT ... SELECT`.
    fn write_many(&mut self, keys: &[String], versions: i64) -> impl Future<Output = Result<()>> + Send;

    /// Takes a position with a statement that fails. Some databases want a rollback after it.
    fn fail(&mut self) -> impl Future<Output = Result<()>> + Send;
}

/// What a reader may ask, each a statement with its own snapshot unless stated otherwise.
pub(crate) trait Probe: Send + 'static {
    /// Who has the outbox open for writing.
    fn writers(&mut self) -> impl Future<Output = Result<BTreeSet<String>>> + Send;

    /// Those of them that run a statement right now, where it can be asked.
    fn busy_writers(&mut self) -> impl Future<Output = Result<BTreeSet<String>>> + Send {
        std::future::ready(Ok(BTreeSet::new()))
    }

    /// The transactions the engine says it runs, where it can be asked.
    fn transactions(&mut self) -> impl Future<Output = Result<BTreeSet<String>>> + Send {
        std::future::ready(Ok(BTreeSet::new()))
    }

    /// The locks of those who have the outbox open for writing, each by the name the server gives it at this moment.
    fn locks(&mut self) -> impl Future<Output = Result<BTreeSet<String>>> + Send {
        std::future::ready(Ok(BTreeSet::new()))
    }

    /// The same transactions, each with the time at which the engine says that it began, and the time of the reader's
    /// own clock, in whatever zone that is.
    fn begun(&mut self) -> impl Future<Output = Result<(Vec<i64>, i64)>> + Send {
        std::future::ready(Ok((Vec::new(), 0)))
    }

    /// One snapshot: its horizon, its upper end, and the events asked for, in the order of positions.
    fn look(&mut self, asked: Asked<'_>) -> impl Future<Output = Result<Look>> + Send;

    /// Events of transactions that every later one comes after, in the order of (transaction, position).
    fn below_horizon(&mut self, after: (i64, i64)) -> impl Future<Output = Result<Vec<(i64, Found)>>> + Send;
}

/// Positions to query.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Asked<'a> {
    pub(crate) holes: &'a [i64],
    /// At most this many events from the holes.
    pub(crate) holes_limit: i64,
    /// Everything above this.
    pub(crate) above: Option<i64>,
}

#[derive(Debug, Default)]
pub(crate) struct Look {
    pub(crate) xmin: i64,
    pub(crate) xmax: i64,
    pub(crate) found: Vec<Found>,
}
