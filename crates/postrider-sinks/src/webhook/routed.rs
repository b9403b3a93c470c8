//! The address that the route of a message gives it. Parts of it may come from the event.

use postrider::sink::Message;
use reqwest::Url;

use super::address::Address;
use super::guard::Guard;
use super::hosts::Hosts;

/// The address of a message, or why it can go nowhere.
///
/// The router has escaped the values of the event. This looks at the whole, as a server would read it: the host must be
/// the one of the rule or one that events may choose, and no path may lead upwards.
pub(super) fn address(
    message: &Message,
    guard: &Guard,
    allow_http: bool,
    hosts: &Hosts,
) -> Result<Address, String> {
    let text = &*message.destination;
    if text.contains(|c: char| c.is_control() || c == '\\') || text.trim() != text {
        return Err("its URL has a control character, a backslash, or a space at an end".into());
    }
    if has_dot_segment(text) {
        return Err("the path of its URL has a segment that is . or ..".into());
    }
    let address = Address::parse(text, guard, allow_http)?;
    match message.origin() {
        Some(origin) => {
            let of_rule = Url::parse(origin)
                .map_err(|error| format!("the rule's destination is not a URL: {error}"))?;
            if of_rule.origin() != address.url.origin() {
                return Err(format!("it goes to {address}, but the rule says {origin}"));
            }
        }
        None if hosts.allow(&address.url) => {}
        None => {
            return Err(format!(
                "the event selects the host {address}, which is not in `allow_hosts` of the sink"
            ));
        }
    }
    Ok(address)
}

/// Whether a segment of the path is `.` or `..`, in one of the ways to write them. Servers and the parser of URLs take
/// such a segment as a step upwards, however it is encoded.
fn has_dot_segment(url: &str) -> bool {
    let path = url.split(['?', '#']).next().unwrap_or_default();
    let mut segments = path.split('/').map(|segment| segment.to_ascii_lowercase().replace("%2e", "."));
    segments.any(|segment| segment == "." || segment == "..")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_segment_that_leads_upwards_is_found_however_it_is_written() {
        for url in [
            "https://h/..",
            "https://h/a/../b",
            "https://h/./b",
            "https://h/%2e%2E/b",
            "https://h/.%2e?q",
            "../a",
        ] {
            assert!(has_dot_segment(url), "{url}");
        }
        for url in ["https://h/a..b/...", "https://h/a?q=../..", "https://h/#/../", "https://h/%252e%252e"] {
            assert!(!has_dot_segment(url), "{url}");
        }
    }
}
