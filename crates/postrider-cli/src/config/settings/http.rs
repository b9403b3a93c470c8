//! `[http]`

use std::net::SocketAddr;
use std::time::Duration;

use postrider::Code;

use super::ConfigTable;
use crate::config::problem::Problem;

/// The listener for metrics and health.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpSettings {
    /// Where it listens; not at all if `None`.
    pub listen: Option<SocketAddr>,
    /// Other machines may reach it.
    pub allow_remote: bool,
    /// A backlog without progress for this long is not ready.
    pub stalled_after: Duration,
}

impl HttpSettings {
    pub(super) fn read(table: &ConfigTable<'_>) -> Result<Self, Problem> {
        let allow_remote = table.bool("allow_remote")?;
        let listen = match table.text("listen")? {
            None => None,
            Some(text) => {
                let why = "write it as ADDRESS:PORT, such as 127.0.0.1:9464 or [::1]:9464";
                let address: SocketAddr =
                    text.parse().map_err(|_| table.problem("listen", Code::ConfigValue, why))?;
                if !address.ip().is_loopback() && !allow_remote {
                    let why = "other machines could read it, and it has neither TLS nor a login; use a loopback \
                               address, or set allow_remote = true if the network is protected";
                    return Err(table.problem("listen", Code::ConfigValue, why));
                }
                Some(address)
            }
        };
        Ok(Self { listen, allow_remote, stalled_after: table.duration("stalled_after")? })
    }
}
