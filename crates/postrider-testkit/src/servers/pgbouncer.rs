//! A private PgBouncer that lends server processes per transaction, in front of a PostgreSQL server.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, Command, Stdio};
use std::sync::OnceLock;

use super::{free_port, postgres, skipped};

/// Starts the pooler, waits for the end of its standard input, and stops it: the input ends when the test
/// process does, however it does.
const KEEPER: &str = r#"
trap '' INT
folder=$1; shift
"$@" </dev/null &
pooler=$!
read -r _
kill -TERM $pooler
wait $pooler
rm -rf "$folder"
"#;

/// What the pooler says when it can be used.
const READY: &str = "process up";

/// Tries with another port, should somebody else have taken the free one.
const STARTS_MAX: usize = 3;

/// A running pooler; ends with this value or the process.
#[derive(Debug)]
pub struct PgBouncer {
    url: String,
    _keep: Option<ChildStdin>,
}

impl PgBouncer {
    /// Starts one in front of the server at this address, with so many server processes to lend. Its own address
    /// leads to every database there, for the user of the address.
    ///
    /// # Errors
    /// Why there is none, in a sentence.
    pub fn start(server: &str, processes: usize) -> Result<Self, String> {
        let program = program().ok_or("no pgbouncer in PATH or /usr/sbin")?;
        let mut reason = String::new();
        for _ in 0..STARTS_MAX {
            match start_with(&program, server, processes) {
                Ok(started) => return Ok(started),
                Err(failed) => reason = failed,
            }
        }
        Err(reason)
    }

    /// Where clients connect.
    pub fn url(&self) -> &str {
        &self.url
    }
}

/// The address of the pooler in front of [`postgres::url`], started at the first call; `None`, with a line that
/// says why, if there is none.
pub fn url() -> Option<&'static str> {
    static POOLER: OnceLock<Result<PgBouncer, String>> = OnceLock::new();
    let server = postgres::url()?;
    match POOLER.get_or_init(|| PgBouncer::start(server, 4)) {
        Ok(pooler) => Some(&pooler.url),
        Err(reason) => {
            skipped("pgbouncer", reason);
            None
        }
    }
}

fn program() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut folders = std::env::split_paths(&path).chain([PathBuf::from("/usr/sbin")]);
    folders.find_map(|folder| Some(folder.join("pgbouncer")).filter(|program| program.exists()))
}

fn start_with(program: &Path, server: &str, processes: usize) -> Result<PgBouncer, String> {
    let (user, host, port, database) =
        parts(server).ok_or("the server's address is not of the usual kind")?;
    let folder = std::env::temp_dir().join(format!("postrider-pgbouncer-{}", uuid::Uuid::now_v7().simple()));
    std::fs::create_dir(&folder).map_err(|e| format!("no folder for pgbouncer: {e}"))?;
    let listen = free_port()?;
    let users = folder.join("users.txt");
    let config = format!(
        "[databases]\n\
         * = host={host} port={port}\n\
         [pgbouncer]\n\
         listen_addr = 127.0.0.1\n\
         listen_port = {listen}\n\
         unix_socket_dir =\n\
         auth_type = trust\n\
         auth_file = {}\n\
         pool_mode = transaction\n\
         default_pool_size = {processes}\n\
         max_client_conn = 500\n",
        users.display()
    );
    let settings = folder.join("pgbouncer.ini");
    let written = std::fs::write(&users, format!("\"{user}\" \"\"\n")).and(std::fs::write(&settings, config));
    written.map_err(|e| format!("no settings for pgbouncer: {e}"))?;

    let mut keeper = Command::new("sh");
    keeper.args(["-c", KEEPER, "keeper"]).arg(&folder).arg(program);
    if is_root()? {
        // It refuses to run as root.
        keeper.args(["-u", "nobody"]);
    }
    let mut keeper = keeper
        .arg(&settings)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|e| format!("pgbouncer cannot be run: {e}"))?;
    let log = keeper.stderr.take().ok_or("pgbouncer has no log")?;
    wait_until_ready(BufReader::new(log))?;
    let url = format!("postgres://{user}@127.0.0.1:{listen}/{database}");
    Ok(PgBouncer { url, _keep: keeper.stdin.take() })
}

/// User, host, port and database of `postgres://user@host:port/database`.
fn parts(url: &str) -> Option<(&str, &str, &str, &str)> {
    let (user, rest) = url.strip_prefix("postgres://")?.split_once('@')?;
    let (address, database) = rest.split_once('/')?;
    let (host, port) = address.rsplit_once(':')?;
    Some((user, host, port, database))
}

/// Reads the log until the pooler is ready, and leaves a thread to read the rest: a full pipe would stop it.
fn wait_until_ready(log: impl BufRead + Send + 'static) -> Result<(), String> {
    let mut lines = log.lines().map_while(Result::ok);
    let mut last = String::new();
    for line in lines.by_ref() {
        if line.contains(READY) {
            std::thread::spawn(move || lines.for_each(drop));
            return Ok(());
        }
        last = line;
    }
    Err(format!("pgbouncer ended: {last}"))
}

fn is_root() -> Result<bool, String> {
    let answer = Command::new("id").arg("-u").output().map_err(|e| format!("id cannot be run: {e}"))?;
    Ok(answer.stdout.trim_ascii() == b"0")
}
