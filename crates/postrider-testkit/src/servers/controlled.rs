//! The operations that every private database server supports, and copies of its data.

use std::path::{Path, PathBuf};

use super::server_folder::duplicate;

/// A private server that a test controls. Every call blocks until it is done.
pub trait Controlled: Send + Sync {
    /// Its port on loopback.
    fn port(&self) -> u16;

    /// The folder of its data.
    fn data(&self) -> PathBuf;

    /// The folder that is removed with it.
    fn folder(&self) -> &Path;

    /// Stops it cleanly, without waiting for clients.
    ///
    /// # Errors
    /// If the server process does not follow the command.
    fn stop(&self) -> Result<(), String>;

    /// Kills it at once, as a crash of the machine would.
    ///
    /// # Errors
    /// If the server process does not follow the command.
    fn kill(&self) -> Result<(), String>;

    /// Starts it again on its data and its port.
    ///
    /// # Errors
    /// The error of the server.
    fn start(&self) -> Result<(), String>;

    /// Stops the server, copies its data, and starts it again.
    ///
    /// # Errors
    /// The error of the server or of copying.
    fn back_up(&self) -> Result<Copy, String> {
        self.stop()?;
        let copy = self.folder().join(format!("copy-{}", uuid::Uuid::now_v7().simple()));
        duplicate(&self.data(), &copy)?;
        self.start()?;
        Ok(Copy(copy))
    }

    /// Stops the server and starts it with the copied data: later commits are lost. MySQL keeps its `server_uuid`.
    ///
    /// # Errors
    /// The error of the server or of copying.
    fn restore(&self, copy: &Copy) -> Result<(), String> {
        self.stop()?;
        std::fs::remove_dir_all(self.data()).map_err(|e| format!("the data cannot be removed: {e}"))?;
        duplicate(&copy.0, &self.data())?;
        self.start()
    }
}

/// The data of a server at the time it was stopped. It is in the server's folder, and is removed with it.
#[derive(Debug)]
pub struct Copy(pub(super) PathBuf);

/// Implements [`Controlled`] for a server with methods of the same names and a `folder`.
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
                &self.folder.path
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
