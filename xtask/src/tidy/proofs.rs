//! `docs/proofs.toml`: the tests of each promise of GUARANTEES.md, and the page of the book generated from it.
//!
//! The file uses a small part of TOML: `[1]` opens a promise, `["Title"]` a section with other properties,
//! `"where" = [` a list of tests, and each line of the list is `"name_of_the_test",`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use super::Tree;

pub(super) const DATA: &str = "docs/proofs.toml";
pub(super) const PAGE: &str = "docs/src/proofs.md";
const CASES: &str = "cases.rs";

const INTRODUCTION: &str = "\
# Proofs

<!-- Generated from docs/proofs.toml; update with: cargo run -q -p xtask -- proofs -->

The tests behind each promise of [GUARANTEES.md](../../GUARANTEES.md). `xtask tidy` fails if a promise has no test here or
if a test does not exist. There are three kinds of proof; none is enough alone.

- **The simulator** runs the relay's real decision logic against an in-memory database and a scripted destination. Crashes,
  lost answers, delayed relays and outages are drawn from a random seed that can be replayed. It finds rare interleavings;
  it does not cover SQL or disks. Each of its checkers is shown to find a bug that was planted for it.
- **Tests on real databases** run the real stores on a SQLite file and on private PostgreSQL, MySQL and MariaDB servers.
  They find what a model of a database gets wrong; they cover few interleavings. *Every store* is one suite of cases that
  runs on every store, on PostgreSQL also through PgBouncer.
- **The storm** lets 16 writers commit, roll back, prepare and disconnect in any order while relays run, crash and take
  over. Several wrong ways to read such a table run first, and each must be caught before the result of the real one counts.

Tests on PostgreSQL run on the installed version (15 on Debian 12); the store suite, the schema and the writers also on 14,
16, 17 and 18. Tests on MySQL run on 9.7, tests on MariaDB on the installed version (10.11 on Debian 12).
";

/// The tests of one promise, or of other properties.
#[derive(Debug)]
pub(super) struct Proof<'a> {
    pub(super) line: usize,
    pub(super) subject: Subject<'a>,
    groups: Vec<Group<'a>>,
}

/// What the tests of a section show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Subject<'a> {
    /// The promise with this number.
    Promise(u32),
    /// Properties that are not promises, with a title.
    Properties(&'a str),
}

/// Tests with a label: where they run, such as a database, or the property they show.
#[derive(Debug)]
struct Group<'a> {
    label: &'a str,
    tests: Vec<Named<'a>>,
}

/// A test by its name.
#[derive(Debug, Clone, Copy)]
pub(super) struct Named<'a> {
    pub(super) line: usize,
    pub(super) name: &'a str,
}

impl<'a> Proof<'a> {
    pub(super) fn tests(&self) -> impl Iterator<Item = Named<'a>> {
        self.groups.iter().flat_map(|group| group.tests.iter().copied())
    }
}

/// Reads the file. The error is the number of a line with an unknown form.
pub(super) fn parse(text: &str) -> Result<Vec<Proof<'_>>, usize> {
    let mut proofs: Vec<Proof<'_>> = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let (number, line) = (index + 1, line.trim());
        if line.is_empty() || line.starts_with('#') || line == "]" {
            continue;
        }
        if let Some(inside) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            let title = inside.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
            let subject = title.map(Subject::Properties);
            let subject = subject.or_else(|| inside.parse().ok().map(Subject::Promise)).ok_or(number)?;
            proofs.push(Proof { line: number, subject, groups: Vec::new() });
            continue;
        }
        let proof = proofs.last_mut().ok_or(number)?;
        let quoted = line.strip_prefix('"').ok_or(number)?;
        if let Some(label) = quoted.strip_suffix("\" = [") {
            proof.groups.push(Group { label, tests: Vec::new() });
        } else {
            let name = quoted.strip_suffix("\",").ok_or(number)?;
            proof.groups.last_mut().ok_or(number)?.tests.push(Named { line: number, name });
        }
    }
    Ok(proofs)
}

/// Where each of these names is a test, as links from the root, in the order of their paths.
pub(super) fn find(tree: &Tree, proofs: &[Proof<'_>]) -> BTreeMap<String, Vec<String>> {
    let wanted: BTreeSet<&str> = proofs.iter().flat_map(Proof::tests).map(|test| test.name).collect();
    let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (path, text) in tree.with_extension("rs") {
        let lines: Vec<&str> = text.lines().map(str::trim).collect();
        let makes_tests = makes_tests(&lines);
        for (at, line) in lines.iter().enumerate() {
            let declared = declared(line).filter(|name| wanted.contains(name));
            let declared = declared.filter(|name| is_run(tree, path, &lines[..at], name));
            let listed = listed(line).filter(|name| makes_tests && wanted.contains(name));
            let link = declared.map(|name| (name, format!("{path}#{name}")));
            if let Some((name, link)) = link.or_else(|| listed.map(|name| (name, path.to_owned()))) {
                let links = found.entry(name.to_owned()).or_default();
                if links.last() != Some(&link) {
                    links.push(link);
                }
            }
        }
    }
    found
}

/// Whether a macro of this file generates tests from the names it is given.
fn makes_tests(lines: &[&str]) -> bool {
    let mut from_macro = lines.iter().skip_while(|line| !line.starts_with("macro_rules! "));
    from_macro.any(|line| is_test_attribute(line))
}

/// The name on a line of a list such as `relays! { name  other_name: case }`.
fn listed(line: &str) -> Option<&str> {
    let is_name = |text: &str| {
        !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    };
    let (name, rest) = line.split_at(line.find([':', ',']).unwrap_or(line.len()));
    let of_case = rest.trim_start_matches([':', ',']).trim();
    (is_name(name) && (of_case.is_empty() || is_name(of_case))).then_some(name)
}

/// The name of the function that a line declares.
fn declared(line: &str) -> Option<&str> {
    let (before, after) = line.split_once("fn ")?;
    let name = &after[..after.find(['(', '<'])?];
    let is_name = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    (is_name && (before.is_empty() || before.ends_with([' ', '(']))).then_some(name)
}

/// Whether `cargo test` runs a function declared after these lines: it has a test attribute, is in a `case! { }`,
/// or is listed in a `cases! { }` above it or in a `cases.rs`, from which a macro generates tests.
fn is_run(tree: &Tree, path: &str, above: &[&str], name: &str) -> bool {
    let mut attributes =
        above.iter().rev().take_while(|line| line.starts_with('#') || line.starts_with("//"));
    attributes.any(|line| is_test_attribute(line))
        || is_in_case_macro(tree, path, above)
        || is_in_cases_list(tree, path, above, name)
        || is_listed(tree, path, name)
}

/// `#[test]`, `#[tokio::test]`, `#[tokio::test(start_paused = true)]`
fn is_test_attribute(line: &str) -> bool {
    let Some(attribute) = line.strip_prefix("#[") else { return false };
    let name = attribute.split(['(', ']', ' ']).next().unwrap_or_default();
    name == "test" || name.ends_with("::test")
}

/// Whether what follows these lines is in a `case! { ... }`, from which the file `case.rs` next to it generates a test.
fn is_in_case_macro(tree: &Tree, path: &str, above: &[&str]) -> bool {
    let before = above.iter().rev().find(|line| !line.starts_with('#') && !line.starts_with("//"));
    if before != Some(&"case! {") {
        return false;
    }
    folders(path).filter_map(|folder| tree.text(&format!("{folder}/case.rs"))).any(|text| {
        text.contains("macro_rules! case") && text.lines().any(|line| is_test_attribute(line.trim()))
    })
}

/// Whether a `cases! { name, ... }` above names the function, from which the folder's `mod.rs` generates tests.
fn is_in_cases_list(tree: &Tree, path: &str, above: &[&str], name: &str) -> bool {
    let entry = format!("{name},");
    let mut list = above.iter().skip_while(|line| **line != "cases! {").take_while(|line| **line != "}");
    list.any(|line| *line == entry)
        && folders(path).filter_map(|folder| tree.text(&format!("{folder}/mod.rs"))).any(|text| {
            text.contains("macro_rules! cases") && text.lines().any(|line| is_test_attribute(line.trim()))
        })
}

/// Whether a `cases.rs` in the function's folder, or in one above it, lists the function.
fn is_listed(tree: &Tree, path: &str, name: &str) -> bool {
    let word = |text: &str| text.split(|c: char| !c.is_alphanumeric() && c != '_').any(|word| word == name);
    folders(path).filter_map(|folder| tree.text(&format!("{folder}/{CASES}"))).any(word)
}

/// The folder of a file, and those above it up to a crate's `src` or `tests`.
fn folders(path: &str) -> impl Iterator<Item = &str> {
    let inside = |folder: &&str| folder.contains("/src") || folder.contains("/tests");
    std::iter::successors(parent(path), |folder| parent(folder)).take_while(inside)
}

fn parent(path: &str) -> Option<&str> {
    path.rsplit_once('/').map(|(parent, _)| parent)
}

/// The page, from the data, the files of the tests and the names of the promises.
pub(super) fn page(
    proofs: &[Proof<'_>],
    files: &BTreeMap<String, Vec<String>>,
    names: &BTreeMap<u32, &str>,
) -> String {
    let mut page = INTRODUCTION.to_owned();
    for proof in proofs {
        let (heading, label) = match proof.subject {
            Subject::Promise(number) => {
                (format!("{number}. {}", names.get(&number).copied().unwrap_or_default()), "where")
            }
            Subject::Properties(title) => (title.to_owned(), "property"),
        };
        let _ = write!(page, "\n## {heading}\n\n| {label} | what the test shows |\n|---|---|\n");
        for group in &proof.groups {
            for test in &group.tests {
                let _ = writeln!(page, "| {} | {} |", group.label, links(test.name, files));
            }
        }
    }
    page
}

/// A link to each test of this name; the text of the first is the behaviour that the test shows.
fn links(name: &str, files: &BTreeMap<String, Vec<String>>) -> String {
    let link = |(index, target): (usize, &String)| {
        let text = if index == 0 { sentence(name) } else { format!("({})", index + 1) };
        format!("[{text}](../../{target})")
    };
    let links = files.get(name).into_iter().flatten().enumerate().map(link);
    links.collect::<Vec<_>>().join(" ")
}

/// `an_outage_counts_no_attempt` as `An outage counts no attempt`.
fn sentence(name: &str) -> String {
    let spelled = |word: &str| match word {
        "postgres" => "PostgreSQL".to_owned(),
        "mysql" => "MySQL".to_owned(),
        "mariadb" => "MariaDB".to_owned(),
        "sqlite" => "SQLite".to_owned(),
        "kafka" => "Kafka".to_owned(),
        "redis" => "Redis".to_owned(),
        "mqtt" => "MQTT".to_owned(),
        "rabbitmq" => "RabbitMQ".to_owned(),
        "jetstream" => "JetStream".to_owned(),
        "nats" => "NATS".to_owned(),
        "sql" => "SQL".to_owned(),
        other => other.to_owned(),
    };
    let text = name.split('_').map(spelled).collect::<Vec<_>>().join(" ");
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# why\n[1]\n\"SQLite\" = [\n    \"reads\",\n    \"writes\",\n]\n\n[2]\n\"Every store\" = [\n    \"waits\",\n]\n";

    fn found(path: &str, files: &[(&str, &str)]) -> Vec<String> {
        let tree = Tree::of(files);
        let promises = parse(TEXT).unwrap();
        let all = find(&tree, &promises);
        let in_file = |links: &Vec<String>| links.iter().any(|link| link.split('#').next() == Some(path));
        all.iter().filter(|(_, links)| in_file(links)).map(|(name, _)| name.clone()).collect()
    }

    #[test]
    fn promises_are_read_with_the_places_and_names_of_their_tests() {
        let promises = parse(TEXT).unwrap();
        let names: Vec<Vec<&str>> =
            promises.iter().map(|promise| promise.tests().map(|test| test.name).collect()).collect();
        assert_eq!(names, [vec!["reads", "writes"], vec!["waits"]]);
        assert_eq!(
            (promises[1].subject, promises[1].line, promises[0].groups[0].label),
            (Subject::Promise(2), 8, "SQLite")
        );
        assert_eq!(parse("[1]\nreads\n").unwrap_err(), 2);
    }

    #[test]
    fn a_function_counts_if_it_is_a_test_or_a_case_of_a_suite() {
        let attributes = "#[test]\nfn reads() {}\n\n#[tokio::test(start_paused = true)]\n// why\n#[allow(x)]\nasync fn waits() {}\n\nfn writes() {}\n";
        assert_eq!(found("a/tests/a.rs", &[("a/tests/a.rs", attributes)]), ["reads", "waits"]);
        let case =
            [("k/src/store/claim.rs", "pub async fn reads() {}\n"), ("k/src/cases.rs", "claim { reads }")];
        assert_eq!(found("k/src/store/claim.rs", &case), ["reads"]);
        let macros = "macro_rules! case {\n    () => {\n        #[tokio::test]\n    };\n}\n";
        let text = "case! {\n    /// why\n    async fn writes(case) {}\n}\n";
        assert_eq!(
            found("a/tests/b/a.rs", &[("a/tests/b/a.rs", text), ("a/tests/b/case.rs", macros)]),
            ["writes"]
        );
        assert!(found("a/tests/b/a.rs", &[("a/tests/b/a.rs", text)]).is_empty());
        let macros = "macro_rules! cases {\n    () => {\n        #[tokio::test]\n    };\n}\n";
        let text = "cases! {\n    reads,\n}\n\nasync fn reads() {}\n";
        let generic = [("a/tests/b/a.rs", text), ("a/tests/b/mod.rs", macros)];
        assert!(!found("a/tests/b/a.rs", &generic).is_empty());
        let unlisted = [("a/tests/b/a.rs", "async fn reads() {}\n"), ("a/tests/b/mod.rs", macros)];
        assert!(found("a/tests/b/a.rs", &unlisted).is_empty());
        let list = "    each! {\n        reads\n        waits: reads\n    }\n";
        let each = format!("macro_rules! each {{\n    () => {{\n        #[tokio::test]\n    }};\n}}\n{list}");
        assert_eq!(found("a/tests/c.rs", &[("a/tests/c.rs", &each)]), ["reads", "waits"]);
        assert!(found("a/tests/c.rs", &[("a/tests/c.rs", list)]).is_empty());
    }

    #[test]
    fn the_page_has_a_row_per_test_with_a_link_to_each_file() {
        let promises = parse(TEXT).unwrap();
        let files = BTreeMap::from([
            ("reads".to_owned(), vec!["a.rs#reads".to_owned(), "b.rs".to_owned()]),
            ("waits".to_owned(), vec!["c.rs#waits".to_owned()]),
        ]);
        let page = page(&promises, &files, &BTreeMap::from([(1, "No loss"), (2, "Order")]));
        assert!(page.contains("## 1. No loss\n"));
        assert!(page.contains("| SQLite | [Reads](../../a.rs#reads) [(2)](../../b.rs) |\n"), "{page}");
        assert!(
            page.contains(
                "## 2. Order\n\n| where | what the test shows |\n|---|---|\n| Every store | [Waits]"
            )
        );
    }

    #[test]
    fn a_name_becomes_a_sentence() {
        assert_eq!(sentence("a_storm_on_mysql_loses_nothing"), "A storm on MySQL loses nothing");
    }
}
