//! The keys of an address that every server has.

use std::path::Path;

use postrider::Ident;

use super::{Address, Refused};

impl Address {
    /// The schema that is named, else the default one.
    pub(super) fn schema(&self) -> Result<Ident, Refused> {
        let schema = self.schema.as_deref().map_or_else(|| Ok(Ident::default()), Ident::new);
        schema.map_err(|error| Refused::new("schema", error.message()))
    }

    /// The client's certificate and its key, if they are given.
    pub(super) fn tls_client(&self) -> Result<Option<(&Path, &Path)>, Refused> {
        match (&self.tls_client_cert, &self.tls_client_key) {
            (None, None) => Ok(None),
            (Some(certificate), Some(key)) => Ok(Some((certificate, key))),
            (Some(_), None) => Err(Refused::new("tls_client_key", "tls_client_cert is set without it")),
            (None, Some(_)) => Err(Refused::new("tls_client_cert", "tls_client_key is set without it")),
        }
    }
}
