//! Moves the events, batch by batch.

use std::collections::VecDeque;

use super::convert::convert;
use super::fit::Unfit;
use super::{AdoptSource, Adoption, AdoptionBatch, Counts, Moved, refuse};
use crate::layout::RowTable;
use crate::ledger::{Intervals, LastSeen, ParkedRow};
use crate::store::{
    Acquired, Budget, Claimed, Claimer, Epoch, LeaseRequest, Loaded, Page, Renewed, Settlement, Start,
};
use crate::{Code, Error, Event, Outbox, Position, Result, StoredEvent};

/// The most bytes of one transaction, unless a single event is larger.
const BATCH_BYTES_MAX: usize = 4 * 1024 * 1024;

/// An adoption in progress. It holds the lease of the subscription. If it is dropped, the lease expires by itself.
pub struct AdoptionRun<'s> {
    source: &'s dyn AdoptSource,
    from: Option<RowTable>,
    to: Outbox,
    adoption: Adoption,
    start: Start,
    lease: LeaseRequest,
    epoch: Epoch,
    /// Whether the previous owner had released the lease cleanly.
    was_clean: bool,
    /// The counts when the lease was taken.
    counts: Counts,
    reader: UndeliveredReader,
    done: Intervals,
    highest: Option<LastSeen>,
    copied: u64,
}

/// The result of an adoption.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Adopted {
    /// Events that are in the target now, and settled in the source.
    pub copied: u64,
    /// The counts of the source now.
    pub counts: Counts,
    /// Events that another process delivered from the source meanwhile.
    pub delivered_elsewhere: u64,
}

/// An event that was read and is moved next.
struct Item {
    position: Position,
    event: std::sync::Arc<Event>,
    /// Its parked row, if it has one.
    parked: Option<ParkedRow>,
}

/// Reads the undelivered events, in the order in which they would be delivered.
struct UndeliveredReader {
    parked: VecDeque<ParkedRow>,
    claimer: Box<dyn Claimer>,
    claimed: VecDeque<StoredEvent>,
    ready: VecDeque<Item>,
    /// Rows that cannot be read as an event.
    damaged: Vec<(Position, String)>,
    /// Positions that never held an event.
    empty_positions: Vec<(Position, Position)>,
    is_at_end: bool,
    events_max: usize,
}

impl<'s> AdoptionRun<'s> {
    /// Takes the lease, and checks that no other process works on the outbox and that every event fits the target.
    /// `counted` are the counts that the user has seen: events that were delivered since show another process.
    ///
    /// # Errors
    /// [`Code::AdoptionRefused`], [`Code::AdoptionStart`], [`Code::LeaseHeld`], [`Code::ForeignPublisher`],
    /// [`Code::EventsUnfit`], [`Code::SubscriptionUnknown`]. No event was changed.
    pub async fn begin(
        source: &'s dyn AdoptSource,
        to: Outbox,
        adoption: Adoption,
        counted: &Counts,
    ) -> Result<Self> {
        let from = source.table();
        refuse::pair(from.as_ref(), &to)?;
        let start = refuse::start(adoption.start, counted)?;
        let lease = LeaseRequest {
            subscription: adoption.subscription.clone(),
            holder: adoption.holder.clone(),
            duration: adoption.lease,
        };
        if from.is_some() {
            // No relay may ever have used the table, so the subscription may not exist yet.
            source.subscribe(&lease.subscription, Start::Beginning).await?;
        }
        let loaded = acquire(source, &lease).await?;
        let mut run = Self {
            source,
            from,
            to,
            start,
            epoch: loaded.epoch,
            was_clean: loaded.clean,
            counts: Counts::default(),
            reader: UndeliveredReader::of(source, &lease.subscription, &loaded, adoption.batch_events_max),
            done: loaded.progress.done,
            highest: loaded.progress.highest,
            lease,
            adoption,
            copied: 0,
        };
        match run.check(counted).await {
            Ok(()) => Ok(run),
            Err(error) => {
                // An error of the release matters less than the refusal.
                _ = run.release().await;
                Err(error)
            }
        }
    }

    /// Refuses to run next to another process, and events that do not fit. This reads every event once; afterwards the
    /// lease is taken again, and reading starts from the beginning.
    async fn check(&mut self, counted: &Counts) -> Result<()> {
        if self.start != Start::Now {
            self.source.fan_out_waiting().await?;
        }
        self.counts = self.source.counts(&self.lease.subscription).await?;
        refuse::progress(counted, &self.counts)?;
        let (mut unfit, mut checked) = (Unfit::default(), 0);
        if self.start != Start::Now {
            while let Some(items) = self.read_batch().await? {
                checked += items.len() as u64;
                items.iter().for_each(|item| unfit.check(&self.to, &self.convert(item)));
            }
        }
        for (_, why) in &self.reader.damaged {
            unfit.add(why, "-");
        }
        if let Some(error) = unfit.refusal(checked + self.reader.damaged.len() as u64) {
            return Err(error);
        }
        let loaded = acquire(self.source, &self.lease).await?;
        self.epoch = loaded.epoch;
        self.reader = {
            let name = &self.lease.subscription;
            UndeliveredReader::of(self.source, name, &loaded, self.adoption.batch_events_max)
        };
        (self.done, self.highest) = (loaded.progress.done, loaded.progress.highest);
        Ok(())
    }

    /// How many events there were to move when they were counted.
    pub fn total(&self) -> u64 {
        if self.start == Start::Now { 0 } else { self.counts.undelivered() }
    }

    /// How many events were moved so far.
    pub fn copied(&self) -> u64 {
        self.copied
    }

    /// Moves the next batch: all of it or nothing. Returns how many events; `None` when none is left.
    ///
    /// # Errors
    /// [`Code::ForeignPublisher`] if another process works on the outbox, [`Code::LeaseHeld`] if another process has
    /// taken the lease, and errors of the database. Earlier batches stay moved; a new adoption continues after them.
    ///
    /// # Cancel safety
    /// If the future is dropped, the batch is either moved completely or not at all. Start a new adoption then.
    pub async fn next_batch(&mut self) -> Result<Option<usize>> {
        if self.start == Start::Now {
            return Ok(None);
        }
        let mut items = self.read_batch().await?;
        let added = match items {
            Some(_) => 0,
            None => self.source.fan_out_waiting().await.map_err(|error| self.with_effect(error))?,
        };
        if added > 0 {
            // Events were written since the adoption began.
            self.reader.is_at_end = false;
            items = self.read_batch().await?;
        }
        let Some(items) = items else { return Ok(None) };
        let mut done = self.done.clone();
        for (first, last) in self.reader.empty_positions.drain(..) {
            done.insert_range(first, last);
        }
        let (mut unpark, mut highest) = (Vec::new(), self.highest);
        for Item { position, event, parked } in &items {
            match parked {
                Some(_) => unpark.push(*position),
                None => done.insert(*position),
            }
            if highest.is_none_or(|mark| mark.position < *position) {
                highest = Some(LastSeen { position: *position, id: event.id });
            }
        }
        let batch = AdoptionBatch {
            settlement: Settlement {
                subscription: self.lease.subscription.clone(),
                epoch: self.epoch,
                done: done.clone(),
                highest,
                trial: None,
                park: Vec::new(),
                unpark,
            },
            to: self.to.clone(),
            attempts: items.iter().map(|item| item.parked.as_ref().map_or(0, |row| row.attempts)).collect(),
            events: items.iter().map(|item| self.convert(item)).collect(),
        };
        let moved = self.source.move_batch(batch).await.map_err(|error| self.with_effect(error))?;
        if moved == Moved::Fenced {
            return Err(self.lease_lost());
        }
        (self.done, self.highest) = (done, highest);
        self.copied += items.len() as u64;
        Ok(Some(items.len()))
    }

    /// Counts again and releases the lease.
    ///
    /// # Errors
    /// Errors of the database. The events stay moved.
    pub async fn finish(self) -> Result<Adopted> {
        let counts = self.source.counts(&self.lease.subscription).await;
        self.release().await?;
        let counts = counts?;
        let delivered_elsewhere = counts.delivered.saturating_sub(self.counts.delivered + self.copied);
        Ok(Adopted { copied: self.copied, counts, delivered_elsewhere })
    }

    /// Releases the lease, whether all events are moved or not.
    ///
    /// # Errors
    /// Errors of the database. The lease then expires by itself.
    pub async fn release(&self) -> Result<()> {
        self.source.release(&self.lease.subscription, self.epoch, self.was_clean).await
    }

    /// Renews the lease and reads the events of the next batch.
    async fn read_batch(&mut self) -> Result<Option<Vec<Item>>> {
        let (mut items, mut bytes) = (Vec::new(), 0);
        match self.source.renew(self.lease.clone(), self.epoch).await? {
            Renewed::Held { .. } => {}
            Renewed::Lost => return Err(self.lease_lost()),
        }
        while items.len() < self.adoption.batch_events_max.max(1) && bytes < BATCH_BYTES_MAX {
            let taken = self.reader.fill(self.source).await?;
            if taken > 0 {
                return Err(self.with_effect(refuse::rows_changed(taken)));
            }
            let Some(item) = self.reader.ready.pop_front() else { break };
            if !refuse::moves(self.start, item.event.time) {
                continue;
            }
            bytes += item.event.size_bytes();
            items.push(item);
        }
        Ok((!items.is_empty()).then_some(items))
    }

    fn convert(&self, item: &Item) -> Event {
        let parked_attempts = item.parked.as_ref().map_or(0, |row| row.attempts);
        convert(&item.event, parked_attempts, self.from.as_ref(), &self.adoption.leave_out)
    }

    fn lease_lost(&self) -> Error {
        let what = format!("the lease of subscription {:?} was lost", self.lease.subscription);
        Error::new(Code::LeaseHeld, what)
            .with_effect(format!(
                "{} events were copied and settled here; the other events are unchanged",
                self.copied
            ))
            .with_hint(
                "stop the relay that took it, then run the command again: it continues where it stopped",
            )
    }

    /// Adds what an error means for the adoption.
    fn with_effect(&self, error: Error) -> Error {
        match error.code() {
            Code::ForeignPublisher => refuse::foreign_publisher(error.message().to_owned(), self.copied),
            _ => error
                .with_effect(format!(
                    "{} events were copied before and settled here; the current batch was moved completely or not at all",
                    self.copied
                ))
                .with_hint("run the command again: it continues where it stopped"),
        }
    }
}

impl UndeliveredReader {
    fn of(source: &dyn AdoptSource, subscription: &str, loaded: &Loaded, events_max: usize) -> Self {
        let mut parked = loaded.parked.clone();
        parked.sort_by_key(|row| row.position);
        Self {
            parked: parked.into(),
            claimer: source.claimer_of(subscription, loaded),
            claimed: VecDeque::new(),
            ready: VecDeque::new(),
            damaged: Vec::new(),
            empty_positions: Vec::new(),
            is_at_end: false,
            events_max: events_max.max(1),
        }
    }

    /// Reads until an event is ready, or everything was read. A parked event is ordered by its position. Returns how
    /// many rows another process has taken meanwhile.
    async fn fill(&mut self, source: &dyn AdoptSource) -> Result<usize> {
        while self.ready.is_empty() {
            if self.claimed.is_empty() && !self.is_at_end {
                let taken = self.claim().await?;
                if taken > 0 {
                    return Ok(taken);
                }
                continue;
            }
            let next = self.claimed.front().map(|event| event.position);
            let before = |row: &&ParkedRow| next.is_none_or(|next| row.position < next);
            let due: Vec<Position> =
                self.parked.iter().take_while(before).take(self.events_max).map(|row| row.position).collect();
            if !due.is_empty() {
                let taken = self.fetch(source, due).await?;
                if taken > 0 {
                    return Ok(taken);
                }
                continue;
            }
            let Some(StoredEvent { position, event }) = self.claimed.pop_front() else { break };
            self.ready.push_back(Item { position, event, parked: None });
        }
        Ok(0)
    }

    async fn claim(&mut self) -> Result<usize> {
        let budget = Budget::new(self.events_max, BATCH_BYTES_MAX);
        let page = match self.claimer.claim(budget).await? {
            Claimed::Page(page) => page,
            Claimed::HistoryChanged(why) => return Err(Error::new(Code::HistoryChanged, why)),
        };
        let Page { events, empty_positions, damaged, more_at_once, taken, .. } = page;
        self.is_at_end = events.is_empty() && !more_at_once;
        self.claimed.extend(events);
        self.damaged.extend(damaged);
        self.empty_positions.extend(empty_positions);
        Ok(taken)
    }

    async fn fetch(&mut self, source: &dyn AdoptSource, due: Vec<Position>) -> Result<usize> {
        let fetched = source.fetch(due, BATCH_BYTES_MAX).await?;
        let mut take = |position: Position| {
            let at = self.parked.iter().position(|row| row.position == position)?;
            self.parked.remove(at)
        };
        for position in fetched.gone {
            if take(position).is_some() {
                let why = format!("the event at position {position} was deleted, or is not readable");
                self.damaged.push((position, why));
            }
        }
        for StoredEvent { position, event } in fetched.events {
            let parked = take(position);
            self.ready.push_back(Item { position, event, parked });
        }
        Ok(fetched.taken.len())
    }
}

async fn acquire(source: &dyn AdoptSource, lease: &LeaseRequest) -> Result<Loaded> {
    match source.acquire(lease.clone()).await? {
        Acquired::Granted(loaded) => Ok(*loaded),
        Acquired::Held { holder, remaining } => Err(refuse::held(&lease.subscription, &holder, remaining)),
        Acquired::Halted(why) => {
            Err(Error::new(Code::HistoryChanged, format!("{:?} is halted: {why}", lease.subscription)))
        }
    }
}
