//! Runs a server while the test process runs, and removes it when that process ends in any way.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

/// Starts and signals the server on command, and confirms each command. Its input ends when the test process does; then
/// the server is stopped and its folder removed. The same happens when the keeper is terminated.
const SCRIPT: &str = r#"
trap '' INT
trap : TERM HUP
folder=$1 last=$2; shift 2
server=
while read -r order signal; do
    case $order in
        start) "$@" </dev/null >&2 & server=$! ;;
        signal) kill "-$signal" "$server" ;;
        wait) wait "$server"; server= ;;
    esac
    echo "${server:-none}"
done
# The output is no longer read, and the shell's word on a killed server would kill the shell.
exec >/dev/null 2>&1
if [ -n "$server" ]; then
    kill -CONT "$server"
    kill "-$last" "$server"
    wait "$server"
fi
if grep -qs " $folder/data " /proc/mounts; then umount "$folder/data"; fi
rm -rf "$folder"
"#;

/// The longest time without output before the server is ready, on a busy machine.
const SILENCE_MAX: Duration = Duration::from_secs(180);

/// After this time without output the keeper checks whether the server still runs, or is ready.
const LOOK_AFTER: Duration = Duration::from_millis(20);

/// Marks of log lines that explain a failure.
const FATAL: [&str; 2] = ["FATAL", "[ERROR]"];

/// The process of a server, and its log.
#[derive(Debug)]
pub(super) struct Keeper {
    child: Child,
    orders: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
    log: Receiver<String>,
    /// The server process, while it runs.
    pub(super) pid: Option<u32>,
}

impl Keeper {
    /// Prepares the server. Its output is its log; `last` is the signal that stops it when no test needs it any more.
    pub(super) fn new(folder: &Path, server: &Command, last: &str) -> Result<Self, String> {
        let mut command = Command::new("sh");
        command
            .args(["-c", SCRIPT, "keeper"])
            .arg(folder)
            .arg(last)
            .arg(server.get_program())
            .args(server.get_args());
        command.env("LC_ALL", "C").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(|e| format!("sh cannot be run: {e}"))?;
        let orders = child.stdin.take();
        let answers = BufReader::new(child.stdout.take().ok_or("the keeper has no output")?);
        let errors = BufReader::new(child.stderr.take().ok_or("the server has no log")?);
        let (lines, log) = channel();
        // Reads to the end, even without a receiver: otherwise a full pipe would block the server.
        std::thread::spawn(move || {
            errors.lines().map_while(Result::ok).for_each(|line| _ = lines.send(line))
        });
        Ok(Self { child, orders, answers, log, pid: None })
    }

    /// Starts the server and waits until its log reports that it is ready.
    pub(super) fn start(&mut self, ready: &str) -> Result<(), String> {
        self.start_until(|line| line.is_some_and(|line| line.contains(ready)))
    }

    /// Starts the server and waits until it is ready, which is checked at every line of its log, and regularly without
    /// one.
    pub(super) fn start_until(&mut self, is_ready: impl Fn(Option<&str>) -> bool) -> Result<(), String> {
        while self.log.try_recv().is_ok() {}
        self.order("start")?;
        let (mut said, mut silence) = (String::new(), Duration::ZERO);
        while silence < SILENCE_MAX {
            match self.log.recv_timeout(LOOK_AFTER) {
                Ok(line) if is_ready(Some(&line)) => return Ok(()),
                // The last line of the log does not always explain the failure.
                Ok(line) if !explains(&said) || explains(&line) => said = line,
                Ok(_) => {}
                Err(_) if self.has_ended() => {
                    self.order("wait")?;
                    return Err(format!("the server ended: {said}"));
                }
                Err(_) if is_ready(None) => return Ok(()),
                Err(_) => silence += LOOK_AFTER,
            }
        }
        Err(format!("the server is silent and not ready: {said}"))
    }

    /// Whether the server is no longer running. Its exit status was not collected yet, so its process id is not reused.
    fn has_ended(&self) -> bool {
        let stat = self.pid.and_then(|pid| std::fs::read_to_string(format!("/proc/{pid}/stat")).ok());
        stat.is_some_and(|stat| stat.rsplit_once(')').is_some_and(|(_, rest)| rest.starts_with(" Z")))
    }

    /// Sends a signal to the server.
    pub(super) fn signal(&mut self, signal: &str) -> Result<(), String> {
        self.order(&format!("signal {signal}"))
    }

    /// Suspends the server, and waits until all its threads are stopped.
    pub(super) fn pause(&mut self) -> Result<(), String> {
        self.signal("STOP")?;
        while !self.stands_still() {
            std::thread::yield_now();
        }
        Ok(())
    }

    fn stands_still(&self) -> bool {
        let Some(pid) = self.pid else { return true };
        let Ok(threads) = std::fs::read_dir(format!("/proc/{pid}/task")) else { return true };
        // A thread that has ended meanwhile counts as stopped.
        threads.flatten().all(|thread| {
            let stat = std::fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
            stat.rsplit_once(')').is_none_or(|(_, rest)| rest.starts_with(" T") || rest.starts_with(" Z"))
        })
    }

    /// Waits until the server has ended.
    pub(super) fn wait(&mut self) -> Result<(), String> {
        self.order("wait")
    }

    fn order(&mut self, order: &str) -> Result<(), String> {
        let orders = self.orders.as_mut().ok_or("the keeper takes no orders")?;
        let sent = writeln!(orders, "{order}").and_then(|()| orders.flush());
        sent.map_err(|e| format!("the keeper of the server is gone: {e}"))?;
        let mut answer = String::new();
        self.answers.read_line(&mut answer).map_err(|e| format!("the keeper does not answer: {e}"))?;
        self.pid = answer.trim().parse().ok();
        Ok(())
    }
}

fn explains(line: &str) -> bool {
    FATAL.iter().any(|mark| line.contains(mark))
}

impl Drop for Keeper {
    /// Waits until the server has ended and its folder is removed.
    fn drop(&mut self) {
        self.orders = None;
        _ = self.child.wait();
    }
}
