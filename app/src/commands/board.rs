//! `reqlore board`: shows a board with one column per status.

use super::board_pages;
use super::board_print::{self, BoardPrintOptions};
use crate::config::AppConfig;
use crate::exit::{CommandError, Result};

#[derive(Debug, clap::Args)]
pub(crate) struct BoardOptions {
    /// Print the board instead of opening it in a browser; filters need this
    #[arg(long)]
    print: bool,
    /// Print the link instead of opening it in a browser
    #[arg(long, conflicts_with = "print")]
    no_open: bool,
    #[command(flatten)]
    printed: BoardPrintOptions,
}

pub(crate) fn run(config: &AppConfig, options: &BoardOptions) -> Result<u8> {
    if options.print {
        return board_print::run(config, &options.printed);
    }
    if options.printed.project.server_url().is_some() {
        return Err(CommandError::usage_error(
            "--url or REQLORE_URL: names a team server; open its address in a browser, or pass \
             --print to print its board",
        ));
    }
    board_pages::run(config, &options.printed.page(config)?, !options.no_open)
}
