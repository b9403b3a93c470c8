//! Name patterns with `*`.

use std::collections::HashSet;

/// A list of names and patterns. `*` matches any text, including dots and the empty text; every other character matches
/// itself. An empty list matches nothing.
#[derive(Debug, Clone, Default)]
pub(crate) struct Globs {
    /// Names without `*`, found with one lookup.
    exact: HashSet<String>,
    /// As they were given.
    sources: Vec<String>,
    patterns: Vec<Pattern>,
}

impl Globs {
    pub(crate) fn matches(&self, name: &str) -> bool {
        self.exact.contains(name) || self.patterns.iter().any(|pattern| pattern.matches(name))
    }

    /// The names and patterns, as they were given.
    pub(crate) fn sources(&self) -> &[String] {
        &self.sources
    }

    pub(super) fn is_empty(&self) -> bool {
        self.exact.is_empty() && self.patterns.is_empty()
    }
}

impl<T: Into<String>> FromIterator<T> for Globs {
    fn from_iter<I: IntoIterator<Item = T>>(names: I) -> Self {
        let mut globs = Self::default();
        for name in names {
            let name = name.into();
            globs.sources.push(name.clone());
            match Pattern::parse(&name) {
                Some(pattern) => globs.patterns.push(pattern),
                None => _ = globs.exact.insert(name),
            }
        }
        globs
    }
}

/// The texts around the stars of one pattern.
#[derive(Debug, Clone)]
struct Pattern {
    start: String,
    /// Must occur in this order between start and end.
    middle: Vec<String>,
    end: String,
}

impl Pattern {
    /// `None` if the name contains no star.
    fn parse(name: &str) -> Option<Self> {
        let (start, rest) = name.split_once('*')?;
        let (middle, end) = rest.rsplit_once('*').unwrap_or(("", rest));
        let middle = middle.split('*').filter(|part| !part.is_empty()).map(str::to_owned).collect();
        Some(Self { start: start.to_owned(), middle, end: end.to_owned() })
    }

    fn matches(&self, name: &str) -> bool {
        let Some(rest) = name.strip_prefix(&*self.start) else { return false };
        let Some(mut rest) = rest.strip_suffix(&*self.end) else { return false };
        // Matching each part at its first occurrence leaves the most text for the others.
        self.middle.iter().all(|part| match rest.split_once(&**part) {
            Some((_, after)) => {
                rest = after;
                true
            }
            None => false,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_matches_any_text() {
        for (glob, matching, other) in [
            ("order.*", vec!["order.placed", "order.", "order.item.added"], vec!["order", "orders.placed"]),
            ("*.placed", vec!["order.placed", ".placed"], vec!["placed", "order.placed.late"]),
            ("*", vec!["", "a", "a.b"], vec![]),
            ("a*b*c", vec!["abc", "a-b-c", "abbcc", "acbc"], vec!["ab", "acb", "abcd", "ac"]),
            ("a**c", vec!["ac", "abc"], vec!["a"]),
            ("aba*aba", vec!["abaaba", "aba-aba"], vec!["aba", "ababa"]),
            ("order.placed", vec!["order.placed"], vec!["order-placed", "order.placed.x", ""]),
        ] {
            let globs: Globs = [glob].into_iter().collect();
            matching.iter().for_each(|name| assert!(globs.matches(name), "{glob} {name}"));
            other.iter().for_each(|name| assert!(!globs.matches(name), "{glob} {name}"));
        }
    }

    #[test]
    fn a_list_matches_what_one_of_its_members_does() {
        let globs: Globs = ["user.born", "order.*"].into_iter().collect();
        assert!(globs.matches("user.born") && globs.matches("order.paid") && !globs.matches("user.left"));
        assert!(!Globs::default().matches(""));
    }
}
