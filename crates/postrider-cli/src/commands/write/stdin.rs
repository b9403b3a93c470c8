//! Reads standard input line by line, without blocking the rest of the program.

use std::io::{self, BufRead, Read};

use postrider::{Code, Error, Result};
use tokio::sync::mpsc;

/// Maximum number of lines read ahead.
const LINES_AHEAD_MAX: usize = 64;

/// A line that is not blank.
pub(super) struct Line {
    /// Counted from 1, including blank lines.
    pub(super) number: u64,
    /// Without its line break.
    pub(super) bytes: Vec<u8>,
    /// Number of bytes read up to its end.
    pub(super) bytes_read: u64,
}

/// Reads standard input in a separate thread, which ends with the program because a read cannot be cancelled.
///
/// # Errors
/// If no thread can be started.
pub(super) fn lines(line_bytes_max: usize) -> Result<mpsc::Receiver<Result<Line>>> {
    let (sender, lines) = mpsc::channel(LINES_AHEAD_MAX);
    let read = move || {
        let mut reader = Reader { input: io::stdin().lock(), line_bytes_max, number: 0, bytes_read: 0 };
        while let Some(line) = reader.next().transpose() {
            let failed = line.is_err();
            if sender.blocking_send(line).is_err() || failed {
                break;
            }
        }
    };
    match std::thread::Builder::new().name("postrider-stdin".into()).spawn(read) {
        Ok(_detached) => Ok(lines),
        Err(e) => Err(unreadable(e)),
    }
}

struct Reader<R> {
    input: R,
    line_bytes_max: usize,
    number: u64,
    bytes_read: u64,
}

impl<R: BufRead> Reader<R> {
    /// The next line that is not blank.
    fn next(&mut self) -> Result<Option<Line>> {
        loop {
            let mut bytes = Vec::new();
            let max = self.line_bytes_max as u64;
            let read = self.input.by_ref().take(max + 1).read_until(b'\n', &mut bytes).map_err(unreadable)?;
            if read == 0 {
                return Ok(None);
            }
            self.number += 1;
            self.bytes_read += read as u64;
            let bytes = bytes.trim_ascii();
            if bytes.len() > self.line_bytes_max {
                let what = format!("line {} has more than {max} bytes", self.number);
                return Err(Error::new(Code::EventUnreadable, what)
                    .with_hint("a payload within the size limit never needs this many"));
            }
            if !bytes.is_empty() {
                let bytes = bytes.to_vec();
                return Ok(Some(Line { number: self.number, bytes, bytes_read: self.bytes_read }));
            }
        }
    }
}

fn unreadable(error: io::Error) -> Error {
    Error::new(Code::InputMissing, "cannot read standard input").with_source(error)
}

/// The size of standard input, if it is a file.
#[cfg(unix)]
pub(super) fn file_bytes() -> Option<u64> {
    use std::os::fd::AsFd;
    let input = std::fs::File::from(io::stdin().as_fd().try_clone_to_owned().ok()?);
    input.metadata().ok().filter(|input| input.is_file()).map(|input| input.len())
}

#[cfg(not(unix))]
pub(super) fn file_bytes() -> Option<u64> {
    let _ = io::stdin();
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blank_lines_are_counted_and_left_out() {
        let mut reader =
            Reader { input: &b"\n a \r\n\n  \nb"[..], line_bytes_max: 9, number: 0, bytes_read: 0 };
        let mut next = || reader.next().unwrap().map(|line| (line.number, line.bytes));
        assert_eq!(next(), Some((2, b"a".to_vec())));
        assert_eq!(next(), Some((5, b"b".to_vec())));
        assert_eq!(next(), None);
    }

    #[test]
    fn a_line_without_end_is_refused_at_its_limit() {
        let endless = io::repeat(b'x');
        let input = io::BufReader::new(endless);
        let mut reader = Reader { input, line_bytes_max: 1000, number: 0, bytes_read: 0 };
        assert_eq!(reader.next().err().map(|e| e.code()), Some(Code::EventUnreadable));
    }
}
