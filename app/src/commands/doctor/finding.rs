//! What was found, and how it is told.
//!
//! The trap: messages quote what others wrote (files, servers, programs), so every one is cleaned
//! of control characters and secrets here, in the one place that all of them pass.

use std::fmt::Write as _;

use reqlore_domain::identity::redact;
use serde::Serialize;

use crate::commands::others::steers;
use crate::exit::CommandError;

/// A quoted text is never longer, in characters.
const MOST: usize = 800;

/// What was looked at, in the order in which it is told.
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
pub(super) enum State {
    Ok,
    /// Worth knowing, and nothing to mend.
    Note,
    /// It works, and not as it should.
    Warning,
    /// It does not work.
    Problem,
}

#[derive(Debug, Serialize)]
struct Finding {
    area: Area,
    state: State,
    message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
}

/// All findings, in the order in which they were made.
#[derive(Debug, Default)]
pub(super) struct Findings(Vec<Finding>);

impl Findings {
    pub(super) fn ok(&mut self, area: Area, message: impl AsRef<str>) {
        self.add(area, State::Ok, message.as_ref(), None);
    }

    pub(super) fn note(&mut self, area: Area, message: impl AsRef<str>, next: Option<&str>) {
        self.add(area, State::Note, message.as_ref(), next);
    }

    pub(super) fn warning(&mut self, area: Area, message: impl AsRef<str>, next: &str) {
        self.add(area, State::Warning, message.as_ref(), Some(next));
    }

    pub(super) fn problem(&mut self, area: Area, message: impl AsRef<str>, next: &str) {
        self.add(area, State::Problem, message.as_ref(), Some(next));
    }

    pub(super) fn has_problems(&self) -> bool {
        self.count(State::Problem) > 0
    }

    /// How many there are of an area so far.
    pub(super) fn count_of(&self, area: Area) -> usize {
        self.0.iter().filter(|finding| finding.area == area).count()
    }

    pub(super) fn as_json(&self) -> Result<String, CommandError> {
        #[derive(Serialize)]
        struct Report<'a> {
            findings: Vec<&'a Finding>,
            problems: usize,
            warnings: usize,
        }
        let (problems, warnings) = (self.count(State::Problem), self.count(State::Warning));
        let findings = self.sorted();
        let text = serde_json::to_string_pretty(&Report { findings, problems, warnings });
        Ok(text.map_err(|error| CommandError::refused(error.to_string()))? + "\n")
    }

    /// Grouped by area, a line each, with the next step beneath it.
    pub(super) fn as_text(&self, is_terminal: bool) -> String {
        let mut text = String::new();
        let mut area = None;
        for finding in self.sorted() {
            // Writing to a string does not fail.
            if area.replace(finding.area) != Some(finding.area) {
                let _ = writeln!(text, "{}", name(finding.area));
            }
            let _ = writeln!(text, "  {} {}", mark(finding.state, is_terminal), finding.message);
            if let Some(next) = &finding.next {
                let _ = writeln!(text, "       {next}");
            }
        }
        let _ = writeln!(text, "\n{}", self.sum());
        text
    }

    fn sorted(&self) -> Vec<&Finding> {
        let mut found: Vec<&Finding> = self.0.iter().collect();
        found.sort_by_key(|finding| finding.area);
        found
    }

    fn sum(&self) -> String {
        let number = |count, what| match count {
            1 => format!("1 {what}"),
            count => format!("{count} {what}s"),
        };
        match (self.count(State::Problem), self.count(State::Warning)) {
            (0, 0) => "Nothing to mend.".to_owned(),
            (0, warnings) => format!("No problem, {}.", number(warnings, "warning")),
            (problems, 0) => format!("{}.", number(problems, "problem")),
            (problems, warnings) => {
                format!("{}, {}.", number(problems, "problem"), number(warnings, "warning"))
            }
        }
    }

    fn count(&self, state: State) -> usize {
        self.0.iter().filter(|finding| finding.state == state).count()
    }

    fn add(&mut self, area: Area, state: State, message: &str, next: Option<&str>) {
        let next = next.map(clean);
        self.0.push(Finding { area, state, message: clean(message), next });
    }
}

/// One line without secrets, and without what a terminal would take for more than a text.
fn clean(text: &str) -> String {
    let words: String = text.chars().map(|c| if steers(c) { ' ' } else { c }).collect();
    let words = words.split_whitespace().collect::<Vec<_>>().join(" ");
    let words = redact(&words);
    match words.char_indices().nth(MOST) {
        Some((end, _)) => format!("{}…", &words[..end]),
        None => words.into_owned(),
    }
}

fn name(area: Area) -> &'static str {
    match area {
        Area::Settings => "Settings",
        Area::Program => "Program",
        Area::Storage => "Storage",
        Area::Http => "Server over http",
        Area::Search => "Search",
        Area::Permissions => "Permissions",
        Area::Clients => "Clients",
        Area::Instructions => "AGENTS.md",
        Area::Git => "Git",
    }
}

/// Files and pipes get ASCII, all of one width.
fn mark(state: State, is_terminal: bool) -> &'static str {
    match (state, is_terminal) {
        (State::Ok, true) => "✓",
        (State::Ok, false) => "ok",
        (State::Note, true) => "·",
        (State::Note, false) => "- ",
        (State::Warning, true) => "!",
        (State::Warning, false) => "! ",
        (State::Problem, true) => "✗",
        (State::Problem, false) => "x ",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_one_line_without_secrets_and_orders_to_a_terminal() {
        let secret = format!("reqlore_pat_abcdefghijkl_{}", "x".repeat(38));
        let text = clean(&format!("one\n\x1b[2Jtwo {secret} \u{202e}three"));
        assert_eq!(text, "one [2Jtwo reqlore_pat_abcdefghijkl_**** three");
        assert!(clean(&"x".repeat(2 * MOST)).chars().count() <= MOST + 1);
    }

    #[test]
    fn the_last_line_counts_what_is_to_mend() {
        let mut findings = Findings::default();
        assert!(findings.as_text(true).ends_with("\nNothing to mend.\n"));
        findings.warning(Area::Git, "a", "do b");
        assert!(findings.as_text(false).starts_with("Git\n  !  a\n       do b\n"));
        assert!(findings.as_text(true).ends_with("\nNo problem, 1 warning.\n"));
        findings.problem(Area::Settings, "c", "do d");
        findings.problem(Area::Settings, "e", "do f");
        assert!(findings.as_text(true).starts_with("Settings\n  ✗ c\n"));
        assert!(findings.as_text(true).ends_with("\n2 problems, 1 warning.\n"));
    }
}
