//! A second server on a copy of the data.

use super::server::Server;
use crate::servers::Copy;
use crate::servers::place::{Place, duplicate};

impl Server {
    /// Starts another server with the same options on the copied data, with its own `server_uuid`. It is what a replica
    /// that lags becomes when it is promoted.
    ///
    /// # Errors
    /// The error of the server or of copying.
    pub fn twin(&self, copy: &Copy) -> Result<Self, String> {
        let place = Place::new(self.options.kind().name(), self.place.account)?;
        duplicate(&copy.0, &place.data()).inspect_err(|_| place.remove())?;
        _ = std::fs::remove_file(place.data().join("auto.cnf"));
        Self::on(place, self.programs.clone(), self.options.clone())
    }
}
