//! Code in the docs is code that runs. A block after the line `<!-- from: path -->` is literally in that file, except
//! for the indentation of the whole block.

use super::markdown::{fences, prose};
use super::{Finding, Tree};

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in tree.with_extension("md") {
        for (line, source) in prose(text).filter_map(|(line, prose)| Some((line, source(prose)?))) {
            let block = fences(text).into_iter().find(|fence| fence.line == line + 1);
            let what = match (block, tree.text(source)) {
                (None, _) => "no block of code follows".to_owned(),
                (_, None) => format!("there is no {source}"),
                (Some(block), Some(code)) if !holds(code, &block.lines) => {
                    format!("the block is not in {source}; copy it from there")
                }
                _ => continue,
            };
            findings.push(Finding::new(path, line, what));
        }
    }
    findings
}

/// `<!-- from: path -->`
fn source(line: &str) -> Option<&str> {
    Some(line.trim().strip_prefix("<!-- from:")?.strip_suffix("-->")?.trim())
}

fn holds(code: &str, block: &[&str]) -> bool {
    let code: Vec<&str> = code.lines().collect();
    let block = dedented(block);
    !block.is_empty() && code.windows(block.len()).any(|window| dedented(window) == block)
}

/// The lines without the indentation they share.
fn dedented<'a>(lines: &[&'a str]) -> Vec<&'a str> {
    let filled = lines.iter().filter(|line| !line.trim().is_empty());
    let indent = filled.map(|line| line.len() - line.trim_start().len()).min().unwrap_or(0);
    lines.iter().map(|line| line.get(indent..).unwrap_or_default()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(readme: &str) -> usize {
        let code = "fn main() {\n    if yes {\n        go();\n\n    }\n}\n";
        check(&Tree::of(&[("README.md", readme), ("examples/a.rs", code)])).len()
    }

    #[test]
    fn a_block_that_is_in_its_file_is_accepted_with_any_indentation() {
        assert_eq!(findings("<!-- from: examples/a.rs -->\n```rust\nif yes {\n    go();\n\n}\n```\n"), 0);
        assert_eq!(findings("```rust\nanything()\n```\n"), 0);
    }

    #[test]
    fn a_block_that_changed_or_has_no_file_is_found() {
        assert_eq!(findings("<!-- from: examples/a.rs -->\n```rust\nif no {\n```\n"), 1);
        assert_eq!(findings("<!-- from: examples/b.rs -->\n```rust\nif yes {\n```\n"), 1);
        assert_eq!(findings("<!-- from: examples/a.rs -->\nno block\n"), 1);
    }
}
