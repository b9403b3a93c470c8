//! The output of errors, and their causes.

use std::error::Error as _;
use std::fmt;

use super::{Code, Error};

#[test]
fn a_report_contains_the_message_the_effect_and_the_hint() {
    let error = Error::new(Code::TypeEmpty, "event 0 has an empty type");
    let report = error.report();
    let (effect, hint) = (Code::TypeEmpty.effect(), Code::TypeEmpty.hint());
    assert_eq!(report, format!("error[PR-0101]: event 0 has an empty type\n  {effect}\n  {hint}"));
    let error = error.with_effect("nothing happened").with_hint("do nothing");
    assert_eq!(error.report(), "error[PR-0101]: event 0 has an empty type\n  nothing happened\n  do nothing");
}

#[test]
fn display_is_one_line_without_the_causes() {
    let cause = Error::new(Code::StoreFailed, "the file cannot be read").with_source(disk_on_fire());
    let error = Error::new(Code::StoreFailed, "shop.db cannot be opened").with_source(cause);
    assert_eq!(error.to_string(), "[PR-0302] shop.db cannot be opened");
}

#[test]
fn each_cause_is_printed_once_by_what_follows_sources() {
    let cause = Error::new(Code::StoreFailed, "the file cannot be read").with_source(disk_on_fire());
    let error = Error::new(Code::StoreFailed, "shop.db cannot be opened").with_source(cause);
    let mut chain = vec![error.to_string()];
    let mut next = error.source();
    while let Some(cause) = next {
        chain.push(cause.to_string());
        next = cause.source();
    }
    assert_eq!(
        chain,
        ["[PR-0302] shop.db cannot be opened", "[PR-0302] the file cannot be read", "disk on fire"]
    );
}

#[test]
fn anyhow_prints_each_cause_once() {
    let cause = Error::new(Code::StoreFailed, "the file cannot be read").with_source(disk_on_fire());
    let error = Error::new(Code::StoreFailed, "shop.db cannot be opened").with_source(cause);
    let error = anyhow::Error::new(error).context("the relay cannot start");
    let line = "the relay cannot start: [PR-0302] shop.db cannot be opened: [PR-0302] the file cannot be read: \
                disk on fire";
    assert_eq!(format!("{error:#}"), line);
    let report = format!("{error:?}");
    assert_eq!(report.matches("the file cannot be read").count(), 1, "{report}");
    assert_eq!(report.matches("disk on fire").count(), 1, "{report}");
}

#[test]
fn a_report_gives_only_the_message_of_a_cause_of_this_crate() {
    let cause = Error::new(Code::StoreFailed, "the file cannot be read").with_source(disk_on_fire());
    let report = Error::new(Code::StoreFailed, "shop.db cannot be opened").with_source(cause).report();
    let first = "error[PR-0302]: shop.db cannot be opened: the file cannot be read: disk on fire";
    assert_eq!(report.lines().next(), Some(first));
    assert_eq!(report.lines().count(), 3, "{report}");
}

#[test]
fn one_line_follows_the_causes_to_the_root_and_repeats_none() {
    let root = Layer("connection refused", None);
    let repeats = Layer("no way in: connection refused", Some(Box::new(root)));
    let source = Layer("db error", Some(Box::new(repeats)));
    let error = Error::new(Code::StoreFailed, "no database").with_source(source);
    assert_eq!(error.one_line(), "no database: no way in: connection refused");
}

fn disk_on_fire() -> std::io::Error {
    std::io::Error::other("disk on fire")
}

#[derive(Debug)]
struct Layer(&'static str, Option<Box<Layer>>);

impl fmt::Display for Layer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for Layer {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.1.as_ref().map(|layer| layer as _)
    }
}
