//! Suggestions for misspelled names.

/// A name is suggested only if it is at least this similar.
const LIKENESS_MIN: f64 = 0.7;
/// Maximum number of names to list in one line.
const NAMES_MAX: usize = 8;

/// The most similar of the names, if one is similar enough.
pub(super) fn closest<'a>(meant: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let meant = meant.to_ascii_lowercase();
    let rated = names
        .into_iter()
        .map(|name| (likeness(&meant, &name.to_ascii_lowercase()), name))
        .filter(|(likeness, _)| *likeness >= LIKENESS_MIN);
    rated.max_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, name)| name)
}

/// From 0 to 1. A word with one typo counts as equal, whatever its length.
fn likeness(meant: &str, name: &str) -> f64 {
    let one_slip = meant.len() > 2 && strsim::osa_distance(meant, name) <= 1;
    if one_slip { 1.0 } else { strsim::jaro_winkler(meant, name) }
}

/// A hint with the most similar name, or with all names if they are few; otherwise `None`.
pub(crate) fn did_you_mean<'a>(meant: &str, names: impl IntoIterator<Item = &'a str>) -> Option<String> {
    let names: Vec<&str> = names.into_iter().collect();
    match closest(meant, names.iter().copied()) {
        Some(name) => Some(format!("did you mean \"{name}\"?")),
        None if (1..=NAMES_MAX).contains(&names.len()) => {
            Some(format!("there is \"{}\"", names.join("\", \"")))
        }
        None => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_finds_its_name_and_nonsense_finds_none() {
        let names = ["flush_interval", "flush_events", "lease", "sink"];
        assert_eq!(closest("flush_intervall", names), Some("flush_interval"));
        assert_eq!(closest("SINK", names), Some("sink"));
        assert_eq!(closest("lgo", ["name", "log"]), Some("log"));
        assert_eq!(closest("qqq", names), None);
        assert_eq!(did_you_mean("qqq", ["a", "b"]).as_deref(), Some("there is \"a\", \"b\""));
        assert_eq!(did_you_mean("qqq", []), None);
    }
}
