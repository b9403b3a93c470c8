//! Why a command failed.

use postrider::Error;

use crate::config::Problem;
use crate::exit::Exit;

/// The error of a command. Commands return it instead of printing.
#[derive(Debug)]
pub enum Failure {
    /// Errors to print, at least one.
    Errors(Vec<Error>),
    /// The command line is invalid; clap prints the message.
    Usage(clap::Error),
    /// The command has printed its findings; only the exit code remains.
    Reported(Exit),
    /// The reader of standard output has closed it. Nothing is printed.
    ClosedPipe,
    /// The user pressed Ctrl-C.
    Interrupted,
    /// The user answered no. Nothing was changed.
    Declined,
}

impl Failure {
    /// The exit code: that of the first error.
    pub fn exit(&self) -> Exit {
        match self {
            Self::Errors(errors) => errors.first().map_or(Exit::Failed, |error| error.code().into()),
            Self::Usage(_) => Exit::Usage,
            Self::Reported(exit) => *exit,
            Self::ClosedPipe => Exit::ClosedPipe,
            Self::Interrupted => Exit::Interrupted,
            Self::Declined => Exit::Failed,
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Errors(vec![error])
    }
}

impl From<Problem> for Failure {
    fn from(problem: Problem) -> Self {
        vec![problem].into()
    }
}

impl From<Vec<Problem>> for Failure {
    fn from(problems: Vec<Problem>) -> Self {
        Self::Errors(problems.into_iter().map(Error::from).collect())
    }
}
