//! A bar on standard error, if it is a terminal.

use std::io;

use indicatif::{ProgressBar, ProgressStyle};

use crate::output::{Output, Verbosity};

/// How far the input is written.
pub(super) struct Progress(ProgressBar);

impl Progress {
    /// Shown only on a terminal, and not with `-q`. A bar if the input is a file, whose end is known.
    pub(super) fn new(output: Output) -> Self {
        if output.verbosity() == Verbosity::Quiet {
            return Self(ProgressBar::hidden());
        }
        // On anything but a terminal indicatif draws nothing.
        let (bar, template) = match input_bytes() {
            Some(bytes) => {
                (ProgressBar::new(bytes), "{bar:30} {percent:>3}%  {msg} events  {elapsed}, {eta} left")
            }
            None => (ProgressBar::new_spinner(), "{spinner} {msg} events  {elapsed}"),
        };
        let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
        Self(bar.with_style(style))
    }

    pub(super) fn set(&self, bytes_read: u64, committed: u64) {
        self.0.set_message(committed.to_string());
        self.0.set_position(bytes_read);
    }
}

impl Drop for Progress {
    /// Leaves the line to what is said next.
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

#[cfg(unix)]
fn input_bytes() -> Option<u64> {
    use std::os::fd::AsFd;
    let input = std::fs::File::from(io::stdin().as_fd().try_clone_to_owned().ok()?);
    input.metadata().ok().filter(|input| input.is_file()).map(|input| input.len())
}

#[cfg(not(unix))]
fn input_bytes() -> Option<u64> {
    let _ = io::stdin();
    None
}
