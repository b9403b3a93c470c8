//! Every promise has a proof. In GUARANTEES.md every heading `## 1. Name` is a promise. `docs/proofs.toml` lists tests
//! for each of them, all of these tests exist, and the page of the book is generated from them. What is not promised
//! yet is under a heading without a number.

use std::collections::BTreeMap;

use super::markdown::{heading, prose};
use super::proofs::{self, DATA, PAGE, Subject};
use super::{Finding, Tree};

const FILE: &str = "GUARANTEES.md";
const UPDATE: &str = "run `cargo run -q -p xtask -- proofs`";

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let (Some(text), Some(data)) = (tree.text(FILE), tree.text(DATA)) else { return Vec::new() };
    let promises = promises(text);
    let proofs = match proofs::parse(data) {
        Ok(proofs) => proofs,
        Err(line) => return vec![Finding::new(DATA, line, "this is no promise, list or name of a test")],
    };
    let mut findings = Vec::new();
    for (number, (line, name)) in &promises {
        if !proofs
            .iter()
            .any(|proof| proof.subject == Subject::Promise(*number) && proof.tests().next().is_some())
        {
            findings.push(Finding::new(FILE, *line, format!("\"{number}. {name}\" has no test in {DATA}")));
        }
    }
    let files = proofs::find(tree, &proofs);
    for proof in &proofs {
        if let Subject::Promise(number) = proof.subject
            && !promises.contains_key(&number)
        {
            let what = format!("{FILE} has no promise {number}");
            findings.push(Finding::new(DATA, proof.line, what));
        }
        let missing = proof.tests().filter(|test| !files.contains_key(test.name));
        findings.extend(
            missing.map(|test| Finding::new(DATA, test.line, format!("no test is called {}", test.name))),
        );
    }
    if findings.is_empty() && tree.text(PAGE) != Some(page(tree).unwrap_or_default().as_str()) {
        findings.push(Finding::new(PAGE, 0, format!("is not up to date; {UPDATE}")));
    }
    findings
}

/// The expected page of the proofs, if its sources exist.
pub(super) fn page(tree: &Tree) -> Option<String> {
    let proofs = proofs::parse(tree.text(DATA)?).ok()?;
    let names = promises(tree.text(FILE)?).into_iter().map(|(number, (_, name))| (number, name)).collect();
    Some(proofs::page(&proofs, &proofs::find(tree, &proofs), &names))
}

/// Line and name of each promise, by its number.
fn promises(text: &str) -> BTreeMap<u32, (usize, &str)> {
    let headings =
        prose(text).filter_map(|(line, prose)| heading(prose).map(|(level, name)| (line, level, name)));
    let numbered = headings.filter(|(_, level, _)| *level == 2).filter_map(|(line, _, heading)| {
        let (number, name) = heading.split_once(". ")?;
        Some((number.parse().ok()?, (line, name)))
    });
    numbered.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const GUARANTEES: &str = "# G\n## 1. No loss\ntext\n## Not promised yet\ntext\n";
    const TESTS: &str = "#[test]\nfn holds() {}\n\nfn made() {}\n";

    fn findings(guarantees: &str, data: &str) -> Vec<String> {
        let files = [(FILE, guarantees), (DATA, data), ("a/tests/a.rs", TESTS)];
        let page = page(&Tree::of(&files)).unwrap_or_default();
        let tree = Tree::of(&[files[0], files[1], files[2], (PAGE, &page)]);
        check(&tree).into_iter().map(|finding| finding.to_string()).collect()
    }

    #[test]
    fn a_promise_with_a_test_is_kept() {
        assert!(findings(GUARANTEES, "[1]\n\"SQLite\" = [\n    \"holds\",\n]\n").is_empty());
    }

    #[test]
    fn a_promise_without_a_test_is_found() {
        let found = findings(GUARANTEES, "[1]\n\"SQLite\" = [\n]\n");
        assert_eq!(found, ["GUARANTEES.md:2: \"1. No loss\" has no test in docs/proofs.toml"]);
    }

    #[test]
    fn a_function_that_is_no_test_proves_nothing() {
        let found = findings(GUARANTEES, "[1]\n\"SQLite\" = [\n    \"made\",\n]\n");
        assert_eq!(found, ["docs/proofs.toml:3: no test is called made"]);
    }

    #[test]
    fn a_proof_of_no_promise_and_an_unreadable_line_are_found() {
        let two = "[1]\n\"SQLite\" = [\n    \"holds\",\n]\n[2]\n\"SQLite\" = [\n    \"holds\",\n]\n";
        assert_eq!(findings(GUARANTEES, two), ["docs/proofs.toml:5: GUARANTEES.md has no promise 2"]);
        assert_eq!(findings(GUARANTEES, "holds\n").len(), 1);
    }

    #[test]
    fn a_page_that_is_not_made_from_the_proofs_is_found() {
        let data = "[1]\n\"SQLite\" = [\n    \"holds\",\n]\n";
        let files = [(FILE, GUARANTEES), (DATA, data), ("a/tests/a.rs", TESTS), (PAGE, "# Proofs\n")];
        let found = check(&Tree::of(&files));
        assert_eq!(found.len(), 1);
        assert!(found[0].what.contains("not up to date"));
    }
}
