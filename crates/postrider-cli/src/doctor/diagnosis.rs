//! What was found.

use serde::Serialize;

use super::Check;
use crate::output::{Align, Table, View};

/// How a check came out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// As it should be.
    Ok,
    /// It works, and somebody should look at it.
    Warn,
    /// It does not work.
    Fail,
}

/// One check of one thing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// How it came out.
    pub outcome: Outcome,
    /// The check's code.
    pub code: String,
    /// What was looked at.
    pub subject: String,
    /// What was seen.
    pub what: String,
    /// What the check is for.
    pub meaning: &'static str,
    /// What to do, unless it is as it should be.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fix: Option<&'static str>,
}

/// All findings, in the order they were made.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
#[serde(transparent)]
pub struct Diagnosis {
    findings: Vec<Finding>,
}

impl Diagnosis {
    /// The worst outcome; [`Outcome::Ok`] if nothing was looked at.
    pub fn worst(&self) -> Outcome {
        self.findings.iter().map(|finding| finding.outcome).max().unwrap_or(Outcome::Ok)
    }

    /// Something to look at next.
    pub(super) fn patient(&mut self, subject: impl Into<String>) -> Patient<'_> {
        Patient { diagnosis: self, subject: subject.into() }
    }
}

/// One thing that is looked at.
pub struct Patient<'a> {
    diagnosis: &'a mut Diagnosis,
    subject: String,
}

impl Patient<'_> {
    pub(super) fn ok(&mut self, check: Check, what: impl Into<String>) {
        self.find(Outcome::Ok, check, what.into());
    }

    pub(super) fn warn(&mut self, check: Check, what: impl Into<String>) {
        self.find(Outcome::Warn, check, what.into());
    }

    pub(super) fn fail(&mut self, check: Check, what: impl Into<String>) {
        self.find(Outcome::Fail, check, what.into());
    }

    /// A part of this thing.
    pub(super) fn part(&mut self, name: &str) -> Patient<'_> {
        Patient { subject: format!("{}, {name}", self.subject), diagnosis: self.diagnosis }
    }

    fn find(&mut self, outcome: Outcome, check: Check, what: String) {
        self.diagnosis.findings.push(Finding {
            outcome,
            code: check.to_string(),
            subject: self.subject.clone(),
            what,
            meaning: check.meaning(),
            fix: (outcome != Outcome::Ok).then(|| check.fix()),
        });
    }
}

impl View for Diagnosis {
    fn table(&self) -> Table {
        let columns = [
            ("", Align::Left),
            ("code", Align::Left),
            ("of", Align::Left),
            ("found", Align::Left),
            ("what to do", Align::Left),
        ];
        let mut table = Table::new(columns, "nothing is configured, so there is nothing to check");
        for Finding { outcome, code, subject, what, fix, .. } in &self.findings {
            let outcome = match outcome {
                Outcome::Ok => "ok",
                Outcome::Warn => "warn",
                Outcome::Fail => "FAIL",
            };
            table.row([outcome, code, subject, what, fix.unwrap_or_default()].map(str::to_owned));
        }
        table
    }
}
