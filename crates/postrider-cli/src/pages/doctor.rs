//! `docs/src/doctor.md`

use std::fmt::Write;

use super::{GENERATED, cell};
use crate::doctor::Check;

/// Every check of `postrider doctor`.
pub fn doctor() -> String {
    let mut page = format!(
        "# Doctor\n\n{GENERATED}\n\nThe checks of `postrider doctor`. The codes do not change. A check is \
         ok, a warning (it works, but an operator should look at it) or a failure (it does not work, and the \
         command exits with code 5).\n\n\
         | code | expected | what to do otherwise |\n|---|---|---|\n"
    );
    for check in Check::ALL {
        let (meaning, fix, runbook) = (cell(check.meaning()), cell(check.fix()), check.runbook());
        let _ = writeln!(page, "| {check} | {meaning} | {fix} ([runbook](runbooks/{runbook}.md)) |");
    }
    page
}
