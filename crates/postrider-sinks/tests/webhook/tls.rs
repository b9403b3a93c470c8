//! HTTP/2 over TLS, with a certificate authority of the test.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use bytes::Bytes;
use postrider::sink::{Outcome, Sink};
use postrider_sinks::webhook::Webhook;
use postrider_testkit::conformance::sink::message;
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// Creates `ca.pem`, and `leaf.pem` with `leaf.key` for localhost. `None` if there is no openssl.
fn certificates() -> Option<TempDir> {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("names"), "subjectAltName=DNS:localhost,IP:127.0.0.1").unwrap();
    let key = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes";
    for line in [
        format!("req -x509 {key} -keyout ca.key -out ca.pem -days 2 -subj /CN=tests"),
        format!("req {key} -keyout leaf.key -out leaf.csr -subj /CN=localhost"),
        "x509 -req -in leaf.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -extfile names -out leaf.pem".into(),
    ] {
        let mut openssl = Command::new("openssl");
        let made = openssl.args(line.split(' ')).current_dir(folder.path()).output().ok()?;
        assert!(made.status.success(), "{made:?}");
    }
    Some(folder)
}

/// A server that supports only HTTP/2 over TLS. Sends the received bodies to the test.
async fn server(folder: &Path) -> (u16, UnboundedReceiver<Bytes>) {
    let chain = CertificateDer::pem_file_iter(folder.join("leaf.pem")).unwrap().map(Result::unwrap).collect();
    let key = PrivateKeyDer::from_pem_file(folder.join("leaf.key")).unwrap();
    let builder = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let builder = builder.with_safe_default_protocol_versions().unwrap().with_no_client_auth();
    let mut config = builder.with_single_cert(chain, key).unwrap();
    config.alpn_protocols = vec![b"h2".to_vec()];
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let (tell, reported) = unbounded_channel();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let Ok(stream) = acceptor.accept(stream).await else { continue };
            let Ok(mut connection) = h2::server::handshake(stream).await else { continue };
            let tell = tell.clone();
            tokio::spawn(async move {
                while let Some(Ok((request, mut respond))) = connection.accept().await {
                    let tell = tell.clone();
                    tokio::spawn(async move {
                        let mut body = request.into_body();
                        let mut all = Vec::new();
                        while let Some(Ok(part)) = body.data().await {
                            let _ = body.flow_control().release_capacity(part.len());
                            all.extend_from_slice(&part);
                        }
                        let _ = tell.send(all.into());
                        let _ = respond.send_response(http::Response::new(()), true);
                    });
                }
            });
        }
    });
    (port, reported)
}

#[tokio::test]
async fn requests_use_http_2_over_tls_and_require_a_valid_certificate() {
    let Some(folder) = certificates() else {
        println!(
            "SKIPPED: requests_use_http_2_over_tls_and_require_a_valid_certificate: there is no openssl"
        );
        return;
    };
    let (port, mut reported) = server(folder.path()).await;
    let mut config = super::config(format!("https://localhost:{port}/"));
    // `localhost` may have an IPv6 address as well.
    config.allow_private = true;

    let outcomes = Webhook::open(&config).unwrap().publish(&[message("a", 0)]).await;
    assert!(matches!(&outcomes[..], [Outcome::Down(f)] if f.message.contains("certificate")), "{outcomes:?}");

    config.ca_file = Some(folder.path().join("ca.pem"));
    let batch: Vec<_> = (0..50).map(|number| message(&format!("key-{number}"), number)).collect();
    let outcomes = Webhook::open(&config).unwrap().publish(&batch).await;
    assert!(outcomes.iter().all(|o| matches!(o, Outcome::Acknowledged(_))), "{outcomes:?}");
    for _ in 0..50 {
        let body = reported.recv().await.unwrap();
        assert!(batch.iter().any(|message| message.body == body));
    }
}

#[tokio::test]
async fn probing_an_endpoint_checks_its_certificate_and_sends_no_request() {
    let Some(folder) = certificates() else {
        println!(
            "SKIPPED: probing_an_endpoint_checks_its_certificate_and_sends_no_request: there is no openssl"
        );
        return;
    };
    let (port, mut bodies) = server(folder.path()).await;
    let mut config = super::config(format!("https://localhost:{port}/T0KEN"));
    config.allow_private = true;
    let error = Webhook::open(&config).unwrap().probe().await.unwrap_err();
    assert!(error.message().contains("TLS failed") && !error.message().contains("T0KEN"), "{error}");
    config.ca_file = Some(folder.path().join("ca.pem"));
    let sink = Webhook::open(&config).unwrap();
    let reached = sink.probe().await.unwrap().unwrap();
    assert!(reached.contains("TCP and TLS connected") && !reached.contains("T0KEN"), "{reached}");
    // The endpoint receives an event first.
    sink.publish(&[message("a", 7)]).await;
    assert_eq!(bodies.recv().await.unwrap(), message("a", 7).body);
    assert!(bodies.try_recv().is_err());
}
