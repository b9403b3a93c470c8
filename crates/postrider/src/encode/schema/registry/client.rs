//! Requests to a registry: bounded in time and size, without redirects and proxies.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use reqwest::{Method, Url};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use serde_json::Value;

use super::super::config::{RegistryAuth, RegistryConfig};
use super::Compatibility;
use super::answer::{Answer, number};
use crate::{Code, Error, Result};

/// How long one request may take.
const REQUEST_MAX: Duration = Duration::from_secs(10);

/// How long connecting may take.
const CONNECT_MAX: Duration = Duration::from_secs(5);

/// The largest answer: a schema with its metadata.
const ANSWER_BYTES_MAX: usize = 2 * 1024 * 1024;

/// The media type of the API.
const MEDIA_TYPE: &str = "application/vnd.schemaregistry.v1+json";

pub(super) struct Client {
    http: reqwest::Client,
    base: Url,
    /// Without user name and password.
    shown: String,
    auth: Option<RegistryAuth>,
}

impl std::fmt::Debug for Client {
    /// Without user name and password.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client").field("address", &self.shown).finish_non_exhaustive()
    }
}

impl Client {
    pub(super) fn open(config: &RegistryConfig) -> Result<Self> {
        let invalid = |why: &str| Error::new(Code::SchemaInvalid, format!("the URL of the registry {why}"));
        let mut base = Url::parse(&config.url).map_err(|_| invalid("is not valid"))?;
        if !matches!(base.scheme(), "http" | "https") || base.host_str().is_none() {
            return Err(invalid("does not begin with https:// or http:// and a host"));
        }
        if base.query().is_some() || base.fragment().is_some() {
            return Err(invalid("has a query or a fragment"));
        }
        let has_user = !base.username().is_empty() || base.password().is_some();
        if has_user && config.auth.is_some() {
            return Err(invalid("contains a user name, and another authentication is configured"));
        }
        let mut shown = base.clone();
        // Neither fails: the URL has a host.
        _ = shown.set_username("");
        _ = shown.set_password(None);
        if !base.path().ends_with('/') {
            let path = format!("{}/", base.path());
            base.set_path(&path);
        }
        let http = reqwest::Client::builder()
            .tls_backend_preconfigured(tls(config.ca_file.as_deref())?)
            .redirect(reqwest::redirect::Policy::none())
            .no_proxy()
            .user_agent(concat!("postrider/", env!("CARGO_PKG_VERSION")))
            .timeout(REQUEST_MAX)
            .connect_timeout(CONNECT_MAX)
            .build()
            .map_err(|error| {
                Error::new(Code::SchemaInvalid, "cannot create an HTTP client for the registry")
                    .with_source(error)
            })?;
        let shown = shown.as_str().trim_end_matches('/').to_owned();
        Ok(Self { http, base, shown, auth: config.auth.clone() })
    }

    pub(super) fn address(&self) -> &str {
        &self.shown
    }

    /// Id and version of a schema, if the registry knows it under the subject: as it is, or with other whitespace and the like.
    pub(super) async fn find(&self, subject: &str, body: &Value) -> Result<Option<(u32, u32)>> {
        let path = format!("subjects/{}", segment(subject));
        match self.find_at(&path, subject, body).await? {
            None => self.find_at(&format!("{path}?normalize=true"), subject, body).await,
            found => Ok(found),
        }
    }

    async fn find_at(&self, path: &str, subject: &str, body: &Value) -> Result<Option<(u32, u32)>> {
        match self.post(path, body).await? {
            Answer::Ok(found) => match (number(&found, "id"), number(&found, "version")) {
                (Some(id), Some(version)) => Ok(Some((id, version))),
                _ => Err(self.unavailable("its answer has no id and version of a schema")),
            },
            Answer::Unknown => Ok(None),
            Answer::Refused(words) => Err(self.refused(subject, &words)),
        }
    }

    /// Registers a schema as the next version of the subject.
    pub(super) async fn register(&self, subject: &str, body: &Value) -> Result<()> {
        let path = format!("subjects/{}/versions?normalize=true", segment(subject));
        match self.post(&path, body).await? {
            Answer::Ok(_) => Ok(()),
            Answer::Unknown => Err(self.refused(subject, "it does not know the subject")),
            Answer::Refused(words) => Err(self.refused(subject, &words)),
        }
    }

    /// Whether a schema may be the next version of the subject.
    pub(super) async fn compatible(&self, subject: &str, body: &Value) -> Result<Compatibility> {
        let path = format!("compatibility/subjects/{}/versions/latest?verbose=true", segment(subject));
        match self.post(&path, body).await? {
            Answer::Ok(found) if found.get("is_compatible") == Some(&Value::Bool(true)) => {
                Ok(Compatibility::Compatible)
            }
            Answer::Ok(found) => {
                let words =
                    found.get("messages").filter(|words| words.as_array().is_some_and(|all| !all.is_empty()));
                let words = words.map_or_else(
                    || "it says no more".into(),
                    |words| super::answer::shortened(&words.to_string()),
                );
                Ok(Compatibility::Incompatible(words))
            }
            Answer::Unknown => Ok(Compatibility::NewSubject),
            Answer::Refused(words) => Err(self.refused(subject, &words)),
        }
    }

    async fn post(&self, path: &str, body: &Value) -> Result<Answer> {
        let url = self.base.join(path).map_err(|_| self.unavailable("its URL cannot have a path"))?;
        let request = self.http.request(Method::POST, url);
        let request = match &self.auth {
            None => request,
            Some(RegistryAuth::Basic { username, password }) => request.basic_auth(username, Some(password)),
            Some(RegistryAuth::Bearer(token)) => request.bearer_auth(token),
        };
        let request = request
            .header(reqwest::header::CONTENT_TYPE, MEDIA_TYPE)
            .header(reqwest::header::ACCEPT, MEDIA_TYPE)
            .body(body.to_string());
        let mut response = request.send().await.map_err(|error| self.failed(error))?;
        let status = response.status().as_u16();
        let mut bytes = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(|error| self.failed(error))? {
            if bytes.len() + chunk.len() > ANSWER_BYTES_MAX {
                return Err(self.unavailable(&format!("its answer has more than {ANSWER_BYTES_MAX} bytes")));
            }
            bytes.extend_from_slice(&chunk);
        }
        Answer::of(status, &bytes).map_err(|why| self.unavailable(&why))
    }

    fn unavailable(&self, why: &str) -> Error {
        Error::new(Code::SchemaUnavailable, format!("the schema registry {}: {why}", self.shown))
    }

    /// An error of the connection, without the URL, which may contain a password.
    fn failed(&self, error: reqwest::Error) -> Error {
        let what = if error.is_timeout() {
            "no answer in time"
        } else if error.is_connect() {
            "it cannot be reached"
        } else {
            "the connection failed"
        };
        self.unavailable(what).with_source(error.without_url())
    }

    fn refused(&self, subject: &str, words: &str) -> Error {
        let what =
            format!("the schema registry {} refuses the schema of subject {subject:?}: {words}", self.shown);
        Error::new(Code::SchemaRefused, what)
    }
}

/// A name as one segment of a path.
fn segment(name: &str) -> String {
    let mut text = String::with_capacity(name.len());
    for byte in name.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'~' => text.push(byte.into()),
            // A segment of dots would be removed.
            b'.' if name.bytes().any(|byte| byte != b'.') => text.push('.'),
            _ => text.push_str(&format!("%{byte:02X}")),
        }
    }
    text
}

/// TLS with ring, which trusts the operating system's certificates and those of a file.
fn tls(ca_file: Option<&Path>) -> Result<ClientConfig> {
    let mut roots = RootCertStore::empty();
    // A certificate that cannot be read is skipped; if it is needed, the handshake fails and names the reason.
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if let Some(path) = ca_file {
        add(&mut roots, path).map_err(|why| {
            Error::new(
                Code::SchemaInvalid,
                format!("cannot use the certificates in {}: {why}", path.display()),
            )
        })?;
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| Error::new(Code::SchemaInvalid, "TLS could not be set up").with_source(error))?;
    Ok(builder.with_root_certificates(roots).with_no_client_auth())
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
