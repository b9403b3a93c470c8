//! The keys of an address that every database server has.

use std::path::Path;

use postrider::Ident;

use super::{Address, Refused};

/// The config of a server's driver with the password and the certificates of an address. The configs of the databases
/// have no common trait.
macro_rules! with_credentials {
    ($config:expr, $address:expr) => {{
        let (mut config, address): (_, &$crate::database::Address) = ($config, $address);
        if let Some(password) = &address.password {
            config = config.password(password.expose_secret());
        }
        if let Some(file) = &address.tls_root_cert {
            config = config.tls_root(file);
        }
        if let Some((certificate, key)) = address.tls_client()? {
            config = config.tls_client(certificate, key);
        }
        config
    }};
}

pub(super) use with_credentials;

impl Address {
    /// The configured schema, otherwise the default one.
    pub(super) fn schema(&self) -> Result<Ident, Refused> {
        let schema = self.schema.as_deref().map_or_else(|| Ok(Ident::default()), Ident::new);
        schema.map_err(|error| Refused::new("schema", error.message()))
    }

    /// The client certificate and its key, if they are configured.
    pub(super) fn tls_client(&self) -> Result<Option<(&Path, &Path)>, Refused> {
        match (&self.tls_client_cert, &self.tls_client_key) {
            (None, None) => Ok(None),
            (Some(certificate), Some(key)) => Ok(Some((certificate, key))),
            (Some(_), None) => Err(Refused::new("tls_client_key", "tls_client_cert is set without it")),
            (None, Some(_)) => Err(Refused::new("tls_client_cert", "tls_client_key is set without it")),
        }
    }
}
