//! The data of a stopped server, to put back later or to start another server on.

use std::path::PathBuf;

use super::server::Server;
use crate::servers::place::{Place, duplicate};

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

    /// Stops the server and starts it with the data of the copy: what was committed since is gone. It keeps the
    /// `server_uuid` it had.
    ///
    /// # Errors
    /// What the server or the copying says.
    pub fn restore(&self, copy: &Copy) -> Result<(), String> {
        self.stop()?;
        std::fs::remove_dir_all(self.data()).map_err(|e| format!("the data cannot be removed: {e}"))?;
        duplicate(&copy.0, &self.data())?;
        self.start()
    }

    /// Another server with the same options on the data of the copy, with a `server_uuid` of its own: what a replica
    /// that was behind becomes when it is made the primary.
    ///
    /// # Errors
    /// What the server or the copying says.
    pub fn twin(&self, copy: &Copy) -> Result<Self, String> {
        let place = Place::new(self.options.kind().name(), self.place.account)?;
        duplicate(&copy.0, &place.data()).inspect_err(|_| place.remove())?;
        _ = std::fs::remove_file(place.data().join("auto.cnf"));
        Self::on(place, self.programs.clone(), self.options.clone())
    }
}
