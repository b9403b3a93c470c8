//! Ctrl-C, and the signals that service managers send.

use std::io;
use std::time::Duration;

use postrider::{Code, Error};

use crate::failure::Failure;

/// Some programs send a signal twice, to the process and to its group. A second signal within this time is ignored.
const ECHO_MAX: Duration = Duration::from_millis(200);

/// Listens for signals that request a stop. While it exists, these signals no longer end the process.
#[derive(Debug)]
pub struct Interrupts {
    #[cfg(unix)]
    signals: [tokio::signal::unix::Signal; 3],
}

impl Interrupts {
    /// Starts to listen. Needs a tokio runtime.
    ///
    /// # Errors
    /// If the signal handlers cannot be installed.
    pub fn listen() -> Result<Self, Error> {
        Self::open().map_err(|e| Error::new(Code::RelayStopped, "cannot listen for Ctrl-C").with_source(e))
    }

    #[cfg(unix)]
    fn open() -> io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        let signals = [
            signal(SignalKind::interrupt())?,
            signal(SignalKind::terminate())?,
            signal(SignalKind::hangup())?,
        ];
        Ok(Self { signals })
    }

    #[cfg(not(unix))]
    fn open() -> io::Result<Self> {
        Ok(Self {})
    }

    /// Waits for the next request. Dropping the future misses none.
    #[cfg(unix)]
    pub async fn next(&mut self) {
        let [interrupt, terminate, hangup] = &mut self.signals;
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
            _ = hangup.recv() => {}
        }
    }

    /// Waits for the next request.
    #[cfg(not(unix))]
    pub async fn next(&mut self) {
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

impl Interrupts {
    /// Waits for a request that is not the duplicate of the previous one.
    pub async fn next_but_echo(&mut self) {
        let echoes = tokio::time::sleep(ECHO_MAX);
        tokio::pin!(echoes);
        loop {
            tokio::select! {
                biased;
                () = self.next() => if echoes.is_elapsed() { return },
                () = &mut echoes, if !echoes.is_elapsed() => {}
            }
        }
    }
}

/// Runs a command's future on a new runtime.
///
/// # Errors
/// The future's error, or that the runtime could not be created.
pub fn block_on<T>(threads: Threads, work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    let mut builder = match threads {
        Threads::One => tokio::runtime::Builder::new_current_thread(),
        Threads::Many => tokio::runtime::Builder::new_multi_thread(),
    };
    let runtime = builder.enable_all().build();
    let runtime =
        runtime.map_err(|e| Error::new(Code::RelayStopped, "cannot start a runtime").with_source(e))?;
    let ended = runtime.block_on(work);
    // A call that hangs must not prevent the command from stopping.
    runtime.shutdown_background();
    ended
}

/// How many threads a runtime has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Threads {
    /// The calling thread.
    One,
    /// One thread per core.
    Many,
}
