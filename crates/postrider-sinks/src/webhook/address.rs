//! The URL of an endpoint, checked as far as possible without resolving its name.

use std::fmt;
use std::net::IpAddr;

use reqwest::Url;

use super::guard::Guard;

/// A URL that requests may go to. Its `Display` is scheme, host and port, because the path may contain a token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Address {
    pub(super) url: Url,
}

impl Address {
    /// Checks a URL: `https`, or `http` where that is allowed, and no forbidden IP address. A URL with a literal IP
    /// address does not pass through the resolver, so its address is checked here.
    pub(super) fn parse(text: &str, guard: &Guard, allow_http: bool) -> Result<Self, String> {
        let url = Url::parse(text).map_err(|error| format!("this is not a URL: {error}"))?;
        let host = url.host_str().unwrap_or_default().to_owned();
        let literal: Option<IpAddr> = host.trim_start_matches('[').trim_end_matches(']').parse().ok();
        let own = literal.map_or(host == "localhost", |address| address.is_loopback());
        match url.scheme() {
            "https" => {}
            "http" if allow_http || own => {}
            "http" => return Err(format!("http://{host} is not encrypted; use https or allow http")),
            // The text is not repeated: it may be a secret instead of a URL.
            _ => return Err("the scheme of the URL must be https or http".into()),
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(format!(
                "the URL of {host} contains a user or password; use `authorization` instead"
            ));
        }
        if let Some(address) = literal {
            guard.check(&host, address).map_err(|refused| refused.to_string())?;
        }
        Ok(Self { url })
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.url.origin().ascii_serialization())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Address, String> {
        Address::parse(text, &Guard::default(), false)
    }

    #[test]
    fn only_scheme_host_and_port_are_shown() {
        let address = parse("https://hooks.example:8443/T0KEN?key=T0KEN").unwrap();
        assert_eq!(address.to_string(), "https://hooks.example:8443");
    }

    #[test]
    fn internal_addresses_are_refused_in_every_notation_of_a_url() {
        for inside in [
            "https://127.0.0.1/",
            "https://127.1/",
            "https://0x7f.0.0.1/",
            "https://2130706433/",
            "https://0177.0.0.1/",
            "https://[::1]/",
            "https://[::ffff:10.0.0.1]/",
            "https://[64:ff9b::a9fe:a9fe]/",
            "https://169.254.169.254/latest/meta-data",
            "https://\u{ff11}\u{ff12}\u{ff17}.0.0.1/",
            "http://127.0.0.1/",
        ] {
            let error = parse(inside).unwrap_err();
            assert!(error.contains("allow its network"), "{inside}: {error}");
        }
    }

    #[test]
    fn unencrypted_requests_are_allowed_only_to_this_machine_by_default() {
        assert!(parse("http://hooks.example/").unwrap_err().contains("not encrypted"));
        assert!(Address::parse("http://hooks.example/", &Guard::default(), true).is_ok());
        let open = Guard { allow_private: true, ..Guard::default() };
        for own in ["http://127.0.0.1:8080/", "http://[::1]/", "http://localhost/"] {
            assert!(Address::parse(own, &open, false).is_ok(), "{own}");
        }
        assert!(Address::parse("http://10.0.0.1/", &open, false).is_err());
    }

    #[test]
    fn an_invalid_url_is_refused_without_printing_its_secrets() {
        for bad in [
            "",
            "orders",
            "ftp://h/",
            "file:///etc/passwd",
            "https://",
            "https://me:T0KEN@h.example/",
            "T0KEN:and more",
        ] {
            let error = parse(bad).unwrap_err().to_uppercase();
            assert!(!error.contains("T0KEN"), "{error}");
        }
    }
}
