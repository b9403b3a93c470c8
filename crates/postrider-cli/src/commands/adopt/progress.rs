//! A bar on standard error, if it is a terminal.

use indicatif::{ProgressBar, ProgressStyle};

use crate::output::{Output, Verbosity};

/// How much is moved.
pub(super) struct Progress(ProgressBar);

impl Progress {
    /// Shown only on a terminal, and not with `-q`.
    pub(super) fn new(output: Output, events: u64) -> Self {
        if output.verbosity() == Verbosity::Quiet {
            return Self(ProgressBar::hidden());
        }
        // On anything but a terminal indicatif draws nothing.
        let template = "{bar:30} {percent:>3}%  {pos} of {len} events  {elapsed}, {eta} left";
        let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
        Self(ProgressBar::new(events).with_style(style))
    }

    pub(super) fn set(&self, moved: u64) {
        self.0.set_position(moved);
    }
}

impl Drop for Progress {
    /// Leaves the line to what is said next.
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
