//! The data of a stopped server, to put back later.

use std::path::PathBuf;

use super::server::Server;
use crate::servers::place::duplicate;

/// What a server held when it was stopped. Lives in the server's folder and is removed with it.
#[derive(Debug)]
pub struct Copy(PathBuf);

impl Server {
    /// Stops the server, keeps a copy of its data, and starts it again.
    ///
    /// # Errors
    /// What the server or the copying says.
    pub fn back_up(&self) -> Result<Copy, String> {
        self.stop()?;
        let copy = self.place.folder.join(format!("copy-{}", uuid::Uuid::now_v7().simple()));
        duplicate(&self.data(), &copy)?;
        self.start()?;
        Ok(Copy(copy))
    }

    /// Stops the server and starts it with the data of the copy: what was committed since is gone.
    ///
    /// # Errors
    /// What the server or the copying says.
    pub fn restore(&self, copy: &Copy) -> Result<(), String> {
        self.stop()?;
        std::fs::remove_dir_all(self.data()).map_err(|e| format!("the data cannot be removed: {e}"))?;
        duplicate(&copy.0, &self.data())?;
        self.start()
    }
}
