//! The server's process: started by a keeper that ends it with the test process, and asked until it answers.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::Duration;

use super::installed::Installed;

/// Starts the server and says its process id. Then waits for a signal's name to end it with; without one, because
/// the test process is gone, it kills the server and removes its folder; also if it is told to end with the others.
const KEEPER: &str = r#"
trap '' INT
trap : TERM HUP
folder=$1; shift
"$@" </dev/null >"$folder/log" 2>&1 &
server=$!
echo $server
read -r signal || { signal=KILL; over=1; }
kill -s "$signal" $server
kill -s CONT $server
wait $server
[ -z "$over" ] || rm -rf "$folder"
"#;

/// How long a server may take, on a machine that does much else.
const START_MAX: Duration = Duration::from_secs(180);
const LOOK_EVERY: Duration = Duration::from_millis(20);

#[derive(Debug)]
pub(super) struct Process {
    keeper: Child,
    orders: Option<ChildStdin>,
    server: u32,
}

impl Process {
    pub(super) fn start(installed: &Installed, folder: &Path, port: u16) -> Result<Self, String> {
        let server = installed.server(folder);
        let mut keeper = Command::new("sh");
        keeper.args(["-c", KEEPER, "keeper"]).arg(folder).arg(server.get_program()).args(server.get_args());
        let keeper =
            keeper.current_dir("/").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut keeper = keeper.spawn().map_err(|e| format!("sh cannot be run: {e}"))?;
        let orders = keeper.stdin.take();
        let mut id = String::new();
        if let Some(output) = keeper.stdout.take() {
            _ = BufReader::new(output).read_line(&mut id);
        }
        let server = id.trim().parse().map_err(|_| "the server has no process id")?;
        let process = Self { keeper, orders, server };
        process.wait_until_it_answers(port, &folder.join("log")).map(|()| process)
    }

    #[allow(clippy::disallowed_methods, reason = "another process gives no signal")]
    fn wait_until_it_answers(&self, port: u16, log: &Path) -> Result<(), String> {
        for _ in 0..START_MAX.as_millis() / LOOK_EVERY.as_millis() {
            if answers(port) {
                return Ok(());
            }
            if !Path::new(&format!("/proc/{}", self.server)).exists() {
                break;
            }
            std::thread::sleep(LOOK_EVERY);
        }
        let said = std::fs::read_to_string(log).unwrap_or_default();
        let last: Vec<&str> = said.lines().rev().take(5).collect();
        Err(format!("the server does not answer: {}", last.into_iter().rev().collect::<Vec<_>>().join("; ")))
    }

    pub(super) fn signal(&self, signal: &str) {
        _ = Command::new("kill").args(["-s", signal, &self.server.to_string()]).status();
    }

    /// Ends it; gone when this returns.
    pub(super) fn end(mut self, signal: &str) {
        if let Some(orders) = &mut self.orders {
            _ = orders.write_all(format!("{signal}\n").as_bytes());
        }
        _ = self.keeper.wait();
    }

    pub(super) fn memory_bytes(&self) -> Option<u64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.server)).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
        let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
        Some(kib * 1024)
    }
}

/// Asks which requests it knows (ApiVersions, version 0). A broker takes requests only once it has started.
fn answers(port: u16) -> bool {
    let ask = || -> std::io::Result<[u8; 10]> {
        let mut server = TcpStream::connect(("127.0.0.1", port))?;
        server.set_read_timeout(Some(Duration::from_secs(5)))?;
        // Length 10, API key 18, version 0, correlation 1, no client id.
        server.write_all(&[0, 0, 0, 10, 0, 18, 0, 0, 0, 0, 0, 1, 0xff, 0xff])?;
        let mut answer = [0; 10];
        server.read_exact(&mut answer)?;
        Ok(answer)
    };
    ask().is_ok_and(|answer| answer[4..] == [0, 0, 0, 1, 0, 0])
}
