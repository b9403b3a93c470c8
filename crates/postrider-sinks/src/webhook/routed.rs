//! The URL of a message from its route. Parts of it may come from the event.

use postrider::sink::Message;
use reqwest::Url;

use super::address::Address;
use super::guard::Guard;
use super::hosts::HostAllowList;

/// The URL of a message, or why it is not valid.
///
/// The router has escaped the values of the event. This function checks the complete URL as a server would read it: the
/// host must be the rule's host or one that events may select, and the path must not contain `.` or `..`.
pub(super) fn address(
    message: &Message,
    guard: &Guard,
    allow_http: bool,
    hosts: &HostAllowList,
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
                return Err(format!("its URL goes to {address}, but the rule's host is {origin}"));
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

/// Whether a segment of the path is `.` or `..`, encoded or not. Servers and URL parsers resolve such a segment to the
/// parent folder, however it is encoded.
fn has_dot_segment(url: &str) -> bool {
    let path = url.split(['?', '#']).next().unwrap_or_default();
    let mut segments = path.split('/').map(|segment| segment.to_ascii_lowercase().replace("%2e", "."));
    segments.any(|segment| segment == "." || segment == "..")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dot_segment_is_found_in_every_encoding() {
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
