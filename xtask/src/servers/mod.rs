//! The servers that tests run against: found, or installed before the tests, never by a test.
//!
//! - [`apicurio`]: a schema registry in two versions, and readers of its messages in Python and Java
//! - [`axe`]: the accessibility checks of the dashboard's tests
//! - [`packages`]: programs from the system's package manager
//! - [`debezium`]: Debezium in a worker of Kafka Connect
//! - [`kafka`]: Apache Kafka, and a client in Python
//! - [`mysql`]: MySQL, in addition to the MariaDB of the packages
//! - [`python`]: clients in Python for servers that are packages
//! - [`nats`]: NATS, and a client in Python
//! - [`postgres`]: the versions of PostgreSQL that the package manager does not have
//! - [`rabbitmq`]: a client of RabbitMQ in Python

mod apicurio;
mod axe;
mod debezium;
mod kafka;
mod mysql;
mod nats;
mod packages;
pub(crate) mod postgres;
mod python;
mod rabbitmq;

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Something that tests use and this machine does not have.
#[derive(Debug)]
pub(crate) struct Missing {
    pub(crate) name: String,
    pub(crate) reason: String,
}

/// Finds or installs everything. Returns what is not available.
pub(crate) fn prepare() -> Vec<Missing> {
    let mut missing = packages::prepare();
    missing.extend(postgres::prepare());
    let downloads = [
        ("apicurio", apicurio::prepare()),
        ("axe-core", axe::prepare()),
        ("debezium", debezium::prepare()),
        ("kafka", kafka::prepare()),
        ("mysql", mysql::prepare()),
        ("nats", nats::prepare()),
        ("rabbitmq", rabbitmq::prepare()),
        ("python clients", python::prepare()),
        ("nats", nats::prepare()),
    ];
    for (name, prepared) in downloads {
        missing.extend(prepared.err().map(|reason| Missing { name: name.to_owned(), reason }));
    }
    missing
}

/// `xtask servers`: prepares them and prints the result.
pub(crate) fn run() -> Result<bool, String> {
    let missing = prepare();
    println!("servers that no package has are in {}", cache().display());
    for Missing { name, reason } in &missing {
        println!("missing: {name}: {reason}");
    }
    Ok(missing.is_empty())
}

/// The folder of the servers that are not packages. The testkit uses the same rule. Not root's cache, which the account
/// that a server runs as cannot read.
pub(crate) fn cache() -> PathBuf {
    if let Some(folder) = std::env::var_os("POSTRIDER_SERVERS_DIR") {
        return folder.into();
    }
    let cache = match (std::env::var_os("XDG_CACHE_HOME"), std::env::var_os("HOME")) {
        _ if is_root() => PathBuf::from("/var/cache"),
        (Some(cache), _) => PathBuf::from(cache),
        (None, home) => PathBuf::from(home.unwrap_or_default()).join(".cache"),
    };
    cache.join("postrider-servers")
}

/// Creates a folder completely or not at all: under another name first, then renamed.
fn once(name: &str, make: fn(&Path) -> Result<(), String>) -> Result<(), String> {
    let servers = cache();
    fs::create_dir_all(&servers).map_err(|e| format!("no folder {}: {e}", servers.display()))?;
    let folder = servers.join(name);
    if folder.exists() {
        return Ok(());
    }
    println!("fetching {}", folder.display());
    let making = servers.join(format!("{name}.{}.part", std::process::id()));
    fs::create_dir_all(&making).map_err(|e| format!("no folder {}: {e}", making.display()))?;
    let made = make(&making).and_then(|()| match fs::rename(&making, &folder) {
        Err(_) if folder.exists() => Ok(()),
        renamed => renamed.map_err(|e| format!("cannot rename {}: {e}", making.display())),
    });
    // It was renamed, unless something failed or another run was faster.
    _ = fs::remove_dir_all(&making);
    made
}

fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0)
}
