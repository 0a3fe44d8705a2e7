//! The output of init: questions, differences and results, or one JSON object.
//!
//! The files may come from a cloned repository and may contain secrets of other servers.

use std::io::BufRead;
use std::path::{Path, PathBuf};

use reqlore_client_config::{Client, ClientEnvironment, ConfigScope};
use serde_json::{Value, json};
use similar::TextDiff;

use super::plan::{Change, Outcome, Plan};
use super::undo_log::ChangeKind;
use crate::commands::untrusted_text::mask_secrets;
pub(super) use crate::commands::untrusted_text::printable;

/// Asks the user on stderr, file by file.
#[derive(Debug)]
pub(super) struct Confirmation<Input> {
    input: Input,
    /// The answer to all further questions.
    rest: Option<bool>,
    /// The same question twice in a row is asked once.
    last: Option<(String, bool)>,
}

impl<Input: BufRead> Confirmation<Input> {
    pub(super) fn new(input: Input) -> Self {
        Self { input, rest: None, last: None }
    }

    /// Without an answer it is no.
    pub(super) fn is_given(&mut self, what: &str) -> bool {
        let last = self.last.as_ref().filter(|(last, _)| last == what).map(|(_, answer)| *answer);
        if let Some(answer) = self.rest.or(last) {
            return answer;
        }
        let answer = self.ask(what);
        self.last = Some((what.to_owned(), answer));
        answer
    }

    fn ask(&mut self, what: &str) -> bool {
        loop {
            eprint!("Write {what}? [y/n/a/q] ");
            let mut line = String::new();
            let is_end = !self.input.read_line(&mut line).is_ok_and(|read| read > 0);
            let is_all = match line.trim().to_lowercase().as_str() {
                _ if is_end => false,
                "y" | "yes" => return true,
                "n" | "no" => return false,
                "a" | "all" => true,
                "q" | "quit" => false,
                _ => {
                    eprintln!("y: yes, n: not this one, a: all that follow, q: none that follow");
                    continue;
                }
            };
            self.rest = Some(is_all);
            return is_all;
        }
    }
}

/// The path as the user would write it.
pub(super) fn short_path(path: &Path, environment: &ClientEnvironment) -> String {
    let path = match (path.strip_prefix(&environment.project), path.strip_prefix(&environment.home))
    {
        (Ok(inside), _) => inside.display().to_string(),
        (_, Ok(inside)) => format!("~/{}", inside.display()),
        _ => path.display().to_string(),
    };
    printable(&path)
}

pub(super) fn question(change: &Change) -> String {
    match change.what {
        ChangeKind::Beginning => format!("the first files of the {}", change.title),
        ChangeKind::Entry | ChangeKind::Block => change.short_path.clone(),
    }
}

/// A change with its heading, as `diff -u` would show it.
pub(super) fn difference(change: &Change) -> String {
    let mut text = format!("── {} ({})\n", change.title, change.scope.name());
    if change.target != change.path && change.scope == ConfigScope::User {
        let target = printable(&change.target.display().to_string());
        text += &format!("   a link to {target}\n");
    }
    text += &diff(change);
    if let Outcome::Write { note: Some(note), .. } = &change.outcome {
        text += &format!("note: {note}\n");
    }
    text + "\n"
}

fn diff(change: &Change) -> String {
    let Outcome::Write { after, .. } = &change.outcome else { return String::new() };
    let [old, new] = [&change.before, after]
        .map(|text| if text.is_some() { &*change.short_path } else { "/dev/null" });
    let before = change.before.as_deref().unwrap_or_default();
    let after = after.as_deref().unwrap_or_default();
    if before == after {
        return format!("--- {old}\n+++ {new}\n(an empty file)\n");
    }
    let diff = TextDiff::from_lines(before, after);
    let diff = diff.unified_diff().header(old, new).to_string();
    // Unchanged strings may be secrets of other servers.
    mask_secrets(&printable(&diff), |string| before.contains(string) && after.contains(string))
}

/// The line of `--check` for one file; empty if nothing would change.
pub(super) fn check_line(change: &Change) -> String {
    let state = match &change.outcome {
        Outcome::Unchanged => return String::new(),
        Outcome::Write { .. } if change.is_known => "stale",
        Outcome::Write { .. } => "missing",
        Outcome::Refused(reason) => return refusal(change, reason),
    };
    format!("{state}: {} ({})\n", change.short_path, change.title)
}

pub(super) fn refusal(change: &Change, reason: &str) -> String {
    format!("not possible for {} ({}): {reason}\n", change.short_path, change.title)
}

pub(super) fn unsupported(plan: &Plan<'_>) -> String {
    let line = |(client, reason): &(Client, String)| {
        format!("not possible for {}: {reason}\n", client.title())
    };
    plan.unsupported.iter().map(line).collect()
}

/// The line of a change after the run.
pub(super) fn result_line(change: &Change, is_done: bool, is_removal: bool) -> String {
    let path = &change.short_path;
    match &change.outcome {
        Outcome::Refused(reason) => refusal(change, reason),
        Outcome::Write { .. } if !is_done => format!("left as it is: {path}\n"),
        Outcome::Write { after: None, .. } => format!("removed: {path}\n"),
        Outcome::Write { .. } => format!("written: {path}\n"),
        Outcome::Unchanged if is_removal && change.what == ChangeKind::Beginning => {
            format!("left as it is, since it was edited: {path}\n")
        }
        Outcome::Unchanged if is_removal => String::new(),
        Outcome::Unchanged => format!("unchanged: {path} ({})\n", change.title),
    }
}

/// The output of `--json`.
pub(super) fn as_json(plan: &Plan<'_>, present: &[Client], written: &[PathBuf]) -> Value {
    let found =
        present.iter().map(|client| json!({ "name": client.name(), "title": client.title() }));
    let files = plan.changes.iter().map(|change| {
        let (action, reason) = match &change.outcome {
            Outcome::Unchanged => ("none", None),
            Outcome::Write { after: None, note } => ("remove", note.clone()),
            Outcome::Write { note, .. } if change.before.is_none() => ("create", note.clone()),
            Outcome::Write { note, .. } => ("change", note.clone()),
            Outcome::Refused(reason) => ("refused", Some(reason.clone())),
        };
        let clients: Vec<&str> = change.clients.iter().map(|client| client.name()).collect();
        json!({
            "clients": clients, "scope": change.scope.name(), "path": change.path,
            "action": action, "reason": reason,
            "diff": diff(change), "written": written.contains(&change.path),
        })
    });
    let refused = plan.unsupported.iter().map(|(client, reason)| {
        json!({
            "clients": [client.name()], "scope": null, "path": null, "action": "refused",
            "reason": reason, "diff": "", "written": false,
        })
    });
    json!({
        "project": plan.environment.project,
        "clients": found.collect::<Vec<_>>(),
        "files": files.chain(refused).collect::<Vec<_>>(),
        "warnings": plan.warnings,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn confirmation_follows_each_answer() {
        let answers = |input: &str| {
            let mut confirmation = Confirmation::new(input.as_bytes());
            ["a", "b", "c", "d"].map(|what| confirmation.is_given(what))
        };
        assert_eq!(answers("y\nn\nYES\nNo\n"), [true, false, true, false]);
        assert_eq!(answers("n\na\n"), [false, true, true, true]);
        assert_eq!(answers("y\nq\ny\ny\n"), [true, false, false, false]);
        assert_eq!(answers("what\n\ny\nn\nn\nn\n"), [true, false, false, false]);
        assert_eq!(answers("y\n"), [true, false, false, false], "the end of the input is no");
        let mut confirmation = Confirmation::new("y\nn\n".as_bytes());
        assert!(confirmation.is_given(".ixchel/") && confirmation.is_given(".ixchel/"));
        assert!(!confirmation.is_given("AGENTS.md"));
    }
}
