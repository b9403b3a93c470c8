//! The name of this machine.

use std::sync::OnceLock;

/// The host name, if the system reports it; read once.
pub(super) fn name() -> Option<&'static str> {
    static NAME: OnceLock<Option<String>> = OnceLock::new();
    NAME.get_or_init(|| from_system().or_else(from_environment)).as_deref()
}

fn from_system() -> Option<String> {
    let files = ["/proc/sys/kernel/hostname", "/etc/hostname"];
    files.iter().find_map(|file| usable(&std::fs::read_to_string(file).ok()?))
}

fn from_environment() -> Option<String> {
    ["HOSTNAME", "COMPUTERNAME"].iter().find_map(|variable| usable(&std::env::var(variable).ok()?))
}

/// The name, if it is a valid producer.
fn usable(name: &str) -> Option<String> {
    let name = name.trim();
    let fits = !name.is_empty() && name.len() <= 255 && !name.chars().any(char::is_control);
    fits.then(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_name_that_is_a_valid_producer_is_used() {
        assert_eq!(usable("shop-1\n").as_deref(), Some("shop-1"));
        assert_eq!(usable(" \n"), None);
        assert_eq!(usable("a\u{7}b"), None);
        assert_eq!(usable(&"x".repeat(256)), None);
    }
}
