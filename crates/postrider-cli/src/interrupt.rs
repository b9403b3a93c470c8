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
    /// The process had a terminal when it started.
    had_terminal: bool,
}

/// What a signal asks a relay for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Request {
    /// To stop.
    Stop,
    /// To read the configuration again: SIGHUP, unless the terminal was closed.
    Reload,
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
        Ok(Self { signals, had_terminal: has_terminal() })
    }

    #[cfg(not(unix))]
    fn open() -> io::Result<Self> {
        Ok(Self { had_terminal: has_terminal() })
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
    /// Waits for the next request to a service. Dropping the future misses none.
    #[cfg(unix)]
    pub async fn next_request(&mut self) -> Request {
        let [interrupt, terminate, hangup] = &mut self.signals;
        tokio::select! {
            _ = interrupt.recv() => Request::Stop,
            _ = terminate.recv() => Request::Stop,
            // The end of a terminal sends this signal to what runs in it.
            _ = hangup.recv() => match self.had_terminal && !has_terminal() {
                true => Request::Stop,
                false => Request::Reload,
            },
        }
    }

    /// Waits for the next request to a service.
    #[cfg(not(unix))]
    pub async fn next_request(&mut self) -> Request {
        self.next().await;
        Request::Stop
    }

    /// Waits for the next Ctrl-C or SIGTERM. A SIGHUP is logged: it requests nothing of a command that is stopping.
    #[cfg(unix)]
    async fn next_stop(&mut self) {
        let [interrupt, terminate, hangup] = &mut self.signals;
        loop {
            tokio::select! {
                _ = interrupt.recv() => return,
                _ = terminate.recv() => return,
                _ = hangup.recv() => tracing::info!("SIGHUP is ignored: the relay is stopping"),
            }
        }
    }

    /// Waits for the next Ctrl-C.
    #[cfg(not(unix))]
    async fn next_stop(&mut self) {
        self.next().await;
    }

    /// While the command is stopping: waits for another request to stop that is not the duplicate of the first one.
    pub async fn next_but_echo(&mut self) {
        let echoes = tokio::time::sleep(ECHO_MAX);
        tokio::pin!(echoes);
        loop {
            tokio::select! {
                biased;
                () = self.next_stop() => if echoes.is_elapsed() { return },
                () = &mut echoes, if !echoes.is_elapsed() => {}
            }
        }
    }
}

/// Whether this process has a terminal that can send it signals.
fn has_terminal() -> bool {
    cfg!(unix) && std::fs::File::open("/dev/tty").is_ok()
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
