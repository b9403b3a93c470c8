//! TLS with ring, independent of the default crypto provider of the process.

use std::path::Path;
use std::sync::Arc;

use postrider::{Code, Error, Result};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};

/// Trusts the operating system's certificates and those of a file.
pub fn client(ca_file: Option<&Path>) -> Result<ClientConfig> {
    let mut roots = RootCertStore::empty();
    // A system certificate that cannot be read is skipped; if it is needed, the handshake fails and names the reason.
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if let Some(path) = ca_file {
        add(&mut roots, path).map_err(|why| {
            Error::new(Code::SinkOpen, format!("cannot use the certificates in {}: {why}", path.display()))
        })?;
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| Error::new(Code::SinkOpen, "TLS could not be set up").with_source(error))?;
    let mut config = builder.with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}

fn add(roots: &mut RootCertStore, path: &Path) -> Result<(), String> {
    let mut found = 0;
    for certificate in CertificateDer::pem_file_iter(path).map_err(|error| error.to_string())? {
        let certificate = certificate.map_err(|error| error.to_string())?;
        roots.add(certificate).map_err(|error| error.to_string())?;
        found += 1;
    }
    if found == 0 { Err("it contains no certificate".into()) } else { Ok(()) }
}
