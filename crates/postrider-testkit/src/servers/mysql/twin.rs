//! A second server on a copy of the data.

use super::server::Server;
use crate::servers::Copy;
use crate::servers::server_folder::{ServerFolder, duplicate};

impl Server {
    /// Starts another server with the same options on the copied data, with its own `server_uuid`. It is what a replica
    /// that lags becomes when it is promoted.
    ///
    /// # Errors
    /// The error of the server or of copying.
    pub fn twin(&self, copy: &Copy) -> Result<Self, String> {
        let folder = ServerFolder::new(self.options.kind().name(), self.folder.account)?;
        duplicate(&copy.0, &folder.data()).inspect_err(|_| folder.remove())?;
        _ = std::fs::remove_file(folder.data().join("auto.cnf"));
        Self::on(folder, self.programs.clone(), self.options.clone())
    }
}
