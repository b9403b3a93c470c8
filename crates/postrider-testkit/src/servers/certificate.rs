//! A certificate for a server on 127.0.0.1, and the certificate authority that signed it.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The two openssl commands: create the authority, and sign a certificate with it.
const MAKE: &str = r#"
set -e
key="-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2"
openssl req -x509 $key -keyout authority.key -out authority.pem -subj "/CN=postrider test authority"
openssl req -x509 $key -keyout server.key -out server.pem -subj "/CN=127.0.0.1" -CA authority.pem -CAkey authority.key \
    -addext "subjectAltName=IP:127.0.0.1,DNS:localhost" -addext "basicConstraints=critical,CA:FALSE"
"#;

/// The paths of the files.
#[derive(Debug, Clone)]
pub(super) struct Certificate {
    pub(super) authority: PathBuf,
    pub(super) certificate: PathBuf,
    pub(super) key: PathBuf,
}

impl Certificate {
    /// Creates both in the folder.
    pub(super) fn make(folder: &Path) -> Result<Self, String> {
        let made = Command::new("sh").args(["-c", MAKE]).current_dir(folder).stdin(Stdio::null()).output();
        let made = made.map_err(|e| format!("sh cannot be run: {e}"))?;
        if !made.status.success() {
            return Err(format!("no certificate: {}", String::from_utf8_lossy(&made.stderr).trim()));
        }
        let [authority, certificate, key] =
            ["authority.pem", "server.pem", "server.key"].map(|name| folder.join(name));
        Ok(Self { authority, certificate, key })
    }
}
