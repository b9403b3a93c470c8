//! Pages of the docs that come from the code. `tests/cli/pages.rs` compares them with `docs/src`.

mod cli;
mod config;
mod doctor;
mod errors;
mod exit;
mod metrics;

pub use cli::cli;
pub use config::config;
pub use doctor::doctor;
pub use errors::errors;
pub use exit::exit_codes;
pub use metrics::metrics;

/// The line under the title of every generated page. The test that finds an outdated page prints how to regenerate it.
const GENERATED: &str = "<!-- Generated; update with: UPDATE_DOCS=1 cargo test -p postrider-cli --all-features --test cli pages -->";

/// Text for a cell of a table, with `|` escaped.
fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}
