//! What the database servers share: keys of an address, and their [`Backend`].

use std::fmt;
use std::path::Path;
use std::time::Duration;

use postrider::store::admin::Admin;
use postrider::{BoxFuture, Ident};

use super::{Address, Backend, Refused};
use crate::doctor::{self, InboxHealth, Subject};

/// What differs between the servers.
pub(super) trait ServerConfig: fmt::Debug + Send + Sync + Sized {
    /// The setting that allows unencrypted traffic over a network.
    const UNENCRYPTED: &'static str;

    /// Whether it is set.
    fn is_unencrypted(&self) -> bool;

    /// See [`Backend::location`].
    fn location(shown: &str) -> &str;

    /// See [`Backend::inbox_health`].
    fn inbox_health(
        &self,
        schema: &Ident,
        kept: Duration,
    ) -> impl Future<Output = Result<InboxHealth, String>> + Send;

    /// See [`Backend::check`].
    fn check(
        server: doctor::Server<'_, Self>,
        options: &doctor::Options,
        subject: &mut Subject<'_>,
    ) -> impl Future<Output = bool> + Send;
}

/// A database on a server.
#[derive(Debug)]
pub(super) struct ServerBackend<A, C> {
    pub(super) admin: A,
    pub(super) config: C,
    pub(super) schema: Ident,
}

impl<A: Admin, C: ServerConfig> Backend for ServerBackend<A, C> {
    fn admin(&self) -> &dyn Admin {
        &self.admin
    }

    fn is_server(&self) -> bool {
        true
    }

    fn exposed_by(&self) -> Option<&'static str> {
        self.config.is_unencrypted().then_some(C::UNENCRYPTED)
    }

    fn location(&self, shown: &str) -> String {
        C::location(shown).to_owned()
    }

    fn inbox_health(&self, kept: Duration) -> BoxFuture<'_, Result<InboxHealth, String>> {
        Box::pin(self.config.inbox_health(&self.schema, kept))
    }

    fn check<'a>(
        &'a self,
        shown: &'a str,
        options: &'a doctor::Options,
        subject: &'a mut Subject<'_>,
    ) -> BoxFuture<'a, bool> {
        let Self { admin, config, schema } = self;
        Box::pin(C::check(doctor::Server { config, schema, admin, shown }, options, subject))
    }
}

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
