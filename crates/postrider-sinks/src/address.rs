//! Addresses of servers: `host:port`.

/// Host and port of an address; an IPv6 address is in brackets. `None` if it is anything else, such as a URL.
pub(crate) fn host_and_port(address: &str) -> Option<(&str, u16)> {
    let (host, port) = address.rsplit_once(':')?;
    let port: u16 = port.parse().ok()?;
    let inner = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    let is_host = match inner {
        Some(inner) => inner.parse::<std::net::Ipv6Addr>().is_ok(),
        None => !host.is_empty() && !host.contains(['/', '@', ' ', ':', '[', ']']),
    };
    (is_host && port > 0).then(|| (inner.unwrap_or(host), port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_a_host_and_a_port() {
        for (address, expected) in [
            ("redis-1:6379", ("redis-1", 6379)),
            ("127.0.0.1:1", ("127.0.0.1", 1)),
            ("[::1]:6379", ("::1", 6379)),
        ] {
            assert_eq!(host_and_port(address), Some(expected));
        }
        for address in [
            "",
            "redis-1",
            ":6379",
            "redis-1:0",
            "redis-1:99999",
            "::1:6379",
            "[x]:1",
            "a b:1",
            "redis://u:p@h:6379",
        ] {
            assert_eq!(host_and_port(address), None, "{address}");
        }
    }
}
