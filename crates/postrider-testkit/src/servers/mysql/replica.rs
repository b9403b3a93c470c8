//! A replica that follows a server by its binary log.

use std::path::Path;

use super::Kind;
use super::server::Server;
use crate::servers::server_folder::{ServerFolder, duplicate};

/// A server on a copy of another server's data, which can become its replica.
#[derive(Debug)]
pub struct Replica {
    /// It is read-only except for administrators. It has its own `server_id` and `server_uuid`.
    pub server: Server,
    /// The statements that start replication, which is asynchronous: it may lack the last commits.
    pub follow: String,
}

impl Server {
    /// The statements that promote a replica to primary.
    pub const PROMOTE: &str = "STOP REPLICA; RESET REPLICA ALL; SET GLOBAL read_only = OFF";

    /// Stops this server, copies its data, starts it again, and starts another one on the copy.
    ///
    /// # Errors
    /// The error of one of the servers or of copying.
    pub fn replica(&self) -> Result<Replica, String> {
        let folder = ServerFolder::new(self.options.kind().name(), self.folder.account)?;
        self.stop()?;
        // A server begins a new file when it starts: everything before that file is in the copy.
        let next = after(&last_log(&self.data())?)?;
        duplicate(&self.data(), &folder.data()).inspect_err(|_| folder.remove())?;
        _ = std::fs::remove_file(folder.data().join("auto.cnf"));
        self.start()?;
        let options = self.options.clone().setting("server_id=2").setting("read_only=ON");
        let server = Self::on(folder, self.programs.clone(), options)?;
        let (change, of) = match self.options.kind() {
            Kind::MySql => ("CHANGE REPLICATION SOURCE TO", "SOURCE"),
            Kind::MariaDb => ("CHANGE MASTER TO", "MASTER"),
        };
        let follow = format!(
            "{change} {of}_HOST = '127.0.0.1', {of}_PORT = {}, {of}_USER = 'root', {of}_CONNECT_RETRY = 1, \
             {of}_LOG_FILE = '{next}', {of}_LOG_POS = 4; START REPLICA",
            self.port()
        );
        Ok(Replica { server, follow })
    }
}

/// The name of the last binary log of a stopped server.
fn last_log(data: &Path) -> Result<String, String> {
    let index = data.join("binlog.index");
    let logs = std::fs::read_to_string(&index).map_err(|e| format!("{}: {e}", index.display()))?;
    let last = logs.lines().last().ok_or("the server has no binary log to follow")?;
    Ok(last.trim_start_matches("./").to_owned())
}

/// The next name: `binlog.000008` after `binlog.000007`.
fn after(log: &str) -> Result<String, String> {
    let number = log.rsplit_once('.').and_then(|(name, number)| Some((name, number.parse::<u32>().ok()?)));
    let (name, number) = number.ok_or_else(|| format!("{log} is no name of a binary log"))?;
    Ok(format!("{name}.{:06}", number + 1))
}
