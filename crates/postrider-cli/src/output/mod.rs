//! What people and programs see: data on standard output, talk on standard error.

mod age;
mod count;
mod paint;
mod progress;
mod table;

pub use age::age;
pub use count::count;
pub use paint::{ColorWhen, Paint};
pub(crate) use progress::Progress;
pub use table::{Align, Table};

use std::fmt::Display;
use std::io::{self, ErrorKind, Write};

use postrider::{Code, Error};
use serde::Serialize;

use crate::config::url;
use crate::failure::Failure;

/// Data that can be shown as a table, and as JSON by being serialised.
pub trait View: Serialize {
    /// For people.
    fn table(&self) -> Table;
}

/// Where a command's words go. Commands print through this and nothing else.
#[derive(Debug, Clone, Copy)]
pub struct Output {
    json: bool,
    stdout: Paint,
    stderr: Paint,
    verbosity: Verbosity,
}

/// How much is said on standard error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verbosity {
    /// Errors only.
    Quiet,
    /// What one wants to know.
    Normal,
    /// And the details.
    Verbose,
    /// And what only those who look for a mistake want to see.
    Everything,
}

impl Output {
    /// Decides on colours once, for the whole run.
    pub fn new(json: bool, color: ColorWhen, verbosity: Verbosity) -> Self {
        Self { json, stdout: Paint::for_stdout(color), stderr: Paint::for_stderr(color), verbosity }
    }

    /// Whether data is wanted as JSON.
    pub fn is_json(&self) -> bool {
        self.json
    }

    /// How much is said on standard error.
    pub fn verbosity(&self) -> Verbosity {
        self.verbosity
    }

    /// Whether what is said on standard error has colours.
    pub fn colours_talk(&self) -> bool {
        self.stderr.is_on()
    }

    /// How standard output is coloured, for those who lay their text out themselves.
    pub fn paint(&self) -> Paint {
        self.stdout
    }

    /// Prints data: as JSON with `--json`, else as a table.
    ///
    /// # Errors
    /// As [`text`](Self::text).
    pub fn data(&self, view: &impl View) -> Result<(), Failure> {
        if self.json { self.json(view) } else { self.text(view.table().render(self.stdout)) }
    }

    /// Prints data as JSON, whatever was asked.
    ///
    /// # Errors
    /// As [`text`](Self::text).
    pub fn json(&self, data: &impl Serialize) -> Result<(), Failure> {
        let text = serde_json::to_string_pretty(data)
            .map_err(|e| Error::new(Code::OutputFailed, "cannot write this as JSON").with_source(e))?;
        self.text(text)
    }

    /// Prints data as it is, and a line break if it does not end in one.
    ///
    /// # Errors
    /// [`Failure::ClosedPipe`] if the reader is gone, else [`Code::OutputFailed`].
    pub fn text(&self, text: impl Display) -> Result<(), Failure> {
        write(&mut io::stdout().lock(), &text.to_string()).map_err(|e| match e.kind() {
            ErrorKind::BrokenPipe => Failure::ClosedPipe,
            _ => Error::new(Code::OutputFailed, "cannot write to standard output").with_source(e).into(),
        })
    }

    /// Says something a person wants to know. Not an error if the reader is gone.
    pub fn say(&self, text: impl Display) {
        self.talk(Verbosity::Normal, text);
    }

    /// Says something that only `-v` shows.
    pub fn detail(&self, text: impl Display) {
        self.talk(Verbosity::Verbose, text);
    }

    fn talk(&self, needed: Verbosity, text: impl Display) {
        if self.verbosity >= needed {
            let _ = write(&mut io::stderr().lock(), &text.to_string());
        }
    }

    /// Prints help or the version: what was asked for is data.
    ///
    /// # Errors
    /// As [`text`](Self::text).
    pub fn help(&self, asked: &clap::Error) -> Result<(), Failure> {
        self.text(self.stdout.clap(asked))
    }

    /// Tells why a command did not end well.
    pub fn failure(&self, failure: &Failure) {
        let text = match failure {
            Failure::Errors(errors) => errors.iter().map(|e| self.stderr.error(&e.report())).collect(),
            Failure::Usage(error) => self.stderr.clap(error),
            Failure::NotBuilt(command) => {
                self.stderr.error(&format!("error: `postrider {command}` is not implemented yet"))
            }
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
