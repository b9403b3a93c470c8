//! Colours on a terminal.

use std::env;
use std::io::{self, IsTerminal};

use clap::ValueEnum;
use clap::builder::styling::{AnsiColor, Style};

/// When to use colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum ColorWhen {
    /// On a terminal, unless NO_COLOR is set.
    #[default]
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

impl ColorWhen {
    /// The choice in the raw arguments, for messages about arguments that could not be parsed.
    pub fn scan(args: &[String]) -> Self {
        let mut args = args.iter().map(String::as_str);
        let mut when = None;
        while let Some(arg) = args.next() {
            when = match arg {
                "--color" => args.next(),
                "--" => break,
                _ => arg.strip_prefix("--color=").or(when),
            };
        }
        when.and_then(|word| Self::from_str(word, false).ok()).unwrap_or_default()
    }
}

/// Whether a stream uses colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Paint(bool);

impl Paint {
    pub(super) fn for_stdout(when: ColorWhen) -> Self {
        Self::decide(when, io::stdout().is_terminal())
    }

    pub(super) fn for_stderr(when: ColorWhen) -> Self {
        Self::decide(when, io::stderr().is_terminal())
    }

    fn decide(when: ColorWhen, terminal: bool) -> Self {
        let unwanted = || env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let unable = || env::var_os("TERM").is_some_and(|term| term == "dumb");
        Self(match when {
            ColorWhen::Always => true,
            ColorWhen::Never => false,
            ColorWhen::Auto => terminal && !unwanted() && !unable(),
        })
    }

    /// Whether colours are used.
    pub fn is_on(self) -> bool {
        self.0
    }

    /// An error, with its first word up to the colon highlighted.
    pub(super) fn error(self, text: &str) -> String {
        let head = text.find(':').unwrap_or(0);
        let style = Style::new().bold().fg_color(Some(AnsiColor::Red.into()));
        format!("{}{}\n", self.styled(style, &text[..head]), &text[head..])
    }

    /// A message of clap.
    pub(super) fn clap(self, error: &clap::Error) -> String {
        let styled = error.render();
        if self.0 { styled.ansi().to_string() } else { styled.to_string() }
    }

    /// A piece of text in a style.
    pub(crate) fn styled(self, style: Style, text: &str) -> String {
        if self.0 { format!("{style}{text}{style:#}") } else { text.to_owned() }
    }
}
