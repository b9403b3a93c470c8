//! A progress bar on standard error.

use indicatif::{ProgressBar, ProgressStyle};

use super::{Output, Verbosity};

/// The progress of a command. It is drawn only on a terminal and not with `-q`; the line is cleared when it is dropped.
pub(crate) struct Progress(ProgressBar);

impl Progress {
    /// A bar up to `length`, or a spinner if the length is not known. The template is indicatif's.
    pub(crate) fn new(output: Output, length: Option<u64>, template: &str) -> Self {
        if output.verbosity() == Verbosity::Quiet {
            return Self(ProgressBar::hidden());
        }
        // Without a terminal, indicatif draws nothing.
        let bar = length.map_or_else(ProgressBar::new_spinner, ProgressBar::new);
        let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
        Self(bar.with_style(style))
    }

    /// Sets the position, and the text for `{msg}` of the template.
    pub(crate) fn set(&self, position: u64, message: impl Into<String>) {
        self.0.set_message(message.into());
        self.0.set_position(position);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
