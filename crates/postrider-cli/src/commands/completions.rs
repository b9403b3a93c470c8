//! `postrider completions`

use clap::Args;
use clap_complete::Shell;

use crate::args;
use crate::context::Context;
use crate::failure::Failure;

const EXAMPLES: &str = "Examples:
  postrider completions bash > /etc/bash_completion.d/postrider
  postrider completions zsh > ~/.zfunc/_postrider
  postrider completions fish > ~/.config/fish/completions/postrider.fish";

/// Print completions for a shell
#[derive(Debug, Args)]
#[command(before_help = EXAMPLES)]
pub struct Completions {
    /// The shell
    shell: Shell,
}

impl Completions {
    pub(super) fn run(&self, context: &Context) -> Result<(), Failure> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut args::command(), "postrider", &mut script);
        context.output.text(String::from_utf8_lossy(&script))
    }
}
