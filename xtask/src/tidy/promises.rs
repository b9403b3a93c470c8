//! No promise without a proof. In GUARANTEES.md every heading `## 1. Name` is a promise, and its section
//! holds at least one link `[what the test shows](path/to/file.rs#test_function)` to a function that carries
//! a test attribute, or to a case of a suite that the suite's `cases.rs` lists: a macro makes
//! those into a test per implementation. What is not promised yet stands under a heading without a number.

use super::links::{declares, resolve};
use super::markdown::{heading, links, prose};
use super::{Finding, Tree};

const FILE: &str = "GUARANTEES.md";
/// Stands where a proof is still to be linked.
const MARKER: &str = "<!-- test:";

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let Some(text) = tree.text(FILE) else { return Vec::new() };
    let mut findings = Vec::new();
    for (line, prose) in prose(text) {
        if prose.contains(MARKER) {
            findings.push(Finding::new(FILE, line, "a proof is missing: link its test here"));
        }
    }
    let links = links(text);
    for promise in promises(text) {
        let proofs = links.iter().filter(|link| promise.holds(link.line) && link.target.contains(".rs#"));
        let mut proofs = proofs.peekable();
        if proofs.peek().is_none() {
            let what = format!("\"{}\" has no link to a test (path/to/file.rs#test_function)", promise.name);
            findings.push(Finding::new(FILE, promise.first_line, what));
        }
        for proof in proofs {
            if let Err(what) = prove(tree, &proof.target) {
                findings.push(Finding::new(FILE, proof.line, what));
            }
        }
    }
    findings
}

struct Promise<'a> {
    name: &'a str,
    first_line: usize,
    end_line: usize,
}

impl Promise<'_> {
    fn holds(&self, line: usize) -> bool {
        (self.first_line..self.end_line).contains(&line)
    }
}

fn promises(text: &str) -> Vec<Promise<'_>> {
    let headings: Vec<(usize, &str)> = prose(text)
        .filter_map(|(line, prose)| heading(prose).map(|(level, name)| (line, level, name)))
        .filter_map(|(line, level, name)| (level <= 2).then_some((line, name)))
        .collect();
    let ends = headings.iter().skip(1).map(|(line, _)| *line).chain([usize::MAX]);
    let sections = headings.iter().zip(ends);
    sections
        .filter(|((_, name), _)| is_numbered(name))
        .map(|((first_line, name), end_line)| Promise { name, first_line: *first_line, end_line })
        .collect()
}

/// `1. Name`
fn is_numbered(name: &str) -> bool {
    name.split_once(". ").is_some_and(|(number, _)| number.parse::<u32>().is_ok())
}

/// Whether the link leads to a function that `cargo test` runs. That the file exists is the links' rule.
fn prove(tree: &Tree, target: &str) -> Result<(), String> {
    let Some((file, function)) = target.split_once('#') else { return Ok(()) };
    let Some(text) = resolve(FILE, file).ok().and_then(|path| tree.text(&path)) else { return Ok(()) };
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let is_test = |at: usize| {
        let above =
            lines[..at].iter().rev().take_while(|line| line.starts_with('#') || line.starts_with("//"));
        above.into_iter().any(|line| is_test_attribute(line))
    };
    let declared = |at: usize, line: &str| {
        declares(line, function)
            && (is_test(at) || is_in_case_macro(tree, file, &lines[..at]) || is_case(tree, file, function))
    };
    let proven = lines.iter().enumerate().any(|(at, line)| declared(at, line));
    if proven { Ok(()) } else { Err(format!("{file} has no test called {function}")) }
}

/// Whether what follows these lines stands in a `case! { ... }`, which the file `case.rs` beside it makes a test of.
fn is_in_case_macro(tree: &Tree, file: &str, above: &[&str]) -> bool {
    let before = above.iter().rev().find(|line| !line.starts_with('#') && !line.starts_with("//"));
    let Some((folder, _)) = file.rsplit_once('/').filter(|_| before == Some(&"case! {")) else {
        return false;
    };
    let macros = tree.text(&format!("{folder}/case.rs"));
    macros.is_some_and(|text| {
        text.contains("macro_rules! case") && text.lines().any(|line| is_test_attribute(line.trim()))
    })
}

/// Whether a function is listed among the cases of the suite its file belongs to: one of conformance, that of life with a
/// database, or that of adoptions.
fn is_case(tree: &Tree, file: &str, function: &str) -> bool {
    let is_suite = |folder: &str| {
        folder.contains("/conformance/")
            || ["/stores/server_faults", "/stores/adopt"].iter().any(|of| folder.ends_with(of))
    };
    let Some((folder, _)) = file.rsplit_once('/').filter(|(folder, _)| is_suite(folder)) else {
        return false;
    };
    let lists =
        |text: &str| text.split(|c: char| !c.is_alphanumeric() && c != '_').any(|word| word == function);
    tree.text(&format!("{folder}/cases.rs")).is_some_and(lists)
}

/// `#[test]`, `#[tokio::test]`, `#[tokio::test(start_paused = true)]`
fn is_test_attribute(line: &str) -> bool {
    let Some(attribute) = line.strip_prefix("#[") else { return false };
    let name = attribute.split(['(', ']', ' ']).next().unwrap_or_default();
    name == "test" || name.ends_with("::test")
}

#[cfg(test)]
mod tests {
    use super::*;

    const TESTS: &str = "#[test]\nfn holds() {}\n\n#[cfg(test)]\nfn made() {}\n\n#[tokio::test(start_paused = true)]\n\
                         // why\n#[allow(x)]\nasync fn waits() {}\n";

    fn findings(guarantees: &str) -> Vec<String> {
        let tree = Tree::of(&[(FILE, guarantees), ("tests/a.rs", TESTS)]);
        check(&tree).into_iter().map(|finding| finding.to_string()).collect()
    }

    #[test]
    fn a_promise_with_a_test_is_kept() {
        assert!(findings("# G\n## 1. A\n[x](tests/a.rs#holds)\n## 2. B\n[x](tests/a.rs#waits)\n").is_empty());
    }

    #[test]
    fn a_promise_without_a_test_is_found() {
        let found =
            findings("# G\n## 1. A\ntext\n## 2. B\n[x](tests/a.rs#holds)\n## Not promised yet\ntext\n");
        assert_eq!(
            found,
            ["GUARANTEES.md:2: \"1. A\" has no link to a test (path/to/file.rs#test_function)"]
        );
    }

    #[test]
    fn a_case_of_a_conformance_suite_counts_if_the_suite_lists_it() {
        let found = |cases: &str| {
            let guarantees = "## 1. A\n[x](kit/conformance/store/claim.rs#reads)";
            let case = "pub async fn reads() {}\n";
            let files = [
                (FILE, guarantees),
                ("kit/conformance/store/claim.rs", case),
                ("kit/conformance/store/cases.rs", cases),
            ];
            check(&Tree::of(&files)).len()
        };
        assert_eq!((found("claim { reads }"), found("claim { writes }")), (0, 1));
    }

    #[test]
    fn a_case_in_a_macro_counts_if_the_macro_makes_tests() {
        let found = |macros: &str, text: &str| {
            let files = [
                (FILE, "## 1. A\n[x](tests/b/a.rs#reads)"),
                ("tests/b/a.rs", text),
                ("tests/b/case.rs", macros),
            ];
            check(&Tree::of(&files)).len()
        };
        let macros = "macro_rules! case {\n    () => {\n        #[tokio::test]\n    };\n}\n";
        let case = "case! {\n    /// why\n    async fn reads(case) {}\n}\n";
        assert_eq!((found(macros, case), found("macro_rules! case {}", case)), (0, 1));
        assert_eq!(found(macros, "other! {\n    async fn reads(case) {}\n}\n"), 1);
    }

    #[test]
    fn a_function_that_is_no_test_proves_nothing() {
        assert_eq!(
            findings("## 1. A\n[x](tests/a.rs#made)"),
            ["GUARANTEES.md:2: tests/a.rs has no test called made"]
        );
    }

    #[test]
    fn a_marker_that_was_left_is_found() {
        assert_eq!(findings("## 1. A\n[x](tests/a.rs#holds) <!-- test: the rest -->\n").len(), 1);
    }
}
