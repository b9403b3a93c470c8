//! Which hosts an event may select.
//!
//! Requests contain the sink's token and signature. An event that could select any host could send them there.

use postrider::{Code, Error, Result};
use reqwest::Url;

/// The hosts of an allow-list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct HostAllowList(Vec<Entry>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Entry {
    /// `*`
    Any,
    /// `*.hooks.example`: the hosts below it, not the host itself.
    Below(Host),
    /// `hooks.example`, `hooks.example:8443`
    One(Host),
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Host {
    /// As the URL parser normalises it: lower case, punycode, canonical addresses.
    name: String,
    /// `None`: the port of the scheme.
    port: Option<u16>,
}

impl HostAllowList {
    /// Reads an allow-list.
    ///
    /// # Errors
    /// [`Code::SinkOpen`] with the entry that is not a host.
    pub(super) fn parse(texts: &[String]) -> Result<Self> {
        let entry = |text: &String| match (&**text, text.strip_prefix("*.")) {
            ("*", _) => Some(Entry::Any),
            (_, Some(below)) => Host::parse(below).map(Entry::Below),
            (one, None) => Host::parse(one).map(Entry::One),
        };
        let read = |text: &String| {
            entry(text).ok_or_else(|| {
                let what = format!("webhook: {text:?} is not a host such as \"hooks.example\"");
                let hint = "use HOST, HOST:PORT, *.HOST for all its subdomains, or * for every host";
                Error::new(Code::SinkOpen, what).with_hint(hint)
            })
        };
        texts.iter().map(read).collect::<Result<_>>().map(Self)
    }

    /// Whether an event may select the host and port of this URL.
    pub(super) fn allow(&self, url: &Url) -> bool {
        let name = url.host_str().unwrap_or_default();
        self.0.iter().any(|entry| match entry {
            Entry::Any => true,
            Entry::One(host) => host.name == name && host.has_port_of(url),
            Entry::Below(host) => {
                let above = name.strip_suffix(&host.name).and_then(|rest| rest.strip_suffix('.'));
                above.is_some_and(|above| !above.is_empty()) && host.has_port_of(url)
            }
        })
    }
}

impl Host {
    fn parse(text: &str) -> Option<Self> {
        let is_outside = |c: char| c.is_whitespace() || c.is_control() || "/\\?#@%*".contains(c);
        if text.contains(is_outside) {
            return None;
        }
        // The URL parser normalises the host in the same way as in the URLs that it is compared with.
        let url = Url::parse(&format!("https://{text}/")).ok()?;
        let port = url.port().or_else(|| text.ends_with(":443").then_some(443));
        Some(Self { name: url.host_str()?.to_owned(), port })
    }

    fn has_port_of(&self, url: &Url) -> bool {
        match self.port {
            None => url.port().is_none(),
            port => url.port_or_known_default() == port,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allowed(list: &[&str], url: &str) -> bool {
        let list: Vec<String> = list.iter().map(|&text| text.to_owned()).collect();
        HostAllowList::parse(&list).unwrap().allow(&Url::parse(url).unwrap())
    }

    #[test]
    fn a_host_is_allowed_by_its_whole_name_and_port() {
        let list = ["hooks.example", "Other.Example:8443", "127.0.0.1:80", "[::1]", "größe.example"];
        for url in [
            "https://hooks.example/a",
            "https://HOOKS.example:443/",
            "http://hooks.example/",
            "https://other.example:8443/",
            "http://127.1/",
            "https://[0::1]/",
            "https://xn--gre-6ka8i.example/",
        ] {
            assert!(allowed(&list, url), "{url}");
        }
        for url in [
            "https://hooks.example:8443/",
            "https://hooks.example.evil/",
            "https://evil-hooks.example/",
            "https://a.hooks.example/",
            "https://hooks.example./",
            "https://hooks.example@evil.example/",
            "https://other.example/",
            "http://127.0.0.1:8080/",
        ] {
            assert!(!allowed(&list, url), "{url}");
        }
        assert!(!allowed(&[], "https://hooks.example/"));
    }

    #[test]
    fn a_star_matches_subdomains_or_every_host() {
        assert!(allowed(&["*.hooks.example"], "https://a.hooks.example/"));
        assert!(allowed(&["*.hooks.example"], "https://a.b.hooks.example/"));
        for url in ["https://hooks.example/", "https://.hooks.example/", "https://evilhooks.example/"] {
            assert!(!allowed(&["*.hooks.example"], url), "{url}");
        }
        assert!(!allowed(&["*.hooks.example"], "https://a.hooks.example:8443/"));
        assert!(allowed(&["*.hooks.example:8443"], "https://a.hooks.example:8443/"));
        assert!(allowed(&["*"], "https://any.example:8443/"));
    }

    #[test]
    fn an_entry_that_is_not_a_host_is_refused() {
        for text in
            ["", "https://hooks.example", "hooks.example/a", "me@hooks.example", "a b", "*.*", "a*b", "**"]
        {
            let error = HostAllowList::parse(&[text.to_owned()]).unwrap_err();
            assert!(error.report().contains("is not a host such as"), "{text}: {error}");
        }
    }
}
