//! What a new owner loads: the parked rows, from Postrider's notes and from the table.

use super::refused::Refused;
use super::term_rows::{HandoutState, RowClaim, TermRow, TermRows};
use crate::layout::{Ability, RowTable};
use crate::ledger::{Intervals, ParkedRow, ParkedState, Progress, Trial};
use crate::store::{Epoch, Loaded};
use crate::{Code, Error, Position, Result, Timestamp};

/// A note about a row, together with the state of the row in the table.
#[derive(Debug)]
pub(crate) struct NotedRow {
    pub(crate) id: String,
    pub(crate) key: Option<String>,
    pub(crate) destination: Option<String>,
    pub(crate) state: String,
    pub(crate) attempts: u32,
    pub(crate) next_attempt_at: Option<Timestamp>,
    pub(crate) last_error: Option<String>,
    /// When the row was created; `None` if it was deleted.
    pub(crate) created: Option<Timestamp>,
    pub(crate) is_done: bool,
    pub(crate) is_given_up: bool,
    /// Attempts after which the row is given up.
    pub(crate) limit: Option<i64>,
    /// What the table refused to record.
    pub(crate) refused: Option<Refused>,
}

impl NotedRow {
    /// The parked row that the note describes.
    pub(super) fn parked(self, position: Position, state: ParkedState) -> ParkedRow {
        ParkedRow {
            position,
            key: self.key,
            destination: self.destination,
            state,
            attempts: self.attempts,
            next_attempt_at: self.next_attempt_at,
            last_error: self.last_error,
            redelivery: None,
        }
    }
}

/// A row without a note that another process has tried and scheduled for a later attempt.
#[derive(Debug)]
pub(crate) struct ScheduledRow {
    pub(crate) id: String,
    pub(crate) key: Option<String>,
    pub(crate) attempts: i64,
    pub(crate) next_attempt_at: Timestamp,
    pub(crate) created: Timestamp,
}

/// The subscription at the moment of a takeover. Its row is locked.
#[derive(Debug)]
pub(crate) struct LockedSubscription {
    pub(crate) epoch: Epoch,
    pub(crate) clean: bool,
    pub(crate) paused: Option<String>,
    /// Ids of the rows that were on trial when the last owner died.
    pub(crate) trial: Option<String>,
    pub(crate) trial_deaths: u32,
}

/// A parked row, with what the order of parked rows and its [`TermRow`] need.
#[derive(Debug)]
struct LoadedRow {
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
pub(crate) struct ParkedRows {
    rows: Vec<LoadedRow>,
    /// Ids of notes that no longer match their rows: the row was deleted, delivered, or made due again.
    pub(crate) obsolete_notes: Vec<String>,
    /// Rows that the last owner had marked, and whose mark the table refuses to remove. They are retried with that
    /// mark.
    still_marked: Vec<(String, RowClaim)>,
}

impl ParkedRows {
    /// # Errors
    /// [`Code::RowDamaged`] if a note has an unknown state.
    pub(crate) fn of(
        notes: impl IntoIterator<Item = NotedRow>,
        scheduled: impl IntoIterator<Item = ScheduledRow>,
        table: &RowTable,
    ) -> Result<Self> {
        let mut parked = Self::default();
        for note in notes {
            parked.add_note(note)?;
        }
        parked.rows.extend(scheduled.into_iter().map(|row| LoadedRow {
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
                redelivery: None,
            },
        }));
        parked.rows.sort_by(|a, b| (a.created, number(&a.id), &a.id).cmp(&(b.created, number(&b.id), &b.id)));
        Ok(parked)
    }

    /// Adds rows that still carry the mark of the last owner.
    pub(crate) fn with_marked(mut self, rows: Vec<(String, RowClaim)>) -> Self {
        self.still_marked = rows;
        self
    }

    fn add_note(&mut self, note: NotedRow) -> Result<()> {
        let (id, word) = (note.id.clone(), &note.state);
        let state = ParkedState::from_word(word).ok_or_else(|| {
            Error::new(Code::RowDamaged, format!("the note of row {id} has state {word:?}"))
        })?;
        // The table decides: if another process gave a row up, it stays given up; if another process made it due again,
        // it is retried. A table that refused the update cannot decide.
        let is_final = matches!(state, ParkedState::Dead | ParkedState::Expired | ParkedState::Unrouted);
        let matches_table = is_final == note.is_given_up || note.refused.is_some();
        match note.created {
            Some(created) if !note.is_done && matches_table => self.rows.push(LoadedRow {
                id,
                created,
                limit: limit(note.limit),
                is_noted: true,
                refused: note.refused,
                row: note.parked(Position::ZERO, state),
            }),
            _ => self.obsolete_notes.push(id),
        }
        Ok(())
    }

    /// The state that comes with the lease, and the rows of the term.
    pub(crate) fn load(
        self,
        epoch: Epoch,
        subscription: LockedSubscription,
        table: &RowTable,
    ) -> (Loaded, TermRows) {
        let (mut known, mut parked, mut dead) = (TermRows::new(epoch), Vec::new(), Vec::new());
        known.records_expiry = table.layout().has(Ability::Notifications);
        for LoadedRow { id, limit, is_noted, refused, mut row, .. } in self.rows {
            let state = match refused {
                Some(_) if row.state.is_final() => HandoutState::Refused,
                _ if row.state.is_final() => HandoutState::GivenUp,
                _ => HandoutState::Parked,
            };
            let is_final = row.state.is_final() || row.state == ParkedState::Unrouted;
            let is_given_up = is_final && refused.is_none();
            row.position = known.insert(TermRow { is_noted, is_given_up, ..TermRow::new(id, state, limit) });
            match row.state {
                // It was delivered, so later rows with its key need not wait.
                _ if refused == Some(Refused::Delivered) => {}
                ParkedState::Dead => dead.push(row),
                ParkedState::Expired => {}
                _ => parked.push(row),
            }
        }
        for (id, claim) in self.still_marked {
            match known.position_of(&id) {
                Some(position) => known.change(position, |row| row.claim = Some(claim)),
                None => parked.push(retry_marked(&mut known, &id, claim, table)),
            }
        }
        let (done, parked_count) = (Intervals::up_to(known.last()), known.len() as u64);
        let trial = subscription.trial.map(|ids| trial(&ids, subscription.trial_deaths, table, &mut known));
        let loaded = Loaded {
            epoch,
            progress: Progress { done, highest: None, trial },
            parked_count,
            parked,
            dead,
            clean: subscription.clean,
            previous: None,
            paused: subscription.paused,
            // Whether a row is due depends on its state alone, so the server does not matter.
            origin: None,
        };
        (loaded, known)
    }
}

/// Schedules a row that still carries the mark of the last owner for a retry under that mark.
fn retry_marked(known: &mut TermRows, id: &str, claim: RowClaim, table: &RowTable) -> ParkedRow {
    let row = TermRow::new(id, HandoutState::Parked, table.max_attempts);
    let position = known.insert(TermRow { claim: Some(claim), ..row });
    ParkedRow {
        position,
        key: None,
        destination: None,
        state: ParkedState::Retry,
        attempts: 0,
        next_attempt_at: None,
        last_error: None,
        redelivery: None,
    }
}

/// What a takeover does with the marks of the last owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StaleMarks {
    /// Removes them: the rows are due again.
    Remove,
    /// Keeps them, because the table refuses to remove them.
    Keep,
}

impl StaleMarks {
    /// What to do after a takeover failed: repeat it with the marks kept, if the table refused to remove them.
    ///
    /// # Errors
    /// The error itself, if it has another cause.
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

/// Numeric ids are ordered as numbers.
fn number(id: &str) -> i64 {
    id.parse().unwrap_or(0)
}

fn limit(limit: Option<i64>) -> u32 {
    limit.and_then(|limit| u32::try_from(limit).ok()).unwrap_or(1).max(1)
}

/// The rows that were on trial when the last owner died, with positions of this term.
fn trial(ids: &str, deaths: u32, table: &RowTable, known: &mut TermRows) -> Trial {
    let mut positions = Vec::new();
    for encoded in ids.split_ascii_whitespace() {
        let id = &*decode_id(encoded);
        let position = known.position_of(id);
        if position.and_then(|at| known.get(at)).is_some_and(|row| row.state == HandoutState::Refused) {
            continue;
        }
        positions.push(
            position.unwrap_or_else(|| {
                known.insert(TermRow::new(id, HandoutState::Reserved, table.max_attempts))
            }),
        );
    }
    Trial { positions, deaths }
}

/// A row id as one word of a list separated by spaces.
pub(super) fn encode_id(id: &str) -> String {
    let must_escape = |c: char| c.is_ascii_whitespace() || c == '%';
    let encoded: String = id
        .chars()
        .map(|c| if must_escape(c) { format!("%{:02X}", u32::from(c)) } else { c.to_string() })
        .collect();
    if encoded.is_empty() { "%".to_owned() } else { encoded }
}

/// The reverse of [`encode_id`].
fn decode_id(encoded: &str) -> String {
    let mut parts = encoded.split('%');
    let mut id = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let code = part.get(..2).and_then(|code| u8::from_str_radix(code, 16).ok());
        id.extend(code.map(char::from));
        id.push_str(part.get(2..).unwrap_or_default());
    }
    id
}

/// Logs how many rows of a crashed owner are due again.
pub(crate) fn log_recovered(subscription: &str, rows: u64) {
    if rows > 0 {
        tracing::warn!(
            subscription,
            rows,
            "rows that a crashed relay had claimed are pending again; some may be delivered twice"
        );
    }
}

/// Refuses to start while another publisher works on the table, unless the table is configured as shared. Logs rows
/// that the publisher left marked. `recent` rows were marked in the last ten minutes. Postrider's own marks are removed
/// before this check.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_encoded_id_decodes_to_itself() {
        for id in ["", "7", "a b", "100%", "%20", "line\nbreak", "ä\u{b}"] {
            assert_eq!(decode_id(&encode_id(id)), id, "{id:?}");
        }
    }
}
