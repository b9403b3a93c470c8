//! The address of a database, and whether the way to it has to be encrypted.

use std::fmt;

use mysql_async::{Opts, OptsBuilder, UrlError};

use crate::store::address::{Certificates, TlsParameter, TlsUrl, is_loopback};
use crate::{Code, Error, Result};

/// What a URL says, in the driver's words and ours.
#[derive(Clone)]
pub(super) struct Address {
    pub(super) opts: OptsBuilder,
    host: String,
    pub(super) certificates: Certificates,
    /// Whether the connection is encrypted.
    pub(super) is_encrypted: bool,
}

impl Address {
    /// From a URL. Of MySQL's `ssl-mode`s only two meanings are left: `disabled`, and verified. `required`,
    /// `verify_ca` and `verify_identity` demand a certificate that is right for the host; `preferred` and none
    /// decide by the way to the server: within this machine plain, elsewhere as `required`.
    pub(super) fn parse(text: &str) -> Result<Self> {
        let TlsUrl { url, certificates, mode: wish } =
            TlsUrl::parse(text, |name, _| match name.replace('_', "-").as_str() {
                "ssl-mode" | "sslmode" => Some(TlsParameter::Mode),
                "ssl-ca" => Some(TlsParameter::Root),
                "ssl-cert" => Some(TlsParameter::Client),
                "ssl-key" => Some(TlsParameter::ClientKey),
                _ => None,
            });
        let opts = Opts::from_url(&url.replacen("mariadb://", "mysql://", 1)).map_err(unreadable)?;
        let host = opts.ip_or_hostname().to_owned();
        let is_encrypted = match wish.map(mode).transpose()? {
            Some(Wish::Plain) => false,
            Some(Wish::Verified) => opts.socket().is_none(),
            Some(Wish::ByTheWay) | None => opts.socket().is_none() && !is_loopback(&host),
        };
        // The driver looks for a socket of its own where it can; then the server would be another one.
        let opts = OptsBuilder::from_opts(opts).prefer_socket(false);
        Ok(Self { opts, host, certificates, is_encrypted })
    }

    /// Whether what is sent can be read on a network.
    pub(super) fn is_exposed(&self) -> bool {
        !self.is_encrypted && !is_loopback(&self.host)
    }
}

impl fmt::Debug for Address {
    /// Without user and password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Address")
            .field("host", &self.host)
            .field("certificates", &self.certificates)
            .field("is_encrypted", &self.is_encrypted)
            .finish_non_exhaustive()
    }
}

enum Wish {
    Plain,
    Verified,
    ByTheWay,
}

fn mode(word: &str) -> Result<Wish> {
    match word.to_ascii_lowercase().replace('-', "_").as_str() {
        "disabled" | "disable" => Ok(Wish::Plain),
        "preferred" | "prefer" => Ok(Wish::ByTheWay),
        "required" | "require" | "verify_ca" | "verify_identity" | "verify_full" => Ok(Wish::Verified),
        _ => Err(Error::new(Code::ConfigValue, "the address of the database has an unknown ssl-mode")
            .with_hint("use ssl-mode=verify_identity, or ssl-mode=disabled on a trusted network")),
    }
}

/// What the driver says of an address, unless it may repeat a part of it.
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
        Address::parse(url).unwrap_or_else(|error| panic!("{url}: {error}"))
    }

    #[test]
    fn what_leaves_the_machine_is_encrypted_unless_somebody_says_otherwise() {
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
    fn certificates_are_taken_out_of_the_url_and_the_rest_is_left() {
        let url = "mysql://u:p%3F@h/db?ssl-ca=%2Fca%20s.pem&tcp_nodelay=true&ssl-cert=a&ssl-key=b";
        let Address { opts, certificates, .. } = read(url);
        let Certificates { root, client, client_key } = certificates;
        let paths = [root, client, client_key].map(|path| path.unwrap().to_string_lossy().into_owned());
        assert_eq!(paths, ["/ca s.pem", "a", "b"]);
        let opts = Opts::from(opts);
        assert_eq!((opts.pass(), opts.db_name()), (Some("p?"), Some("db")));
    }

    #[test]
    fn an_address_that_cannot_be_read_is_not_repeated() {
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
