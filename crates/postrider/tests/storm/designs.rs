//! Readers that appear correct, each with one design error. The storm must detect all of them before its result for the
//! store is meaningful.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use postrider::{BoxFuture, Result};

use super::database::{Database, Found, PollRequest, PollResult, Probe};
use super::reader::{Log, Reader, ReaderStats};
use super::rng::Rng;
use super::storm_state::StormState;

/// The design error of a reader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Design {
    /// None: the control. If the storm reports this one, the storm is wrong.
    Right,
    /// Reads everything above the last position seen.
    AboveTheLast,
    /// Reads in the order of transaction ids, below the oldest one running.
    ByTransaction,
    /// Declares a hole empty when every transaction below the upper end of the snapshot in which it was noticed has
    /// ended.
    StampedWithXmax,
    /// Reads the holes in one statement and the tail in the next.
    TwoStatements,
    /// Reads the tail ten times as often as the holes.
    HolesLessOften,
    /// Reads a limited number of events from holes, and the tail regardless.
    LimitForHoles,
    /// Lists the writers after it has read the rows.
    WritersAfterRows,
    /// Does not wait for writers that are idle when they are listed.
    SilentWritersIgnored,
    /// Uses the engine's list of transactions as the list of writers.
    EngineTransactions,
    /// Waits only for transactions of the engine's list that began before the hole was noticed, and compares clocks of
    /// two time zones.
    EngineTimes,
    /// Mistakes another lock of the same transaction for another transaction.
    NamesOfLocks,
}

/// All design errors.
pub(crate) const WRONG: [Design; 8] = [
    Design::AboveTheLast,
    Design::ByTransaction,
    Design::StampedWithXmax,
    Design::TwoStatements,
    Design::HolesLessOften,
    Design::LimitForHoles,
    Design::WritersAfterRows,
    Design::SilentWritersIgnored,
];

/// All design errors on a database whose rows do not contain their transaction, and whose engine lists transactions.
#[cfg(feature = "mysql")]
pub(crate) const WRONG_WITHOUT_NUMBERS: [Design; 8] = [
    Design::AboveTheLast,
    Design::TwoStatements,
    Design::HolesLessOften,
    Design::LimitForHoles,
    Design::WritersAfterRows,
    Design::SilentWritersIgnored,
    Design::EngineTimes,
    Design::NamesOfLocks,
];

impl Design {
    pub(crate) fn text(self) -> &'static str {
        match self {
            Self::Right => "nothing wrong with it (control)",
            Self::AboveTheLast => "position > last",
            Self::ByTransaction => "order by (xid, position) below xmin",
            Self::StampedWithXmax => "holes stamped with the snapshot's xmax",
            Self::TwoStatements => "holes and tail in two statements",
            Self::HolesLessOften => "holes looked at less often than the tail",
            Self::LimitForHoles => "a separate LIMIT for the holes",
            Self::WritersAfterRows => "writers listed after the rows",
            Self::SilentWritersIgnored => "silent writers not waited for",
            Self::EngineTransactions => "INNODB_TRX taken for the list of writers",
            Self::EngineTimes => "trx_started compared with another zone's clock",
            Self::NamesOfLocks => "a lock that moved taken for another writer",
        }
    }
}

/// The longest pause between two statements of one poll: a reader may be delayed at any point.
const DELAY_MICROS: u64 = 5_000;

/// The number of events from holes in one poll, for the design with a limit.
const HOLES_LIMIT: i64 = 4;

/// Called between two statements of a poll.
pub(crate) type DelayHook<'a> = &'a mut (dyn FnMut() -> BoxFuture<'static, ()> + Send);

/// The smallest reader that tracks holes.
pub(crate) struct DesignReader<D: Database> {
    database: Arc<D>,
    design: Design,
    rng: Rng,
    log: Arc<Log>,
    state: ReaderState,
}

/// What it has read, and the holes that it tracks.
#[derive(Debug, Default)]
pub(crate) struct ReaderState {
    last: i64,
    /// For the order of transactions.
    last_transaction: i64,
    holes: BTreeMap<i64, Hole>,
    polls: u64,
    declared_empty: u64,
}

#[derive(Debug)]
struct Hole {
    xmax: i64,
    /// Writers that may still fill it; `None` before the first list.
    writers: Option<BTreeSet<String>>,
    /// The time of the reader's clock; `None` before the first list.
    noticed: Option<i64>,
}

impl ReaderState {
    /// One poll according to a design. Returns the events that it delivers, in order. `delay` is called between any two
    /// statements.
    pub(crate) async fn poll<P: Probe>(
        &mut self,
        probe: &mut P,
        design: Design,
        delay: DelayHook<'_>,
    ) -> Result<Vec<Found>> {
        self.polls += 1;
        if design == Design::ByTransaction {
            return self.by_transaction(probe).await;
        }
        let mut writers = None;
        if design != Design::WritersAfterRows && !self.holes.is_empty() {
            writers = Some(match design {
                Design::SilentWritersIgnored => probe.busy_writers().await?,
                Design::EngineTransactions => probe.transactions().await?,
                Design::EngineTimes => self.by_time(probe).await?,
                Design::NamesOfLocks => probe.locks().await?,
                _ => probe.writers().await?,
            });
            delay().await;
        }
        let skips_holes = design == Design::HolesLessOften && !self.polls.is_multiple_of(10);
        let holes: Vec<i64> = match skips_holes {
            true => Vec::new(),
            false => self.holes.keys().copied().collect(),
        };
        let holes_limit = if design == Design::LimitForHoles { HOLES_LIMIT } else { i64::MAX };
        let above = Some(self.last);
        let poll = if design == Design::TwoStatements {
            let mut poll = probe.poll(PollRequest { holes: &holes, holes_limit, above: None }).await?;
            delay().await;
            poll.found.extend(probe.poll(PollRequest { holes: &[], holes_limit, above }).await?.found);
            poll
        } else {
            probe.poll(PollRequest { holes: &holes, holes_limit, above }).await?
        };
        if design == Design::WritersAfterRows && !self.holes.is_empty() {
            delay().await;
            writers = Some(probe.writers().await?);
        }
        if !skips_holes {
            self.declare_empty(design, &poll, writers.as_ref());
        }
        self.add_holes(design, &poll);
        Ok(poll.found)
    }

    async fn by_transaction<P: Probe>(&mut self, probe: &mut P) -> Result<Vec<Found>> {
        let rows = probe.below_horizon((self.last_transaction, self.last)).await?;
        if let Some((transaction, event)) = rows.last() {
            (self.last_transaction, self.last) = (*transaction, event.position);
        }
        Ok(rows.into_iter().map(|(_, event)| event).collect())
    }

    /// Removes the holes that no listed transaction is old enough to fill; the others stay until their transaction
    /// ends.
    async fn by_time<P: Probe>(&mut self, probe: &mut P) -> Result<BTreeSet<String>> {
        let (begun, now) = probe.begun().await?;
        for hole in self.holes.values_mut() {
            let noticed = *hole.noticed.get_or_insert(now);
            let may_be_filled = begun.iter().any(|begun| *begun <= noticed);
            hole.writers = Some(may_be_filled.then(|| "older".to_owned()).into_iter().collect());
        }
        Ok(BTreeSet::from(["older".to_owned()]))
    }

    /// Removes the holes that were filled, and those that no writer can fill any more.
    fn declare_empty(&mut self, design: Design, poll: &PollResult, writers: Option<&BTreeSet<String>>) {
        poll.found.iter().for_each(|event| _ = self.holes.remove(&event.position));
        let before = self.holes.len();
        self.holes.retain(|_, hole| {
            if design == Design::StampedWithXmax {
                return poll.xmin < hole.xmax;
            }
            let Some(writers) = writers else { return true };
            let open = hole.writers.get_or_insert_with(|| writers.clone());
            open.retain(|writer| writers.contains(writer));
            !open.is_empty()
        });
        self.declared_empty += (before - self.holes.len()) as u64;
    }

    /// Adds new holes.
    fn add_holes(&mut self, design: Design, poll: &PollResult) {
        let known = self.last;
        for event in poll.found.iter().filter(|event| event.position > known) {
            if design != Design::AboveTheLast {
                let holes = self.last + 1..event.position;
                self.holes
                    .extend(holes.map(|hole| (hole, Hole { xmax: poll.xmax, writers: None, noticed: None })));
            }
            self.last = event.position;
        }
    }
}

impl<D: Database> DesignReader<D> {
    pub(crate) fn new(database: &Arc<D>, design: Design, seed: u64) -> Self {
        let (database, rng) = (database.clone(), Rng::new(seed, 4_000 + design as u64));
        Self { database, design, rng, log: Arc::default(), state: ReaderState::default() }
    }

    async fn read(mut self, storm_state: Arc<StormState>) -> Result<ReaderStats> {
        let mut probe = self.database.probe().await?;
        while !storm_state.is_over() {
            self.poll(&mut probe).await?;
            self.rng.pause(storm_state.poll_micros_max()).await;
        }
        // Every transaction has ended: two polls see everything; more are needed for a design that skips holes.
        for _ in 0..12 {
            self.poll(&mut probe).await?;
        }
        while self.poll(&mut probe).await? > 0 {}
        Ok(ReaderStats { declared_empty: self.state.declared_empty, ..ReaderStats::default() })
    }

    async fn poll(&mut self, probe: &mut D::Probe) -> Result<usize> {
        let Self { state, design, rng, log, .. } = self;
        let mut delay = || -> BoxFuture<'static, ()> {
            let micros = rng.below(DELAY_MICROS);
            Box::pin(tokio::time::sleep(Duration::from_micros(micros)))
        };
        let found = state.poll(probe, *design, &mut delay).await?;
        let count = found.len();
        found.into_iter().for_each(|event| log.deliver(event.sighting));
        Ok(count)
    }
}

impl<D: Database> Reader for DesignReader<D> {
    fn name(&self) -> String {
        self.design.text().to_owned()
    }

    fn log(&self) -> Arc<Log> {
        self.log.clone()
    }

    fn run(self: Box<Self>, storm_state: Arc<StormState>) -> BoxFuture<'static, Result<ReaderStats>> {
        Box::pin(self.read(storm_state))
    }
}
