//! The parts of Markdown that the rules need: links, headings and fenced code.

/// A link in a file.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Link {
    pub(super) line: usize,
    pub(super) target: String,
}

/// Fenced code with its language.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Fence<'a> {
    /// The line of the opening fence.
    pub(super) line: usize,
    pub(super) lines: Vec<&'a str>,
}

/// The lines outside of fenced code, numbered from one.
pub(super) fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut fenced = false;
    text.lines().enumerate().filter_map(move |(number, line)| {
        let fence = is_fence(line);
        fenced ^= fence;
        (!fence && !fenced).then_some((number + 1, line))
    })
}

/// The blocks of fenced code.
pub(super) fn fences(text: &str) -> Vec<Fence<'_>> {
    let mut fences: Vec<Fence<'_>> = Vec::new();
    let mut fenced = false;
    for (number, line) in text.lines().enumerate() {
        match (is_fence(line), fenced) {
            (true, false) => fences.push(Fence { line: number + 1, lines: Vec::new() }),
            (false, true) => fences.last_mut().into_iter().for_each(|fence| fence.lines.push(line)),
            _ => {}
        }
        fenced ^= is_fence(line);
    }
    fences
}

fn is_fence(line: &str) -> bool {
    line.trim_start().starts_with("```")
}

/// All links: `[text](target)` and `[name]: target`.
pub(super) fn links(text: &str) -> Vec<Link> {
    let mut links = Vec::new();
    for (line, prose) in prose(text) {
        let prose = without_code(prose);
        if let Some((name, target)) = prose.trim_start().split_once("]: ")
            && name.starts_with('[')
        {
            links.push(Link { line, target: target.trim().to_owned() });
        }
        for (at, _) in prose.match_indices("](") {
            if let Some((target, _)) = prose[at + 2..].split_once(')') {
                let target = target.split(" \"").next().unwrap_or(target);
                links.push(Link { line, target: target.trim().to_owned() });
            }
        }
    }
    links
}

/// The line without the text between backticks.
pub(super) fn without_code(line: &str) -> String {
    let parts: Vec<&str> = line.split('`').collect();
    // An unpaired backtick at the end does not open code.
    let closed = if parts.len().is_multiple_of(2) { parts.len() - 1 } else { parts.len() };
    let kept = parts.iter().enumerate().filter(|(at, _)| at % 2 == 0 || *at >= closed);
    kept.map(|(_, part)| *part).collect()
}

/// Level and text of a heading.
pub(super) fn heading(line: &str) -> Option<(usize, &str)> {
    let level = line.bytes().take_while(|byte| *byte == b'#').count();
    let text = line[level..].strip_prefix(' ')?;
    (1..=6).contains(&level).then_some((level, text.trim()))
}

/// The anchor of a heading: lower case, hyphens for spaces, no punctuation.
pub(super) fn anchor(heading: &str) -> String {
    let kept = heading.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.flat_map(char::to_lowercase).map(|c| if c == ' ' { '-' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn targets(text: &str) -> Vec<String> {
        links(text).into_iter().map(|link| link.target).collect()
    }

    #[test]
    fn links_are_found_inline_and_by_reference() {
        let text = "see [a](a.md) and [b](b/c.md#d \"title\")\n\n[ref]: ../e.md\n";
        assert_eq!(targets(text), ["a.md", "b/c.md#d", "../e.md"]);
        assert_eq!(links(text)[2].line, 3);
    }

    #[test]
    fn a_link_whose_text_is_code_is_a_link_and_a_link_in_code_is_none() {
        assert_eq!(targets("[`brain`](brain.rs) but `[no](x.md)`\n```\n[no](y.md)\n```\n"), ["brain.rs"]);
    }

    #[test]
    fn an_image_is_a_link() {
        assert_eq!(targets("![picture](a.svg)"), ["a.svg"]);
    }

    #[test]
    fn headings_have_levels_and_anchors() {
        assert_eq!(heading("## 1. No loss"), Some((2, "1. No loss")));
        assert_eq!(heading("#[test]"), None);
        assert_eq!(anchor("1. No loss, `ever`!"), "1-no-loss-ever");
    }

    #[test]
    fn fenced_code_is_distinguished_from_prose() {
        let text = "a\n```rust\ncode\n```\nb\n";
        assert_eq!(prose(text).collect::<Vec<_>>(), [(1, "a"), (5, "b")]);
        assert_eq!(fences(text), [Fence { line: 2, lines: vec!["code"] }]);
    }
}
