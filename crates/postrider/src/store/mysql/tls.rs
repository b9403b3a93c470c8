//! TLS with a verified server: its certificate chain up to a trusted root, and its host name.

use std::path::Path;

use mysql_async::{ClientIdentity, SslOpts};
use rustls::RootCertStore;

use crate::store::address::{Certificates, roots_missing};
use crate::{Code, Error, Result};

/// The TLS options. Reads the files for every connection, so that a renewed certificate is used from the next one on.
pub(super) fn encryption(certificates: &Certificates) -> Result<SslOpts> {
    // The driver uses the process's default provider, and panics if there are several and none is the default. If the
    // process has set a default before, it is kept.
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
        // Certificates that cannot be parsed are skipped: some systems contain such, and the others are usable.
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
