//! The address of a database, and whether connections to it use TLS.

use std::fmt;

use mysql_async::{Opts, OptsBuilder, UrlError};

use crate::store::address::{Certificates, TlsParameter, TlsUrl, is_loopback};
use crate::{Code, Error, Result};

/// A parsed URL.
#[derive(Clone)]
pub(super) struct Address {
    pub(super) opts: OptsBuilder,
    host: String,
    /// Whether the connection uses TLS.
    pub(super) is_encrypted: bool,
}

impl Address {
    /// From a URL, with the certificates that it names. MySQL's `ssl-mode`s have only two meanings here: no TLS, and
    /// TLS with a verified certificate. `required`, `verify_ca` and `verify_identity` all verify the certificate for
    /// the host. `preferred`, or no mode, depends on the host: no TLS on this machine, verified elsewhere.
    pub(super) fn parse(text: &str) -> Result<(Self, Certificates)> {
        let TlsUrl { url, certificates, mode } =
            TlsUrl::parse(text, |name, _| match name.replace('_', "-").as_str() {
                "ssl-mode" | "sslmode" => Some(TlsParameter::Mode),
                "ssl-ca" => Some(TlsParameter::Root),
                "ssl-cert" => Some(TlsParameter::Client),
                "ssl-key" => Some(TlsParameter::ClientKey),
                _ => None,
            });
        let opts = Opts::from_url(&url.replacen("mariadb://", "mysql://", 1)).map_err(unreadable)?;
        let host = opts.ip_or_hostname().to_owned();
        let is_encrypted = match mode.map(tls_mode).transpose()? {
            Some(TlsMode::Disabled) => false,
            Some(TlsMode::Verified) => opts.socket().is_none(),
            Some(TlsMode::ByHost) | None => opts.socket().is_none() && !is_loopback(&host),
        };
        // Otherwise the driver may use a local socket, which may lead to another server.
        let opts = OptsBuilder::from_opts(opts).prefer_socket(false);
        Ok((Self { opts, host, is_encrypted }, certificates))
    }

    /// Whether traffic crosses a network unencrypted.
    pub(super) fn is_exposed(&self) -> bool {
        !self.is_encrypted && !is_loopback(&self.host)
    }
}

impl fmt::Debug for Address {
    /// Without user and password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Address")
            .field("host", &self.host)
            .field("is_encrypted", &self.is_encrypted)
            .finish_non_exhaustive()
    }
}

/// What an `ssl-mode` means.
enum TlsMode {
    Disabled,
    Verified,
    /// Disabled on this machine, verified elsewhere.
    ByHost,
}

fn tls_mode(word: &str) -> Result<TlsMode> {
    match word.to_ascii_lowercase().replace('-', "_").as_str() {
        "disabled" | "disable" => Ok(TlsMode::Disabled),
        "preferred" | "prefer" => Ok(TlsMode::ByHost),
        "required" | "require" | "verify_ca" | "verify_identity" | "verify_full" => Ok(TlsMode::Verified),
        _ => Err(Error::new(Code::ConfigValue, "the address of the database has an unknown ssl-mode")
            .with_hint("use ssl-mode=verify_identity, or ssl-mode=disabled on a trusted network")),
    }
}

/// The error for a URL that cannot be parsed, without any part of it: that may be a password.
fn unreadable(error: UrlError) -> Error {
    let why = match &error {
        UrlError::UnsupportedScheme { .. } => "it must begin with mysql:// or mariadb://",
        UrlError::UnknownParameter { .. } => "it has an unknown parameter",
        UrlError::InvalidParamValue { .. } => "a parameter has an unknown value",
        UrlError::FeatureRequired { .. } => "it has a parameter that this program was built without",
        _ => "its format is not valid",
    };
    let what = format!("the address of the database is not valid: {why}");
    Error::new(Code::ConfigValue, what).with_hint("write it as mysql://user@host:3306/database")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(url: &str) -> Address {
        Address::parse(url).unwrap_or_else(|error| panic!("{url}: {error}")).0
    }

    #[test]
    fn traffic_to_other_machines_is_encrypted_unless_the_url_disables_it() {
        for (url, encrypted) in [
            ("mysql://db.example.org/shop", true),
            ("mariadb://db.example.org/shop", true),
            ("mysql://10.0.0.1/shop", true),
            ("mysql://db.example.org/shop?ssl-mode=preferred", true),
            ("mysql://db.example.org/shop?ssl-mode=VERIFY_IDENTITY", true),
            ("mysql://db.example.org/shop?ssl-mode=DISABLED", false),
            ("mysql://localhost/shop", false),
            ("mysql://127.0.0.9/shop", false),
            ("mysql://[::1]/shop", false),
            ("mysql://127.0.0.1/shop?ssl-mode=required", true),
        ] {
            assert_eq!(read(url).is_encrypted, encrypted, "{url}");
        }
        assert!(read("mysql://h/db?ssl-mode=disabled").is_exposed());
        assert!(!read("mysql://localhost/db?ssl-mode=disabled").is_exposed());
    }

    #[test]
    fn certificates_are_removed_from_the_url_and_the_rest_stays() {
        let url = "mysql://u:p%3F@h/db?ssl-ca=%2Fca%20s.pem&tcp_nodelay=true&ssl-cert=a&ssl-key=b";
        let (Address { opts, .. }, certificates) = Address::parse(url).unwrap();
        let Certificates { root, client, client_key } = certificates;
        let paths = [root, client, client_key].map(|path| path.unwrap().to_string_lossy().into_owned());
        assert_eq!(paths, ["/ca s.pem", "a", "b"]);
        let opts = Opts::from(opts);
        assert_eq!((opts.pass(), opts.db_name()), (Some("p?"), Some("db")));
    }

    #[test]
    fn the_error_for_an_invalid_address_does_not_repeat_it() {
        for url in [
            "mysql://u:secret@h/db?ssl-mode=secret",
            "mysql://u:secret@h:secret/db",
            "mysql://h/db?secret=b",
            "mysql://h/db?tcp_nodelay=secret",
            "secret://h/db",
            "secret",
        ] {
            let error = Address::parse(url).err().unwrap_or_else(|| panic!("{url}"));
            assert_eq!(error.code(), Code::ConfigValue);
            assert!(!format!("{error} {error:?}").contains("secret"), "{error}");
        }
    }
}
