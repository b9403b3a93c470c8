//! Settings of the webhook sink.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use ipnet::IpNet;
use postrider::sink::Destinations;
use postrider::{Code, Error, Result};

use super::Key;
use super::guard::Guard;
use super::hosts::HostAllowList;

/// Where requests go, which keys sign them, and which addresses they may reach.
///
/// ```
/// # fn main() -> postrider::Result<()> {
/// use std::time::Duration;
///
/// use postrider_sinks::webhook::WebhookConfig;
///
/// let config = WebhookConfig::new("https://hooks.example/orders")
///     .secret("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")?
///     .timeout(Duration::from_secs(5));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct WebhookConfig {
    /// The endpoint of all events. `None`: each event goes to the destination of its route, which must be a URL. The
    /// headers and signatures below are then sent to every such URL. Values of the event in that URL are escaped; its
    /// host must be part of the routing rule or be listed in `allow_hosts`.
    pub url: Option<String>,
    /// Every key signs every request. Use two while receivers change to a new one. Empty: requests are not signed.
    pub keys: Vec<Key>,
    /// Value of the header `authorization`. Never printed.
    pub authorization: Option<String>,
    /// Headers of every request. Do not put secrets here: these values are printed.
    pub headers: BTreeMap<String, String>,
    /// Timeout of one request, including its response. Requests of a batch start within half of this time, so the
    /// relay's publish timeout must be more than one and a half times this value.
    pub timeout: Duration,
    /// Maximum number of concurrent requests to one endpoint.
    pub concurrency: usize,
    /// Allows requests to loopback, private and other special addresses.
    pub allow_private: bool,
    /// Allows requests to special addresses in these networks, such as `10.1.0.0/16`.
    pub allow_networks: Vec<String>,
    /// Hosts that an event may select, through its topic or a value in the host of a rule's URL: `hooks.example`,
    /// `hooks.example:8443`, `*.hooks.example` for all subdomains, `*` for every host. Empty: none.
    pub allow_hosts: Vec<String>,
    /// Allows unencrypted requests. Loopback addresses do not need this, only `allow_private` or `allow_networks`.
    pub allow_http: bool,
    /// Certificates (PEM) to trust in addition to those of the operating system.
    pub ca_file: Option<PathBuf>,
}

impl WebhookConfig {
    /// Sends all events to this URL.
    pub fn new(url: impl Into<String>) -> Self {
        Self { url: Some(url.into()), ..Self::routed() }
    }

    /// Sends each event to the URL of its route.
    pub fn routed() -> Self {
        Self {
            url: None,
            keys: Vec::new(),
            authorization: None,
            headers: BTreeMap::new(),
            timeout: Duration::from_secs(15),
            concurrency: 16,
            allow_private: false,
            allow_networks: Vec::new(),
            allow_hosts: Vec::new(),
            allow_http: false,
            ca_file: None,
        }
    }

    /// Adds a secret that signs every request.
    ///
    /// # Errors
    /// As [`Key::parse`].
    pub fn secret(mut self, secret: &str) -> Result<Self> {
        self.keys.push(Key::parse(secret)?);
        Ok(self)
    }

    /// Sets the value of the header `authorization`.
    #[must_use]
    pub fn authorization(mut self, value: impl Into<String>) -> Self {
        self.authorization = Some(value.into());
        self
    }

    /// Adds a header of every request. Not for secrets: the value is printed.
    #[must_use]
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.headers.insert(name.into(), value.into());
        self
    }

    /// Allows requests to special addresses in a network such as `10.1.0.0/16`.
    #[must_use]
    pub fn allow_network(mut self, network: impl Into<String>) -> Self {
        self.allow_networks.push(network.into());
        self
    }

    /// Adds a host that an event may select; see [`allow_hosts`](Self#structfield.allow_hosts).
    #[must_use]
    pub fn allow_host(mut self, host: impl Into<String>) -> Self {
        self.allow_hosts.push(host.into());
        self
    }

    /// Trusts the certificates (PEM) of this file in addition to those of the operating system.
    #[must_use]
    pub fn ca_file(mut self, file: impl Into<PathBuf>) -> Self {
        self.ca_file = Some(file.into());
        self
    }

    /// Where requests go, for logs and status: scheme, host and port. The rest of the URL may contain a token.
    pub fn redacted_url(&self) -> String {
        match &self.url {
            None => "the URL from each event's route".into(),
            Some(url) => reqwest::Url::parse(url)
                .map_or_else(|_| "no address".into(), |url| url.origin().ascii_serialization()),
        }
    }

    /// Checks what can be checked without connecting or reading files.
    ///
    /// # Errors
    /// [`Code::SinkOpen`] for an entry that is not a network or not a host.
    pub fn check(&self) -> Result<()> {
        self.guard()?;
        self.hosts().map(|_| ())
    }

    /// How the sink uses the destinations that routing names.
    pub fn destinations(&self) -> Destinations {
        match self.url {
            Some(_) => Destinations::Fixed,
            None => Destinations::Urls { hosts_from_events: !self.allow_hosts.is_empty() },
        }
    }

    /// Hosts that events may select.
    pub(super) fn hosts(&self) -> Result<HostAllowList> {
        HostAllowList::parse(&self.allow_hosts)
    }

    /// The addresses that may be connected to.
    pub(super) fn guard(&self) -> Result<Guard> {
        let networks = self.allow_networks.iter().map(|text| {
            let host = || text.parse::<std::net::IpAddr>().map(IpNet::from);
            text.parse::<IpNet>().or_else(|_| host()).map_err(|_| {
                let what = format!("{text:?} is not a network such as \"10.1.0.0/16\" or an address");
                Error::new(Code::SinkOpen, what)
            })
        });
        Ok(Guard { allow_private: self.allow_private, allow_networks: networks.collect::<Result<_>>()? })
    }
}

crate::setters! { WebhookConfig:
    timeout: Duration,
    concurrency: usize,
    allow_private: bool,
    allow_http: bool,
}

impl fmt::Debug for WebhookConfig {
    /// Without the URL's path, which may contain a token, and without secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WebhookConfig")
            .field("to", &self.redacted_url())
            .field("keys", &self.keys)
            .field("headers", &self.headers.keys())
            .field("timeout", &self.timeout)
            .field("concurrency", &self.concurrency)
            .field("allow_private", &self.allow_private)
            .field("allow_networks", &self.allow_networks)
            .field("allow_hosts", &self.allow_hosts)
            .field("allow_http", &self.allow_http)
            .field("ca_file", &self.ca_file)
            .finish_non_exhaustive()
    }
}
