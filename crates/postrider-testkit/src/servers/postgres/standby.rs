//! A standby that replicates a server.

use super::server::Server;
use crate::servers::server_folder::ServerFolder;

impl Server {
    /// Creates a standby of this server. Replication is asynchronous: it may lack the last commits.
    ///
    /// # Errors
    /// The error of `pg_basebackup` or of the standby.
    pub fn standby(&self) -> Result<Self, String> {
        let folder = ServerFolder::new("postgres", self.folder.account)?;
        let data = folder.data();
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
        self.folder.account.run(&self.programs.path("pg_basebackup"), &arguments)?;
        Self::on(folder, self.programs.clone(), self.settings.clone())
    }

    /// Promotes a standby to primary. It begins a new timeline.
    ///
    /// # Errors
    /// The error of `pg_ctl`, for example that the server is not a standby.
    pub fn promote(&self) -> Result<(), String> {
        let data = self.data();
        let data = data.to_str().ok_or("the folder has no readable name")?;
        self.folder.account.run(&self.programs.path("pg_ctl"), &["promote", "-w", "-D", data])
    }
}
