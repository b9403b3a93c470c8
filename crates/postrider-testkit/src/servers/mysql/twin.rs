//! Another server on the data of a copy.

use super::server::Server;
use crate::servers::Copy;
use crate::servers::place::{Place, duplicate};

impl Server {
    /// Another server with the same options on the data of the copy, with its own `server_uuid`: what a replica
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
