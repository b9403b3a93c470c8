//! `docs/src/doctor.md`

use std::fmt::Write;

use super::{GENERATED, cell};
use crate::doctor::Check;

/// Every check of `postrider doctor`.
pub fn doctor() -> String {
    let mut page = format!(
        "# Doctor\n\n{GENERATED}\n\nWhat `postrider doctor` looks at. The codes do not change. A check is ok, a warning (it works, and \
         somebody should look) or a failure (it does not work, and the command ends with 5).\n\n\
         | code | as it should be | otherwise |\n|---|---|---|\n"
    );
    for check in Check::ALL {
        let _ = writeln!(page, "| {check} | {} | {} |", cell(check.meaning()), cell(check.fix()));
    }
    page
}
