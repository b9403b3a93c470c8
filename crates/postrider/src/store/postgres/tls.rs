//! TLS with a verified server: its certificate chain up to a trusted root, and its host name.

use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::store::address::{Certificates, roots_missing};
use crate::{Code, Error, Result};

/// The TLS connector. Reads the files for every connection, so that a renewed certificate is used from the next one on.
pub(super) fn encryption(certificates: &Certificates) -> Result<MakeRustlsConnect> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let versions = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let roots = roots(certificates.root.as_deref())?;
    let config = versions.map_err(unusable)?.with_root_certificates(roots);
    let config = match certificates.identity()? {
        None => config.with_no_client_auth(),
        Some((certificate, key)) => {
            let chain = chain(certificate)?;
            let key = PrivateKeyDer::from_pem_file(key).map_err(|e| unreadable("client key", key, e))?;
            config.with_client_auth_cert(chain, key).map_err(unusable)?
        }
    };
    Ok(MakeRustlsConnect::new(config))
}

fn roots(file: Option<&Path>) -> Result<RootCertStore> {
    let mut roots = RootCertStore::empty();
    match file {
        Some(file) => {
            for certificate in chain(file)? {
                roots.add(certificate).map_err(|e| unreadable("root certificate", file, e))?;
            }
        }
        // Certificates that cannot be parsed are skipped: some systems contain such, and the others are usable.
        None => _ = roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs),
    }
    if roots.is_empty() { Err(roots_missing()) } else { Ok(roots) }
}

fn chain(file: &Path) -> Result<Vec<CertificateDer<'static>>> {
    let certificates = CertificateDer::pem_file_iter(file).and_then(Iterator::collect);
    let certificates: Vec<_> = certificates.map_err(|e| unreadable("certificate", file, e))?;
    if certificates.is_empty() {
        let what = format!("{} contains no certificate", file.display());
        return Err(
            Error::new(Code::TlsFailed, what).with_hint("use a PEM file: -----BEGIN CERTIFICATE-----")
        );
    }
    Ok(certificates)
}

fn unreadable(what: &str, file: &Path, error: impl std::error::Error + Send + Sync + 'static) -> Error {
    Error::new(Code::TlsFailed, format!("the {what} in {} cannot be used", file.display()))
        .with_hint("check the path, its permissions and that it is PEM")
        .with_source(error)
}

fn unusable(error: rustls::Error) -> Error {
    Error::new(Code::TlsFailed, "TLS could not be set up as configured").with_source(error)
}
