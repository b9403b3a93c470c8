//! What every private database server can do, and the copy of its data that it can be restored from.

use std::path::{Path, PathBuf};

use super::place::duplicate;

/// A private server under a test's control. Every call blocks until it is done.
pub trait Controlled: Send + Sync {
    /// Its port on loopback.
    fn port(&self) -> u16;

    /// The folder of its data.
    fn data(&self) -> PathBuf;

    /// The folder that is removed with it.
    fn folder(&self) -> &Path;

    /// Stops it in good order, without waiting for clients.
    ///
    /// # Errors
    /// If the server process does not follow the command.
    fn stop(&self) -> Result<(), String>;

    /// Ends it at once, as the death of the machine would.
    ///
    /// # Errors
    /// If the server process does not follow the command.
    fn kill(&self) -> Result<(), String>;

    /// Starts it again on its data and its port.
    ///
    /// # Errors
    /// What the server says.
    fn start(&self) -> Result<(), String>;

    /// Stops the server, keeps a copy of its data, and starts it again.
    ///
    /// # Errors
    /// What the server or the copying says.
    fn back_up(&self) -> Result<Copy, String> {
        self.stop()?;
        let copy = self.folder().join(format!("copy-{}", uuid::Uuid::now_v7().simple()));
        duplicate(&self.data(), &copy)?;
        self.start()?;
        Ok(Copy(copy))
    }

    /// Stops the server and starts it with the data of the copy: what was committed since is gone. A MySQL keeps the
    /// `server_uuid` it had.
    ///
    /// # Errors
    /// What the server or the copying says.
    fn restore(&self, copy: &Copy) -> Result<(), String> {
        self.stop()?;
        std::fs::remove_dir_all(self.data()).map_err(|e| format!("the data cannot be removed: {e}"))?;
        duplicate(&copy.0, &self.data())?;
        self.start()
    }
}

/// What a server held when it was stopped. Lives in the server's folder and is removed with it.
#[derive(Debug)]
pub struct Copy(pub(super) PathBuf);

/// The calls of a server that has them as its own, and a place.
macro_rules! controlled {
    ($server:ty) => {
        impl $crate::servers::Controlled for $server {
            fn port(&self) -> u16 {
                Self::port(self)
            }

            fn data(&self) -> std::path::PathBuf {
                Self::data(self)
            }

            fn folder(&self) -> &std::path::Path {
                &self.place.folder
            }

            fn stop(&self) -> Result<(), String> {
                Self::stop(self)
            }

            fn kill(&self) -> Result<(), String> {
                Self::kill(self)
            }

            fn start(&self) -> Result<(), String> {
                Self::start(self)
            }
        }
    };
}
pub(super) use controlled;
