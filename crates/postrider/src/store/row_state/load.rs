//! What the notes beside a table make of a new session.

use super::refused::Refused;
use super::session_rows::{HandoutState, RowClaim, SessionRow, SessionRows};
use crate::layout::RowTable;
use crate::ledger::{Intervals, ParkedRow, ParkedState, Progress, Trial};
use crate::store::{Epoch, Loaded};
use crate::{Code, Error, Position, Result, Timestamp};

/// A note of ours beside what the table says of its row.
#[derive(Debug)]
pub(crate) struct NotedRow {
    pub(crate) id: String,
    pub(crate) key: Option<String>,
    pub(crate) destination: Option<String>,
    pub(crate) state: String,
    pub(crate) attempts: u32,
    pub(crate) next_attempt_at: Option<Timestamp>,
    pub(crate) last_error: Option<String>,
    /// When the row was made; `None` if it is gone.
    pub(crate) created: Option<Timestamp>,
    pub(crate) is_done: bool,
    pub(crate) is_given_up: bool,
    /// Tries after which the row is given up.
    pub(crate) limit: Option<i64>,
    /// What the table refused to record.
    pub(crate) refused: Option<Refused>,
}

impl NotedRow {
    /// The parked row that it is about.
    pub(super) fn parked(self, position: Position, state: ParkedState) -> ParkedRow {
        ParkedRow {
            position,
            key: self.key,
            destination: self.destination,
            state,
            attempts: self.attempts,
            next_attempt_at: self.next_attempt_at,
            last_error: self.last_error,
        }
    }
}

/// A row without a note that another process has tried, and wants to be tried again later.
#[derive(Debug)]
pub(crate) struct WaitingRow {
    pub(crate) id: String,
    pub(crate) key: Option<String>,
    pub(crate) attempts: i64,
    pub(crate) next_attempt_at: Timestamp,
    pub(crate) created: Timestamp,
}

/// A parked row, and its place in the order.
#[derive(Debug)]
struct Noted {
    id: String,
    created: Timestamp,
    limit: u32,
    /// Postrider has a note about it.
    is_noted: bool,
    refused: Option<Refused>,
    row: ParkedRow,
}

/// All parked rows that a new owner loads.
#[derive(Debug, Default)]
pub(crate) struct SetAside {
    noted: Vec<Noted>,
    /// Notes that are out of date: the row is gone, delivered, or was made due again.
    pub(crate) stale: Vec<String>,
    /// Rows that the last owner had marked, and whose mark the table refuses to take off: they are retried with that
    /// mark.
    claimed: Vec<(String, RowClaim)>,
}

/// The row of the subscription.
#[derive(Debug)]
pub(crate) struct SubscriptionRow {
    pub(crate) clean: bool,
    pub(crate) paused: Option<String>,
    /// Ids of the rows that were being tried when the last owner died.
    pub(crate) trial: Option<String>,
    pub(crate) trial_deaths: u32,
}

impl SetAside {
    /// # Errors
    /// [`Code::RowDamaged`] if a note has a state that is none.
    pub(crate) fn of(
        notes: impl IntoIterator<Item = NotedRow>,
        waiting: impl IntoIterator<Item = WaitingRow>,
        table: &RowTable,
    ) -> Result<Self> {
        let mut aside = Self::default();
        for note in notes {
            aside.judge(note)?;
        }
        aside.noted.extend(waiting.into_iter().map(|row| Noted {
            id: row.id,
            created: row.created,
            limit: table.max_attempts,
            is_noted: false,
            refused: None,
            row: ParkedRow {
                position: Position::ZERO,
                key: row.key,
                destination: None,
                state: ParkedState::Retry,
                attempts: u32::try_from(row.attempts.max(0)).unwrap_or(u32::MAX),
                next_attempt_at: Some(row.next_attempt_at),
                last_error: None,
            },
        }));
        aside.noted.sort_by(|a, b| (a.created, number(&a.id), &a.id).cmp(&(b.created, number(&b.id), &b.id)));
        Ok(aside)
    }

    /// The same, with rows that stay marked.
    pub(crate) fn keeping(mut self, claimed: Vec<(String, RowClaim)>) -> Self {
        self.claimed = claimed;
        self
    }

    fn judge(&mut self, note: NotedRow) -> Result<()> {
        let (id, word) = (note.id.clone(), &note.state);
        let state = ParkedState::from_word(word).ok_or_else(|| {
            Error::new(Code::RowDamaged, format!("the note of row {id} has state {word:?}"))
        })?;
        // If another process took a row out of the state given up, it is to be retried. If another process gave a row
        // up, it stays given up.
        let ended = matches!(state, ParkedState::Dead | ParkedState::Expired | ParkedState::Unrouted);
        // A table that refused to say so says nothing either way.
        let is_so = ended == note.is_given_up || note.refused.is_some();
        match note.created {
            Some(created) if !note.is_done && is_so => self.noted.push(Noted {
                id,
                created,
                limit: limit(note.limit),
                is_noted: true,
                refused: note.refused,
                row: note.parked(Position::ZERO, state),
            }),
            _ => self.stale.push(id),
        }
        Ok(())
    }

    /// The state that comes with the lease, and the rows of the session.
    pub(crate) fn load(
        self,
        epoch: Epoch,
        owned: SubscriptionRow,
        table: &RowTable,
    ) -> (Loaded, SessionRows) {
        let (mut known, mut parked, mut dead) = (SessionRows::new(epoch), Vec::new(), Vec::new());
        for Noted { id, limit, is_noted, refused, mut row, .. } in self.noted {
            let stage = match refused {
                Some(_) if row.state.is_final() => HandoutState::Refused,
                _ if row.state.is_final() => HandoutState::Ended,
                _ => HandoutState::Parked,
            };
            let is_final = row.state.is_final() || row.state == ParkedState::Unrouted;
            let is_given_up = is_final && refused.is_none();
            let entry = SessionRow {
                id: id.into(),
                stage,
                is_noted,
                tried_before: 0,
                limit,
                is_given_up,
                claim: None,
            };
            row.position = known.enter(entry);
            match row.state {
                // It was delivered: its key waits for nothing.
                _ if refused == Some(Refused::Delivered) => {}
                ParkedState::Dead => dead.push(row),
                ParkedState::Expired => {}
                _ => parked.push(row),
            }
        }
        for (id, claim) in self.claimed {
            match known.position_of(&id) {
                Some(at) => known.change(at, |row| row.claim = Some(claim)),
                None => parked.push(keep_claimed(&mut known, id, claim, table)),
            }
        }
        let (done, parked_count) = (Intervals::up_to(known.last()), known.len() as u64);
        let trial = owned.trial.map(|words| trial(&words, owned.trial_deaths, table, &mut known));
        let loaded = Loaded {
            epoch,
            progress: Progress { done, highest: None, trial },
            parked_count,
            parked,
            dead,
            clean: owned.clean,
            paused: owned.paused,
            // Whether a row is due depends on its state alone, so the server does not matter.
            origin: None,
        };
        (loaded, known)
    }
}

/// A row that carries the mark of the last owner is tried again under that mark.
fn keep_claimed(known: &mut SessionRows, id: String, claim: RowClaim, table: &RowTable) -> ParkedRow {
    let position = known.enter(SessionRow {
        id: id.into(),
        stage: HandoutState::Parked,
        is_noted: false,
        tried_before: 0,
        limit: table.max_attempts,
        is_given_up: false,
        claim: Some(claim),
    });
    ParkedRow {
        position,
        key: None,
        destination: None,
        state: ParkedState::Retry,
        attempts: 0,
        next_attempt_at: None,
        last_error: None,
    }
}

/// Whether rows of the last owner are given back when the lease is taken, or kept, for their table refuses that.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StaleMarks {
    GiveBack,
    Keep,
}

impl StaleMarks {
    /// What to do after taking the lease has failed: once more without giving rows back, if that was refused.
    ///
    /// # Errors
    /// The error itself, if it is another one.
    pub(crate) fn after(error: Error, subscription: &str) -> Result<Self> {
        if error.code() != Code::RowRefused {
            return Err(error);
        }
        let reason = error.one_line();
        tracing::warn!(
            subscription,
            reason,
            "the table rejects the release of rows that a crashed relay had claimed; they are retried as they are"
        );
        Ok(Self::Keep)
    }
}

/// Ids that are numbers stand in the order of numbers.
fn number(id: &str) -> i64 {
    id.parse().unwrap_or(0)
}

fn limit(limit: Option<i64>) -> u32 {
    limit.and_then(|limit| u32::try_from(limit).ok()).unwrap_or(1).max(1)
}

/// The id that a word stands for: the reverse of [`trial_word`](super::plan::trial_word).
fn id_of(word: &str) -> String {
    let mut parts = word.split('%');
    let mut id = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let code = part.get(..2).and_then(|code| u8::from_str_radix(code, 16).ok());
        id.extend(code.map(char::from));
        id.push_str(part.get(2..).unwrap_or_default());
    }
    id
}

/// The rows that were being tried when the last owner died, under positions of this session.
fn trial(words: &str, deaths: u32, table: &RowTable, known: &mut SessionRows) -> Trial {
    let mut positions = Vec::new();
    for word in words.split_ascii_whitespace() {
        let id = &*id_of(word);
        let position = known.position_of(id);
        if position.and_then(|at| known.get(at)).is_some_and(|row| row.stage == HandoutState::Refused) {
            continue;
        }
        positions.push(position.unwrap_or_else(|| {
            known.enter(SessionRow {
                id: id.into(),
                stage: HandoutState::Reserved,
                is_noted: false,
                tried_before: 0,
                limit: table.max_attempts,
                is_given_up: false,
                claim: None,
            })
        }));
    }
    Trial { positions, deaths }
}

/// Tells of rows of an owner that died and that were given back.
pub(crate) fn log_recovered(subscription: &str, rows: u64) {
    if rows > 0 {
        tracing::warn!(
            subscription,
            rows,
            "rows that a crashed relay had claimed are pending again; some may be delivered twice"
        );
    }
}

/// Refuses to start while another publisher works on the table, unless that is configured, and logs rows that it left
/// marked. `recent` were marked in the last ten minutes. Postrider's own marks are taken off before this.
pub(crate) fn refuse_foreign_publisher(table: &RowTable, recent: i64, all: i64) -> Result<()> {
    if recent > 0 && !table.is_shared {
        let what = format!(
            "another publisher has marked {recent} rows of {} as PUBLISHING within the last ten minutes",
            table.name
        );
        return Err(Error::new(Code::ForeignPublisher, what));
    }
    if all > 0 && table.foreign_claim_timeout.is_none() {
        tracing::warn!(
            rows = all,
            "rows are marked as PUBLISHING by another publisher and are not touched; see foreign_claim_timeout"
        );
    }
    Ok(())
}
