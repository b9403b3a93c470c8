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
use super::hosts::Hosts;

/// Where requests go, who signs them, and what they may reach.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct WebhookConfig {
    /// Every event goes there. `None`: an event goes to the destination its route gives it, which must be a URL. The
    /// headers and signatures below then go wherever events are routed. Values of events in that URL are escaped; the
    /// host must stand in the routing rule, unless `allow_hosts` names it.
    pub url: Option<String>,
    /// Each signs every request: one, or two while receivers change from one to the other. None: not signed.
    pub keys: Vec<Key>,
    /// Value of the header `authorization`. Never printed.
    pub authorization: Option<String>,
    /// Headers of every request. Not for secrets.
    pub headers: BTreeMap<String, String>,
    /// How long one request may take, its answer included. No request begins later than half of this after its
    /// batch, so the relay's publish timeout must be more than one and a half times this.
    pub timeout: Duration,
    /// Requests to one endpoint at the same time.
    pub concurrency: usize,
    /// Lets requests go to loopback, private and other special addresses.
    pub allow_private: bool,
    /// Lets requests go to special addresses of these networks, such as `10.1.0.0/16`.
    pub allow_networks: Vec<String>,
    /// Hosts that an event may choose, where its topic or a value in the host of a rule's URL says where it goes:
    /// `hooks.example`, `hooks.example:8443`, `*.hooks.example` for all below it, `*` for every host. Empty: none.
    pub allow_hosts: Vec<String>,
    /// Lets requests go unencrypted. To the own machine they may in any case, if its addresses are allowed.
    pub allow_http: bool,
    /// Certificates (PEM) to trust besides those of the operating system.
    pub ca_file: Option<PathBuf>,
}

impl WebhookConfig {
    /// To this address.
    pub fn new(url: impl Into<String>) -> Self {
        Self { url: Some(url.into()), ..Self::routed() }
    }

    /// To the URL that each event's route gives it.
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

    /// Signs with this secret too.
    ///
    /// # Errors
    /// As [`Key::parse`].
    pub fn with_secret(mut self, secret: &str) -> Result<Self> {
        self.keys.push(Key::parse(secret)?);
        Ok(self)
    }

    /// Where requests go, for people: scheme, host and port. The rest of an address may hold a token.
    pub fn shown(&self) -> String {
        match &self.url {
            None => "the URL from each event's route".into(),
            Some(url) => reqwest::Url::parse(url)
                .map_or_else(|_| "no address".into(), |url| url.origin().ascii_serialization()),
        }
    }

    /// Checks what can be checked without connecting or reading files.
    ///
    /// # Errors
    /// [`Code::SinkOpen`] for a network or host that is none.
    pub fn check(&self) -> Result<()> {
        self.guard()?;
        self.hosts().map(|_| ())
    }

    /// What the sink makes of the destinations that routing names.
    pub fn destinations(&self) -> Destinations {
        match self.url {
            Some(_) => Destinations::Fixed,
            None => Destinations::Urls { hosts_from_events: !self.allow_hosts.is_empty() },
        }
    }

    /// Hosts that events may choose.
    pub(super) fn hosts(&self) -> Result<Hosts> {
        Hosts::parse(&self.allow_hosts)
    }

    /// What may be connected to.
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

impl fmt::Debug for WebhookConfig {
    /// Without the address's path, which may hold a token, and without secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WebhookConfig")
            .field("to", &self.shown())
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
