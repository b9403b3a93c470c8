//! The terminal during the demo: the alternate screen, which is always restored.

use std::io::{self, ErrorKind, Write};
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};

use crossterm::cursor::{Hide, MoveTo, Show};
use crossterm::style::Print;
use crossterm::terminal::{
    self, BeginSynchronizedUpdate, Clear, ClearType, DisableLineWrap, EnableLineWrap, EndSynchronizedUpdate,
    EnterAlternateScreen, LeaveAlternateScreen,
};
use crossterm::{execute, queue};
use postrider::{Code, Error};

use crate::failure::Failure;

/// Columns and rows if the size of the terminal is not known.
const SIZE: (usize, usize) = (80, 24);

/// Whether the terminal must be restored.
static TAKEN: AtomicBool = AtomicBool::new(false);

/// The alternate screen. The previous content of the terminal is restored when this is dropped.
#[derive(Debug)]
pub(crate) struct Screen<W: Write> {
    terminal: W,
}

impl<W: Write> Screen<W> {
    /// Switches to the alternate screen.
    pub(super) fn open(mut terminal: W) -> io::Result<Self> {
        TAKEN.store(true, Ordering::SeqCst);
        execute!(terminal, EnterAlternateScreen, Hide, DisableLineWrap, Clear(ClearType::All))?;
        Ok(Self { terminal })
    }

    /// Replaces the content in one write. Draws nothing after a panic has restored the terminal.
    pub(super) fn draw(&mut self, lines: impl IntoIterator<Item = String>) -> io::Result<()> {
        if !TAKEN.load(Ordering::SeqCst) {
            return Ok(());
        }
        let mut frame = Vec::new();
        queue!(frame, BeginSynchronizedUpdate)?;
        let mut row = 0;
        for line in lines {
            queue!(frame, MoveTo(0, row), Print(line), Clear(ClearType::UntilNewLine))?;
            row = row.saturating_add(1);
        }
        queue!(frame, MoveTo(0, row), Clear(ClearType::FromCursorDown), EndSynchronizedUpdate)?;
        self.terminal.write_all(&frame)?;
        self.terminal.flush()
    }
}

impl<W: Write> Drop for Screen<W> {
    fn drop(&mut self) {
        give_back(&mut self.terminal);
    }
}

/// Restores the terminal if necessary. An error cannot be reported and is ignored.
fn give_back(terminal: &mut impl Write) {
    if TAKEN.swap(false, Ordering::SeqCst) {
        let _ = execute!(terminal, EnableLineWrap, Show, LeaveAlternateScreen);
    }
}

/// Makes a panic restore the terminal before its message is printed.
pub(super) fn restore_on_panic() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let tell = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            give_back(&mut io::stdout());
            tell(panic);
        }));
    });
}

/// Columns and rows.
pub(super) fn size() -> (usize, usize) {
    match terminal::size() {
        Ok((columns, rows)) if columns > 0 && rows > 0 => (columns.into(), rows.into()),
        _ => SIZE,
    }
}

/// The error if the terminal cannot be written to.
pub(super) fn failed(error: io::Error) -> Failure {
    match error.kind() {
        ErrorKind::BrokenPipe => Failure::ClosedPipe,
        _ => Error::new(Code::OutputFailed, "cannot write to the terminal").with_source(error).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_terminal_is_given_back_once_and_then_left_alone() {
        let mut written = Vec::new();
        let mut screen = Screen::open(&mut written).unwrap();
        screen.draw(["hello".to_owned()]).unwrap();
        drop(screen);
        let mut after = Vec::new();
        give_back(&mut after);
        let text = String::from_utf8(written).unwrap();
        for sequence in ["?1049h", "?25l", "hello", "?25h", "?1049l"] {
            assert!(text.contains(sequence), "{sequence} in {text:?}");
        }
        assert!(text.find("?1049h") < text.find("hello") && text.find("hello") < text.find("?1049l"));
        assert!(after.is_empty());
    }
}
