//! Doctor's findings, printed as text or JSON.
//!
//! Messages quote files, servers and programs, so all text is cleaned here.

use reqlore_domain::identity::redact;
use serde::Serialize;
use serde_json::{Value, json};

use crate::commands::untrusted_text::is_terminal_control;

const MAX_TEXT_CHARS: usize = 800;

/// Areas in the order of the report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Area {
    Settings,
    Program,
    Storage,
    Http,
    Search,
    Permissions,
    Clients,
    Instructions,
    Git,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum State {
    Ok,
    Note,
    /// It works, but not as it should.
    Warning,
    /// It does not work.
    Problem,
}

#[derive(Debug, Serialize)]
struct Finding {
    area: Area,
    state: State,
    message: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    next: String,
}

#[derive(Debug, Default)]
pub(super) struct Report(Vec<Finding>);

/// The part of the report to which one check adds. `next` is the next step, possibly empty.
#[derive(Debug)]
pub(super) struct AreaReport<'a> {
    findings: &'a mut Vec<Finding>,
    area: Area,
    /// Starts each message: empty, or ends with `: `.
    subject: String,
}

impl AreaReport<'_> {
    /// The same part for findings about one subject.
    pub(super) fn about(&mut self, subject: &str) -> AreaReport<'_> {
        let subject = format!("{subject}: ");
        AreaReport { findings: self.findings, area: self.area, subject }
    }

    pub(super) fn ok(&mut self, message: impl AsRef<str>) {
        self.add(State::Ok, message.as_ref(), "");
    }

    pub(super) fn note(&mut self, message: impl AsRef<str>, next: impl AsRef<str>) {
        self.add(State::Note, message.as_ref(), next.as_ref());
    }

    pub(super) fn warning(&mut self, message: impl AsRef<str>, next: impl AsRef<str>) {
        self.add(State::Warning, message.as_ref(), next.as_ref());
    }

    pub(super) fn problem(&mut self, message: impl AsRef<str>, next: impl AsRef<str>) {
        self.add(State::Problem, message.as_ref(), next.as_ref());
    }

    pub(super) fn is_empty(&self) -> bool {
        self.findings.iter().all(|finding| finding.area != self.area)
    }

    fn add(&mut self, state: State, message: &str, next: &str) {
        let message = clean(&format!("{}{message}", self.subject));
        let next = clean(next);
        self.findings.push(Finding { area: self.area, state, message, next });
    }
}

impl Report {
    pub(super) fn area(&mut self, area: Area) -> AreaReport<'_> {
        AreaReport { findings: &mut self.0, area, subject: String::new() }
    }

    pub(super) fn has_problems(&self) -> bool {
        self.count(State::Problem) > 0
    }

    pub(super) fn as_json(&self) -> Value {
        let (problems, warnings) = (self.count(State::Problem), self.count(State::Warning));
        json!({ "findings": self.sorted(), "problems": problems, "warnings": warnings })
    }

    /// One line per finding, grouped by area, with the next step below.
    pub(super) fn as_text(&self, is_terminal: bool) -> String {
        let mut text = String::new();
        let mut area = None;
        for Finding { area: of, state, message, next } in self.sorted() {
            if area.replace(*of) != Some(*of) {
                text += &format!("{}\n", title(*of));
            }
            text += &format!("  {} {message}\n", symbol(*state, is_terminal));
            if !next.is_empty() {
                text += &format!("       {next}\n");
            }
        }
        text + "\n" + &self.summary() + "\n"
    }

    fn sorted(&self) -> Vec<&Finding> {
        let mut sorted: Vec<&Finding> = self.0.iter().collect();
        sorted.sort_by_key(|finding| finding.area);
        sorted
    }

    fn summary(&self) -> String {
        let number = |count, what| format!("{count} {what}{}", if count == 1 { "" } else { "s" });
        let (problems, warnings) = (self.count(State::Problem), self.count(State::Warning));
        match (number(problems, "problem"), number(warnings, "warning")) {
            _ if problems + warnings == 0 => "Nothing to fix.".to_owned(),
            (_, warnings) if problems == 0 => format!("No problem, {warnings}."),
            (problems, _) if warnings == 0 => format!("{problems}."),
            (problems, warnings) => format!("{problems}, {warnings}."),
        }
    }

    fn count(&self, state: State) -> usize {
        self.0.iter().filter(|finding| finding.state == state).count()
    }
}

/// One line without secrets and terminal controls.
fn clean(text: &str) -> String {
    let text: String = text.chars().map(|c| if is_terminal_control(c) { ' ' } else { c }).collect();
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let text = redact(&text);
    match text.char_indices().nth(MAX_TEXT_CHARS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.into_owned(),
    }
}

fn title(area: Area) -> &'static str {
    match area {
        Area::Settings => "Settings",
        Area::Program => "Program",
        Area::Storage => "Storage",
        Area::Http => "HTTP server",
        Area::Search => "Search",
        Area::Permissions => "Permissions",
        Area::Clients => "Clients",
        Area::Instructions => "AGENTS.md",
        Area::Git => "Git",
    }
}

/// Files and pipes get ASCII of one width.
fn symbol(state: State, is_terminal: bool) -> &'static str {
    let [unicode, ascii] = match state {
        State::Ok => ["✓", "ok"],
        State::Note => ["·", "- "],
        State::Warning => ["!", "! "],
        State::Problem => ["✗", "x "],
    };
    if is_terminal { unicode } else { ascii }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clean_removes_secrets_and_terminal_controls() {
        let secret = format!("reqlore_pat_abcdefghijkl_{}", "x".repeat(38));
        let text = clean(&format!("one\n\x1b[2Jtwo {secret} \u{202e}three"));
        assert_eq!(text, "one [2Jtwo reqlore_pat_abcdefghijkl_**** three");
        assert!(clean(&"x".repeat(2 * MAX_TEXT_CHARS)).chars().count() <= MAX_TEXT_CHARS + 1);
    }

    #[test]
    fn as_text_groups_and_counts_findings() {
        let mut report = Report::default();
        assert!(report.as_text(true).ends_with("\nNothing to fix.\n"));
        report.area(Area::Git).warning("a", "do b");
        assert!(report.as_text(false).starts_with("Git\n  !  a\n       do b\n"));
        assert!(report.as_text(true).ends_with("\nNo problem, 1 warning.\n"));
        report.area(Area::Settings).problem("c", "do d");
        report.area(Area::Settings).problem("e", "do f");
        assert!(report.as_text(true).starts_with("Settings\n  ✗ c\n"));
        assert!(report.as_text(true).ends_with("\n2 problems, 1 warning.\n"));
    }
}
