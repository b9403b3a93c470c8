//! An error of a task that repeats its work: logged once, until the work succeeds again or fails in another way.

use crate::{Code, Error};

/// The code of the error that was logged last, if the work has failed since then.
#[derive(Debug, Default)]
pub(super) struct LoggedError(Option<Code>);

impl LoggedError {
    /// The work succeeded.
    pub(super) fn clear(&mut self) {
        self.0 = None;
    }

    /// Logs an error, unless one with its code was logged before. `consequence` is what it means for the user.
    pub(super) fn warn(&mut self, consequence: &str, error: &Error) {
        let code = error.code();
        if self.0 != Some(code) {
            tracing::warn!(%code, hint = error.hint(), "{consequence}: {}", error.one_line());
            self.0 = Some(code);
        }
    }
}
