//! `reqlore doctor`: looks at everything that stands between a person and a working assistant.
//!
//! A finding says what to do next. It changes nothing; what it has to start, it ends.

use crate::settings::Flags;
use crate::{Failure, OK};

#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Print the findings as JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(_flags: &Flags, options: &Options) -> Result<u8, Failure> {
    let _ = options.json;
    Ok(OK)
}
