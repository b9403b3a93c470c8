//! Unclear words in Markdown, in comments of Rust sources, SQL scripts and Cargo.toml files, and in the string literals
//! that users read. The list is short on purpose; the message names what to write instead.

use super::markdown::{prose, without_code};
use super::{Finding, Tree};

/// A word or phrase, and what to write instead.
const WORDS: [(&str, &str); 23] = [
    ("anew", "again"),
    ("beside", "next to, or in the same database as"),
    ("whoever", "any process that, or the relay that"),
    ("somebody", "another process, a user or an operator"),
    ("nobody", "no process, no relay or no user"),
    ("anybody", "any process, any user or user-defined"),
    ("everybody", "all processes, all users or every test"),
    ("for ever", "permanently, or forever"),
    ("but for", "except"),
    ("nothing but", "only"),
    ("is told", "is reported, logged or printed"),
    ("are told", "are reported, logged or printed"),
    ("was told", "was configured, reported or logged"),
    ("by hand of", "manually by"),
    ("tells", "reports, returns, prints or contains"),
    ("keep in mind", "remember, or track"),
    ("turns up", "appears"),
    ("turned up", "appeared"),
    ("of ours", "of Postrider, or of this relay"),
    ("of one's own", "private, or separate"),
    ("in good order", "cleanly"),
    ("has heard of", "knows"),
    (", also if", "even if"),
];
/// Names of internal documents: users know a layout by its name.
const DOCUMENTS: [(&str, &str); 2] =
    [("seed 00", "the name of the layout"), ("DESIGN ", "the page of the docs, or nothing")];
/// The history, and pages generated from the names of tests.
const QUOTES: [&str; 2] = ["CHANGELOG.md", "docs/src/proofs.md"];

/// A page that ends with a table of names of tests, and the line before that table.
const CASES: (&str, &str) = ("docs/src/databases.md", "<!-- Generated");

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in tree.with_extension("md").filter(|(path, _)| !QUOTES.contains(path)) {
        let written = if path == CASES.0 { text.split(CASES.1).next().unwrap_or_default() } else { text };
        for (line, prose) in prose(written) {
            findings.extend(found(&without_code(prose)).map(|what| Finding::new(path, line, what)));
        }
    }
    for (path, text) in tree.with_extension("yml") {
        for (number, line) in text.lines().enumerate() {
            findings.extend(found(line).map(|what| Finding::new(path, number + 1, what)));
        }
    }
    for (path, text) in tree.with_extension("rs").filter(|(path, _)| is_read_by_users(path)) {
        for (number, line) in before_tests(text).enumerate() {
            let findings_of = shown(line).into_iter().flat_map(|part| found(part).collect::<Vec<_>>());
            findings.extend(findings_of.map(|what| Finding::new(path, number + 1, what)));
        }
    }
    for (path, text, mark) in commented(tree) {
        for (number, line) in text.lines().enumerate() {
            let comment = without_code(comment(line, mark));
            findings.extend(found_words(&comment).map(|what| Finding::new(path, number + 1, what)));
        }
    }
    findings.sort_by(|a, b| (&a.path, a.line).cmp(&(&b.path, b.line)));
    findings.dedup();
    findings
}

/// The files whose comments are checked, including tests and their tools, and what begins a comment.
fn commented(tree: &Tree) -> impl Iterator<Item = (&str, &str, &'static str)> {
    let sources = tree.with_extension("rs").map(|(path, text)| (path, text, "//"));
    let manifests = tree.with_extension("toml").filter(|(path, _)| path.ends_with("Cargo.toml"));
    let scripts = tree.with_extension("sql").map(|(path, text)| (path, text, "--"));
    sources.chain(manifests.map(|(path, text)| (path, text, "#"))).chain(scripts)
}

/// The comment that a line consists of, or that follows a statement; in SQL it may follow a column.
fn comment<'a>(line: &'a str, mark: &str) -> &'a str {
    let line = line.trim_start();
    let before = if mark == "--" { " " } else { "; " };
    match line.split_once(&format!("{before}{mark} ")) {
        _ if line.starts_with(mark) => line,
        Some((_, comment)) => comment,
        None => "",
    }
}

/// The sources of what ships; tests and their tools are read by contributors only.
fn is_read_by_users(path: &str) -> bool {
    let ships = ["postrider", "postrider-cli", "postrider-sinks", "postrider-derive"];
    let is_test = path.ends_with("_tests.rs") || path.ends_with("/tests.rs") || path.contains("/tests/");
    !is_test && ships.iter().any(|name| path.starts_with(&format!("crates/{name}/src/")))
}

/// The lines up to the inline test module, which is at the end by convention.
fn before_tests(text: &str) -> impl Iterator<Item = &str> {
    text.lines().take_while(|line| *line != "#[cfg(test)]")
}

/// The parts of a line of Rust that a user may read: a doc comment, or the text between quotes.
fn shown(line: &str) -> Vec<&str> {
    let line = line.trim_start();
    if line.starts_with("///") || line.starts_with("//!") {
        return vec![line];
    }
    if line.starts_with("//") {
        return Vec::new();
    }
    // A literal over several lines has an odd number of quotes on its first and last line. Its other lines have none;
    // they are included if they end with a backslash.
    let parts: Vec<&str> = line.split('"').collect();
    match parts.len() {
        1 => {
            if line.ends_with('\\') {
                vec![line]
            } else {
                Vec::new()
            }
        }
        _ => parts.into_iter().skip(1).collect(),
    }
}

fn found(text: &str) -> impl Iterator<Item = String> + '_ {
    let documents = DOCUMENTS.into_iter().filter(move |(name, _)| text.contains(name));
    found_words(text).chain(documents.map(message))
}

fn found_words(text: &str) -> impl Iterator<Item = String> + use<> {
    let lower = text.to_lowercase();
    WORDS.into_iter().filter(move |(word, _)| occurs_in(&lower, word)).map(message)
}

fn message((word, instead): (&str, &str)) -> String {
    format!("contains {word:?}; write {instead}")
}

/// Whether the phrase occurs as whole words.
fn occurs_in(text: &str, phrase: &str) -> bool {
    let is_word = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
    text.match_indices(phrase).any(|(at, _)| {
        !is_word(text[..at].chars().next_back()) && !is_word(text[at + phrase.len()..].chars().next())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(path: &str, text: &str) -> Vec<String> {
        check(&Tree::of(&[(path, text)])).into_iter().map(|finding| finding.to_string()).collect()
    }

    #[test]
    fn a_word_of_the_list_is_found_with_what_to_write_instead() {
        let found = findings("README.md", "It begins anew.\nNobody, but for the owner.\n");
        assert_eq!(found[0], "README.md:1: contains \"anew\"; write again");
        assert_eq!(found.len(), 3);
        assert_eq!(findings("docs/src/a.md", "see DESIGN 4.1 and seed 004\n").len(), 2);
    }

    #[test]
    fn parts_of_words_names_and_code_are_left_alone() {
        assert!(
            findings("README.md", "Design it; a canew, nobody_knows, `anew`.\n```\nanew\n```\n").is_empty()
        );
        assert!(findings("CHANGELOG.md", "anew\n").is_empty());
    }

    #[test]
    fn rust_is_read_where_users_read_it() {
        let path = "crates/postrider/src/a.rs";
        assert_eq!(findings(path, "/// Begins anew.\nlet a = \"nobody\";\n").len(), 2);
        assert_eq!(findings(path, "let a = \"first \\\n    whoever \\\n    last\";\n").len(), 1);
        assert!(
            findings(path, "fn anew() {}\n#[cfg(test)]\nmod tests {\n    let a = \"anew\";\n}\n").is_empty()
        );
        assert!(findings("crates/postrider/tests/a.rs", "let a = \"anew\";\n").is_empty());
    }

    #[test]
    fn every_comment_is_read() {
        let path = "crates/postrider/tests/a.rs";
        assert_eq!(
            findings(path, concat!("// begins anew\n", "let a = 1;", " // nobody\n/// whoever\n")).len(),
            3
        );
        assert_eq!(
            findings("crates/postrider/src/a.rs", "#[cfg(test)]\nmod tests {\n    // anew\n}\n").len(),
            1
        );
        assert!(findings(path, "// runs as `nobody`\n").is_empty());
        assert_eq!(findings("bench/Cargo.toml", "# for everybody\nname = \"anew\"\n").len(), 1);
        assert!(findings("deny.toml", "# for everybody\n").is_empty());
        assert_eq!(findings("a/b.sql", "-- of nobody\na INT, -- anew\nb TEXT DEFAULT 'anew'\n").len(), 2);
    }
}
