//! `reqlore completions SHELL`: what a shell needs to complete commands and flags.

use clap::CommandFactory;
use clap_complete::Shell;

use super::{Cli, print};
use crate::exit::CommandError;

#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Whose language it is in
    shell: Shell,
}

pub(crate) fn run(options: &Options) -> Result<u8, CommandError> {
    let mut script = Vec::new();
    clap_complete::generate(options.shell, &mut Cli::command(), "reqlore", &mut script);
    print(&String::from_utf8_lossy(&script))
}
