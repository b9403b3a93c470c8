//! `docs/src/exit-codes.md`

use std::fmt::Write;

use postrider::Code;

use super::GENERATED;
use crate::exit::Exit;

/// Every exit code, and the errors that end with it.
pub fn exit_codes() -> String {
    let mut page = format!(
        "# Exit codes\n\n{GENERATED}\n\nThe exit codes of `postrider`. The numbers do not change. If there \
         are several errors, the first one decides.\n\n| code | meaning | errors |\n|---|---|---|\n"
    );
    for &exit in Exit::ALL {
        let errors: Vec<String> =
            Code::ALL.iter().filter(|code| Exit::from(**code) == exit).map(ToString::to_string).collect();
        let _ = writeln!(page, "| {} | {} | {} |", exit.number(), exit.meaning(), errors.join(" "));
    }
    page
}
