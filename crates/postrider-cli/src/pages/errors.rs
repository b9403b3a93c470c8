//! `docs/src/errors.md`

use std::fmt::Write;

use postrider::Code;

use super::GENERATED;
use crate::exit::Exit;

/// Every error code with its meaning, its effect on the data, and what to do.
pub fn errors() -> String {
    let mut page = format!(
        "# Errors\n\n{GENERATED}\n\nEvery error has a code that never changes its meaning. An error prints \
         what happened, what it means for the data, and what to do next. In a specific case the last two may \
         be more precise than on this page.\n"
    );
    for &code in Code::ALL {
        let meaning = code.meaning().trim();
        let (effect, fix, exit) = (code.effect(), code.hint(), Exit::from(code));
        let _ = write!(page, "\n## {code}\n\n{meaning}\n\n");
        let _ = writeln!(page, "- For the data: {effect}.");
        let _ = writeln!(page, "- What to do: {fix}.");
        // Errors of writers and of the configuration do not occur in a running relay.
        if !matches!(exit, Exit::Input | Exit::Usage) {
            let _ = writeln!(page, "- A running relay {}.", code.recovery().description());
        }
        let _ = writeln!(page, "- A command exits with [exit code](exit-codes.md) {}.", exit.number());
    }
    page
}
