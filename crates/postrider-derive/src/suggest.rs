//! Suggests an event type if it is missing.

/// `OrderPlaced` becomes `order.placed`; a final word `Event` is dropped.
pub(crate) fn event_type(rust_name: &str) -> String {
    let mut name = String::new();
    let mut previous_is_lower = false;
    for c in rust_name.trim_start_matches("r#").chars().filter(|c| *c != '_') {
        if c.is_uppercase() && previous_is_lower {
            name.push('.');
        }
        previous_is_lower = !c.is_uppercase();
        name.extend(c.to_lowercase());
    }
    match name.strip_suffix(".event") {
        Some(rest) => rest.to_owned(),
        None => name,
    }
}

#[cfg(test)]
mod tests {
    use super::event_type;

    #[test]
    fn words_become_parts() {
        for (rust, wire) in [
            ("OrderPlaced", "order.placed"),
            ("OrderPlacedEvent", "order.placed"),
            ("Event", "event"),
            ("HTTPCall", "httpcall"),
            ("V2Done", "v2.done"),
        ] {
            assert_eq!(event_type(rust), wire);
        }
    }
}
