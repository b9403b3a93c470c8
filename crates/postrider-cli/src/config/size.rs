//! Sizes in the configuration: `512B`, `64KiB`, `1MiB`, `2GiB`.

/// Units with their bytes, largest first.
const UNITS: [(&str, u64); 4] = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("B", 1)];

/// A whole number above 0 directly followed by its unit. `None` for anything else.
pub(super) fn parse(text: &str) -> Option<u64> {
    let (number, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit())?);
    let (_, bytes) = UNITS.into_iter().find(|(name, _)| *name == unit)?;
    number.parse::<u64>().ok()?.checked_mul(bytes).filter(|bytes| *bytes > 0)
}

/// In the largest unit that needs no fraction.
pub(super) fn show(bytes: u64) -> String {
    let (name, unit) = UNITS.into_iter().find(|(_, unit)| bytes.is_multiple_of(*unit)).unwrap_or(("B", 1));
    format!("{}{name}", bytes / unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parsed_value_is_shown_in_its_largest_unit() {
        for (text, shown) in
            [("512B", "512B"), ("1024B", "1KiB"), ("1536KiB", "1536KiB"), ("2048MiB", "2GiB")]
        {
            assert_eq!(parse(text).map(show).as_deref(), Some(shown), "{text}");
        }
    }

    #[test]
    fn anything_else_is_not_a_size() {
        for text in ["", "5", "MiB", "1 MiB", "1MB", "1mib", "-1B", "1.5MiB", "0B", "99999999999GiB"] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
