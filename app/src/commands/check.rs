//! `reqlore check`: what a person should mend, one line each; for CI by its exit code.

use reqlore_application::backlog::renumber::Renumbered;
use reqlore_application::check::{check, fix};
use reqlore_application::finding::Finding;

use crate::config::Config;
use crate::{Failure, OK, REFUSED, wire};

#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Print the findings as JSON
    #[arg(long)]
    json: bool,
    /// Give the younger of two items with one reference a new one, with its links
    #[arg(long)]
    fix: bool,
}

pub(crate) fn run(config: &Config, options: &Options) -> Result<u8, Failure> {
    let ports = wire::ports(config)?;
    if options.fix && config.read_only {
        return Err(Failure::refused("--fix writes, and this is --read-only".to_owned()));
    }
    let caller = wire::caller(config);
    let both = wire::run(async {
        let fixed = if options.fix { fix(&ports, caller).await? } else { Vec::new() };
        Ok((fixed, check(&ports).await?))
    })?;
    let (fixed, findings) =
        both.map_err(|error: reqlore_domain::error::Error| Failure::refused(error.message))?;
    super::print(&if options.json { json(&fixed, &findings)? } else { lines(&fixed, &findings) })?;
    Ok(if findings.is_empty() { OK } else { REFUSED })
}

fn lines(fixed: &[Renumbered], findings: &[Finding]) -> String {
    let followed = |all: &[String]| match all {
        [] => String::new(),
        all => format!("; links followed in {}", all.join(", ")),
    };
    let done = |one: &Renumbered| {
        let Renumbered { document, from, to, relinked } = one;
        format!("{document}: {from} is {to} now{}\n", followed(relinked))
    };
    let done: String = fixed.iter().map(done).collect();
    if findings.is_empty() {
        return done + "Nothing to mend.\n";
    }
    let line = |finding: &Finding| match finding.line {
        Some(line) => format!("{}:{line}: {}\n", finding.document, finding.message),
        None => format!("{}: {}\n", finding.document, finding.message),
    };
    done + &findings.iter().map(line).collect::<String>()
}

fn json(fixed: &[Renumbered], findings: &[Finding]) -> Result<String, Failure> {
    let both = serde_json::json!({ "fixed": fixed, "findings": findings });
    let json = serde_json::to_string_pretty(&both);
    json.map(|json| json + "\n").map_err(|error| Failure::refused(error.to_string()))
}
