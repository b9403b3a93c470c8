//! `type = "webhook"`

#[cfg(feature = "webhook")]
mod target;

use super::SinkType;
use crate::config::kind::Kind::{Bool, Duration, List, Map, Path, Secret, Url};
use crate::config::schema::{COUNT, KeySpec, sink_key as key};

pub(super) const TYPE: SinkType = SinkType {
    name: "webhook",
    summary: "one HTTP POST per event",
    keys: KEYS,
    #[cfg(feature = "webhook")]
    read: Ok(target::read),
    #[cfg(not(feature = "webhook"))]
    read: Err("webhook"),
};

#[rustfmt::skip]
const KEYS: &[KeySpec] = &[
    key("url", Url, r#""https://hooks.example/orders""#, "The URL that receives every event; give a URL that contains a token as `env:NAME` or `file:PATH`. If unset, each event goes to the URL from its rule; event values in that URL are escaped."),
    key("secret", Secret, r#""whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw""#, "Signs requests according to Standard Webhooks: `whsec_` followed by 24 to 64 bytes in base64. If unset, requests are not signed."),
    key("old_secret", Secret, r#""whsec_b2xkIG9sZCBvbGQgb2xkIG9sZCBvbGQgb2xkIG9sZA==""#, "The previous signing secret: requests are signed with both until every receiver uses the new one."),
    key("authorization", Secret, r#""Bearer a-token""#, "Value of the `authorization` header."),
    key("headers", Map, r#"{ x-shop = "north" }"#, "Additional headers of every request. Not for secrets."),
    key("timeout", Duration, r#""10s""#, "Timeout of one request. `publish_timeout` of the subscription must be more than 1.5 times this value.").default("15s"),
    key("concurrency", COUNT, "4", "Maximum concurrent requests to one address; at most 256.").default("16"),
    key("allow_private", Bool, "true", "Allows requests to loopback, private and other special addresses.").default("false"),
    key("allow_networks", List, r#"["10.1.0.0/16"]"#, "Allows requests to special addresses within these networks."),
    key("allow_hosts", List, r#"["hooks.example", "*.tenants.example"]"#, "Hosts that an event may select through its topic or through a value in the host part of a rule's URL: `HOST`, `HOST:PORT`, `*.HOST` for all subdomains, or `*` for every host. A selected host receives the token and the signature. Default: none."),
    key("allow_http", Bool, "true", "Allows unencrypted requests. Requests to this machine may be unencrypted in any case, if its addresses are allowed.").default("false"),
    key("ca_file", Path, r#""ca.pem""#, "A PEM file with CA certificates to trust in addition to those of the operating system."),
];
