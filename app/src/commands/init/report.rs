//! Output of init: questions, diffs and results, or one JSON object.
//!
//! Files may come from a cloned repository and may contain secrets of other servers, so all text
//! from them is encoded and passes through [`mask_secrets`].

use std::io::BufRead;
use std::path::PathBuf;

use reqlore_client_config::{Client, ConfigScope};
use reqlore_domain::untrusted_text::encode_line;
use serde_json::{Value, json};
use similar::TextDiff;

use super::plan::{ChangePlan, SKILL_TITLE};
use crate::commands::init::file_change::{ChangeKind, ChangeOutcome, FileChange};
use crate::commands::untrusted_text::mask_secrets;
use crate::console::{encode_console, eprint_line};

/// Asks the user on stderr, file by file.
#[derive(Debug)]
pub(super) struct Confirmation<Input> {
    input: Input,
    /// The answer to all further questions.
    answer_to_all: Option<bool>,
    /// The same question twice in a row is asked once.
    last_answer: Option<(String, bool)>,
}

impl<Input: BufRead> Confirmation<Input> {
    pub(super) fn new(input: Input) -> Self {
        Self { input, answer_to_all: None, last_answer: None }
    }

    /// Returns the user's answer. The end of the input is a no.
    pub(super) fn confirm(&mut self, subject: &str) -> bool {
        if let Some(answer) = self.answer_to_all {
            return answer;
        }
        // The files of one scaffold share a subject and are confirmed once.
        if let Some((last_subject, answer)) = &self.last_answer
            && last_subject == subject
        {
            return *answer;
        }
        let answer = self.ask(subject);
        self.last_answer = Some((subject.to_owned(), answer));
        answer
    }

    fn ask(&mut self, subject: &str) -> bool {
        loop {
            eprint!("Write {subject}? [y/n/a/q] ");
            let mut line = String::new();
            // Input that is not UTF-8 is treated as the end.
            let is_end = !self.input.read_line(&mut line).is_ok_and(|read| read > 0);
            let is_all = match line.trim().to_lowercase().as_str() {
                _ if is_end => false,
                "y" | "yes" => return true,
                "n" | "no" => return false,
                "a" | "all" => true,
                "q" | "quit" => false,
                _ => {
                    eprint_line("y: yes, n: no, a: yes to all remaining, q: no to all remaining");
                    continue;
                }
            };
            self.answer_to_all = Some(is_all);
            return is_all;
        }
    }
}

pub(super) fn question_subject(change: &FileChange) -> String {
    match change.kind {
        ChangeKind::Scaffold if change.title != SKILL_TITLE => {
            format!("the first files of the {}", change.title)
        }
        _ => change.short_path.clone(),
    }
}

/// A change with its heading, as `diff -u` would show it.
pub(super) fn diff_with_heading(change: &FileChange) -> String {
    let mut text = format!("── {} ({})\n", change.title, change.scope.name());
    // Links of a project's file stay in the project, so only a user's link is shown.
    if change.target != change.path && change.scope == ConfigScope::User {
        let target = change.target.display().to_string();
        let target = encode_line(&target);
        text += &format!("   a link to {target}\n");
    }
    text += &diff(change);
    if let ChangeOutcome::Write { note: Some(note), .. } = &change.outcome {
        text += &format!("note: {note}\n");
    }
    text + "\n"
}

fn diff(change: &FileChange) -> String {
    let ChangeOutcome::Write { after, .. } = &change.outcome else { return String::new() };
    let missing = "/dev/null";
    let old_name = if change.old_text.is_some() { &*change.short_path } else { missing };
    let new_name = if after.is_some() { &*change.short_path } else { missing };
    let before = change.old_text.as_deref().unwrap_or_default();
    let after = after.as_deref().unwrap_or_default();
    // A diff of a new empty file would have no lines.
    if before == after {
        return format!("--- {old_name}\n+++ {new_name}\n(an empty file)\n");
    }
    let diff = TextDiff::from_lines(before, after);
    let diff = diff.unified_diff().header(old_name, new_name).to_string();
    // Unchanged strings may be secrets of other servers.
    mask_secrets(&encode_console(&diff), |string| before.contains(string) && after.contains(string))
}

/// The line of `--check` for one file; empty if nothing would change.
pub(super) fn check_line(change: &FileChange) -> String {
    let state = match &change.outcome {
        ChangeOutcome::Unchanged => return String::new(),
        ChangeOutcome::Write { .. } if change.mentions_reqlore => "stale",
        ChangeOutcome::Write { .. } => "missing",
        ChangeOutcome::Refused(reason) => return refusal_line(change, reason),
    };
    format!("{state}: {} ({})\n", change.short_path, change.title)
}

pub(super) fn refusal_line(change: &FileChange, reason: &str) -> String {
    format!("cannot edit {} ({}): {reason}\n", change.short_path, change.title)
}

pub(super) fn unsupported_lines(plan: &ChangePlan<'_>) -> String {
    let mut lines = String::new();
    for (client, reason) in &plan.unsupported {
        lines += &format!("cannot configure {}: {reason}\n", client.title());
    }
    lines
}

/// The line of a change after the run.
pub(super) fn result_line(change: &FileChange, is_done: bool, is_removal: bool) -> String {
    let path = &change.short_path;
    match &change.outcome {
        ChangeOutcome::Refused(reason) => refusal_line(change, reason),
        ChangeOutcome::Write { .. } if !is_done => format!("not written: {path}\n"),
        ChangeOutcome::Write { after: None, .. } => format!("removed: {path}\n"),
        ChangeOutcome::Write { .. } => format!("written: {path}\n"),
        ChangeOutcome::Unchanged if is_removal && change.kind == ChangeKind::Scaffold => {
            format!("kept, because it was edited: {path}\n")
        }
        ChangeOutcome::Unchanged if is_removal => String::new(),
        ChangeOutcome::Unchanged => format!("unchanged: {path} ({})\n", change.title),
    }
}

/// The output of `--json`.
pub(super) fn as_json(plan: &ChangePlan<'_>, present: &[Client], written: &[PathBuf]) -> Value {
    let mut clients = Vec::new();
    for client in present {
        clients.push(json!({ "name": client.name(), "title": client.title() }));
    }
    let mut files = Vec::new();
    for change in &plan.changes {
        files.push(change_as_json(change, written.contains(&change.path)));
    }
    for (client, reason) in &plan.unsupported {
        files.push(json!({
            "clients": [client.name()], "scope": null, "path": null, "action": "refused",
            "reason": reason, "diff": "", "written": false,
        }));
    }
    json!({
        "project": plan.environment.project,
        "clients": clients,
        "files": files,
        "warnings": plan.warnings,
    })
}

fn change_as_json(change: &FileChange, is_written: bool) -> Value {
    let (action, reason) = match &change.outcome {
        ChangeOutcome::Unchanged => ("none", None),
        ChangeOutcome::Write { after: None, note } => ("remove", note.as_ref()),
        ChangeOutcome::Write { note, .. } if change.old_text.is_none() => ("create", note.as_ref()),
        ChangeOutcome::Write { note, .. } => ("change", note.as_ref()),
        ChangeOutcome::Refused(reason) => ("refused", Some(reason)),
    };
    let clients: Vec<&str> = change.clients.iter().map(|client| client.name()).collect();
    json!({
        "clients": clients, "scope": change.scope.name(), "path": change.path,
        "action": action, "reason": reason,
        "diff": diff(change), "written": is_written,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn confirmation_follows_each_answer() {
        let answers = |input: &str| {
            let mut confirmation = Confirmation::new(input.as_bytes());
            ["a", "b", "c", "d"].map(|subject| confirmation.confirm(subject))
        };
        assert_eq!(answers("y\nn\nYES\nNo\n"), [true, false, true, false]);
        assert_eq!(answers("n\na\n"), [false, true, true, true]);
        assert_eq!(answers("y\nq\ny\ny\n"), [true, false, false, false]);
        assert_eq!(answers("what\n\ny\nn\nn\nn\n"), [true, false, false, false]);
        assert_eq!(answers("y\n"), [true, false, false, false], "the end of the input is no");
        let mut confirmation = Confirmation::new("y\nn\n".as_bytes());
        assert!(confirmation.confirm(".ixchel/") && confirmation.confirm(".ixchel/"));
        assert!(!confirmation.confirm("AGENTS.md"));
    }
}
