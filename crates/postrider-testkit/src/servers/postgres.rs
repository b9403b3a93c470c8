//! A private PostgreSQL server, one per test process.
//!
//! `POSTRIDER_TEST_POSTGRES=URL` uses that server instead; it needs `max_prepared_transactions` for some tests.

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, Command, Stdio};
use std::sync::OnceLock;

/// Starts the server, waits for the end of its standard input, and stops the server: the input ends when the
/// test process does, however it does.
const KEEPER: &str = r#"
trap '' INT
folder=$1; shift
"$@" </dev/null &
server=$!
read -r _
kill -INT $server
wait $server
rm -rf "$folder"
"#;

/// What the server says when it can be used.
const READY: &str = "database system is ready to accept connections";

/// Tries with another port, should somebody else have taken the free one.
const STARTS_MAX: usize = 3;

/// The address of the server, started at the first call; `None`, with a line that says why, if there is none.
pub fn url() -> Option<&'static str> {
    static SERVER: OnceLock<Result<Server, String>> = OnceLock::new();
    let server = SERVER.get_or_init(|| match std::env::var("POSTRIDER_TEST_POSTGRES") {
        Ok(url) => Ok(Server { url, _keep: None }),
        Err(_) => start(),
    });
    match server {
        Ok(server) => Some(&server.url),
        Err(reason) => {
            #[allow(clippy::print_stdout, reason = "the test runner counts these lines")]
            {
                println!("SKIPPED: postgres: {reason}");
            }
            None
        }
    }
}

struct Server {
    url: String,
    /// Held for as long as this process lives; see [`KEEPER`].
    _keep: Option<ChildStdin>,
}

fn start() -> Result<Server, String> {
    let programs = programs().ok_or("no initdb in /usr/lib/postgresql/*/bin or PATH")?;
    let mut reason = String::new();
    for _ in 0..STARTS_MAX {
        match start_with(&programs) {
            Ok(server) => return Ok(server),
            Err(failed) => reason = failed,
        }
    }
    Err(reason)
}

/// The folder with the newest server's programs.
fn programs() -> Option<PathBuf> {
    let debian = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut folders: Vec<(u32, PathBuf)> = debian
        .filter_map(|version| Some((version.file_name().to_str()?.parse().ok()?, version.path().join("bin"))))
        .collect();
    folders.sort();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let in_path = std::env::split_paths(&path);
    let mut newest_first = folders.into_iter().rev().map(|(_, folder)| folder).chain(in_path);
    newest_first.find(|folder| folder.join("initdb").exists() && folder.join("postgres").exists())
}

fn start_with(programs: &Path) -> Result<Server, String> {
    let account = Account::unprivileged()?;
    let folder = std::env::temp_dir().join(format!("postrider-pg-{}", uuid::Uuid::now_v7().simple()));
    std::fs::create_dir(&folder).map_err(|e| format!("no folder for the server: {e}"))?;
    account.give(&folder)?;
    let data = folder.join("data");

    let mut initdb = account.command(&programs.join("initdb"));
    initdb.args(["-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync", "-D"]).arg(&data);
    let made = initdb.output().map_err(|e| format!("initdb cannot be run: {e}"))?;
    if !made.status.success() {
        return Err(format!("initdb failed: {}", String::from_utf8_lossy(&made.stderr).trim()));
    }

    let port = free_port()?;
    let server = account.command(&programs.join("postgres"));
    let mut keeper = Command::new("sh");
    keeper.args(["-c", KEEPER, "keeper"]).arg(&folder).arg(server.get_program()).args(server.get_args());
    keeper.arg("-D").arg(&data).arg("-k").arg(&folder).arg("-p").arg(port.to_string());
    for setting in [
        "listen_addresses=127.0.0.1",
        "fsync=off",
        "max_connections=200",
        "max_prepared_transactions=20",
        "autovacuum=off",
    ] {
        keeper.arg("-c").arg(setting);
    }
    let mut keeper = keeper
        .env("LC_ALL", "C")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|e| format!("postgres cannot be run: {e}"))?;
    let log = keeper.stderr.take().ok_or("postgres has no log")?;
    wait_until_ready(BufReader::new(log))?;
    let url = format!("postgres://postgres@127.0.0.1:{port}/postgres");
    Ok(Server { url, _keep: keeper.stdin.take() })
}

/// Reads the log until the server is ready, and leaves a thread to read the rest: a full pipe would stop it.
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
    Err(format!("postgres ended: {last}"))
}

pub(super) fn free_port() -> Result<u16, String> {
    let listener = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
    listener.map(|address| address.port()).map_err(|e| format!("no free port: {e}"))
}

/// Whom the server runs as: PostgreSQL refuses to run as root.
#[derive(Debug)]
pub(super) struct Account(Option<(u32, u32)>);

impl Account {
    pub(super) fn unprivileged() -> Result<Self, String> {
        if id(&["-u"])? != 0 {
            return Ok(Self(None));
        }
        Ok(Self(Some((id(&["-u", "nobody"])?, id(&["-g", "nobody"])?))))
    }

    pub(super) fn give(&self, folder: &Path) -> Result<(), String> {
        let Some((user, group)) = self.0 else { return Ok(()) };
        std::os::unix::fs::chown(folder, Some(user), Some(group))
            .map_err(|e| format!("the folder cannot be given away: {e}"))
    }

    pub(super) fn command(&self, program: &Path) -> Command {
        let Some((user, group)) = self.0 else { return Command::new(program) };
        let mut command = Command::new("setpriv");
        command.args([format!("--reuid={user}"), format!("--regid={group}"), "--clear-groups".to_owned()]);
        command.arg(program);
        command
    }
}

fn id(args: &[&str]) -> Result<u32, String> {
    let answer = Command::new("id").args(args).output().map_err(|e| format!("id cannot be run: {e}"))?;
    let number = String::from_utf8_lossy(&answer.stdout);
    number.trim().parse().map_err(|_| format!("id {} is {number:?}", args.join(" ")))
}
