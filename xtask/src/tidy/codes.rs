//! Every error code is explained in the docs, and the docs explain no code that does not exist.

use std::collections::BTreeSet;

use super::{Finding, Tree};

const CODE: &str = "crates/postrider/src/error/code.rs";
const DOCS: &str = "docs/src/errors.md";

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let (Some(source), Some(docs)) = (tree.text(CODE), tree.text(DOCS)) else { return Vec::new() };
    let codes = declared(source);
    if codes.is_empty() {
        return vec![Finding::new(CODE, 0, "no `codes! { ... }` block with codes in it was found")];
    }
    let explained = mentioned(docs);
    let missing = codes.difference(&explained).map(|code| format!("{code} is not explained"));
    let unknown = explained.difference(&codes).map(|code| format!("there is no {code}"));
    missing.chain(unknown).map(|what| Finding::new(DOCS, 0, what)).collect()
}

/// The codes of `Name = 101, Recovery, ...` within `codes! { ... }`.
fn declared(source: &str) -> BTreeSet<String> {
    let block = source.lines().skip_while(|line| *line != "codes! {").skip(1).take_while(|line| *line != "}");
    let number = |line: &str| line.split_once(" = ")?.1.split_once(',')?.0.parse::<u16>().ok();
    let lines = block.map(str::trim).filter(|line| !line.starts_with("//"));
    lines.filter_map(number).map(|number| format!("PR-{number:04}")).collect()
}

/// Every `PR-0000` in a text.
fn mentioned(text: &str) -> BTreeSet<String> {
    let digits = |at: usize| text.get(at + 3..at + 7).filter(|code| code.bytes().all(|b| b.is_ascii_digit()));
    text.match_indices("PR-").filter_map(|(at, _)| digits(at)).map(|code| format!("PR-{code}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = "macro_rules! codes {\n    () => {};\n}\n\ncodes! {\n    /// A = 7, no.\n    A = 101, Operator, \"x = 5, y\", \"z\";\n\n    \
                          B = 202, Retry,\n        \"x\", \"y\";\n}\nconst C: u8 = 3, ;\n";

    #[test]
    fn codes_are_read_from_their_block_only() {
        assert_eq!(declared(SOURCE).into_iter().collect::<Vec<_>>(), ["PR-0101", "PR-0202"]);
    }

    #[test]
    fn missing_and_unknown_codes_are_found() {
        let tree = Tree::of(&[(CODE, SOURCE), (DOCS, "## PR-0101\n## PR-0999, PR-x\n")]);
        let found: Vec<String> = check(&tree).into_iter().map(|finding| finding.what).collect();
        assert_eq!(found, ["PR-0202 is not explained", "there is no PR-0999"]);
    }

    #[test]
    fn without_the_page_nothing_is_asked() {
        assert_eq!(check(&Tree::of(&[(CODE, SOURCE)])), []);
    }
}
