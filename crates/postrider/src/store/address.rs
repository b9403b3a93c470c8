//! The TLS parameters of a server's URL. The drivers parse the rest.

use std::net::IpAddr;
#[cfg(any(feature = "postgres-tls", feature = "mysql-tls"))]
use std::path::Path;
use std::path::PathBuf;

#[cfg(any(feature = "postgres-tls", feature = "mysql-tls"))]
use crate::{Code, Error, Result};

/// PEM files for TLS.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Certificates {
    /// Root certificates to trust; those of the system if not given.
    pub(super) root: Option<PathBuf>,
    /// The client's certificate, followed by its intermediate certificates.
    pub(super) client: Option<PathBuf>,
    /// The key of the client's certificate.
    pub(super) client_key: Option<PathBuf>,
}

#[cfg(any(feature = "postgres-tls", feature = "mysql-tls"))]
impl Certificates {
    /// The client's certificate and its key, if they are given.
    ///
    /// # Errors
    /// [`Code::ConfigValue`] if one of them is missing.
    pub(super) fn identity(&self) -> Result<Option<(&Path, &Path)>> {
        match (&self.client, &self.client_key) {
            (None, None) => Ok(None),
            (Some(certificate), Some(key)) => Ok(Some((certificate, key))),
            _ => {
                let what = "only one of client certificate and client key is configured";
                Err(Error::new(Code::ConfigValue, what).with_hint("configure both or none"))
            }
        }
    }
}

/// The error for a system without any root certificate.
#[cfg(any(feature = "postgres-tls", feature = "mysql-tls"))]
pub(super) fn roots_missing() -> Error {
    let what = "there is no root certificate to verify the server's certificate";
    Error::new(Code::TlsFailed, what)
        .with_hint("install the system's certificates (ca-certificates), or configure a file with the server's root certificate")
}

/// The meaning of a TLS parameter.
#[cfg_attr(
    not(feature = "postgres"),
    allow(dead_code, reason = "only PostgreSQL has a parameter for the default")
)]
pub(super) enum TlsParameter {
    Mode,
    Root,
    /// The root certificates of the system, which are the default.
    SystemRoot,
    Client,
    ClientKey,
}

/// A URL without its TLS parameters, and their values.
pub(super) struct TlsUrl<'a> {
    pub(super) url: String,
    pub(super) certificates: Certificates,
    /// The TLS mode, as it is written.
    pub(super) mode: Option<&'a str>,
}

impl<'a> TlsUrl<'a> {
    /// `meaning` maps the TLS parameters of a database, by name and value.
    pub(super) fn parse(text: &'a str, meaning: impl Fn(&str, &str) -> Option<TlsParameter>) -> Self {
        let (rest, parameters) = split(text);
        let mut certificates = Certificates::default();
        let mut mode = None;
        let mut kept = Vec::new();
        for parameter in parameters {
            let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
            let file = || Some(PathBuf::from(decoded(value)));
            match meaning(name, value) {
                Some(TlsParameter::Mode) => mode = Some(value),
                Some(TlsParameter::Root) => certificates.root = file(),
                Some(TlsParameter::SystemRoot) => {}
                Some(TlsParameter::Client) => certificates.client = file(),
                Some(TlsParameter::ClientKey) => certificates.client_key = file(),
                None => kept.push(parameter),
            }
        }
        let mark = if kept.is_empty() { "" } else { "?" };
        Self { url: format!("{rest}{mark}{}", kept.join("&")), certificates, mode }
    }
}

/// Splits a URL before its parameters. A text that is not a URL has none.
fn split(text: &str) -> (&str, Vec<&str>) {
    let is_scheme = |scheme: &str| scheme.bytes().all(|byte| byte.is_ascii_alphanumeric());
    if !text.split_once("://").is_some_and(|(scheme, _)| is_scheme(scheme)) {
        return (text, Vec::new());
    }
    // A password may contain a question mark.
    let after_user = text.find('@').unwrap_or(0);
    match text[after_user..].find('?') {
        Some(at) => {
            let (rest, parameters) = text.split_at(after_user + at);
            (rest, parameters[1..].split('&').filter(|parameter| !parameter.is_empty()).collect())
        }
        None => (text, Vec::new()),
    }
}

/// Whether traffic to this host stays on this machine.
pub(super) fn is_loopback(host: &str) -> bool {
    let host = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || host.parse().is_ok_and(|ip: IpAddr| ip.is_loopback())
}

/// Decodes `%2F` to `/`. Any other text is kept.
fn decoded(value: &str) -> String {
    let mut bytes = Vec::with_capacity(value.len());
    let mut rest = value.as_bytes();
    while let [first, after @ ..] = rest {
        let code = value_of(after).filter(|_| *first == b'%');
        bytes.push(code.unwrap_or(*first));
        rest = if code.is_some() { &after[2..] } else { after };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn value_of(digits: &[u8]) -> Option<u8> {
    let digits = std::str::from_utf8(digits.get(..2)?).ok()?;
    u8::from_str_radix(digits, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn certificates_are_removed_from_the_url_and_the_rest_stays() {
        let meaning = |name: &str, _: &str| match name {
            "mode" => Some(TlsParameter::Mode),
            "ca" => Some(TlsParameter::Root),
            "cert" => Some(TlsParameter::Client),
            "key" => Some(TlsParameter::ClientKey),
            _ => None,
        };
        let read =
            TlsUrl::parse("db://u:p?x@h/shop?ca=%2Fca%20s.pem&name=a&cert=b&key=c&mode=d&&zz=1", meaning);
        let path = |text: &str| Some(PathBuf::from(text));
        assert_eq!((read.url.as_str(), read.mode), ("db://u:p?x@h/shop?name=a&zz=1", Some("d")));
        let wanted = Certificates { root: path("/ca s.pem"), client: path("b"), client_key: path("c") };
        assert_eq!(read.certificates, wanted);
        assert_eq!(TlsUrl::parse("host=h password='a?ca=b'", meaning).url, "host=h password='a?ca=b'");
    }
}
