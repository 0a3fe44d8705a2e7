//! `reqlore audit`: lists audit rows and verifies their hash chain.

use reqlore_application::identity::audit_query::{self, AuditVerification, ExpectedRow};
use reqlore_domain::audit_log::{AuditEvent, AuditRow, ChainHead, RowHash};
use reqlore_domain::document::Version;
use reqlore_domain::ports::administration::AuditFilter;
use serde_json::{Value, json};

use crate::commands::output::{format_table, print, print_json};
use crate::composition;
use crate::config::AppConfig;
use crate::exit::{EXIT_FAILED, Result};

#[derive(Debug, clap::Subcommand)]
pub(crate) enum AuditCommand {
    /// List the latest rows, oldest first
    List {
        /// Number of rows
        #[arg(
            long,
            value_name = "COUNT",
            default_value_t = 50,
            value_parser = clap::value_parser!(u32).range(1..=100_000)
        )]
        last: u32,
        /// Only rows of this user
        #[arg(long, value_name = "NAME")]
        user: Option<String>,
        /// Only this action: the name of a tool, or a method like resources/read
        #[arg(long, value_name = "NAME")]
        action: Option<String>,
        /// Print them as JSON
        #[arg(long)]
        json: bool,
    },
    /// Verify that no row was changed or removed; exits 1 otherwise
    Verify {
        /// A row printed by an earlier `audit verify`, to prove that it still exists
        #[arg(long, value_name = "NUMBER:HASH", value_parser = parse_row)]
        expect: Option<ChainHead>,
        /// Print the result as JSON
        #[arg(long)]
        json: bool,
    },
}

fn parse_row(text: &str) -> Result<ChainHead, String> {
    if let Some((number, hash)) = text.split_once(':')
        && let (Ok(number), Ok(hash)) = (number.parse(), RowHash::try_from(hash.to_owned()))
    {
        return Ok(ChainHead { number, hash });
    }
    Err("write it as `audit verify` prints it: a number, ':' and 64 digits".to_owned())
}

pub(crate) async fn run(config: &AppConfig, command: &AuditCommand) -> Result<u8> {
    let log = composition::open_existing_store(config)?;
    match command {
        AuditCommand::List { last, user, action, json } => {
            let filter = AuditFilter {
                limit: *last as usize,
                user: user.clone(),
                action: action.clone(),
                ..AuditFilter::default()
            };
            let rows = audit_query::list_rows(&*log, &filter).await?;
            if *json { print_json(&rows_json(&rows)) } else { print(&rows_table(&rows)) }
        }
        AuditCommand::Verify { expect, json } => {
            let verified = audit_query::verify_chain(&*log, *expect).await?;
            let printed = if *json {
                print_json(&verification_json(&verified))?
            } else {
                print(&verification_text(&verified, *expect))?
            };
            Ok(if verified.is_intact() { printed } else { EXIT_FAILED })
        }
    }
}

fn rows_json(rows: &[AuditRow]) -> Value {
    let mut all = Vec::new();
    for row in rows {
        let mut shown = json!({ "number": row.number, "hash": row.hash });
        if let Some(event) = row.parse_event() {
            if let (Value::Object(shown), Value::Object(event)) = (&mut shown, json!(event)) {
                shown.extend(event);
            }
            shown["at"] = json!(event.at.to_rfc3339());
            shown["channel"] = json!(event.channel.name());
        } else {
            // A later version wrote it.
            shown["text"] = json!(row.text);
        }
        all.push(shown);
    }
    json!({ "rows": all })
}

fn rows_table(rows: &[AuditRow]) -> String {
    if rows.is_empty() {
        return "No audit rows match.\n".to_owned();
    }
    let mut shown = Vec::new();
    for row in rows {
        let Some(event) = row.parse_event() else {
            let about = "(a later version of reqlore wrote this row)";
            shown
                .push([&*row.number.to_string(), "", "", "", "", "", "", about].map(str::to_owned));
            continue;
        };
        let AuditEvent { at, user, token, action, result, channel, .. } = &event;
        // Without a user, no caller has chosen a channel.
        let channel = if user.is_empty() { "-" } else { channel.name() };
        shown.push([
            row.number.to_string(),
            at.to_rfc3339(),
            if user.is_empty() { "-".to_owned() } else { user.clone() },
            token.as_ref().map_or_else(|| "-".to_owned(), ToString::to_string),
            channel.to_owned(),
            action.clone(),
            result.clone(),
            event_summary(&event),
        ]);
    }
    format_table(["ROW", "TIME", "USER", "TOKEN", "VIA", "ACTION", "RESULT", "ABOUT"], shown)
}

/// The targets with the first digits of their versions, and the reason.
fn event_summary(event: &AuditEvent) -> String {
    let mut parts = Vec::new();
    if let Some(key) = event.project.as_ref().filter(|key| !key.is_default()) {
        parts.push(format!("in {key}"));
    }
    for target in &event.targets {
        let mut part = target.name.clone();
        if target.is_changed() {
            part += &format!(" {}>{}", short_version(target.before), short_version(target.after));
        }
        parts.push(part);
    }
    if !event.reason.is_empty() {
        parts.push(event.reason.clone());
    }
    parts.join("; ")
}

fn short_version(version: Option<Version>) -> String {
    match version {
        None => "none".to_owned(),
        Some(version) => version.to_string()[..8].to_owned(),
    }
}

fn verification_text(verified: &AuditVerification, expected: Option<ChainHead>) -> String {
    let AuditVerification { rows, newest: ChainHead { number, hash }, broken, expected: noted } =
        verified;
    let mut text = match broken {
        None => format!("The audit log is intact: {rows} rows.\n"),
        Some(broken) => format!(
            "The audit log is broken: {broken}. The {rows} rows before are intact. Another \
             program changed the storage, or its disk fails; compare it with a backup.\n"
        ),
    };
    let expected = expected.map(|head| head.number).unwrap_or_default();
    text += &match noted {
        ExpectedRow::None => String::new(),
        ExpectedRow::Found => format!("Row {expected} is as expected.\n"),
        ExpectedRow::Pruned => {
            format!("Row {expected} has expired, so it proves nothing.\n")
        }
        ExpectedRow::Missing => {
            format!("Row {expected} is not as expected: rows were removed or rewritten.\n")
        }
    };
    if verified.is_intact() {
        text += &format!(
            "The newest row is {number}:{hash}\nKeep this line elsewhere; `reqlore audit verify \
             --expect {number}:{hash}` then proves that no later row was removed.\n"
        );
    }
    text
}

fn verification_json(verified: &AuditVerification) -> Value {
    let AuditVerification { rows, newest, broken, expected: noted } = verified;
    let expected = match noted {
        ExpectedRow::None => None,
        ExpectedRow::Found => Some("found"),
        ExpectedRow::Pruned => Some("pruned"),
        ExpectedRow::Missing => Some("missing"),
    };
    json!({
        "whole": verified.is_intact(),
        "rows": rows,
        "newest": newest,
        "broken": broken.map(|broken| broken.to_string()),
        "expected": expected,
    })
}
