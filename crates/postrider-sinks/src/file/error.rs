//! Outcomes of messages after an error of the file system.

use std::io;
use std::path::Path;

use postrider::sink::{Failure, Outcome};
use postrider::{Code, Error};

use crate::json_lines::JsonLines;

/// Why a batch was not appended.
#[derive(Debug)]
pub(super) enum AppendError {
    /// The file is as it was before.
    Unchanged(io::Error),
    /// The file may contain some or all of the batch.
    Unknown(io::Error),
}

impl AppendError {
    /// A file system error is never caused by a message: a full disk is also full for the next one.
    pub(super) fn outcomes(self, lines: JsonLines, path: &Path) -> Vec<Outcome> {
        match self {
            Self::Unchanged(error) => lines.down_after(0, failure(path, &error)),
            Self::Unknown(error) => lines.ambiguous(failure(path, &error)),
        }
    }
}

impl From<io::Error> for AppendError {
    fn from(error: io::Error) -> Self {
        Self::Unchanged(error)
    }
}

pub(super) fn not_opened(path: &Path, error: io::Error) -> Error {
    Error::new(Code::SinkOpen, format!("cannot open {} for appending", path.display())).with_source(error)
}

fn failure(path: &Path, error: &io::Error) -> Failure {
    Failure::new(format!("cannot append to {}: {error}", path.display()))
}
