//! A line of the screen: styled pieces of text, truncated at the width of the screen.

use clap::builder::styling::{AnsiColor, Style};

use crate::output::Paint;

/// The style of a piece of text. Uses only the terminal's colours, so that they fit its theme.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tone {
    Normal,
    Strong,
    Faint,
    Shop,
    Audit,
    Analytics,
    Good,
    Warning,
    Bad,
}

impl Tone {
    fn style(self) -> Style {
        let colour = |colour: AnsiColor| Style::new().fg_color(Some(colour.into()));
        match self {
            Self::Normal => Style::new(),
            Self::Strong => Style::new().bold(),
            Self::Faint => Style::new().dimmed(),
            Self::Shop => colour(AnsiColor::Cyan),
            Self::Audit => colour(AnsiColor::Green),
            Self::Analytics => colour(AnsiColor::Magenta),
            Self::Good => colour(AnsiColor::Green),
            Self::Warning => colour(AnsiColor::Yellow),
            Self::Bad => colour(AnsiColor::Red).bold(),
        }
    }
}

/// Styled text. Every character counts as one column.
#[derive(Debug, Clone, Default)]
pub(super) struct Line {
    pieces: Vec<(Tone, String)>,
    width: usize,
}

impl Line {
    pub(super) fn new() -> Self {
        Self::default()
    }

    /// Adds text.
    pub(super) fn then(mut self, tone: Tone, text: impl Into<String>) -> Self {
        let text = text.into();
        self.width += text.chars().count();
        self.pieces.push((tone, text));
        self
    }

    /// Adds another line's text.
    pub(super) fn join(mut self, other: Self) -> Self {
        self.width += other.width;
        self.pieces.extend(other.pieces);
        self
    }

    /// Adds blanks up to a column.
    pub(super) fn to(self, column: usize) -> Self {
        let blanks = column.saturating_sub(self.width);
        self.then(Tone::Normal, " ".repeat(blanks))
    }

    pub(super) fn width(&self) -> usize {
        self.width
    }

    /// The text for the terminal. Text that does not fit is truncated and marked as such.
    pub(super) fn render(&self, paint: Paint, columns: usize) -> String {
        let mut room = if self.width <= columns { self.width } else { columns.saturating_sub(1) };
        let mut text = String::new();
        for (tone, piece) in &self.pieces {
            let fits: String = piece.chars().take(room).collect();
            room -= fits.chars().count();
            if !fits.is_empty() {
                text += &paint.styled(tone.style(), &fits);
            }
        }
        if self.width > columns && columns > 0 {
            text.push('…');
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::{ColorWhen, Output, Verbosity};

    fn paint(when: ColorWhen) -> Paint {
        Output::new(false, when, Verbosity::Normal).paint()
    }

    #[test]
    fn a_line_is_never_wider_than_the_screen() {
        let line = Line::new().then(Tone::Strong, "abc").then(Tone::Bad, "def").to(10);
        for columns in 0..12 {
            let text = line.render(paint(ColorWhen::Never), columns);
            assert!(text.chars().count() <= columns, "{text:?}");
        }
        assert_eq!(line.render(paint(ColorWhen::Never), 5), "abcd…");
    }

    #[test]
    fn without_colours_there_are_no_escapes() {
        let line = Line::new().then(Tone::Bad, "down");
        assert_eq!(line.render(paint(ColorWhen::Never), 80), "down");
        assert!(line.render(paint(ColorWhen::Always), 80).contains("\u{1b}["));
    }
}
