//! TLS that proves whom we talk to: the chain up to an authority we believe, and the name of the host.

use std::path::Path;

use mysql_async::{ClientIdentity, SslOpts};
use rustls::RootCertStore;

use crate::store::address::{Certificates, roots_missing};
use crate::{Code, Error, Result};

/// What encrypts a connection. The files are read at every connection, so that a renewed certificate counts from
/// the next one on.
pub(super) fn encryption(certificates: &Certificates) -> Result<SslOpts> {
    // The driver takes the provider of the process, and panics where there is more than one to choose from. A provider
    // that the process has chosen before is kept.
    _ = rustls::crypto::ring::default_provider().install_default();
    let roots: Vec<_> = match &certificates.root {
        Some(file) => {
            std::fs::metadata(file).map_err(|cause| {
                Error::new(Code::TlsFailed, format!("{} cannot be used", file.display()))
                    .with_hint("check the path, its permissions and that it is PEM")
                    .with_source(cause)
            })?;
            vec![file.clone().into()]
        }
        // One that cannot be read is left out: systems carry odd ones, and the others are good.
        None => {
            let system = rustls_native_certs::load_native_certs().certs.into_iter();
            let readable = system.filter(|root| RootCertStore::empty().add(root.clone()).is_ok());
            readable.map(|root| root.to_vec().into()).collect()
        }
    };
    if roots.is_empty() {
        return Err(roots_missing());
    }
    let identity = |(certificate, key): (&Path, &Path)| {
        ClientIdentity::new(certificate.to_owned().into(), key.to_owned().into())
    };
    let identity = certificates.identity()?.map(identity);
    let opts = SslOpts::default().with_disable_built_in_roots(true).with_root_certs(roots);
    Ok(opts.with_client_identity(identity))
}
