//! The findings of the checks.

use postrider::Error;
use serde::Serialize;

use super::Check;
use crate::output::{Align, Table, View};

/// The result of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// The check passed.
    Ok,
    /// It works, but an operator should check it.
    Warn,
    /// It does not work.
    Fail,
}

/// The result of one check for one subject.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The result.
    pub outcome: Severity,
    /// The check's code.
    pub code: String,
    /// The check's name.
    pub check: String,
    /// The outbox, subscription or sink that was checked.
    pub subject: String,
    /// What was found.
    pub what: String,
    /// What the check verifies, and why.
    pub meaning: &'static str,
    /// What to do; `None` if the check passed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fix: Option<String>,
    /// The runbook with more, as a path in the repository; `None` if the check passed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub runbook: Option<String>,
}

/// All findings, in the order of the checks.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
#[serde(transparent)]
pub struct Report {
    findings: Vec<Finding>,
}

impl Report {
    /// The worst result; [`Severity::Ok`] if nothing was checked.
    pub fn worst(&self) -> Severity {
        self.findings.iter().map(|finding| finding.outcome).max().unwrap_or(Severity::Ok)
    }

    /// The findings.
    pub fn findings(&self) -> &[Finding] {
        &self.findings
    }

    /// The next subject to check.
    pub(super) fn subject(&mut self, name: impl Into<String>) -> Subject<'_> {
        Subject { report: self, name: name.into() }
    }
}

/// An outbox, subscription or sink whose findings are added to a report.
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

    /// A failure caused by an error, with the error's hint.
    pub(crate) fn refused(&mut self, check: Check, error: &Error) {
        self.fail_with(check, error.one_line(), error.hint());
    }

    /// A check whose query returns one line per problem.
    #[cfg(any(feature = "postgres", feature = "mysql"))]
    pub(super) fn lines(&mut self, check: Check, problems: Result<Vec<String>, String>, good: &str) {
        match problems {
            Ok(lines) if lines.is_empty() => self.ok(check, good),
            Ok(lines) => self.warn(check, lines.join("; ")),
            Err(error) => self.unchecked(check, &error),
        }
    }

    /// A check that could not be performed.
    pub(crate) fn unchecked(&mut self, check: Check, error: &str) {
        self.warn(check, format!("cannot be checked: {error}"));
    }

    /// A part of this subject.
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
            runbook: fix.map(|_| format!("docs/src/runbooks/{}.md", check.runbook())),
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
        for Finding { outcome, code, check, subject, what, fix, runbook, .. } in &self.findings {
            let outcome = match outcome {
                Severity::Ok => "ok",
                Severity::Warn => "warn",
                Severity::Fail => "FAIL",
            };
            let fix = match (fix, runbook) {
                (Some(fix), Some(runbook)) => format!("{fix}; see {runbook}"),
                (fix, _) => fix.clone().unwrap_or_default(),
            };
            table.row([outcome, code, check, subject, what, &fix].map(str::to_owned));
        }
        table
    }
}
