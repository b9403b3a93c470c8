//! Readers that appear correct, each with one error. The storm must catch them all before what
//! it says of the right one counts.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use postrider::{BoxFuture, Result};

use super::database::{Asked, Database, Found, Look, Probe};
use super::dice::Dice;
use super::reader::{Findings, Log, Reader};
use super::weather::Weather;

/// What is wrong with a reader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Design {
    /// Nothing: the control. A storm that catches this one catches its own mistakes.
    Right,
    /// Reads everything above the last position seen.
    AboveTheLast,
    /// Reads in the order of transaction ids, below the oldest one running.
    ByTransaction,
    /// Takes a hole for empty when every transaction below the upper end of the snapshot that showed it is over.
    StampedWithXmax,
    /// Reads the holes in one statement and the tail in the next.
    TwoStatements,
    /// Looks at the tail ten times as often as at the holes.
    HolesLessOften,
    /// Reads at most this many events from holes, and the tail regardless.
    LimitForHoles,
    /// Lists the writers after it has read the rows.
    WritersAfterRows,
    /// Does not wait for writers that do nothing when they are listed.
    SilentWritersIgnored,
    /// Takes the engine's list of transactions for the list of writers.
    EngineTransactions,
    /// Waits for those transactions of the engine's list that began before the hole was noticed, by clocks in two zones.
    EngineTimes,
    /// Takes another lock of the same transaction for another transaction.
    NamesOfLocks,
}

/// All that are wrong.
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

/// All that are wrong on a database whose rows do not contain their transaction, and whose engine lists some.
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

/// Longest pause between two statements of one poll: a reader may be delayed anywhere.
const HELD_UP_MICROS: u64 = 5_000;

/// Events from holes in one poll, of the design with a limit.
const HOLES_LIMIT: i64 = 4;

/// What happens between two statements of a poll.
pub(crate) type HeldUp<'a> = &'a mut (dyn FnMut() -> BoxFuture<'static, ()> + Send);

/// The smallest reader that keeps holes.
pub(crate) struct Designed<D: Database> {
    database: Arc<D>,
    design: Design,
    dice: Dice,
    log: Arc<Log>,
    book: Book,
}

/// What it has read and what it waits for.
#[derive(Debug, Default)]
pub(crate) struct Book {
    last: i64,
    /// For the order of transactions.
    last_transaction: i64,
    holes: BTreeMap<i64, Hole>,
    looks: u64,
    declared_empty: u64,
}

#[derive(Debug)]
struct Hole {
    xmax: i64,
    /// Writers that may still fill it; `None` before the first poll.
    writers: Option<BTreeSet<String>>,
    /// By the reader's clock; `None` before the first poll.
    noticed: Option<i64>,
}

impl Book {
    /// One poll by the rules of a design. Returns what it delivers, in order. `held_up` is called between
    /// any two statements.
    pub(crate) async fn look<P: Probe>(
        &mut self,
        probe: &mut P,
        design: Design,
        held_up: HeldUp<'_>,
    ) -> Result<Vec<Found>> {
        self.looks += 1;
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
            held_up().await;
        }
        let skips_holes = design == Design::HolesLessOften && !self.looks.is_multiple_of(10);
        let holes: Vec<i64> = match skips_holes {
            true => Vec::new(),
            false => self.holes.keys().copied().collect(),
        };
        let holes_limit = if design == Design::LimitForHoles { HOLES_LIMIT } else { i64::MAX };
        let above = Some(self.last);
        let look = if design == Design::TwoStatements {
            let mut look = probe.look(Asked { holes: &holes, holes_limit, above: None }).await?;
            held_up().await;
            look.found.extend(probe.look(Asked { holes: &[], holes_limit, above }).await?.found);
            look
        } else {
            probe.look(Asked { holes: &holes, holes_limit, above }).await?
        };
        if design == Design::WritersAfterRows && !self.holes.is_empty() {
            held_up().await;
            writers = Some(probe.writers().await?);
        }
        if !skips_holes {
            self.declare_empty(design, &look, writers.as_ref());
        }
        self.take_in(design, &look);
        Ok(look.found)
    }

    async fn by_transaction<P: Probe>(&mut self, probe: &mut P) -> Result<Vec<Found>> {
        let rows = probe.below_horizon((self.last_transaction, self.last)).await?;
        if let Some((transaction, event)) = rows.last() {
            (self.last_transaction, self.last) = (*transaction, event.position);
        }
        Ok(rows.into_iter().map(|(_, event)| event).collect())
    }

    /// Removes the holes that no transaction of the list is old enough for; the others stay until their transaction ends.
    async fn by_time<P: Probe>(&mut self, probe: &mut P) -> Result<BTreeSet<String>> {
        let (begun, now) = probe.begun().await?;
        for hole in self.holes.values_mut() {
            let noticed = *hole.noticed.get_or_insert(now);
            let may_be_filled = begun.iter().any(|begun| *begun <= noticed);
            hole.writers = Some(may_be_filled.then(|| "older".to_owned()).into_iter().collect());
        }
        Ok(BTreeSet::from(["older".to_owned()]))
    }

    /// Removes the holes that are filled, and those that no writer can fill any more.
    fn declare_empty(&mut self, design: Design, look: &Look, writers: Option<&BTreeSet<String>>) {
        look.found.iter().for_each(|event| _ = self.holes.remove(&event.position));
        let before = self.holes.len();
        self.holes.retain(|_, hole| {
            if design == Design::StampedWithXmax {
                return look.xmin < hole.xmax;
            }
            let Some(writers) = writers else { return true };
            let open = hole.writers.get_or_insert_with(|| writers.clone());
            open.retain(|writer| writers.contains(writer));
            !open.is_empty()
        });
        self.declared_empty += (before - self.holes.len()) as u64;
    }

    /// Notices new holes.
    fn take_in(&mut self, design: Design, look: &Look) {
        let known = self.last;
        for event in look.found.iter().filter(|event| event.position > known) {
            if design != Design::AboveTheLast {
                let holes = self.last + 1..event.position;
                self.holes
                    .extend(holes.map(|hole| (hole, Hole { xmax: look.xmax, writers: None, noticed: None })));
            }
            self.last = event.position;
        }
    }
}

impl<D: Database> Designed<D> {
    pub(crate) fn new(database: &Arc<D>, design: Design, seed: u64) -> Self {
        let (database, dice) = (database.clone(), Dice::new(seed, 4_000 + design as u64));
        Self { database, design, dice, log: Arc::default(), book: Book::default() }
    }

    async fn read(mut self, weather: Arc<Weather>) -> Result<Findings> {
        let mut probe = self.database.probe().await?;
        while !weather.is_over() {
            self.look(&mut probe).await?;
            self.dice.pause(weather.poll_micros_max()).await;
        }
        // Every transaction is over: two polls see everything, and one more for a design that skips holes.
        for _ in 0..12 {
            self.look(&mut probe).await?;
        }
        while self.look(&mut probe).await? > 0 {}
        Ok(Findings { declared_empty: self.book.declared_empty, ..Findings::default() })
    }

    async fn look(&mut self, probe: &mut D::Probe) -> Result<usize> {
        let Self { book, design, dice, log, .. } = self;
        let mut held_up = || -> BoxFuture<'static, ()> {
            let micros = dice.below(HELD_UP_MICROS);
            Box::pin(tokio::time::sleep(Duration::from_micros(micros)))
        };
        let found = book.look(probe, *design, &mut held_up).await?;
        let count = found.len();
        found.into_iter().for_each(|event| log.deliver(event.sighting));
        Ok(count)
    }
}

impl<D: Database> Reader for Designed<D> {
    fn name(&self) -> String {
        self.design.text().to_owned()
    }

    fn log(&self) -> Arc<Log> {
        self.log.clone()
    }

    fn run(self: Box<Self>, weather: Arc<Weather>) -> BoxFuture<'static, Result<Findings>> {
        Box::pin(self.read(weather))
    }
}
