//! The sink.

use postrider::sink::{Capabilities, Message, Outcome, Sink};
use postrider::{BoxFuture, Result};

use super::config::FileConfig;
use super::error::not_opened;
use super::log::Log;
use crate::json_lines::JsonLines;
use crate::worker::{Target, Worker};

/// Appends each body and a line break to a file.
///
/// - Acknowledged means that the line is on disk (`fdatasync`), under a name that survives a power failure.
/// - A batch is one write. After an error, the file is truncated to what was acknowledged before, so that no partial
///   line remains; a full disk is an outage. If the truncation fails too, the batch is ambiguous.
/// - A partial line at the end of the file, left by a crash, is removed at the next open or batch. It was never
///   acknowledged, so its event is written again.
/// - Batches never mix, also not those of several processes: each takes the lock on `<path>.lock`.
/// - A body with a line break is rejected, and the batch stops there.
/// - Before the file grows larger than `rotate_bytes`, it is renamed to `<path>.N` with the next number. A batch is
///   never split over two files; a batch larger than the limit gets a separate file. Old files are never deleted.
/// - A reader may see lines of a batch before they are acknowledged, and see them disappear after an error.
#[derive(Debug)]
pub struct File {
    worker: Worker,
}

impl File {
    /// Opens or creates the file. This blocks.
    ///
    /// # Errors
    /// [`Code::SinkOpen`](postrider::Code::SinkOpen) if the file cannot be written or no thread can be started.
    pub fn open(config: &FileConfig) -> Result<Self> {
        let open = || Worker::start("postrider-file", Log::open(config, |file| Box::new(file))?);
        let worker = open().map_err(|error| not_opened(&config.path, error))?;
        Ok(Self { worker })
    }
}

impl Sink for File {
    fn publish<'a>(&'a self, batch: &'a [Message]) -> BoxFuture<'a, Vec<Outcome>> {
        Box::pin(self.worker.publish(batch))
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::PREFIX_SAFE
    }
}

impl Target for Log {
    fn write(&mut self, lines: JsonLines) -> Vec<Outcome> {
        match self.append(lines.bytes()) {
            Ok(()) => lines.acknowledged(),
            Err(error) => error.outcomes(lines, self.path()),
        }
    }
}
