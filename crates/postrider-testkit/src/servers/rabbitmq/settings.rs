//! The server's settings, ports and users.

use std::path::Path;

use super::super::certificate::Certificate;
use super::super::free_port;
use super::super::server_folder::ServerFolder;

/// A user with all permissions.
pub const USER: &str = "postrider";
/// A user who may only write to the exchange `allowed`.
pub const USER_WITHOUT_RIGHTS: &str = "stranger";
/// The password of both users.
pub const PASSWORD: &str = "not-a-secret";
/// That password as the server stores it: the salt, then SHA-256 of salt and password, in Base64.
const PASSWORD_HASH: &str = "cG9zdHt/SwsaLM0JPnMh30XCRYkvKVgQh1kW6IqvupR5JX2E";

/// The usual limit on free disk space. The default is 50 MB, which a busy machine may not have.
const DISK_LIMIT: &str = "1MB";

#[derive(Debug)]
pub(super) struct Ports {
    pub(super) plain: u16,
    pub(super) tls: u16,
    /// For other nodes, of which there are none.
    distribution: u16,
    /// Of Erlang's name server.
    pub(super) names: u16,
}

impl Ports {
    /// Free ports, all different.
    pub(super) fn free() -> Result<Self, String> {
        let mut ports: Vec<u16> = Vec::new();
        while ports.len() < 4 {
            let port = free_port()?;
            if !ports.contains(&port) {
                ports.push(port);
            }
        }
        match ports[..] {
            [plain, tls, distribution, names] => Ok(Self { plain, tls, distribution, names }),
            _ => Err("no free ports".to_owned()),
        }
    }
}

/// Writes the files that the server reads when it starts.
pub(super) fn write(
    folder: &ServerFolder,
    certificate: &Certificate,
    ports: &Ports,
    disk_limit: Option<&str>,
) -> Result<(), String> {
    let Certificate { authority, certificate, key } = certificate;
    let (path, disk_limit) = (folder.path.display(), disk_limit.unwrap_or(DISK_LIMIT));
    let Ports { plain, tls, .. } = ports;
    let settings = format!(
        "listeners.tcp.1 = 127.0.0.1:{plain}
listeners.ssl.1 = 127.0.0.1:{tls}
ssl_options.cacertfile = {}
ssl_options.certfile = {}
ssl_options.keyfile = {}
ssl_options.verify = verify_none
disk_free_limit.absolute = {disk_limit}
load_definitions = {path}/definitions.json
log.console = true
log.file = false
",
        authority.display(),
        certificate.display(),
        key.display()
    );
    let user = |name: &str| {
        format!(
            r#"{{"name": "{name}", "password_hash": "{PASSWORD_HASH}", "tags": "",
                "hashing_algorithm": "rabbit_password_hashing_sha256"}}"#
        )
    };
    let permission = |user: &str, configure: &str, write: &str, read: &str| {
        format!(
            r#"{{"user": "{user}", "vhost": "/", "configure": "{configure}", "write": "{write}", "read": "{read}"}}"#
        )
    };
    let definitions = format!(
        r#"{{"vhosts": [{{"name": "/"}}], "users": [{}, {}], "permissions": [{}, {}]}}"#,
        user(USER),
        user(USER_WITHOUT_RIGHTS),
        permission(USER, ".*", ".*", ".*"),
        permission(USER_WITHOUT_RIGHTS, "^$", "^allowed$", "^$"),
    );
    let files = [
        ("rabbitmq.conf", settings),
        ("definitions.json", definitions),
        ("enabled_plugins", "[].\n".to_owned()),
    ];
    for (name, text) in files {
        let file = folder.path.join(name);
        std::fs::write(&file, text).map_err(|e| format!("cannot write {}: {e}", file.display()))?;
        folder.account.give(&file)?;
    }
    Ok(())
}

/// The variables of its environment, as arguments of `env`.
pub(super) fn environment(folder: &Path, ports: &Ports) -> Vec<String> {
    let folder = folder.display();
    let Ports { distribution, names, .. } = ports;
    vec![
        format!("HOME={folder}"),
        "LC_ALL=C.UTF-8".to_owned(),
        format!("RABBITMQ_NODENAME=postrider{distribution}@localhost"),
        format!("RABBITMQ_DIST_PORT={distribution}"),
        format!("ERL_EPMD_PORT={names}"),
        "ERL_EPMD_ADDRESS=127.0.0.1".to_owned(),
        // The name server is started together with the server; otherwise it would outlive it.
        "ERL_FLAGS=-start_epmd false".to_owned(),
        format!("RABBITMQ_MNESIA_BASE={folder}/data"),
        format!("RABBITMQ_LOG_BASE={folder}/log"),
        format!("RABBITMQ_CONFIG_FILE={folder}/rabbitmq"),
        format!("RABBITMQ_ENABLED_PLUGINS_FILE={folder}/enabled_plugins"),
        format!("RABBITMQ_CONF_ENV_FILE={folder}/none"),
        format!("RABBITMQ_PID_FILE={folder}/pid"),
        // The script then becomes the server, and does not wait for it as its parent.
        "RABBITMQ_ALLOW_INPUT=1".to_owned(),
        "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS=-noinput +S 2:2 +sbwt none".to_owned(),
    ]
}
