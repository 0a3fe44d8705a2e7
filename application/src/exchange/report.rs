//! The report of an import, before and after it: text, Markdown and data.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use reqlore_domain::bounded_types::truncate_echo;
use reqlore_domain::untrusted_text::encode_line;
use serde::Serialize;

/// The actions and problems of an import.
#[derive(Debug, Clone, Default, Serialize)]
pub struct ImportReport {
    pub format: String,
    /// Reasons for which nothing is imported.
    pub problems: Vec<String>,
    pub created: Vec<ReportedItem>,
    pub updated: Vec<ReportedItem>,
    pub unchanged: usize,
    /// The number of links that the project lacks, which are added.
    pub links: usize,
    /// Edited in the project only, and not replaced.
    pub edited_here: Vec<ReportedItem>,
    /// Edited on both sides, and not replaced.
    pub conflicts: Vec<ReportedItem>,
    /// Records whose item is no longer in the source.
    pub gone: Vec<String>,
    /// Values that were not taken, or were taken in another form.
    pub notes: Vec<String>,
    /// Texts that are no value of their field, by field. A mapping gives them one.
    pub unknown_values: BTreeMap<String, BTreeSet<String>>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct ReportedItem {
    pub kind: &'static str,
    /// Empty for an item that is not created yet.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub id: String,
    pub title: String,
    pub source: String,
}

impl ImportReport {
    pub(super) fn new(format: &str, notes: Vec<String>) -> Self {
        Self { format: format.to_owned(), notes, ..Self::default() }
    }

    pub(super) fn problem(&mut self, problem: String) {
        self.problems.push(problem);
    }

    /// Keeps a text for the mapping file. Returns true for a new one.
    pub(super) fn add_unknown(&mut self, field: &str, text: &str) -> bool {
        const MAX_UNKNOWN: usize = 100;
        let texts = self.unknown_values.entry(field.to_owned()).or_default();
        let is_new = !texts.contains(text.trim());
        if is_new && texts.len() < MAX_UNKNOWN {
            texts.insert(text.trim().to_owned());
        }
        is_new
    }

    /// The text; in Markdown with headings and lists.
    pub fn text(&self, is_markdown: bool, max_lines: usize) -> String {
        let mut text = String::new();
        let items = |items: &[ReportedItem]| {
            (items.len(), items.iter().take(max_lines).map(ReportedItem::line).collect())
        };
        let texts =
            |texts: &[String]| (texts.len(), texts.iter().take(max_lines).cloned().collect());
        let sections: [(&str, (usize, Vec<String>)); 7] = [
            ("Problems", texts(&self.problems)),
            ("Create", items(&self.created)),
            ("Update", items(&self.updated)),
            ("Edited here, kept", items(&self.edited_here)),
            ("Conflicts, not changed (--update applies the source)", items(&self.conflicts)),
            ("No longer in the source, kept", texts(&self.gone)),
            ("Notes", texts(&self.notes)),
        ];
        for (heading, (count, lines)) in sections {
            if count == 0 {
                continue;
            }
            let (open, bullet) = if is_markdown { ("## ", "- ") } else { ("", "  ") };
            let _ = writeln!(text, "{open}{heading}: {count}");
            for line in &lines {
                let _ = writeln!(text, "{bullet}{}", encode_line(line));
            }
            if count > max_lines {
                let _ = writeln!(text, "{bullet}… and {} more", count - max_lines);
            }
            text.push_str(if is_markdown { "\n" } else { "" });
        }
        for (field, values) in &self.unknown_values {
            let shown = values.iter().take(max_lines);
            let names: Vec<String> = shown.map(|one| format!("{:?}", truncate_echo(one))).collect();
            let more = values.len().saturating_sub(max_lines);
            let more = if more == 0 { String::new() } else { format!(" … and {more} more") };
            let field = encode_line(field);
            let _ = writeln!(text, "Unknown values of {field}: {}{more}", names.join(", "));
        }
        if self.links > 0 {
            let _ = writeln!(text, "Missing links: {}", self.links);
        }
        let _ = writeln!(text, "Unchanged: {}", self.unchanged);
        text
    }
}

impl ReportedItem {
    fn line(&self) -> String {
        let Self { kind, id, title, source } = self;
        let id = if id.is_empty() { String::new() } else { format!(" {id}") };
        format!("{kind}{id} {title:?} ({source})")
    }
}
