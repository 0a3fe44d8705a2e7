//! What init says: differences and results for people, one object for programs.
//!
//! Trap: the files may come from a repository that somebody cloned, so nothing of them speaks to
//! the terminal; and other servers' secrets may stand beside our entry.

use std::fmt::Write as _;
use std::path::Path;

use reqlore_client_config::{Client, Scope, Surroundings};
use serde_json::{Value, json};
use similar::TextDiff;

use super::plan::{Change, Outcome, Plan};
use super::record::What;
use super::words::{plain, scope, shown};
use crate::commands::untrusted_text::mask_secrets;

/// What a person is asked about.
pub(super) fn question(change: &Change, around: &Surroundings) -> String {
    match change.what {
        What::Beginning => format!("what to begin the {} with", change.title),
        What::Entry | What::Block => shown(&change.path, around),
    }
}

/// One change with its heading, as `diff -u` would show it.
pub(super) fn difference(change: &Change, around: &Surroundings) -> String {
    let mut text = format!("── {} ({})\n", change.title, scope(change.scope));
    // Writing to a string does not fail.
    if change.target != change.path && matches!(change.scope, Scope::User) {
        let _ = writeln!(text, "   a link to {}", plain(&change.target.display().to_string()));
    }
    text += &diff(change, around);
    if let Outcome::Write { note: Some(note), .. } = &change.outcome {
        let _ = writeln!(text, "note: {note}");
    }
    text + "\n"
}

fn diff(change: &Change, around: &Surroundings) -> String {
    let Outcome::Write { after, .. } = &change.outcome else { return String::new() };
    let path = shown(&change.path, around);
    let [old, new] = [change.before.is_some(), after.is_some()]
        .map(|is_there| if is_there { path.as_str() } else { "/dev/null" });
    let before = change.before.as_deref().unwrap_or_default();
    let after = after.as_deref().unwrap_or_default();
    if before == after {
        return format!("--- {old}\n+++ {new}\n(an empty file)\n");
    }
    let diff = TextDiff::from_lines(before, after);
    let mut unified = diff.unified_diff();
    // What stands in both is not what changes, and may be another server's secret.
    let is_theirs = |string: &str| before.contains(string) && after.contains(string);
    mask_secrets(&plain(&unified.header(old, new).to_string()), is_theirs)
}

/// What `--check` says of one file; nothing where all is well.
pub(super) fn finding(change: &Change, around: &Surroundings) -> Option<String> {
    let state = match &change.outcome {
        Outcome::Same => return None,
        Outcome::Write { .. } if change.is_known => "stale".to_owned(),
        Outcome::Write { .. } => "missing".to_owned(),
        Outcome::Refused(reason) => return Some(refusal(change, reason, around)),
    };
    Some(format!("{state}: {} ({})\n", shown(&change.path, around), change.title))
}

pub(super) fn refusal(change: &Change, reason: &str, around: &Surroundings) -> String {
    format!("can't do {} ({}): {reason}\n", shown(&change.path, around), change.title)
}

/// The clients that can't be told, a line each.
pub(super) fn unplaced(plan: &Plan) -> String {
    let lines = plan.unplaced.iter().map(|(client, reason)| {
        let title = client.title();
        format!("can't do {title}: {reason}\n")
    });
    lines.collect()
}

/// Everything as one object.
pub(super) fn object(
    plan: &Plan,
    present: &[Client],
    written: &[&Path],
    around: &Surroundings,
) -> Value {
    let found =
        present.iter().map(|client| json!({ "name": client.name(), "title": client.title() }));
    let files = plan.changes.iter().map(|change| {
        let (action, reason) = match &change.outcome {
            Outcome::Same => ("none", None),
            Outcome::Write { after: None, note } => ("remove", note.clone()),
            Outcome::Write { note, .. } if change.before.is_none() => ("create", note.clone()),
            Outcome::Write { note, .. } => ("change", note.clone()),
            Outcome::Refused(reason) => ("refused", Some(reason.clone())),
        };
        let clients: Vec<&str> = change.clients.iter().map(|client| client.name()).collect();
        json!({
            "clients": clients, "scope": scope(change.scope), "path": change.path,
            "action": action, "reason": reason,
            "diff": diff(change, around), "written": written.contains(&change.path.as_path()),
        })
    });
    let refused = plan.unplaced.iter().map(|(client, reason)| {
        json!({
            "clients": [client.name()], "scope": null, "path": null, "action": "refused",
            "reason": reason, "diff": "", "written": false,
        })
    });
    json!({
        "project": around.project,
        "clients": found.collect::<Vec<_>>(),
        "files": files.chain(refused).collect::<Vec<_>>(),
        "warnings": plan.warnings,
    })
}
