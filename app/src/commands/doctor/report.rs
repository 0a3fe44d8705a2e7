//! The results of doctor, printed as text or JSON.
//!
//! Messages quote untrusted files and servers, so [`clean_line`] is applied to all text.

use reqlore_domain::identity::redact_secrets;
use reqlore_domain::untrusted_text::encode_line;
use serde::Serialize;
use serde_json::{Value, json};

const MAX_TEXT_CHARS: usize = 800;

/// Areas in the order of the report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum ReportArea {
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
enum CheckState {
    Ok,
    Note,
    /// It works, but not as it should.
    Warning,
    /// It does not work.
    Problem,
}

#[derive(Debug, Serialize)]
struct CheckResult {
    area: ReportArea,
    state: CheckState,
    message: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    next: String,
    /// Text that is shown whole.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    lines: Vec<String>,
}

#[derive(Debug, Default)]
pub(super) struct DoctorReport(Vec<CheckResult>);

/// One area of the report. In its methods, `next` is the next step, possibly empty.
#[derive(Debug)]
pub(super) struct AreaReport<'a> {
    results: &'a mut Vec<CheckResult>,
    area: ReportArea,
    /// Prefix of each message: empty, or ends with `: `.
    subject: String,
}

impl AreaReport<'_> {
    /// The same area, with a prefix for messages about one subject.
    pub(super) fn with_subject(&mut self, subject: &str) -> AreaReport<'_> {
        let subject = format!("{subject}: ");
        AreaReport { results: self.results, area: self.area, subject }
    }

    pub(super) fn ok(&mut self, message: impl AsRef<str>) {
        self.add(CheckState::Ok, message.as_ref(), "");
    }

    /// Also shows each line of a text.
    pub(super) fn ok_with_text(&mut self, message: impl AsRef<str>, next: &str, text: &str) {
        self.add(CheckState::Ok, message.as_ref(), next);
        if let Some(result) = self.results.last_mut() {
            result.lines = text.lines().map(clean_line).collect();
        }
    }

    pub(super) fn note(&mut self, message: impl AsRef<str>, next: impl AsRef<str>) {
        self.add(CheckState::Note, message.as_ref(), next.as_ref());
    }

    pub(super) fn warning(&mut self, message: impl AsRef<str>, next: impl AsRef<str>) {
        self.add(CheckState::Warning, message.as_ref(), next.as_ref());
    }

    pub(super) fn problem(&mut self, message: impl AsRef<str>, next: impl AsRef<str>) {
        self.add(CheckState::Problem, message.as_ref(), next.as_ref());
    }

    pub(super) fn is_empty(&self) -> bool {
        self.results.iter().all(|result| result.area != self.area)
    }

    fn add(&mut self, state: CheckState, message: &str, next: &str) {
        let message = clean_line(&format!("{}{message}", self.subject));
        let next = clean_line(next);
        self.results.push(CheckResult { area: self.area, state, message, next, lines: vec![] });
    }
}

impl DoctorReport {
    pub(super) fn area(&mut self, area: ReportArea) -> AreaReport<'_> {
        AreaReport { results: &mut self.0, area, subject: String::new() }
    }

    pub(super) fn has_problems(&self) -> bool {
        self.count_state(CheckState::Problem) > 0
    }

    pub(super) fn as_json(&self) -> Value {
        let (problems, warnings) =
            (self.count_state(CheckState::Problem), self.count_state(CheckState::Warning));
        json!({ "findings": self.results_by_area(), "problems": problems, "warnings": warnings })
    }

    /// One line per result, grouped by area, with the next step below.
    pub(super) fn as_text(&self, is_terminal: bool) -> String {
        let mut text = String::new();
        let mut last_area = None;
        for result in self.results_by_area() {
            if last_area != Some(result.area) {
                text += &format!("{}\n", area_title(result.area));
                last_area = Some(result.area);
            }
            text += &format!("  {} {}\n", state_symbol(result.state, is_terminal), result.message);
            for line in result.lines.iter().chain([&result.next]).filter(|line| !line.is_empty()) {
                text += &format!("       {line}\n");
            }
        }
        text + "\n" + &self.summary_line() + "\n"
    }

    fn results_by_area(&self) -> Vec<&CheckResult> {
        let mut sorted: Vec<&CheckResult> = self.0.iter().collect();
        // The sort is stable, so results of one area stay in the order of the checks.
        sorted.sort_by_key(|result| result.area);
        sorted
    }

    fn summary_line(&self) -> String {
        let problems = self.count_state(CheckState::Problem);
        let warnings = self.count_state(CheckState::Warning);
        match (problems, warnings) {
            (0, 0) => "Nothing to fix.".to_owned(),
            (0, _) => format!("No problems, {}.", plural(warnings, "warning")),
            (_, 0) => format!("{}.", plural(problems, "problem")),
            _ => format!("{}, {}.", plural(problems, "problem"), plural(warnings, "warning")),
        }
    }

    fn count_state(&self, state: CheckState) -> usize {
        self.0.iter().filter(|result| result.state == state).count()
    }
}

fn plural(count: usize, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") }
}

/// One line without secrets and terminal controls.
fn clean_line(text: &str) -> String {
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let text = redact_secrets(&text);
    let text = encode_line(&text);
    match text.char_indices().nth(MAX_TEXT_CHARS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.into_owned(),
    }
}

fn area_title(area: ReportArea) -> &'static str {
    match area {
        ReportArea::Settings => "Settings",
        ReportArea::Program => "Program",
        ReportArea::Storage => "Storage",
        ReportArea::Http => "HTTP server",
        ReportArea::Search => "Search",
        ReportArea::Permissions => "Permissions",
        ReportArea::Clients => "Clients",
        ReportArea::Instructions => "AGENTS.md",
        ReportArea::Git => "Git",
    }
}

/// Files and pipes get ASCII of equal width.
fn state_symbol(state: CheckState, is_terminal: bool) -> &'static str {
    let [unicode, ascii] = match state {
        CheckState::Ok => ["✓", "ok"],
        CheckState::Note => ["·", "- "],
        CheckState::Warning => ["!", "! "],
        CheckState::Problem => ["✗", "x "],
    };
    if is_terminal { unicode } else { ascii }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clean_removes_secrets_and_terminal_controls() {
        let secret = format!("reqlore_pat_abcdefghijkl_{}", "x".repeat(38));
        let text = clean_line(&format!("one\n\x1b[2Jtwo {secret} \u{202e}three"));
        assert_eq!(text, "one \\u{1b}[2Jtwo reqlore_pat_abcdefghijkl_**** \\u{202e}three");
        assert!(clean_line(&"x".repeat(2 * MAX_TEXT_CHARS)).chars().count() <= MAX_TEXT_CHARS + 1);
    }

    #[test]
    fn as_text_groups_results_and_counts_problems() {
        let mut report = DoctorReport::default();
        assert!(report.as_text(true).ends_with("\nNothing to fix.\n"));
        report.area(ReportArea::Git).warning("a", "do b");
        assert!(report.as_text(false).starts_with("Git\n  !  a\n       do b\n"));
        assert!(report.as_text(true).ends_with("\nNo problems, 1 warning.\n"));
        report.area(ReportArea::Settings).problem("c", "do d");
        report.area(ReportArea::Settings).problem("e", "do f");
        assert!(report.as_text(true).starts_with("Settings\n  ✗ c\n"));
        assert!(report.as_text(true).ends_with("\n2 problems, 1 warning.\n"));
    }
}
