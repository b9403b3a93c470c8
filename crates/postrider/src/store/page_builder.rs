//! A page that takes events in until its budget is used up.

use super::Budget;
use crate::{Code, Error, Limits, Position, Result, StoredEvent};

/// Takes events in until the budget is used up. The first always fits: a budget never stops the outbox.
pub(super) struct PageBuilder {
    budget: Budget,
    bytes: usize,
    pub(super) events: Vec<StoredEvent>,
    /// Rows that no event can be made of, and why.
    pub(super) damaged: Vec<(Position, String)>,
}

impl PageBuilder {
    /// Nothing yet, with room made for `room` events.
    pub(super) fn new(budget: Budget, room: usize) -> Self {
        Self { budget, bytes: 0, events: Vec::with_capacity(room), damaged: Vec::new() }
    }

    /// Whether an event of this size is one too many. A damaged row counts as an event: any process that
    /// asked for so many rows and got them must not take the last one for the end.
    pub(super) fn is_full_for(&self, bytes_more: usize) -> bool {
        let bytes = self.bytes.saturating_add(bytes_more);
        let taken = self.events.len() + self.damaged.len();
        taken > 0 && (taken >= self.budget.events_max || bytes > self.budget.bytes_max)
    }

    fn push(&mut self, event: StoredEvent, bytes_more: usize) {
        self.bytes = self.bytes.saturating_add(bytes_more);
        self.events.push(event);
    }

    /// Takes a row's event in; `bytes` may be known before the payload itself is here. A row that cannot be read must neither stop the others nor be skipped in silence.
    ///
    /// # Errors
    /// Any error but a damaged row's.
    pub(super) fn take<E>(
        &mut self,
        position: Position,
        event: Result<StoredEvent, E>,
        bytes: usize,
    ) -> Result<()>
    where
        Error: From<E>,
    {
        match event.map_err(Error::from) {
            Ok(event) => self.push(event, bytes),
            Err(error) if error.code() == Code::RowDamaged => self.damaged.push((position, error.one_line())),
            Err(error) => return Err(error),
        }
        Ok(())
    }
}

/// How long the columns of a row are that only the library keeps short.
#[derive(Debug, Default)]
pub(super) struct Widths {
    /// Names and lengths of the short texts.
    pub(super) texts: Vec<(&'static str, usize)>,
    pub(super) headers: usize,
    pub(super) action: usize,
}

impl Widths {
    /// Refuses a row that is beyond what a relay reads.
    ///
    /// # Errors
    /// [`Code::RowDamaged`]: the row is parked, and no other waits for it.
    pub(super) fn refuse(&self) -> Result<()> {
        let texts = self.texts.iter().map(|(name, bytes)| (*name, *bytes, Limits::READ_TEXT_BYTES_MAX));
        let wide = [
            ("headers", self.headers, Limits::READ_HEADERS_BYTES_MAX),
            ("action", self.action, Limits::READ_ACTION_BYTES_MAX),
        ];
        match texts.chain(wide).find(|(_, bytes, most)| bytes > most) {
            None => Ok(()),
            Some((name, bytes, most)) => {
                let what = format!("its {name} has {bytes} bytes or more; a relay reads at most {most}");
                Err(Error::new(Code::RowDamaged, what))
            }
        }
    }
}
