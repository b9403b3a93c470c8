//! Output: data on standard output, messages on standard error.

mod figures;
mod paint;
mod progress;
mod table;

pub use figures::{age, count};
pub use paint::{ColorWhen, Paint};
pub(crate) use progress::Progress;
pub use table::{Align, Table};

use std::fmt::Display;
use std::io::{self, ErrorKind, Write};

use postrider::{Code, Error};
use serde::Serialize;

use crate::config::url;
use crate::failure::Failure;

/// Data that is printed as a table, or as JSON by serialisation.
pub trait View: Serialize {
    /// The table.
    fn table(&self) -> Table;

    /// More tables, printed after it.
    fn more(&self) -> Vec<Table> {
        Vec::new()
    }
}

/// The output of a command. Commands print only through this.
#[derive(Debug, Clone, Copy)]
pub struct Output {
    json: bool,
    stdout: Paint,
    stderr: Paint,
    verbosity: Verbosity,
}

/// Which messages are printed on standard error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verbosity {
    /// Errors only.
    Quiet,
    /// Also messages about results.
    Normal,
    /// Also details.
    Verbose,
    /// Everything, for debugging.
    Everything,
}

impl Output {
    /// Decides once per run whether to use colours.
    pub fn new(json: bool, color: ColorWhen, verbosity: Verbosity) -> Self {
        Self { json, stdout: Paint::for_stdout(color), stderr: Paint::for_stderr(color), verbosity }
    }

    /// Whether data is printed as JSON.
    pub fn is_json(&self) -> bool {
        self.json
    }

    /// Which messages are printed on standard error.
    pub fn verbosity(&self) -> Verbosity {
        self.verbosity
    }

    /// Whether messages on standard error have colours.
    pub fn colours_talk(&self) -> bool {
        self.stderr.is_on()
    }

    /// The colours of standard output, for callers that format their own text.
    pub fn paint(&self) -> Paint {
        self.stdout
    }

    /// Prints data: as JSON with `--json`, otherwise as a table.
    ///
    /// # Errors
    /// As [`text`](Self::text).
    pub fn data(&self, view: &impl View) -> Result<(), Failure> {
        if self.json {
            return self.json(view);
        }
        let tables = [view.table()].into_iter().chain(view.more());
        let tables: Vec<String> = tables.map(|table| table.render(self.stdout)).collect();
        self.text(tables.join("\n\n"))
    }

    /// Prints data as JSON, with or without `--json`.
    ///
    /// # Errors
    /// As [`text`](Self::text).
    pub fn json(&self, data: &impl Serialize) -> Result<(), Failure> {
        let text = serde_json::to_string_pretty(data)
            .map_err(|e| Error::new(Code::OutputFailed, "cannot write this as JSON").with_source(e))?;
        self.text(text)
    }

    /// Prints data as JSON on one line.
    ///
    /// # Errors
    /// As [`text`](Self::text).
    pub fn json_line(&self, data: &impl Serialize) -> Result<(), Failure> {
        let text = serde_json::to_string(data)
            .map_err(|e| Error::new(Code::OutputFailed, "cannot write this as JSON").with_source(e))?;
        self.text(text)
    }

    /// Prints a text, and a line break if it does not end with one.
    ///
    /// # Errors
    /// [`Failure::ClosedPipe`] if the reader has closed the pipe, otherwise [`Code::OutputFailed`].
    pub fn text(&self, text: impl Display) -> Result<(), Failure> {
        write(&mut io::stdout().lock(), &text.to_string()).map_err(|e| match e.kind() {
            ErrorKind::BrokenPipe => Failure::ClosedPipe,
            _ => Error::new(Code::OutputFailed, "cannot write to standard output").with_source(e).into(),
        })
    }

    /// Prints a message on standard error. It is not an error if the reader has closed it.
    pub fn say(&self, text: impl Display) {
        self.talk(Verbosity::Normal, text);
    }

    /// Prints a message that only `-v` shows.
    pub fn detail(&self, text: impl Display) {
        self.talk(Verbosity::Verbose, text);
    }

    fn talk(&self, needed: Verbosity, text: impl Display) {
        if self.verbosity >= needed {
            let _ = write(&mut io::stderr().lock(), &text.to_string());
        }
    }

    /// Prints help or the version as data.
    ///
    /// # Errors
    /// As [`text`](Self::text).
    pub fn help(&self, asked: &clap::Error) -> Result<(), Failure> {
        self.text(self.stdout.clap(asked))
    }

    /// Prints why a command failed.
    pub fn failure(&self, failure: &Failure) {
        let text = match failure {
            Failure::Errors(errors) => errors.iter().map(|e| self.stderr.error(&e.report())).collect(),
            Failure::Usage(error) => self.stderr.clap(error),
            Failure::Declined => "nothing was changed".into(),
            Failure::Interrupted => "interrupted".into(),
            Failure::Reported(_) | Failure::ClosedPipe => return,
        };
        let _ = write(&mut io::stderr().lock(), &text);
    }
}

fn write(to: &mut impl Write, text: &str) -> io::Result<()> {
    let text = url::without_passwords(text);
    to.write_all(text.as_bytes())?;
    if !text.ends_with('\n') {
        to.write_all(b"\n")?;
    }
    to.flush()
}
