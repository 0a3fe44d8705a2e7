//! `reqlore board`: shows a board with one column per status.

use super::board_print::{self, BoardPrintOptions};
use crate::config::AppConfig;
use crate::exit::CommandError;

#[derive(Debug, clap::Args)]
pub(crate) struct BoardOptions {
    /// Print the board instead of opening it in a browser
    #[arg(long)]
    print: bool,
    #[command(flatten)]
    printed: BoardPrintOptions,
}

pub(crate) fn run(config: &AppConfig, options: &BoardOptions) -> Result<u8, CommandError> {
    if options.print {
        return board_print::run(config, &options.printed);
    }
    Err(CommandError::usage_error("board: pass --print to print the board"))
}
