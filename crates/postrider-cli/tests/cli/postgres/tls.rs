//! Certificates: which are trusted, and which are not.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;

use super::{Shop, config, secured};
use crate::program::{Program, Ran};

const MAKE: &str = r#"
set -e
key="-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes"
authority() { openssl req -x509 $key -keyout "$1.key" -out "$1.pem" -subj "/CN=$1" -days 2; }
signed() {
    openssl req $key -keyout "$1.key" -out "$1.csr" -subj "/CN=$2"
    printf '%s\n' "$3" > "$1.ext"
    openssl x509 -req -in "$1.csr" -CA test-ca.pem -CAkey test-ca.key -CAcreateserial -days 2 -extfile "$1.ext" -out "$1.pem"
}
authority test-ca
authority other-ca
signed test-server localhost "subjectAltName=IP:127.0.0.1,DNS:localhost"
signed test-client certificate_user "extendedKeyUsage=clientAuth"
chmod 600 test-server.key
chown "$(stat -c %u:%g PG_VERSION)" test-*
"#;

/// Creates an authority, a server certificate and a client certificate in the folder. `None` without openssl.
pub(super) fn make_certificates(folder: &Path) -> Option<()> {
    let made = Command::new("sh").args(["-c", MAKE]).current_dir(folder).output().unwrap();
    if !made.status.success() {
        println!("SKIPPED: postgres TLS: {}", String::from_utf8_lossy(&made.stderr).trim());
        return None;
    }
    Some(())
}

fn status(url: &str, keys: &[(&str, &Path)]) -> Ran {
    let program = Program::with_config(&config(url));
    let sets: Vec<String> =
        keys.iter().map(|(key, path)| format!("outbox.shop.{key}={}", path.display())).collect();
    let flags = sets.iter().flat_map(|set| ["--set", set]);
    program.run(&["status"].into_iter().chain(flags).collect::<Vec<_>>())
}

fn refused(ran: &Ran, said: &str) {
    assert_eq!(ran.exit, Some(3), "{ran:?}");
    assert!(ran.stderr.starts_with("error[PR-0311]: ") && ran.stderr.contains(said), "{ran:?}");
}

#[test]
fn a_server_without_a_trusted_certificate_is_refused() {
    let (Some(shop), Some(folder)) = (Shop::new(), secured()) else { return };
    shop.ready();
    let (right, other) = (folder.join("test-ca.pem"), folder.join("other-ca.pem"));
    for mode in ["require", "verify-ca", "verify-full"] {
        let url = format!("{}?sslmode={mode}", shop.url);
        let ran = status(&url, &[("tls_root_cert", &right)]);
        assert_eq!(ran.exit, Some(0), "{ran:?}");
        refused(&status(&url, &[("tls_root_cert", &other)]), "invalid peer certificate: UnknownIssuer");
        let by_url = format!("{url}&sslrootcert={}", right.display());
        assert_eq!(status(&by_url, &[]).exit, Some(0));
    }
    // The same server under a name that its certificate does not contain.
    let elsewhere = shop.url.replace("127.0.0.1", "db.example.org");
    let url = format!("{elsewhere}?hostaddr=127.0.0.1&sslmode=verify-full");
    refused(&status(&url, &[("tls_root_cert", &right)]), "not valid for name");
    refused(
        &status(&format!("{}?sslmode=require", shop.url), &[("tls_root_cert", &folder.join("PG_VERSION"))]),
        "contains no certificate",
    );
}

#[test]
fn a_client_presents_its_certificate() {
    let (Some(shop), Some(folder)) = (Shop::new(), secured()) else { return };
    shop.ready();
    let url = format!("{}?sslmode=verify-full", shop.url_as("certificate_user"));
    let (root, certificate, key) =
        (folder.join("test-ca.pem"), folder.join("test-client.pem"), folder.join("test-client.key"));
    let all = [("tls_root_cert", &*root), ("tls_client_cert", &*certificate), ("tls_client_key", &*key)];
    let ran = status(&url, &all);
    assert_eq!(ran.exit, Some(0), "{ran:?}");
    let without = status(&url, &all[..1]);
    assert_eq!(without.exit, Some(3), "{without:?}");
    assert!(without.stderr.starts_with("error[PR-0308]: "), "{without:?}");
}

#[test]
fn a_server_without_tls_is_refused_if_tls_is_required() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let server = std::thread::spawn(move || {
        let (mut client, _) = listener.accept().unwrap();
        let mut request = [0; 8];
        client.read_exact(&mut request).unwrap();
        client.write_all(b"N").unwrap();
        let mut rest = Vec::new();
        let _ = client.read_to_end(&mut rest);
        rest
    });
    let ran = status(&format!("postgres://postgres:pw@127.0.0.1:{port}/shop?sslmode=require"), &[]);
    refused(&ran, "server does not support TLS");
    assert!(server.join().unwrap().is_empty(), "nothing is sent to a server that cannot encrypt");
}
