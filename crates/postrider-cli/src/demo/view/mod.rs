//! The views: a screen that is redrawn in place, or plain lines, and a summary at the end.

mod frame;
mod line;
mod number;
mod panel;
mod plain;
mod plot;
mod screen;
mod summary;

pub(crate) use summary::summary;

use std::env;
use std::io::{self, IsTerminal, Stdout};

use super::snapshot::Snapshot;
use crate::failure::Failure;
use crate::output::Output;
use plain::Plain;
use screen::Screen;

/// How the demo is shown.
#[derive(Debug)]
pub(crate) enum View {
    /// Redrawn in place.
    Live(Output, Screen<Stdout>),
    /// A line every second.
    Plain(Output, Plain),
}

impl View {
    /// The best view that standard output supports.
    ///
    /// # Errors
    /// If the terminal cannot be written to.
    pub(crate) fn open(output: Output, plain: bool) -> Result<Self, Failure> {
        let dumb = env::var_os("TERM").is_none_or(|term| term == "dumb");
        if plain || dumb || output.is_json() || !io::stdout().is_terminal() {
            return Ok(Self::Plain(output, Plain::default()));
        }
        screen::restore_on_panic();
        Ok(Self::Live(output, Screen::open(io::stdout()).map_err(screen::failed)?))
    }

    /// Shows the current state.
    ///
    /// # Errors
    /// If standard output cannot be written to.
    pub(super) fn draw(&mut self, snapshot: &Snapshot<'_>) -> Result<(), Failure> {
        match self {
            Self::Live(output, screen) => {
                let (columns, rows) = screen::size();
                let lines = frame::frame(snapshot, columns, rows);
                // The last column stays empty, because some terminals wrap the line when it is used.
                let lines = lines.iter().map(|line| line.render(output.paint(), columns.saturating_sub(1)));
                screen.draw(lines).map_err(screen::failed)
            }
            Self::Plain(output, plain) => match plain.line(snapshot) {
                None => Ok(()),
                // With `--json`, standard output contains only the report.
                Some(line) if output.is_json() => {
                    output.detail(line);
                    Ok(())
                }
                Some(line) => output.text(line),
            },
        }
    }
}
