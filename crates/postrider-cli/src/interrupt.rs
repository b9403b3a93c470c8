//! Ctrl-C, and the other polite ways to ask a program to end.

use std::io;

use postrider::{Code, Error, Result};

/// Listens for requests to end. From its making on, they no longer kill the program.
#[derive(Debug)]
pub(crate) struct Interrupts {
    #[cfg(unix)]
    signals: [tokio::signal::unix::Signal; 3],
}

impl Interrupts {
    /// Begins to listen. Needs a tokio runtime around it.
    pub(crate) fn listen() -> Result<Self> {
        Self::open().map_err(|error| Error::new(Code::StoreFailed, "cannot listen for Ctrl-C").source(error))
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

    /// Waits for the next request.
    #[cfg(unix)]
    pub(crate) async fn next(&mut self) {
        let [interrupt, terminate, hangup] = &mut self.signals;
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
            _ = hangup.recv() => {}
        }
    }

    /// Waits for the next request.
    #[cfg(not(unix))]
    pub(crate) async fn next(&mut self) {
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending().await
        }
    }
}
