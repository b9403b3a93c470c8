//! The configuration beside what it names.

use std::net::{TcpStream, ToSocketAddrs};
use std::path::Path;
use std::time::Duration;

use postrider_sinks::webhook::Webhook;

use super::{Check, Report, Subject};
use crate::config::Settings;
use crate::config::settings::Target;

/// How long a broker may take to take a connection.
const CONNECT_MAX: Duration = Duration::from_secs(2);

pub(super) async fn check(settings: &Settings, report: &mut Report) {
    for (name, sink) in &settings.sinks {
        let mut subject = report.subject(format!("sink {name}"));
        match &sink.target {
            Target::File { path, .. } => match refusal(path) {
                None => subject.ok(Check::SinkReachable, sink.target.to_string()),
                Some(why) => subject.fail_with(
                    Check::SinkReachable,
                    format!("{}: {why}", sink.target),
                    "create the folder, or grant this user write access to it and to the file",
                ),
            },
            Target::Kafka(kafka) => match answering(&kafka.brokers) {
                Some(broker) => {
                    subject.ok(Check::SinkReachable, format!("kafka, {broker} accepts connections"))
                }
                None => subject.fail_with(
                    Check::SinkReachable,
                    format!("{}: no broker accepts connections", sink.target),
                    "check `brokers`, that the cluster is running, and that its port is reachable from here",
                ),
            },
            Target::Webhook(settings) => match settings.config().and_then(|config| Webhook::open(&config)) {
                Ok(webhook) => endpoint(&webhook, &mut subject).await,
                Err(error) => {
                    subject.fail(Check::SinkReachable, format!("{}: {}", sink.target, error.message()))
                }
            },
            Target::Stdout | Target::Null => subject.ok(Check::SinkReachable, sink.target.to_string()),
        }
    }
}

/// Connects and sends nothing: to the endpoint a request would be an event.
async fn endpoint(webhook: &Webhook, subject: &mut Subject<'_>) {
    match webhook.probe().await {
        Ok(Some(what)) => subject.ok(Check::EndpointReachable, what),
        Ok(None) => {
            let what = "webhook without `url`: routing selects the endpoints, so none was checked";
            subject.ok(Check::EndpointReachable, what);
        }
        Err(error) => subject.fail(Check::EndpointReachable, error.message()),
    }
}

/// The first broker that takes a connection. More is not asked of it: that takes a client.
fn answering(brokers: &str) -> Option<&str> {
    brokers.split(',').map(str::trim).find(|broker| {
        let addresses = broker.to_socket_addrs().into_iter().flatten();
        addresses.into_iter().any(|address| TcpStream::connect_timeout(&address, CONNECT_MAX).is_ok())
    })
}

/// Why a file could not be appended to, as far as can be told without touching it.
fn refusal(path: &Path) -> Option<&'static str> {
    let folder = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if !folder.is_dir() {
        return Some("its folder does not exist");
    }
    if path.is_symlink() {
        return Some("it is a symbolic link, which is not followed; use the path of its target");
    }
    if path.exists() && !path.is_file() {
        return Some("it is not a regular file");
    }
    let locked = |path: &Path| path.exists() && !is_writable(path);
    (locked(path) || !is_writable(folder)).then_some("it is not writable")
}

/// Whether this process may write there, by its rights and those of the disk.
#[cfg(unix)]
pub(super) fn is_writable(path: &Path) -> bool {
    rustix::fs::access(path, rustix::fs::Access::WRITE_OK).is_ok()
}

#[cfg(not(unix))]
pub(super) fn is_writable(path: &Path) -> bool {
    path.metadata().is_ok_and(|metadata| !metadata.permissions().readonly())
}
