//! A second server that follows a first one.

use super::server::Server;
use crate::servers::place::Place;

impl Server {
    /// A standby that follows this server, asynchronously: it may lack the last commits.
    ///
    /// # Errors
    /// What `pg_basebackup` or the standby says.
    pub fn standby(&self) -> Result<Self, String> {
        let place = Place::new("postgres", self.place.account)?;
        let data = place.data();
        let data = data.to_str().ok_or("the folder has no readable name")?;
        let port = self.port().to_string();
        let arguments = [
            "-h",
            "127.0.0.1",
            "-p",
            &port,
            "-U",
            "postgres",
            "-D",
            data,
            "-R",
            "-X",
            "stream",
            "-c",
            "fast",
            "--no-sync",
        ];
        self.place.account.run(&self.programs.path("pg_basebackup"), &arguments)?;
        Self::on(place, self.programs.clone(), self.settings.clone())
    }

    /// Makes a standby the primary. It begins another timeline.
    ///
    /// # Errors
    /// What `pg_ctl` says, such as that it is no standby.
    pub fn promote(&self) -> Result<(), String> {
        let data = self.data();
        let data = data.to_str().ok_or("the folder has no readable name")?;
        self.place.account.run(&self.programs.path("pg_ctl"), &["promote", "-w", "-D", data])
    }
}
