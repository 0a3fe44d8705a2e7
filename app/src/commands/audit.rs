//! `reqlore audit`: who did what, and whether the record of it is whole.

use std::fmt::Write as _;

use reqlore_application::identity::audit_trail::{self, Noted, Verified, Wanted};
use reqlore_domain::audit::{AuditEvent, AuditRow, ChainHead, Hash, Target};
use serde_json::{Value, json};

use super::print;
use super::table::table;
use crate::composition;
use crate::config::Config;
use crate::exit::{CommandError, REFUSED};

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// List the newest rows, the newest last
    List {
        /// How many
        #[arg(
            long,
            value_name = "COUNT",
            default_value_t = 50,
            value_parser = clap::value_parser!(u32).range(1..=100_000)
        )]
        last: u32,
        /// Only what this user did
        #[arg(long, value_name = "NAME")]
        user: Option<String>,
        /// Only this: the name of a tool, or a method like resources/read
        #[arg(long, value_name = "NAME")]
        action: Option<String>,
        /// Print them as JSON
        #[arg(long)]
        json: bool,
    },
    /// Look whether rows were changed or taken out; exit code 1 if there were
    Verify {
        /// A row that an earlier `audit verify` told, to find out whether newer ones were cut off
        #[arg(long, value_name = "NUMBER:HASH", value_parser = head)]
        expect: Option<ChainHead>,
        /// Print the result as JSON
        #[arg(long)]
        json: bool,
    },
}

fn head(text: &str) -> Result<ChainHead, String> {
    let read = text.split_once(':').and_then(|(number, hash)| {
        Some(ChainHead {
            number: number.parse().ok()?,
            hash: Hash::try_from(hash.to_owned()).ok()?,
        })
    });
    read.ok_or_else(|| {
        "write it as `audit verify` prints it: a number, ':' and 64 digits".to_owned()
    })
}

pub(crate) fn run(config: &Config, command: &Command) -> Result<u8, CommandError> {
    composition::run(answer(config, command))?
}

async fn answer(config: &Config, command: &Command) -> Result<u8, CommandError> {
    let log = composition::existing(config)?;
    match command {
        Command::List { last, user, action, json } => {
            let wanted =
                Wanted { last: *last as usize, user: user.clone(), action: action.clone() };
            let rows = audit_trail::list(&*log, &wanted).await?;
            print(&if *json { as_json(&rows) } else { lines(&rows) })
        }
        Command::Verify { expect, json } => {
            let verified = audit_trail::verify(&*log, *expect).await?;
            let printed =
                print(&if *json { verdict_json(&verified) } else { verdict(&verified, *expect) })?;
            Ok(if verified.is_whole() { printed } else { REFUSED })
        }
    }
}

fn as_json(rows: &[AuditRow]) -> String {
    let row = |row: &AuditRow| {
        let sealed = json!({ "number": row.number, "hash": row.hash });
        let Some(entry) = row.entry() else {
            // A later version wrote it.
            return merged(sealed, json!({ "text": row.text }));
        };
        let at = entry.at.rfc3339();
        let mut told = merged(sealed, json!(entry));
        told["at"] = json!(at);
        told
    };
    let rows: Vec<Value> = rows.iter().map(row).collect();
    format!("{:#}\n", json!({ "rows": rows }))
}

fn merged(mut one: Value, other: Value) -> Value {
    if let (Value::Object(one), Value::Object(other)) = (&mut one, other) {
        one.extend(other);
    }
    one
}

fn lines(rows: &[AuditRow]) -> String {
    if rows.is_empty() {
        return "There are no such rows.\n".to_owned();
    }
    let line = |row: &AuditRow| {
        let Some(entry) = row.entry() else {
            let unread = "(a later version of reqlore wrote this row)".to_owned();
            let none = String::new;
            return [row.number.to_string(), none(), none(), none(), none(), none(), unread];
        };
        let AuditEvent { at, user, token, action, result, .. } = &entry;
        [
            row.number.to_string(),
            at.rfc3339(),
            if user.is_empty() { "-".to_owned() } else { user.clone() },
            token.as_ref().map_or_else(|| "-".to_owned(), ToString::to_string),
            action.clone(),
            result.clone(),
            about(&entry),
        ]
    };
    table(["ROW", "TIME", "USER", "TOKEN", "ACTION", "RESULT", "ABOUT"], rows.iter().map(line))
}

/// What it was about, with the first digits of the versions, and why.
fn about(entry: &AuditEvent) -> String {
    let short = |version: &Option<_>| {
        version.as_ref().map_or_else(
            || "none".to_owned(),
            |version: &reqlore_domain::document::Version| {
                version.to_string().chars().take(8).collect()
            },
        )
    };
    let target = |target: &Target| {
        if target.is_changed() {
            format!("{} {}>{}", target.name, short(&target.before), short(&target.after))
        } else {
            target.name.clone()
        }
    };
    let project = entry.project.iter().filter(|key| !key.is_default());
    let mut parts: Vec<String> = project.map(|key| format!("in {key}")).collect();
    parts.extend(entry.targets.iter().map(target));
    parts.extend(Some(&entry.reason).filter(|reason| !reason.is_empty()).cloned());
    parts.join("; ")
}

fn verdict(verified: &Verified, expected: Option<ChainHead>) -> String {
    let Verified { rows, newest: ChainHead { number, hash }, broken, noted } = verified;
    let mut text = match broken {
        None => format!("The audit is whole: {rows} rows.\n"),
        Some(broken) => format!(
            "The audit is broken: {broken}. The {rows} rows before are whole. Somebody changed \
             the storage past reqlore, or its disk fails; hold a backup against it.\n"
        ),
    };
    let wanted = expected.map(|head| head.number).unwrap_or_default();
    // Writing to a string does not fail.
    let _ = match noted {
        Noted::None => Ok(()),
        Noted::Found => writeln!(text, "AuditRow {wanted} is what was expected."),
        Noted::Pruned => {
            writeln!(
                text,
                "AuditRow {wanted} was too old and is gone, so it proves nothing any more."
            )
        }
        Noted::Missing => writeln!(
            text,
            "AuditRow {wanted} is not there as expected: rows were cut off or written anew."
        ),
    };
    if verified.is_whole() {
        let _ = writeln!(
            text,
            "The newest row is {number}:{hash}\nKeep that somewhere else; \
             `reqlore audit verify --expect {number}:{hash}` then proves that nothing was cut off."
        );
    }
    text
}

fn verdict_json(verified: &Verified) -> String {
    let Verified { rows, newest, broken, noted } = verified;
    let expected = match noted {
        Noted::None => None,
        Noted::Found => Some("found"),
        Noted::Pruned => Some("pruned"),
        Noted::Missing => Some("missing"),
    };
    let told = json!({
        "whole": verified.is_whole(),
        "rows": rows,
        "newest": newest,
        "broken": broken.map(|broken| broken.to_string()),
        "expected": expected,
    });
    format!("{told:#}\n")
}
