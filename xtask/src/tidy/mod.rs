//! `xtask tidy`: checks rules about the tree. Each file is one rule.

mod codes;
mod files;
mod links;
mod markdown;
mod promises;
mod proofs;
mod snippets;
mod words;

use std::collections::BTreeMap;
use std::fmt;
use std::process::Command;

use crate::process;

/// Checks everything and prints every finding. Returns whether there were none.
pub(crate) fn run() -> Result<bool, String> {
    let tree = Tree::read()?;
    let mut findings = Vec::new();
    let rules = [files::check, links::check, promises::check, snippets::check, codes::check, words::check];
    for rule in rules {
        findings.extend(rule(&tree));
    }
    for finding in &findings {
        println!("{finding}");
    }
    println!("tidy: {} files, {} findings", tree.0.len(), findings.len());
    Ok(findings.is_empty())
}

/// Writes the page of the proofs.
pub(crate) fn write_proofs() -> Result<bool, String> {
    let page = promises::page(&Tree::read()?).ok_or("GUARANTEES.md or docs/proofs.toml cannot be read")?;
    let path = process::root().join(proofs::PAGE);
    std::fs::write(&path, page).map_err(|error| format!("{} cannot be written: {error}", path.display()))?;
    println!("wrote {}", proofs::PAGE);
    Ok(true)
}

/// The repository's files by path with `/`, without ignored ones. Bytes of a file that are not UTF-8 are replaced.
#[derive(Debug, Default)]
struct Tree(BTreeMap<String, String>);

impl Tree {
    fn read() -> Result<Self, String> {
        // Allows a clone that belongs to another user: git is asked only for names.
        let mut git = Command::new("git");
        git.args(["-c", "safe.directory=*", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]);
        let root = process::root();
        let mut files = BTreeMap::new();
        for path in process::output(&mut git)?.split('\0').filter(|path| !path.is_empty()) {
            // A file deleted but not yet committed is still listed.
            if let Ok(bytes) = std::fs::read(root.join(path)) {
                files.insert(path.to_owned(), String::from_utf8_lossy(&bytes).into_owned());
            }
        }
        Ok(Self(files))
    }

    fn text(&self, path: &str) -> Option<&str> {
        self.0.get(path).map(String::as_str)
    }

    /// A file, or a folder that contains one.
    fn exists(&self, path: &str) -> bool {
        let folder = if path.is_empty() { String::new() } else { format!("{}/", path.trim_end_matches('/')) };
        self.0.contains_key(path) || self.0.keys().any(|file| file.starts_with(&folder))
    }

    fn with_extension<'a>(&'a self, extension: &'a str) -> impl Iterator<Item = (&'a str, &'a str)> {
        let all = self.0.iter().map(|(path, text)| (path.as_str(), text.as_str()));
        all.filter(move |(path, _)| path.rsplit_once('.').is_some_and(|(_, end)| end == extension))
    }

    #[cfg(test)]
    fn of(files: &[(&str, &str)]) -> Self {
        Self(files.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())).collect())
    }
}

/// A violation of a rule, and what to do about it.
#[derive(Debug, PartialEq, Eq)]
struct Finding {
    path: String,
    /// Counted from one; zero means the whole file.
    line: usize,
    what: String,
}

impl Finding {
    fn new(path: &str, line: usize, what: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line, what: what.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}: {}", self.path, self.what),
            line => write!(f, "{}:{line}: {}", self.path, self.what),
        }
    }
}
