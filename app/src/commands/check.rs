//! `reqlore check`: what a person should mend, one line each; for CI by its exit code.

use reqlore_application::check::check;
use reqlore_application::finding::Finding;

use crate::config::Config;
use crate::{Failure, OK, REFUSED, wire};

#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Print the findings as JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(config: &Config, options: &Options) -> Result<u8, Failure> {
    let ports = wire::ports(config)?;
    let findings = wire::run(check(&ports))?;
    let findings = findings.map_err(|error| Failure::refused(error.message))?;
    super::print(&if options.json { json(&findings)? } else { lines(&findings) })?;
    Ok(if findings.is_empty() { OK } else { REFUSED })
}

fn lines(findings: &[Finding]) -> String {
    if findings.is_empty() {
        return "Nothing to mend.\n".to_owned();
    }
    let line = |finding: &Finding| match finding.line {
        Some(line) => format!("{}:{line}: {}\n", finding.document, finding.message),
        None => format!("{}: {}\n", finding.document, finding.message),
    };
    findings.iter().map(line).collect()
}

fn json(findings: &[Finding]) -> Result<String, Failure> {
    let json = serde_json::to_string_pretty(&serde_json::json!({ "findings": findings }));
    json.map(|json| json + "\n").map_err(|error| Failure::refused(error.to_string()))
}
