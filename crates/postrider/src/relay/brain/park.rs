//! An event leaves the straight way, and the later events of its key queue up behind it.

use std::borrow::Cow;
use std::cmp::Reverse;

use super::books::Books;
use super::leader::{Leader, Memory};
use super::lines::{Body, Entry, Stage};
use super::random::doubled;
use super::turn::Turn;
use super::{About, KeyId, Report};
use crate::Timestamp;
use crate::ledger::{ParkedRow, ParkedState};
use crate::relay::OnDead;
use crate::sink::Failure;

/// Longest error text kept in a row.
const ERROR_BYTES_MAX: usize = 1_000;

/// How an event is parked.
#[derive(Debug, Clone, Copy)]
pub(super) struct Fate<'a> {
    pub(super) state: ParkedState,
    pub(super) next_attempt_at: Option<Timestamp>,
    pub(super) error: Option<&'a str>,
}

impl<'a> Fate<'a> {
    pub(super) const BEHIND: Self = Self { state: ParkedState::Behind, next_attempt_at: None, error: None };

    pub(super) fn new(state: ParkedState, error: &'a str) -> Self {
        Self { state, next_attempt_at: None, error: Some(error) }
    }

    /// The row this fate gives an entry.
    pub(super) fn row(&self, entry: &Entry, key: Option<&str>, destination: Option<&str>) -> ParkedRow {
        ParkedRow {
            position: entry.position,
            key: key.map(str::to_owned),
            destination: destination.map(str::to_owned),
            state: self.state,
            attempts: entry.attempts,
            next_attempt_at: self.next_attempt_at,
            last_error: self.error.map(shortened),
        }
    }
}

fn shortened(text: &str) -> String {
    text.chars()
        .scan(0, |bytes, c| {
            *bytes += c.len_utf8();
            (*bytes <= ERROR_BYTES_MAX).then_some(c)
        })
        .collect()
}

impl Leader {
    /// A try failed, and nothing says that the destination is down. One failure may be a connection that was cut, or
    /// the edge of an outage: the head is tried once more a little later, and only two in a row count, as one attempt.
    pub(super) fn doubt(&mut self, turn: &mut Turn<'_>, key: KeyId, failure: &Failure) {
        let Some(line) = self.lines.get_mut(key) else { return };
        let policy = turn.policy();
        let asked = failure.retry_after.unwrap_or_default();
        // Any process that asks for a long wait answered, and the line is not kept in memory for it.
        if line.head.doubted || asked > policy.probe_max {
            self.strike(turn, key, failure);
            return;
        }
        let until = turn.elapsed() + turn.random.jitter(policy.probe_min).max(asked);
        line.head.tell_first_failure(turn, failure);
        line.head.doubted = true;
        line.stage = Stage::Resting(until);
        self.retries.push(Reverse((until, key)));
    }

    /// A try that counts against the head of a line: it waits for the next, or has had its last.
    pub(super) fn strike(&mut self, turn: &mut Turn<'_>, key: KeyId, failure: &Failure) {
        let Some(line) = self.lines.get_mut(key) else { return };
        let own_limit = line.head.body.as_ref().and_then(|body| body.event.max_attempts);
        let policy = turn.policy();
        if own_limit.unwrap_or(policy.max_attempts) > 1 {
            line.head.tell_first_failure(turn, failure);
        }
        line.head.attempts += 1;
        line.head.doubted = false;
        let attempts = line.head.attempts;
        if attempts >= own_limit.unwrap_or(policy.max_attempts) {
            self.give_up(turn, key, Fate::new(ParkedState::Dead, &failure.message));
            return;
        }
        let backoff = turn.random.jitter(doubled(policy.backoff_min, policy.backoff_max, attempts - 1));
        let wait = backoff.max(failure.retry_after.unwrap_or_default().min(policy.backoff_max));
        let until = turn.elapsed() + wait;
        let fate = Fate {
            next_attempt_at: Some(turn.now.wall.after(wait)),
            ..Fate::new(ParkedState::Retry, &failure.message)
        };
        self.park_line(turn, key, Stage::Waiting(until), fate);
        self.retries.push(Reverse((until, key)));
    }

    /// The one try that was enough: the message itself can never be delivered.
    pub(super) fn reject(&mut self, turn: &mut Turn<'_>, key: KeyId, why: &str) {
        if let Some(line) = self.lines.get_mut(key) {
            line.head.attempts += 1;
        }
        self.give_up(turn, key, Fate::new(ParkedState::Dead, why));
    }

    /// The end of a head's way. Once that is settled the others of its key go on without it, unless a dead
    /// one blocks them.
    pub(super) fn give_up(&mut self, turn: &mut Turn<'_>, key: KeyId, fate: Fate<'_>) {
        if fate.state == ParkedState::Dead && turn.policy().on_dead == OnDead::Block {
            self.park_line(turn, key, Stage::Stuck, fate);
            return;
        }
        let Some(line) = self.lines.get_mut(key) else { return };
        line.stage = Stage::Ended;
        let position = line.head.position;
        park(&mut self.books, &mut self.memory, turn, &mut line.head, fate);
        self.ended.push(key);
        self.acquit(position);
    }

    /// The ends of these heads are settled: the lines go on.
    pub(super) fn bury(&mut self, turn: &Turn<'_>) {
        for key in std::mem::take(&mut self.ended_in_flush) {
            if self.lines.stage(key) == Some(Stage::Ended)
                && let Some(popped) = self.lines.pop(key)
                && popped.more
            {
                self.proceed(turn, key);
            }
        }
    }

    /// Parks a whole line: its head with the given fate, the others behind it. None of it stays in memory.
    pub(super) fn park_line(&mut self, turn: &mut Turn<'_>, key: KeyId, stage: Stage, fate: Fate<'_>) {
        let Some(line) = self.lines.get_mut(key) else { return };
        line.stage = stage;
        let head = line.head.position;
        park(&mut self.books, &mut self.memory, turn, &mut line.head, fate);
        for entry in &mut line.rest {
            if entry.parked {
                self.memory.drop(entry.body.take().as_ref());
            } else {
                park(&mut self.books, &mut self.memory, turn, entry, Fate::BEHIND);
            }
        }
        if stage == Stage::Stuck {
            self.acquit(head);
        }
    }
}

impl Entry {
    /// A first failure is reported before it is known what becomes of the event: that may take a while.
    fn tell_first_failure(&self, turn: &mut Turn<'_>, failure: &Failure) {
        if self.attempts == 0 && !self.doubted {
            let about = Box::new(about(self.body.as_ref(), &failure.message));
            turn.report(Report::Failing { position: self.position, about });
        }
    }
}

fn about(body: Option<&Body>, reason: &str) -> About {
    About {
        event: body.map(|body| body.event.clone()),
        key: body.and_then(Body::key).map(Cow::into_owned),
        destination: body.map(|body| body.name.clone()),
        reason: shortened(reason),
    }
}

/// Writes the row of an entry and lets go of its body.
pub(super) fn park(
    books: &mut Books,
    memory: &mut Memory,
    turn: &mut Turn<'_>,
    entry: &mut Entry,
    fate: Fate<'_>,
) {
    let body = entry.body.take();
    memory.drop(body.as_ref());
    let key = body.as_ref().and_then(Body::key);
    let row = fate.row(entry, key.as_deref(), body.as_ref().map(|b| &*b.name));
    // What goes on by itself is of interest in numbers only.
    let about = match fate.state {
        ParkedState::Dead | ParkedState::Expired | ParkedState::Unrouted => {
            Some(Box::new(about(body.as_ref(), fate.error.unwrap_or_default())))
        }
        ParkedState::Retry | ParkedState::Held | ParkedState::Behind => None,
    };
    let Entry { position, attempts, .. } = *entry;
    turn.report(Report::Parked { position, state: fate.state, attempts, about });
    books.park(row, !entry.parked, turn.elapsed());
    entry.parked = true;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_text_is_cut_between_characters() {
        let text = "é".repeat(ERROR_BYTES_MAX);
        assert_eq!(shortened(&text).len(), ERROR_BYTES_MAX);
        assert_eq!(shortened("short"), "short");
    }
}
