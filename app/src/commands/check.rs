//! `reqlore check`: what a person should mend, one line each; for CI by its exit code.

use reqlore_application::backlog::mended::{Mended, Relinked, Renumbered};
use reqlore_application::check::{check, fix};
use reqlore_application::finding::Finding;
use reqlore_domain::error::Error;

use crate::composition;
use crate::config::Config;
use crate::exit::{CommandError, OK, REFUSED};

#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Print the findings as JSON
    #[arg(long)]
    json: bool,
    /// Give the younger of two items with one reference a new one, with its links
    #[arg(long)]
    fix: bool,
}

pub(crate) fn run(config: &Config, options: &Options) -> Result<u8, CommandError> {
    let ports = composition::ports(config)?;
    if options.fix && config.read_only {
        return Err(CommandError::refused("--fix writes, and this is --read-only".to_owned()));
    }
    let caller = composition::caller(config);
    let done = composition::run(async {
        let mended = if options.fix { fix(&ports, caller).await? } else { Mended::default() };
        // What was done is told, whatever comes after it.
        Ok((mended, check(&ports).await))
    })?;
    let (mended, findings) = done.map_err(refused)?;
    let is_fine = mended.refused.is_empty() && findings.as_ref().is_ok_and(Vec::is_empty);
    if findings.is_ok() || mended != Mended::default() {
        let found = findings.as_deref().unwrap_or_default();
        let lines = || lines(&mended, found, is_fine);
        super::print(&if options.json { json(&mended, found)? } else { lines() })?;
    }
    findings.map_err(refused)?;
    Ok(if is_fine { OK } else { REFUSED })
}

fn refused(error: Error) -> CommandError {
    CommandError::refused(error.message)
}

fn lines(mended: &Mended, findings: &[Finding], is_fine: bool) -> String {
    let followed = |all: &[String]| match all {
        [] => String::new(),
        all => format!("; links followed in {}", all.join(", ")),
    };
    let done = |one: &Renumbered| {
        let Renumbered { document, from, to, relinked } = one;
        format!("{document}: {from} is {to} now{}\n", followed(relinked))
    };
    let pointed = |one: &Relinked| {
        let Relinked { document, from, to } = one;
        format!("{document}: the link to {from} leads to {to} now\n")
    };
    let pointed = mended.relinked.iter().map(pointed);
    let done: String = pointed.chain(mended.renumbered.iter().map(done)).collect();
    if is_fine {
        return done + "Nothing to mend.\n";
    }
    let line = |finding: &Finding| match finding.line {
        Some(line) => format!("{}:{line}: {}\n", finding.document, finding.message),
        None => format!("{}: {}\n", finding.document, finding.message),
    };
    done + &mended.refused.iter().chain(findings).map(line).collect::<String>()
}

fn json(mended: &Mended, findings: &[Finding]) -> Result<String, CommandError> {
    let Mended { relinked, renumbered, refused } = mended;
    let all = serde_json::json!({
        "fixed": renumbered, "relinked": relinked, "refused": refused, "findings": findings,
    });
    let json = serde_json::to_string_pretty(&all);
    json.map(|json| json + "\n").map_err(|error| CommandError::refused(error.to_string()))
}
