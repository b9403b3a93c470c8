//! `audit`: every event as a line of JSON in a file.

use std::fs;
use std::path::{Path, PathBuf};

use postrider::sink::{Capabilities, Message, Outcome, Sink};
use postrider::{BoxFuture, Code, Error, Result};
use postrider_sinks::file::{File, FileConfig};
use postrider_verify::Sighting;
use serde::Deserialize;
use uuid::Uuid;

use super::Destination;

/// The file sink. What it received is read from the file.
#[derive(Debug)]
pub(crate) struct AuditFile {
    sink: File,
    path: PathBuf,
}

impl AuditFile {
    pub(crate) fn open(path: &Path) -> Result<Self> {
        Ok(Self { sink: File::open(&FileConfig::new(path))?, path: path.to_owned() })
    }
}

impl Sink for AuditFile {
    fn publish<'a>(&'a self, batch: &'a [Message]) -> BoxFuture<'a, Vec<Outcome>> {
        self.sink.publish(batch)
    }

    fn capabilities(&self) -> Capabilities {
        self.sink.capabilities()
    }
}

impl Destination for AuditFile {
    fn received(&self) -> Result<Vec<Sighting>> {
        let text = fs::read_to_string(&self.path).map_err(|error| {
            Error::new(Code::SinkFailed, format!("cannot read {} back", self.path.display()))
                .with_source(error)
        })?;
        Ok(text.lines().map(sighting).collect())
    }
}

/// A line that cannot be an event counts as an event that was never written.
fn sighting(line: &str) -> Sighting {
    match serde_json::from_str::<Line>(line) {
        Ok(Line { id, key, payload }) => Sighting { id, key, version: payload.version },
        Err(_) => Sighting { id: Uuid::nil(), key: line.to_owned(), version: 0 },
    }
}

/// The fields of an envelope that the check uses.
#[derive(Deserialize)]
struct Line {
    id: Uuid,
    key: String,
    payload: Payload,
}

#[derive(Deserialize)]
pub(super) struct Payload {
    pub(super) version: u64,
}
