//! Ctrl-C and what service managers send instead.

use std::io;
use std::time::Duration;

use postrider::{Code, Error};

use crate::failure::Failure;

/// Some programs send a request twice, to the process and to its group. A person does not press so fast.
const ECHO_MAX: Duration = Duration::from_millis(200);

/// Listens for requests to stop. From here on they no longer end the process by themselves.
#[derive(Debug)]
pub struct Interrupts {
    #[cfg(unix)]
    signals: [tokio::signal::unix::Signal; 3],
}

impl Interrupts {
    /// Begins to listen. Needs a tokio runtime.
    ///
    /// # Errors
    /// If the operating system does not allow to listen.
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
    /// Waits for a request that is not the echo of one that has just come.
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

/// Runs a command's future on a runtime of its own.
///
/// # Errors
/// What the future says, or that there is no runtime to be had.
pub fn block_on<T>(threads: Threads, work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    let mut builder = match threads {
        Threads::One => tokio::runtime::Builder::new_current_thread(),
        Threads::Many => tokio::runtime::Builder::new_multi_thread(),
    };
    let runtime = builder.enable_all().build();
    let runtime =
        runtime.map_err(|e| Error::new(Code::RelayStopped, "cannot start a runtime").with_source(e))?;
    let ended = runtime.block_on(work);
    // A call that hangs must not keep a command that was told to stop.
    runtime.shutdown_background();
    ended
}

/// How many threads a runtime has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Threads {
    /// The calling one.
    One,
    /// One per core.
    Many,
}
