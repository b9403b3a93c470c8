//! Which addresses may be connected to.
//!
//! A destination may be chosen by another party. Without this check it could name a server of the internal network that
//! trusts every client (server-side request forgery).

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;

/// Allows addresses of the public internet, and those of networks that the configuration allows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Guard {
    pub(super) allow_private: bool,
    pub(super) allow_networks: Vec<IpNet>,
}

/// An address that no request may go to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Refused {
    pub(super) host: String,
    pub(super) address: IpAddr,
    why: &'static str,
}

impl Guard {
    /// Whether a connection to this address of a host may be made.
    pub(super) fn check(&self, host: &str, address: IpAddr) -> Result<(), Refused> {
        let Some(why) = special(address) else { return Ok(()) };
        let listed = self.allow_networks.iter().any(|network| network.contains(&plain(address)));
        if self.allow_private || listed {
            return Ok(());
        }
        Err(Refused { host: host.to_owned(), address, why })
    }
}

/// An IPv4-mapped IPv6 address as the IPv4 address that the operating system connects to.
fn plain(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V6(v6) => v6.to_ipv4_mapped().map_or(address, IpAddr::V4),
        IpAddr::V4(_) => address,
    }
}

/// What is special about an address, unless it is one of the public internet.
fn special(address: IpAddr) -> Option<&'static str> {
    match plain(address) {
        IpAddr::V4(v4) => special_v4(v4),
        IpAddr::V6(v6) => special_v6(v6),
    }
}

/// The blocks of IANA's registry of special addresses that are not reachable from everywhere.
fn special_v4(address: Ipv4Addr) -> Option<&'static str> {
    Some(match address.octets() {
        [0, ..] => "of this network",
        [127, ..] => "a loopback address",
        [10, ..] | [172, 16..=31, ..] | [192, 168, ..] => "a private address",
        [169, 254, ..] => "a link-local address",
        [100, 64..=127, ..] => "a shared address (carrier-grade NAT)",
        [192, 0, 0, _] | [198, 18..=19, ..] => "reserved for protocols and tests",
        [192, 0, 2, _] | [198, 51, 100, _] | [203, 0, 113, _] => "a documentation address",
        // The relays of 6to4, out of use.
        [192, 88, 99, _] => "reserved",
        [224..=239, ..] => "a multicast address",
        [240..=255, ..] => "reserved or a broadcast address",
        _ => return None,
    })
}

fn special_v6(address: Ipv6Addr) -> Option<&'static str> {
    let [first, second, third, fourth, fifth, sixth, high, low] = address.segments();
    let [a, b] = high.to_be_bytes();
    let [c, d] = low.to_be_bytes();
    let last = Ipv4Addr::new(a, b, c, d);
    Some(match first {
        // ::, ::1, and deprecated IPv4-compatible addresses.
        0 if [second, third, fourth, fifth, sixth] == [0; 5] => "a loopback, unspecified or IPv4 address",
        // A NAT64 address ends with the IPv4 address that it leads to.
        0x64 if [second, third, fourth, fifth, sixth] == [0xff9b, 0, 0, 0, 0] => return special_v4(last),
        0x64 if second == 0xff9b => "a local NAT64 address",
        // A 6to4 address contains the IPv4 address that it leads to after its first two bytes.
        0x2002 => {
            let ([a, b], [c, d]) = (second.to_be_bytes(), third.to_be_bytes());
            return special_v4(Ipv4Addr::new(a, b, c, d));
        }
        // Teredo, ORCHID, benchmarking, AMT and others of IETF's protocol block.
        0x2001 if second < 0x0200 => "reserved for protocols",
        0x2001 if second == 0x0db8 => "a documentation address",
        0x3fff if second < 0x1000 => "a documentation address",
        0x2000..=0x3fff => return None,
        0xfc00..=0xfdff => "a private address",
        0xfe80..=0xfebf => "a link-local address",
        0xfec0..=0xfeff => "a site-local address",
        0xff00..=0xffff => "a multicast address",
        _ => "not a public internet address",
    })
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { host, address, why } = self;
        write!(f, "{host} resolves to {address}, {why}; allow its network if events should go there")
    }
}

impl std::error::Error for Refused {}

#[cfg(test)]
mod tests {
    use super::*;

    fn passes(guard: &Guard, address: &str) -> bool {
        guard.check("host", address.parse().unwrap()).is_ok()
    }

    #[test]
    fn addresses_of_the_public_internet_pass() {
        for public in [
            "1.1.1.1",
            "8.8.8.8",
            "9.255.255.255",
            "11.0.0.0",
            "100.63.255.255",
            "100.128.0.0",
            "126.255.255.255",
            "128.0.0.1",
            "169.253.0.1",
            "172.15.255.255",
            "172.32.0.0",
            "192.167.0.1",
            "192.169.0.1",
            "192.0.1.1",
            "198.17.0.1",
            "198.20.0.1",
            "223.255.255.255",
            "2606:4700:4700::1111",
            "2a00:1450:4001::1",
            "2001:4860:4860::8888",
            "::ffff:8.8.8.8",
            "64:ff9b::8.8.8.8",
            "2002:0808:0808::1",
        ] {
            assert!(passes(&Guard::default(), public), "{public}");
        }
    }

    const INSIDE: [&str; 40] = [
        "0.0.0.0",
        "0.1.2.3",
        "10.0.0.1",
        "10.255.255.255",
        "100.64.0.1",
        "100.127.255.255",
        "127.0.0.1",
        "127.255.255.254",
        "169.254.169.254",
        "172.16.0.1",
        "172.31.255.255",
        "192.0.0.8",
        "192.0.2.1",
        "192.88.99.1",
        "192.168.0.1",
        "198.18.0.1",
        "198.19.255.255",
        "198.51.100.1",
        "203.0.113.1",
        "224.0.0.1",
        "239.255.255.255",
        "240.0.0.1",
        "255.255.255.255",
        "::",
        "::1",
        "::127.0.0.1",
        "::8.8.8.8",
        "::ffff:127.0.0.1",
        "::ffff:10.0.0.1",
        "::ffff:169.254.169.254",
        "64:ff9b::10.0.0.1",
        "64:ff9b:1::8.8.8.8",
        "2001::1",
        "2001:db8::1",
        "2002:7f00:0001::1",
        "2002:a9fe:a9fe::1",
        "3fff::1",
        "fc00::1",
        "fe80::1",
        "ff02::1",
    ];

    #[test]
    fn internal_addresses_are_refused_in_every_notation() {
        for inside in INSIDE {
            assert!(!passes(&Guard::default(), inside), "{inside}");
            assert!(passes(&Guard { allow_private: true, ..Guard::default() }, inside), "{inside}");
        }
        assert!(!passes(&Guard::default(), "fec0::1"));
        assert!(!passes(&Guard::default(), "fd12:3456::1"));
        assert!(!passes(&Guard::default(), "4000::1"));
    }

    #[test]
    fn a_listed_network_passes_and_no_other() {
        let allow_networks = vec!["10.1.0.0/16".parse().unwrap(), "fd00::/8".parse().unwrap()];
        let guard = Guard { allow_networks, ..Guard::default() };
        for inside in ["10.1.2.3", "::ffff:10.1.2.3", "fd00::1"] {
            assert!(passes(&guard, inside), "{inside}");
        }
        for other in ["10.2.0.1", "127.0.0.1", "::ffff:10.2.0.1", "fc00::1", "64:ff9b::10.1.2.3"] {
            assert!(!passes(&guard, other), "{other}");
        }
    }

    #[test]
    fn a_refusal_names_host_address_and_reason() {
        let refused = Guard::default().check("meta.example", "169.254.169.254".parse().unwrap()).unwrap_err();
        assert!(
            refused.to_string().starts_with("meta.example resolves to 169.254.169.254, a link-local address")
        );
    }
}
