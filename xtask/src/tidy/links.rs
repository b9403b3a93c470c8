//! Every relative link in a Markdown file points to a file of the repository; its fragment points to a heading
//! of a Markdown file or to a function of a Rust file.

use super::markdown::{anchor, heading, links, prose};
use super::{Finding, Tree};

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in tree.with_extension("md") {
        for link in links(text) {
            if let Err(what) = follow(tree, path, &link.target) {
                findings.push(Finding::new(path, link.line, format!("link to {}: {what}", link.target)));
            }
        }
    }
    findings
}

fn follow(tree: &Tree, from: &str, target: &str) -> Result<(), String> {
    if target.contains("://") || target.starts_with("mailto:") {
        return Ok(());
    }
    let (file, fragment) = target.split_once('#').unwrap_or((target, ""));
    let path = if file.is_empty() { from.to_owned() } else { resolve(from, file)? };
    if !tree.exists(&path) {
        return Err(format!("there is no {path}"));
    }
    match tree.text(&path) {
        Some(text) if !fragment.is_empty() => follow_fragment(&path, text, fragment),
        _ => Ok(()),
    }
}

fn follow_fragment(path: &str, text: &str, fragment: &str) -> Result<(), String> {
    if path.ends_with(".md") {
        let mut headings = prose(text).filter_map(|(_, line)| heading(line));
        let found = headings.any(|(_, heading)| anchor(heading) == fragment);
        return if found { Ok(()) } else { Err(format!("{path} has no such heading")) };
    }
    if path.ends_with(".rs") && !text.lines().any(|line| declares(line, fragment)) {
        return Err(format!("{path} has no fn {fragment}"));
    }
    Ok(())
}

/// Whether the line declares this function.
pub(super) fn declares(line: &str, function: &str) -> bool {
    line.split_once("fn ").is_some_and(|(before, after)| {
        let rest = after.strip_prefix(function);
        (before.is_empty() || before.ends_with([' ', '(']))
            && rest.is_some_and(|rest| rest.starts_with(['(', '<']))
    })
}

/// The target of a link as a path from the repository's root.
pub(super) fn resolve(from: &str, link: &str) -> Result<String, String> {
    if link.starts_with('/') {
        return Err("make it relative to its file".to_owned());
    }
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in link.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop().ok_or("it leaves the repository")?;
            }
            name => parts.push(name),
        }
    }
    Ok(parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree() -> Tree {
        Tree::of(&[
            ("README.md", "# Title here\n"),
            ("adr/0001-a.md", ""),
            ("src/a.rs", "#[test]\nfn it_works() {}\npub async fn run<T>(t: T) {}\n"),
        ])
    }

    #[test]
    fn links_to_files_folders_headings_and_functions_resolve() {
        let targets = [
            "adr/0001-a.md",
            "adr",
            "adr/",
            "./src/a.rs",
            "#title-here",
            "src/a.rs#it_works",
            "src/a.rs#run",
        ];
        for target in targets.into_iter().chain(["https://example.org/x", "mailto:a@example.org"]) {
            assert_eq!(follow(&tree(), "README.md", target), Ok(()), "{target}");
        }
        assert_eq!(follow(&tree(), "adr/0001-a.md", "../README.md#title-here"), Ok(()));
    }

    #[test]
    fn links_to_nothing_do_not() {
        for target in
            ["adr/0002.md", "ad", "#other", "src/a.rs#it_work", "src/a.rs#works", "../x.md", "/README.md"]
        {
            assert!(follow(&tree(), "README.md", target).is_err(), "{target}");
        }
    }
}
