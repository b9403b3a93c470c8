//! JSON lines on standard output.

use std::io::{self, Write};

use postrider::sink::{Capabilities, Failure, Message, Outcome, Sink};
use postrider::{BoxFuture, Code, Error, Result};

use crate::json_lines::JsonLines;
use crate::worker::{Target, Worker};

/// Writes each body and a line break to standard output, or to any writer.
///
/// - Acknowledged means that the operating system has the bytes. If the reader of a pipe dies, bytes in the pipe are
///   lost.
/// - A body with a line break is rejected.
/// - It stops at the first error. If that leaves a partial line, the next write begins with a line break, so that the
///   reader sees one invalid line and never two events in one line.
/// - Nothing else in the process should print to standard output.
#[derive(Debug)]
pub struct Stdout {
    worker: Worker,
}

impl Stdout {
    /// Writes to the process's standard output.
    ///
    /// # Errors
    /// [`Code::SinkOpen`] if standard output is closed or no thread can be started.
    pub fn new() -> Result<Self> {
        standard_output().map_err(failed).and_then(Self::to)
    }

    /// Writes to this writer, from a dedicated thread.
    ///
    /// # Errors
    /// [`Code::SinkOpen`] if no thread can be started.
    pub fn to(writer: impl Write + Send + 'static) -> Result<Self> {
        let worker = Worker::start("postrider-stdout", Stream { writer, torn: false }).map_err(failed)?;
        Ok(Self { worker })
    }
}

impl Sink for Stdout {
    fn publish<'a>(&'a self, batch: &'a [Message]) -> BoxFuture<'a, Vec<Outcome>> {
        Box::pin(self.worker.publish(batch))
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::PREFIX_SAFE
    }
}

fn failed(error: io::Error) -> Error {
    Error::new(Code::SinkOpen, "cannot open standard output").with_source(error)
}

/// Standard output without the buffer of the standard library, which would hide how much was written.
#[cfg(unix)]
fn standard_output() -> io::Result<impl Write + Send + 'static> {
    use std::os::fd::AsFd;
    io::stdout().as_fd().try_clone_to_owned().map(std::fs::File::from)
}

#[cfg(not(unix))]
fn standard_output() -> io::Result<impl Write + Send + 'static> {
    Ok(io::stdout())
}

/// A writer that cannot take back what it wrote.
struct Stream<W> {
    writer: W,
    /// The last write ended inside a line.
    torn: bool,
}

impl<W: Write + Send + 'static> Target for Stream<W> {
    fn write(&mut self, lines: JsonLines) -> Vec<Outcome> {
        if self.torn && self.writer.write_all(b"\n").is_ok() {
            self.torn = false;
        }
        if self.torn {
            return lines.down_after(0, Failure::new("standard output is still blocked"));
        }
        let (written, error) = write_counting(&mut self.writer, lines.bytes());
        let ends_whole = written == 0 || lines.bytes().get(written - 1) == Some(&b'\n');
        self.torn = !ends_whole;
        match (self.writer.flush(), error) {
            (Err(unflushed), _) => {
                // The buffer may have lost data in the middle of a line.
                self.torn = true;
                lines.ambiguous(failure(&unflushed))
            }
            (Ok(()), Some(error)) => lines.down_after(written, failure(&error)),
            (Ok(()), None) => lines.acknowledged(),
        }
    }
}

/// Writes all bytes. Returns how many were written, and the error that stopped it.
fn write_counting(writer: &mut impl Write, bytes: &[u8]) -> (usize, Option<io::Error>) {
    let mut written = 0;
    while let Some(rest) = bytes.get(written..).filter(|rest| !rest.is_empty()) {
        match writer.write(rest) {
            Ok(0) => return (written, Some(io::ErrorKind::WriteZero.into())),
            Ok(count) => written += count,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return (written, Some(e)),
        }
    }
    (written, None)
}

fn failure(error: &io::Error) -> Failure {
    Failure::new(format!("cannot write to standard output: {error}"))
}

#[cfg(test)]
mod tests {
    use std::fs::OpenOptions;

    use super::*;

    /// Accepts a number of bytes, fails once, then accepts everything.
    struct FailsOnce {
        room: Option<usize>,
        taken: std::sync::Arc<std::sync::Mutex<Vec<u8>>>,
    }

    impl Write for FailsOnce {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let room = match self.room {
                Some(0) => {
                    self.room = None;
                    return Err(io::ErrorKind::BrokenPipe.into());
                }
                Some(room) => room.min(bytes.len()),
                None => bytes.len(),
            };
            self.room = self.room.map(|left| left - room);
            self.taken.lock().unwrap().extend_from_slice(&bytes[..room]);
            Ok(room)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[tokio::test]
    async fn a_full_disk_behind_standard_output_is_an_outage() {
        let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
        let outcomes = Stdout::to(full).unwrap().publish(&crate::json_lines::tests::batch(["1", "2"])).await;
        assert!(
            matches!(&outcomes[0], Outcome::Down(f) if f.message.contains("No space left")),
            "{outcomes:?}"
        );
        assert_eq!(outcomes[1], Outcome::Untried);
    }

    #[tokio::test]
    async fn whole_lines_before_an_error_are_acknowledged_and_a_torn_one_is_ended() {
        let taken = std::sync::Arc::default();
        let sink = Stdout::to(FailsOnce { room: Some(4), taken: std::sync::Arc::clone(&taken) }).unwrap();
        let batch = crate::json_lines::tests::batch(["11", "22", "33"]);
        let outcomes = sink.publish(&batch).await;
        assert!(
            matches!(outcomes[..], [Outcome::Acknowledged(_), Outcome::Down(_), Outcome::Untried]),
            "{outcomes:?}"
        );
        let outcomes = sink.publish(&batch[1..]).await;
        assert!(matches!(outcomes[..], [Outcome::Acknowledged(_), Outcome::Acknowledged(_)]), "{outcomes:?}");
        assert_eq!(taken.lock().unwrap().as_slice(), b"11\n2\n22\n33\n");
    }
}
