//! Pages of the docs that come from the code. `tests/cli/pages.rs` compares them with `docs/src`.

mod cli;
mod config;
mod doctor;
mod errors;
mod exit;

pub use cli::cli;
pub use config::config;
pub use doctor::doctor;
pub use errors::errors;
pub use exit::exit_codes;

/// The line under the title of every page here. The test that finds a page outdated says how to renew it.
const GENERATED: &str = "<!-- Generated; update with: UPDATE_DOCS=1 cargo test -p postrider-cli --all-features --test cli pages -->";

/// Text for a cell of a table: a `|` would end it.
fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}
