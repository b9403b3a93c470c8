//! The terminal during `top`: raw and on the alternate screen, and always restored.

use std::io::{self, Stdout};
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};

use postrider::{Code, Error};
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::cursor::Show;
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use ratatui::{Frame, Terminal};

use crate::failure::Failure;

/// Whether the terminal must be restored.
static TAKEN: AtomicBool = AtomicBool::new(false);

/// The terminal. What it showed before is restored when this is dropped.
pub(super) struct Screen(Terminal<CrosstermBackend<Stdout>>);

impl Screen {
    pub(super) fn open() -> Result<Self, Failure> {
        restore_on_panic();
        TAKEN.store(true, Ordering::SeqCst);
        let opened = enable_raw_mode()
            .and_then(|()| execute!(io::stdout(), EnterAlternateScreen))
            .and_then(|()| Terminal::new(CrosstermBackend::new(io::stdout())));
        match opened {
            Ok(terminal) => Ok(Self(terminal)),
            Err(error) => {
                give_back();
                Err(failed(error))
            }
        }
    }

    /// Draws nothing after a panic has restored the terminal.
    pub(super) fn draw(&mut self, draw: impl FnOnce(&mut Frame<'_>)) -> Result<(), Failure> {
        if TAKEN.load(Ordering::SeqCst) {
            self.0.draw(draw).map_err(failed)?;
        }
        Ok(())
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        give_back();
    }
}

pub(super) fn failed(error: io::Error) -> Failure {
    Error::new(Code::OutputFailed, "the terminal cannot be used").with_source(error).into()
}

/// Restores the terminal if necessary. An error cannot be reported and is ignored.
fn give_back() {
    if TAKEN.swap(false, Ordering::SeqCst) {
        let _ = disable_raw_mode();
        let _ = execute!(io::stdout(), LeaveAlternateScreen, Show);
    }
}

/// Makes a panic restore the terminal before its message is printed.
fn restore_on_panic() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let report = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            give_back();
            report(panic);
        }));
    });
}
