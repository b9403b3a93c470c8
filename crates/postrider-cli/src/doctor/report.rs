//! What was found.

use postrider::Error;
use serde::Serialize;

use super::Check;
use crate::output::{Align, Table, View};

/// How a check came out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// The check passed.
    Ok,
    /// It works, but an operator should look at it.
    Warn,
    /// It does not work.
    Fail,
}

/// One check of one thing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// How it came out.
    pub outcome: Severity,
    /// The check's code.
    pub code: String,
    /// The check's name.
    pub check: String,
    /// What was looked at.
    pub subject: String,
    /// What was seen.
    pub what: String,
    /// What the check is for.
    pub meaning: &'static str,
    /// What to do, unless it is as it should be.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fix: Option<String>,
}

/// All findings, in the order they were made.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
#[serde(transparent)]
pub struct Report {
    findings: Vec<Finding>,
}

impl Report {
    /// The worst outcome; [`Severity::Ok`] if nothing was looked at.
    pub fn worst(&self) -> Severity {
        self.findings.iter().map(|finding| finding.outcome).max().unwrap_or(Severity::Ok)
    }

    /// Something to look at next.
    pub(super) fn subject(&mut self, name: impl Into<String>) -> Subject<'_> {
        Subject { report: self, name: name.into() }
    }
}

/// One thing that is looked at.
pub struct Subject<'a> {
    report: &'a mut Report,
    name: String,
}

impl Subject<'_> {
    pub(crate) fn ok(&mut self, check: Check, what: impl Into<String>) {
        self.find(Severity::Ok, check, what.into(), None);
    }

    pub(crate) fn warn(&mut self, check: Check, what: impl Into<String>) {
        self.find(Severity::Warn, check, what.into(), Some(check.fix()));
    }

    pub(crate) fn fail(&mut self, check: Check, what: impl Into<String>) {
        self.fail_with(check, what, check.fix());
    }

    /// A failure with advice for this case instead of the check's.
    pub(crate) fn fail_with(&mut self, check: Check, what: impl Into<String>, fix: &str) {
        self.find(Severity::Fail, check, what.into(), Some(fix));
    }

    /// A failure that an error tells, with the error's own advice.
    pub(crate) fn refused(&mut self, check: Check, error: &Error) {
        self.fail_with(check, error.one_line(), error.hint());
    }

    /// A part of this thing.
    pub(crate) fn part(&mut self, name: &str) -> Subject<'_> {
        Subject { name: format!("{}, {name}", self.name), report: self.report }
    }

    fn find(&mut self, outcome: Severity, check: Check, what: String, fix: Option<&str>) {
        self.report.findings.push(Finding {
            outcome,
            code: check.to_string(),
            check: check.name(),
            subject: self.name.clone(),
            what,
            meaning: check.meaning(),
            fix: fix.map(str::to_owned),
        });
    }
}

impl View for Report {
    fn table(&self) -> Table {
        let columns = [
            ("", Align::Left),
            ("code", Align::Left),
            ("check", Align::Left),
            ("of", Align::Left),
            ("found", Align::Left),
            ("what to do", Align::Left),
        ];
        let mut table = Table::new(columns, "no outbox or sink is configured, so there is nothing to check");
        for Finding { outcome, code, check, subject, what, fix, .. } in &self.findings {
            let outcome = match outcome {
                Severity::Ok => "ok",
                Severity::Warn => "warn",
                Severity::Fail => "FAIL",
            };
            let fix = fix.as_deref().unwrap_or_default();
            table.row([outcome, code, check, subject, what, fix].map(str::to_owned));
        }
        table
    }
}
