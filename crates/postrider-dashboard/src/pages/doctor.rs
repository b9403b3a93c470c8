//! The checks of `postrider doctor`.

use askama::Template;

use crate::outboxes::{Finding, Severity};
use crate::request::Cx;
use crate::respond::{Answer, PageContext, page};

#[derive(Template)]
#[template(path = "doctor.html")]
struct DoctorPage {
    page: PageContext,
    findings: Vec<Row>,
    failed: usize,
    warned: usize,
    passed: usize,
    has_checks: bool,
}

struct Row {
    finding: Finding,
    class: &'static str,
    mark: &'static str,
    word: &'static str,
}

pub(crate) async fn show(cx: Cx) -> Answer {
    let findings = cx.app.checks.run().await;
    let has_checks = findings.is_some();
    let mut findings = findings.unwrap_or_default();
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    let count = |severity| findings.iter().filter(|finding| finding.severity == severity).count();
    let (failed, warned, passed) = (count(Severity::Fail), count(Severity::Warn), count(Severity::Ok));
    let row = |finding: Finding| {
        let (class, mark, word) = match finding.severity {
            Severity::Ok => ("ok", "●", "ok"),
            Severity::Warn => ("warn", "▲", "warning"),
            Severity::Fail => ("bad", "■", "failed"),
        };
        Row { finding, class, mark, word }
    };
    let findings = findings.into_iter().map(row).collect();
    page(&DoctorPage { page: cx.page_context(), findings, failed, warned, passed, has_checks })
}
