//! The address of a database, and whether connections to it use TLS.

use std::net::IpAddr;

use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode};

use crate::store::address::{self, Certificates, TlsParameter, TlsUrl};
use crate::{Code, Error, Result};

/// A parsed URL.
pub(super) struct Address {
    pub(super) config: Config,
    pub(super) certificates: Certificates,
    /// The URL has `sslmode=disable`.
    pub(super) is_plain_by_choice: bool,
}

impl Address {
    /// From a URL or a libpq connection string. libpq's `sslmode`s have only two meanings here: no TLS, and TLS with a
    /// verified certificate. `require`, `verify-ca` and `verify-full` all verify the certificate for the host.
    /// `prefer`, `allow`, or no mode, depends on the host: no TLS on this machine, verified elsewhere.
    pub(super) fn parse(text: &str) -> Result<Self> {
        let TlsUrl { url, certificates, mode } = TlsUrl::parse(text, |name, value| match name {
            "sslmode" => Some(TlsParameter::Mode),
            "sslrootcert" if value == "system" => Some(TlsParameter::SystemRoot),
            "sslrootcert" => Some(TlsParameter::Root),
            "sslcert" => Some(TlsParameter::Client),
            "sslkey" => Some(TlsParameter::ClientKey),
            _ => None,
        });
        let parsed = url.parse();
        let mut config: Config = parsed.map_err(|error: tokio_postgres::Error| {
            let why = std::error::Error::source(&error).map(ToString::to_string);
            let why = without_values(why.as_deref().unwrap_or_default());
            let what = format!("the address of the PostgreSQL database is not valid: {why}");
            Error::new(Code::ConfigValue, what).with_hint("write it as postgres://user@host:5432/database")
        })?;
        if config.get_hosts().iter().any(|host| matches!(host, Host::Tcp(name) if name.contains('@'))) {
            let what = "the address of the PostgreSQL database has one @ too many";
            return Err(Error::new(Code::ConfigValue, what).with_hint("in a password, encode @ as %40"));
        }
        if let Some(mode) = mode {
            config.ssl_mode(tls_mode(mode)?);
        }
        let is_plain_by_choice = config.get_ssl_mode() == SslMode::Disable;
        let leaves_machine = leaves_machine(&config);
        config.ssl_mode(match config.get_ssl_mode() {
            SslMode::Prefer if !leaves_machine => SslMode::Disable,
            SslMode::Disable => SslMode::Disable,
            // A Unix socket has no host name that a certificate could be for; libpq ignores the mode, too.
            _ if config.get_hosts().iter().all(is_socket) && config.get_hostaddrs().is_empty() => {
                SslMode::Disable
            }
            _ => SslMode::Require,
        });
        Ok(Self { config, certificates, is_plain_by_choice })
    }

    /// Whether traffic crosses a network unencrypted.
    pub(super) fn is_exposed(config: &Config) -> bool {
        config.get_ssl_mode() == SslMode::Disable && leaves_machine(config)
    }
}

/// Parameters of libpq that the driver does not have.
const LIBPQ_ONLY: [&str; 14] = [
    "client_encoding",
    "fallback_application_name",
    "gssencmode",
    "krbsrvname",
    "passfile",
    "replication",
    "require_auth",
    "requirepeer",
    "service",
    "sslcompression",
    "sslcrl",
    "sslpassword",
    "sslsni",
    "ssl_min_protocol_version",
];

/// The driver's message about an address, unless it may repeat a part of it: an unquoted password can look like a
/// parameter.
fn without_values(message: &str) -> &str {
    let unknown = message.strip_prefix("unknown option `").and_then(|name| name.strip_suffix('`'));
    match unknown {
        Some(name) if LIBPQ_ONLY.contains(&name) => message,
        Some(_) => "it has an unknown parameter",
        None if message.starts_with("invalid value for option `") => message,
        None => "its format is not valid",
    }
}

fn tls_mode(word: &str) -> Result<SslMode> {
    match word {
        "disable" => Ok(SslMode::Disable),
        "allow" | "prefer" => Ok(SslMode::Prefer),
        "require" | "verify-ca" | "verify-full" => Ok(SslMode::Require),
        _ => Err(Error::new(
            Code::ConfigValue,
            "the address of the PostgreSQL database has an unknown sslmode",
        )
        .with_hint("use sslmode=verify-full, or sslmode=disable on a trusted network")),
    }
}

fn leaves_machine(config: &Config) -> bool {
    let by_address = config.get_hostaddrs();
    if !by_address.is_empty() {
        return !by_address.iter().all(IpAddr::is_loopback);
    }
    config.get_hosts().iter().any(|host| !is_socket(host) && !is_loopback(host))
}

fn is_socket(host: &Host) -> bool {
    !matches!(host, Host::Tcp(_))
}

fn is_loopback(host: &Host) -> bool {
    match host {
        Host::Tcp(name) => address::is_loopback(name),
        #[cfg(unix)]
        Host::Unix(_) => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(url: &str) -> Address {
        Address::parse(url).unwrap_or_else(|error| panic!("{url}: {error}"))
    }

    #[test]
    fn traffic_to_other_machines_is_encrypted_unless_the_url_disables_it() {
        for (url, mode) in [
            ("postgres://db.example.org/shop", SslMode::Require),
            ("postgres://10.0.0.1/shop", SslMode::Require),
            ("postgres://db.example.org/shop?sslmode=prefer", SslMode::Require),
            ("postgres://db.example.org/shop?sslmode=verify-full", SslMode::Require),
            ("postgres://localhost,db.example.org/shop", SslMode::Require),
            ("host=db.example.org", SslMode::Require),
            ("host=db.example.org sslmode=disable", SslMode::Disable),
            ("postgres://db.example.org/shop?sslmode=disable", SslMode::Disable),
            ("postgres://localhost/shop", SslMode::Disable),
            ("postgres://127.0.0.9/shop", SslMode::Disable),
            ("postgres://[::1]/shop", SslMode::Disable),
            ("postgres://127.0.0.1/shop?sslmode=require", SslMode::Require),
            ("postgres://db.example.org/shop?hostaddr=127.0.0.1", SslMode::Disable),
            ("postgres://%2Fvar%2Frun/shop", SslMode::Disable),
            ("postgres://%2Fvar%2Frun/shop?sslmode=verify-full", SslMode::Disable),
        ] {
            assert_eq!(read(url).config.get_ssl_mode(), mode, "{url}");
        }
        assert!(Address::is_exposed(&read("postgres://h/db?sslmode=disable").config));
        assert!(!Address::is_exposed(&read("postgres://localhost/db?sslmode=disable").config));
    }

    #[test]
    fn certificates_are_removed_from_the_url_and_the_rest_stays() {
        let url = "postgres://u:p%3F@h/db?sslrootcert=%2Fca%20s.pem&application_name=shop&sslcert=a&sslkey=b";
        let Address { config, certificates, .. } = read(url);
        let Certificates { root, client, client_key } = certificates;
        let paths = [root, client, client_key].map(|path| path.unwrap().to_string_lossy().into_owned());
        assert_eq!(paths, ["/ca s.pem", "a", "b"]);
        assert_eq!((config.get_application_name(), config.get_dbname()), (Some("shop"), Some("db")));
        assert_eq!(config.get_password(), Some(&b"p?"[..]));
    }

    #[test]
    fn the_error_for_an_invalid_address_does_not_repeat_it() {
        for url in [
            "postgres://u:secret@h/db?sslmode=secret",
            "postgres://u:secret@h:secret/db",
            "postgres://h/db?password=a&secret=b",
            "postgres://u:a@secret@h/db",
            "host=h password=a secret=b",
            "host=h password=a secret",
            "host=h password='secret",
            "secret",
        ] {
            let error = Address::parse(url).err().unwrap_or_else(|| panic!("{url}"));
            assert_eq!(error.code(), Code::ConfigValue);
            assert!(!format!("{error} {error:?}").contains("secret"), "{error}");
        }
        let named = |url| Address::parse(url).err().map(|error| error.message().to_owned());
        let invalid = |why| Some(format!("the address of the PostgreSQL database is not valid: {why}"));
        assert_eq!(named("postgres://h:x/db"), invalid("invalid value for option `port`"));
        assert_eq!(named("postgres://h/db?passfile=x"), invalid("unknown option `passfile`"));
        assert_eq!(named("postgres://h/db?passfil=x"), invalid("it has an unknown parameter"));
    }
}
