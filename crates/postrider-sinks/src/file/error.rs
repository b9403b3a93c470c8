//! What an error of the file system means for the messages.

use std::io;
use std::path::Path;

use postrider::sink::{Failure, Outcome};
use postrider::{Code, Error};

use crate::json_lines::JsonLines;

/// Why a batch was not appended.
#[derive(Debug)]
pub(super) enum Broken {
    /// The file is as it was before.
    Unchanged(io::Error),
    /// The file may hold some or all of the batch.
    Unknown(io::Error),
}

impl Broken {
    /// No error of a file system is a message's fault: a full disk is as full for the next one.
    pub(super) fn outcomes(self, lines: JsonLines, path: &Path) -> Vec<Outcome> {
        match self {
            Self::Unchanged(error) => lines.down_after(0, failure(path, &error)),
            Self::Unknown(error) => lines.ambiguous(failure(path, &error)),
        }
    }
}

impl From<io::Error> for Broken {
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
