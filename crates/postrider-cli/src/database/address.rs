//! Where a database is and how to get in, as the configuration says.

use std::path::PathBuf;

use crate::config::Secret;

/// The keys of an outbox that say which database it is. Printing it shows no secret.
#[derive(Debug, Clone)]
pub struct Address {
    /// `url`
    pub url: Secret,
    /// `password`: instead of one in the URL.
    pub password: Option<Secret>,
    /// `schema`: where in the database the tables are.
    pub schema: Option<String>,
    /// `tls_root_cert`: the authorities to believe.
    pub tls_root_cert: Option<PathBuf>,
    /// `tls_client_cert`: what tells the server who we are.
    pub tls_client_cert: Option<PathBuf>,
    /// `tls_client_key`: its key.
    pub tls_client_key: Option<PathBuf>,
}

impl Default for Address {
    fn default() -> Self {
        Self {
            url: Secret::new(""),
            password: None,
            schema: None,
            tls_root_cert: None,
            tls_client_cert: None,
            tls_client_key: None,
        }
    }
}

impl Address {
    /// The first key that is given besides the URL.
    pub(super) fn first_of_server(&self) -> Option<&'static str> {
        let Self { url: _, password, schema, tls_root_cert, tls_client_cert, tls_client_key } = self;
        [
            ("password", password.is_some()),
            ("schema", schema.is_some()),
            ("tls_root_cert", tls_root_cert.is_some()),
            ("tls_client_cert", tls_client_cert.is_some()),
            ("tls_client_key", tls_client_key.is_some()),
        ]
        .into_iter()
        .find_map(|(key, given)| given.then_some(key))
    }
}

/// Which key is wrong and why, without a word of its value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// The key.
    pub key: &'static str,
    /// What is wrong with it.
    pub why: String,
}

impl Refused {
    pub(super) fn new(key: &'static str, why: impl Into<String>) -> Self {
        Self { key, why: why.into() }
    }

    pub(super) fn url(why: impl Into<String>) -> Self {
        Self::new("url", why)
    }
}
