//! What the stream can lose after it has acknowledged a message: the audit of `doctor`.

use std::time::Duration;

use async_nats::jetstream::stream::StorageType;
use postrider::{Code, Error, Result};

use super::client::Nats;
use super::session::Found;

/// Where a stream keeps its messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Storage {
    /// Files. The server acknowledges before it syncs them, unless its setting `sync_interval` is `always`.
    File,
    /// Memory: a restart of the servers loses everything.
    Memory,
}

/// What an inspection found.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Inspection {
    /// The version of the server.
    pub server_version: String,
    /// The stream; `None` if it does not exist.
    pub stream: Option<StreamFacts>,
}

/// The facts about a stream that decide what can be lost.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct StreamFacts {
    /// Where it keeps its messages.
    pub storage: Storage,
    /// The number of servers that store it.
    pub replicas: usize,
    /// Its subjects.
    pub subjects: Vec<String>,
    /// How long it recognises duplicates.
    pub duplicate_window: Duration,
    /// It removes old messages, also unread ones, after this time.
    pub age_max: Option<Duration>,
    /// It stores messages without an acknowledgement, so nothing can be delivered to it.
    pub never_acknowledges: bool,
}

impl Nats {
    /// Connects, and looks at the stream.
    ///
    /// # Errors
    /// [`Code::SinkFailed`] if the server cannot be reached, refuses the login, or has no JetStream.
    pub async fn inspect(&self) -> Result<Inspection> {
        let failed = |why: String| Error::new(Code::SinkFailed, why);
        let session = self.session_that_creates_nothing().await.map_err(failed)?;
        let server_version = session.server_version();
        let found = session.find_stream().await;
        session.close().await;
        let stream = match found {
            Found::Stream(info) => info.config,
            Found::Missing => return Ok(Inspection { server_version, stream: None }),
            Found::Unavailable(why) => return Err(failed(format!("{}: {why}", self.config().address()))),
        };
        let storage = match stream.storage {
            StorageType::File => Storage::File,
            StorageType::Memory => Storage::Memory,
        };
        let facts = StreamFacts {
            storage,
            replicas: stream.num_replicas,
            subjects: stream.subjects,
            duplicate_window: stream.duplicate_window,
            age_max: (!stream.max_age.is_zero()).then_some(stream.max_age),
            never_acknowledges: stream.no_ack,
        };
        Ok(Inspection { server_version, stream: Some(facts) })
    }
}
