//! The processes of a server on this machine.

use std::time::Duration;

use tokio_postgres::Client;

use crate::machine::{Process, process};

/// The parent of all other processes of the server.
pub(crate) struct Server {
    postmaster: Option<u32>,
}

impl Server {
    /// The server behind a connection, if it runs on this machine.
    pub(crate) async fn of(client: &Client) -> Result<Self, tokio_postgres::Error> {
        let pid: i32 = client.query_one("SELECT pg_backend_pid()", &[]).await?.try_get(0)?;
        let backend = u32::try_from(pid).ok().and_then(process).filter(|backend| backend.name == "postgres");
        Ok(Self { postmaster: backend.map(|backend| backend.parent) })
    }

    /// CPU time of all its processes, including those that have ended.
    pub(crate) fn cpu(&self) -> Option<Duration> {
        let postmaster = self.postmaster?;
        let ended = process(postmaster)?.with_children_ended;
        let folders = std::fs::read_dir("/proc").ok()?.flatten();
        let living = folders.filter_map(|folder| process(folder.file_name().to_str()?.parse().ok()?));
        let children: Duration =
            living.filter(|one: &Process| one.parent == postmaster).map(|one| one.with_children_ended).sum();
        Some(ended + children)
    }
}
