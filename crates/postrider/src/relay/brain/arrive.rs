//! Events come in from the outbox: each joins the line of its key.

use std::collections::hash_map::Entry as Slot;
use std::sync::Arc;

use super::leader::{Leader, Memory};
use super::lines::{Body, Entry, Line, Stage};
use super::park::{Fate, park};
use super::turn::Turn;
use super::{About, KeyId, Report, Route, Routed};
use crate::Event;
use crate::Position;
use crate::ledger::{Mark, ParkedState};

/// What an event costs in memory besides its texts: the line, the queues.
const EVENT_OVERHEAD_BYTES: usize = 512;

impl Leader {
    /// Lines up newly claimed events, in position order.
    pub(super) fn arrive(&mut self, turn: &mut Turn<'_>, events: Vec<Routed>) {
        if let Some(last) = events.last() {
            self.books.see(Mark { position: last.position, id: last.event.id });
        }
        for Routed { position, key, route, event } in events {
            let entry = Entry { position, attempts: 0, doubted: false, parked: false, body: None };
            match route {
                Route::To { id, name, label } => {
                    self.line_up(turn, key, entry, Body { destination: id, name, label, event })
                }
                Route::Filtered => self.books.finish(position, position, turn.elapsed()),
                Route::Unrouted => self.hold_unrouted(turn, key, entry, &event),
            }
        }
    }

    /// Rows that cannot be read are dead at once: their key is unknown, and no other event
    /// waits for them.
    pub(super) fn bury_damaged(&mut self, turn: &mut Turn<'_>, damaged: Vec<(Position, String)>) {
        for (position, why) in damaged {
            let entry = Entry { position, attempts: 0, doubted: false, parked: false, body: None };
            let row = Fate::new(ParkedState::Dead, &why).row(&entry, None, None);
            self.books.park(row, true, turn.elapsed());
            let about = Some(Box::new(About { reason: why, ..About::default() }));
            turn.report(Report::Parked { position, state: ParkedState::Dead, attempts: 0, about });
        }
    }

    fn line_up(&mut self, turn: &mut Turn<'_>, key: KeyId, mut entry: Entry, body: Body) {
        if *self.destination.get_or_insert(body.destination) != body.destination {
            self.several_destinations = true;
        }
        self.memory.keep(&body);
        entry.body = Some(body);
        match self.lines.slot(key) {
            Slot::Vacant(slot) => {
                slot.insert(Line::new(entry, Stage::Ready));
                self.push_ready(turn, key);
            }
            Slot::Occupied(mut slot) => {
                let mut entry = match slot.get_mut().precede(entry, Stage::Ready) {
                    Ok(()) => return self.push_ready(turn, key),
                    Err(entry) => entry,
                };
                if slot.get().parks_arrivals() {
                    park(&mut self.books, &mut self.memory, turn, &mut entry, Fate::BEHIND);
                }
                slot.get_mut().insert(entry);
            }
        }
    }

    /// No rule matched: the event is held back, and its key with it, until a relay starts whose rules do.
    fn hold_unrouted(&mut self, turn: &mut Turn<'_>, key: KeyId, mut entry: Entry, event: &Arc<Event>) {
        let first = self.lines.get(key).is_none_or(|line| line.is_preceded_by(entry.position));
        let state = if first { ParkedState::Unrouted } else { ParkedState::Behind };
        let reason = "no rule matches";
        let row = Fate::new(state, reason).row(&entry, event.ordering_key().as_deref(), None);
        let about = About {
            event: Some(event.clone()),
            key: row.key.clone(),
            destination: None,
            reason: reason.to_owned(),
        };
        self.books.park(row, true, turn.elapsed());
        let about = first.then(|| Box::new(about));
        turn.report(Report::Parked { position: entry.position, state, attempts: 0, about });
        entry.parked = true;
        match self.lines.slot(key) {
            Slot::Vacant(slot) => _ = slot.insert(Line::new(entry, Stage::Stuck)),
            Slot::Occupied(mut slot) => {
                if let Err(entry) = slot.get_mut().precede(entry, Stage::Stuck) {
                    slot.get_mut().insert(entry);
                }
            }
        }
    }

    /// The outbox was read on: what waited for earlier events of its key may have them all now.
    pub(super) fn have_read(&mut self) {
        while let Some((position, key)) = self.unread.first().copied()
            && self.reader.has_passed(position)
        {
            self.unread.pop_first();
            if self.lines.stage(key) == Some(Stage::Unread) {
                self.want(key);
            }
        }
    }

    pub(super) fn push_ready(&mut self, turn: &Turn<'_>, key: KeyId) {
        if self.ready.is_empty() {
            self.ready_since = turn.elapsed();
        }
        self.ready.push_back(key);
    }
}

impl Memory {
    pub(super) fn keep(&mut self, body: &Body) {
        self.events += 1;
        self.bytes += body.event.size_bytes() + EVENT_OVERHEAD_BYTES;
    }

    pub(super) fn drop(&mut self, body: Option<&Body>) {
        if let Some(body) = body {
            self.events -= 1;
            self.bytes -= body.event.size_bytes() + EVENT_OVERHEAD_BYTES;
        }
    }
}
