//! The copy itself, batch by batch.

use std::collections::VecDeque;

use super::carry::carried;
use super::fit::Unfit;
use super::{Adoption, Counts, HandedOver, HandsOver, Parcel, refuse};
use crate::layout::RowTable;
use crate::ledger::{Intervals, Mark, ParkedRow};
use crate::store::{
    Acquired, Budget, Claimed, Claimer, Epoch, LeaseRequest, Loaded, Page, Renewed, Settlement, Start,
};
use crate::{Code, Error, Event, Outbox, Position, Result, StoredEvent};

/// Bytes of one transaction, unless a single event is larger.
const BATCH_BYTES_MAX: usize = 4 * 1024 * 1024;

/// A copy under way. It holds the lease of the subscription; dropped, it leaves it to run out.
pub struct Copying<'s> {
    source: &'s dyn HandsOver,
    from: Option<RowTable>,
    to: Outbox,
    adoption: Adoption,
    start: Start,
    lease: LeaseRequest,
    epoch: Epoch,
    /// Whether the previous owner had released the lease cleanly.
    was_clean: bool,
    /// What was there when the lease was taken.
    counts: Counts,
    reading: Reading,
    done: Intervals,
    highest: Option<Mark>,
    copied: u64,
}

/// What came of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Adopted {
    /// Events that are in the other outbox now, and settled here.
    pub copied: u64,
    /// What is here now.
    pub counts: Counts,
    /// Events that another process delivered from here meanwhile.
    pub strangers: u64,
}

/// An event that was read and is to be copied.
struct Item {
    position: Position,
    event: std::sync::Arc<Event>,
    /// Its row among the parked ones, if it has one.
    parked: Option<ParkedRow>,
}

/// Everything that is undelivered, in the order in which it would be delivered.
struct Reading {
    parked: VecDeque<ParkedRow>,
    claimer: Box<dyn Claimer>,
    claimed: VecDeque<StoredEvent>,
    ready: VecDeque<Item>,
    /// Rows that no event can be made of.
    damaged: Vec<(Position, String)>,
    /// Positions that never held an event.
    dead: Vec<(Position, Position)>,
    is_at_end: bool,
    events_max: usize,
}

impl<'s> Copying<'s> {
    /// Takes the lease and makes sure that no other process is at work and that every event fits the other outbox.
    /// From the counts that the user has seen, it tells whether others made progress since.
    ///
    /// # Errors
    /// [`Code::AdoptionRefused`], [`Code::AdoptionStart`], [`Code::LeaseHeld`], [`Code::ForeignPublisher`],
    /// [`Code::EventsUnfit`], [`Code::SubscriptionUnknown`]. No event was changed.
    pub async fn begin(
        source: &'s dyn HandsOver,
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
            // A table that no relay of ours has ever worked on.
            source.subscribe(&lease.subscription, Start::Beginning).await?;
        }
        let loaded = acquire(source, &lease).await?;
        let mut copying = Self {
            source,
            from,
            to,
            start,
            epoch: loaded.epoch,
            was_clean: loaded.clean,
            counts: Counts::default(),
            reading: Reading::of(source, &lease.subscription, &loaded, adoption.batch_events_max),
            done: loaded.progress.done,
            highest: loaded.progress.highest,
            lease,
            adoption,
            copied: 0,
        };
        match copying.make_sure(counted).await {
            Ok(()) => Ok(copying),
            Err(error) => {
                // What was refused is what the caller wants to hear.
                _ = copying.release().await;
                Err(error)
            }
        }
    }

    /// Refuses while others work on it, and what does not fit. Reads everything once, so it begins again after it.
    async fn make_sure(&mut self, counted: &Counts) -> Result<()> {
        self.counts = self.source.counts(&self.lease.subscription).await?;
        refuse::progress(counted, &self.counts)?;
        let (mut unfit, mut checked) = (Unfit::default(), 0);
        if self.start != Start::Now {
            while let Some(items) = self.read_batch().await? {
                checked += items.len() as u64;
                items.iter().for_each(|item| unfit.check(&self.to, &self.carried(item)));
            }
        }
        for (_, why) in &self.reading.damaged {
            unfit.add(why, "-");
        }
        if let Some(error) = unfit.refusal(checked + self.reading.damaged.len() as u64) {
            return Err(error);
        }
        let loaded = acquire(self.source, &self.lease).await?;
        self.epoch = loaded.epoch;
        self.reading = {
            let name = &self.lease.subscription;
            Reading::of(self.source, name, &loaded, self.adoption.batch_events_max)
        };
        (self.done, self.highest) = (loaded.progress.done, loaded.progress.highest);
        Ok(())
    }

    /// How many events there were to copy, as far as was counted.
    pub fn total(&self) -> u64 {
        if self.start == Start::Now { 0 } else { self.counts.undelivered() }
    }

    /// How many are copied.
    pub fn copied(&self) -> u64 {
        self.copied
    }

    /// Copies the next batch: all of it or nothing. Answers how many events that were, `None` when none is left.
    ///
    /// # Errors
    /// [`Code::ForeignPublisher`] if another process is at work, [`Code::LeaseHeld`] if another process has taken the
    /// lease over, or what the database says. The batches before stay copied; running the whole thing again goes on
    /// after them.
    ///
    /// # Cancel safety
    /// Dropping the future leaves the batch copied and settled, or neither. The copy is to begin again then.
    pub async fn next_batch(&mut self) -> Result<Option<usize>> {
        if self.start == Start::Now {
            return Ok(None);
        }
        let Some(items) = self.read_batch().await? else { return Ok(None) };
        let mut done = self.done.clone();
        for (first, last) in self.reading.dead.drain(..) {
            done.insert_range(first, last);
        }
        let (mut unpark, mut highest) = (Vec::new(), self.highest);
        for Item { position, event, parked } in &items {
            match parked {
                Some(_) => unpark.push(*position),
                None => done.insert(*position),
            }
            if highest.is_none_or(|mark| mark.position < *position) {
                highest = Some(Mark { position: *position, id: event.id });
            }
        }
        let parcel = Parcel {
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
            events: items.iter().map(|item| self.carried(item)).collect(),
        };
        let handed_over = self.source.hand_over(parcel).await.map_err(|error| self.reported(error))?;
        if handed_over == HandedOver::Fenced {
            return Err(self.lost());
        }
        (self.done, self.highest) = (done, highest);
        self.copied += items.len() as u64;
        Ok(Some(items.len()))
    }

    /// Gives the lease back and counts again.
    ///
    /// # Errors
    /// What the database says; what was copied stays so.
    pub async fn finish(self) -> Result<Adopted> {
        let counts = self.source.counts(&self.lease.subscription).await;
        self.release().await?;
        let counts = counts?;
        let strangers = counts.delivered.saturating_sub(self.counts.delivered + self.copied);
        Ok(Adopted { copied: self.copied, counts, strangers })
    }

    /// Gives the lease back, with the copy at its end or not.
    ///
    /// # Errors
    /// What the database says; then the lease runs out by itself.
    pub async fn release(&self) -> Result<()> {
        self.source.release(&self.lease.subscription, self.epoch, self.was_clean).await
    }

    /// Events of the next batch that are to move, after the lease was renewed for them.
    async fn read_batch(&mut self) -> Result<Option<Vec<Item>>> {
        let (mut items, mut bytes) = (Vec::new(), 0);
        match self.source.renew(self.lease.clone(), self.epoch).await? {
            Renewed::Held { .. } => {}
            Renewed::Lost => return Err(self.lost()),
        }
        while items.len() < self.adoption.batch_events_max.max(1) && bytes < BATCH_BYTES_MAX {
            let taken = self.reading.fill(self.source).await?;
            if taken > 0 {
                return Err(self.reported(refuse::taken(taken)));
            }
            let Some(item) = self.reading.ready.pop_front() else { break };
            if !refuse::moves(self.start, item.event.time) {
                continue;
            }
            bytes += item.event.size_bytes();
            items.push(item);
        }
        Ok((!items.is_empty()).then_some(items))
    }

    fn carried(&self, item: &Item) -> Event {
        let parked_attempts = item.parked.as_ref().map_or(0, |row| row.attempts);
        carried(&item.event, parked_attempts, self.from.as_ref(), &self.adoption.leave_out)
    }

    fn lost(&self) -> Error {
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

    /// The error, with what it means for the copy.
    fn reported(&self, error: Error) -> Error {
        match error.code() {
            Code::ForeignPublisher => refuse::strangers(error.message().to_owned(), self.copied),
            _ => error
                .with_effect(format!(
                    "{} events were copied before and settled here; the current batch was moved completely or not at all",
                    self.copied
                ))
                .with_hint("run the command again: it continues where it stopped"),
        }
    }
}

impl Reading {
    fn of(source: &dyn HandsOver, subscription: &str, loaded: &Loaded, events_max: usize) -> Self {
        let mut parked = loaded.parked.clone();
        parked.sort_by_key(|row| row.position);
        Self {
            parked: parked.into(),
            claimer: source.claimer_of(subscription, loaded),
            claimed: VecDeque::new(),
            ready: VecDeque::new(),
            damaged: Vec::new(),
            dead: Vec::new(),
            is_at_end: false,
            events_max: events_max.max(1),
        }
    }

    /// Reads on until something is ready, or everything was read. What is parked stands where its position is. Answers
    /// how many rows another process has taken meanwhile.
    async fn fill(&mut self, source: &dyn HandsOver) -> Result<usize> {
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
        let budget = Budget { events_max: self.events_max, bytes_max: BATCH_BYTES_MAX };
        let page = match self.claimer.claim(budget).await? {
            Claimed::Page(page) => page,
            Claimed::HistoryChanged(why) => return Err(Error::new(Code::HistoryChanged, why)),
        };
        let Page { events, dead, damaged, more_at_once, taken, .. } = page;
        self.is_at_end = events.is_empty() && !more_at_once;
        self.claimed.extend(events);
        self.damaged.extend(damaged);
        self.dead.extend(dead);
        Ok(taken)
    }

    async fn fetch(&mut self, source: &dyn HandsOver, due: Vec<Position>) -> Result<usize> {
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

async fn acquire(source: &dyn HandsOver, lease: &LeaseRequest) -> Result<Loaded> {
    match source.acquire(lease.clone()).await? {
        Acquired::Granted(loaded) => Ok(*loaded),
        Acquired::Held { holder, remaining } => Err(refuse::held(&lease.subscription, &holder, remaining)),
        Acquired::Halted(why) => {
            Err(Error::new(Code::HistoryChanged, format!("{:?} is halted: {why}", lease.subscription)))
        }
    }
}
