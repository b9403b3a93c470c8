//! The table of `docs/src/databases.md`: which case runs on which database.
//!
//! It is generated: every database that runs the suite compares its column with its cases, and writes it with
//! `UPDATE_DOCS=1`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

/// The columns.
const DATABASES: [&str; 4] = ["SQLite", "PostgreSQL", "MySQL", "MariaDB"];

/// The text of a cell: the case runs on the database, and the build fails if it does not pass.
const RUN: &str = "yes";

const BEGIN: &str =
    "<!-- Generated; update with: UPDATE_DOCS=1 cargo test --all-features the_databases_page -->\n";

/// Only one test at a time writes the page.
static WRITING: Mutex<()> = Mutex::new(());

/// The cases of a file of the suite.
pub type Cases<'a> = &'a [(&'a str, &'a [&'a str])];

/// The section and sentence of a case, to the databases that it runs on.
type Table = BTreeMap<(String, String), BTreeSet<String>>;

/// Compares the column of a database with the cases that run on it.
///
/// # Errors
/// The differences.
pub fn check(database: Option<&str>, cases: Cases<'_>) -> Result<(), String> {
    let Some(database) = database else { return Ok(()) };
    if !DATABASES.contains(&database) {
        return Err(format!("the page has no column for {database}"));
    }
    let _writing = WRITING.lock().unwrap_or_else(PoisonError::into_inner);
    let path = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/src/databases.md"));
    let page = std::fs::read_to_string(&path).map_err(|e| format!("docs/src/databases.md: {e}"))?;
    let (before, table) = page.split_once(BEGIN).ok_or("docs/src/databases.md has lost its table")?;
    let renewed = format!("{before}{BEGIN}{}", written(cases, &with_column(parsed(table), database, cases)));
    if renewed == page {
        return Ok(());
    }
    if std::env::var_os("UPDATE_DOCS").is_some() {
        return std::fs::write(&path, renewed).map_err(|e| format!("docs/src/databases.md: {e}"));
    }
    Err(format!(
        "docs/src/databases.md does not match the cases that run on {database}: \
         UPDATE_DOCS=1 cargo test --workspace --all-features the_databases_page"
    ))
}

/// The current page.
fn parsed(table: &str) -> Table {
    let mut rows = Table::new();
    for line in table.lines().skip(2) {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let [section, case, marks @ ..] = cells.as_slice() else { continue };
        let run = marks.iter().zip(DATABASES).filter(|(mark, _)| **mark == RUN);
        let run = run.map(|(_, database)| database.to_owned()).collect();
        rows.insert(((*section).to_owned(), (*case).to_owned()), run);
    }
    rows
}

fn with_column(mut table: Table, database: &str, cases: Cases<'_>) -> Table {
    table.values_mut().for_each(|run| _ = run.remove(database));
    for (section, names) in cases {
        for name in *names {
            table.entry(row(section, name)).or_default().insert(database.to_owned());
        }
    }
    table.retain(|_, run| !run.is_empty());
    table
}

fn row(section: &str, name: &str) -> (String, String) {
    (section.to_owned(), name.replace('_', " "))
}

/// In the order of the suite. Cases that only another database runs are last.
fn written(cases: Cases<'_>, table: &Table) -> String {
    let order: Vec<_> =
        cases.iter().flat_map(|(section, names)| names.iter().map(|name| row(section, name))).collect();
    let others = table.keys().filter(|row| !order.contains(row));
    let mut text = format!("| about | case | {} |\n|---|---|{}\n", DATABASES.join(" | "), "---|".repeat(4));
    for row in order.iter().chain(others) {
        let run = |database: &&str| table.get(row).is_some_and(|run| run.contains(*database));
        let marks: Vec<&str> =
            DATABASES.iter().map(|database| if run(database) { RUN } else { "no" }).collect();
        // Writing to a String cannot fail.
        _ = writeln!(text, "| {} | {} | {} |", row.0, row.1, marks.join(" | "));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const CASES: Cases<'_> = &[("claim", &["it_reads", "it_ends"])];

    #[test]
    fn a_column_lists_exactly_the_cases_that_run() {
        let first = written(CASES, &with_column(Table::new(), "MySQL", CASES));
        assert!(first.contains("| claim | it reads | no | no | yes | no |\n"), "{first}");
        let fewer: Cases<'_> = &[("claim", &["it_ends"])];
        let second = written(fewer, &with_column(parsed(&first), "SQLite", fewer));
        assert!(second.contains("| claim | it ends | yes | no | yes | no |\n"), "{second}");
        let third = written(fewer, &with_column(parsed(&second), "MySQL", fewer));
        assert!(!third.contains("it reads"), "{third}");
    }
}
