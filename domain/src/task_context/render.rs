//! The text form of a context: groups by kind with one heading each, IDs first.
//!
//! Stored texts are indented, so that none of their lines looks like an entry or a heading.

use std::collections::{BTreeMap, BTreeSet};

use super::{ContextEntry, EntryReason, ShownEntry, TaskContext};
use crate::bounded_types::{truncate_echo, truncate_title};
use crate::records::answers::claims::ClaimView;
use crate::records::answers::document_label::SECTION_REQUIREMENT;
use crate::records::answers::entry_line::EntryLine;
use crate::records::kinds::KINDS;
use crate::untrusted_text::{encode_line, encode_lines};

const UNCERTAIN_LINE: &str = "Uncertain: no stored text clearly fits the task.\n";
const NOTHING_LINE: &str = "No stored text fits.\n";
/// Maximum bytes of the line that names what is left out. A longer one has the total only.
const MAX_OMITTED_BYTES: usize = 160;
/// After a text of which more is stored.
const CUT_MARK: &str = " …";

/// By kind, the reason that its heading names and its lines leave out.
type EntryReasons = BTreeMap<String, EntryReason>;

/// The lines before the entries of one kind, or before those that are no longer valid.
pub(super) fn heading(first: &ShownEntry, reasons: &EntryReasons) -> String {
    if first.is_ended {
        return "\n## No longer valid\n".to_owned();
    }
    let kind = &first.entry.label.kind;
    let words = kind_words(kind, 2);
    let mut letters = words.chars();
    let initial = letters.next().into_iter().flat_map(char::to_uppercase);
    let title: String = initial.chain(letters).collect();
    match reasons.get(kind) {
        // Each of its lines names the relation.
        Some(EntryReason::Link) | None => format!("\n## {title}\n"),
        Some(reason) => format!("\n## {title} ({})\n", reason.name()),
    }
}

/// The line of an entry, and the first `end` bytes of its text.
pub(super) fn entry_text(
    entry: &ContextEntry,
    end: usize,
    is_ended: bool,
    reasons: &EntryReasons,
) -> String {
    let label = &entry.label;
    let reason = match entry.relation.as_deref().map(truncate_echo) {
        Some(relation) => relation,
        None if !is_ended && reasons.get(&label.kind) == Some(&entry.reason) => "",
        None => entry.reason.name(),
    };
    let title = truncate_title(label.title.as_deref().unwrap_or_default());
    let is_inline = end > 0 && title_end(entry).is_some();
    let line = EntryLine {
        id: &label.id,
        attribute: Some(reason),
        kind: label.kind_word().filter(|_| is_ended),
        status: label.status.as_deref().filter(|status| !status.is_empty()),
        stale: label.stale.as_deref(),
        title: if is_inline { None } else { Some(&title) },
        details: entry.claim.iter().map(ClaimView::text).collect(),
        ..EntryLine::default()
    };
    let mut text = line.render();
    let shown = entry.text[..end].lines().map(str::trim_end).filter(|line| !line.is_empty());
    for (position, line) in shown.enumerate() {
        text.push_str(if position == 0 && is_inline { ": " } else { "\n " });
        text.push_str(&encode_lines(if position == 0 { line.trim_start() } else { line }));
    }
    if (end < entry.text.len() || entry.is_partial) && !text.ends_with('…') {
        text.push_str(CUT_MARK);
    }
    text.push('\n');
    text
}

/// The end of the title in the text of an entry whose title is the beginning of its text.
pub(super) fn title_end(entry: &ContextEntry) -> Option<usize> {
    let title = entry.label.title.as_deref()?.trim_end_matches('…').trim_end();
    let text = entry.text.trim_start();
    let start = entry.text.len() - text.len();
    (!title.is_empty() && text.starts_with(title)).then_some(start + title.len())
}

/// Such as `rules`.
fn kind_words(kind: &str, count: usize) -> String {
    let row = KINDS.iter().find(|row| row.name == kind);
    let [one, several] = match kind {
        SECTION_REQUIREMENT => ["rule", "rules"],
        "section" => ["section", "sections"],
        _ => match row {
            Some(row) => row.words,
            None => return encode_line(truncate_echo(kind)).into_owned(),
        },
    };
    if count == 1 { one } else { several }.to_owned()
}

fn omitted_line(omitted: &BTreeMap<String, usize>) -> String {
    if omitted.is_empty() {
        return String::new();
    }
    let counts: Vec<String> = omitted
        .iter()
        .map(|(kind, count)| format!("{count} {}", kind_words(kind, *count)))
        .collect();
    let line = format!("\nOmitted: {}\n", counts.join(", "));
    if line.len() <= MAX_OMITTED_BYTES {
        return line;
    }
    format!("\nOmitted: {} entries\n", omitted.values().sum::<usize>())
}

/// The bytes that are kept for the first and the last line.
pub(super) fn reserved_bytes(kinds: &BTreeSet<&str>, is_uncertain: bool) -> usize {
    let first = if is_uncertain { UNCERTAIN_LINE } else { NOTHING_LINE };
    let counts: usize = kinds.iter().map(|kind| kind_words(kind, 2).len() + 24).sum();
    first.len() + counts.min(MAX_OMITTED_BYTES)
}

impl TaskContext {
    /// The text with the first `count` entries.
    pub fn text(&self, count: usize) -> String {
        let shown = &self.entries[..count.min(self.entries.len())];
        let mut text = match (shown.is_empty(), self.is_uncertain) {
            (true, _) => NOTHING_LINE.to_owned(),
            (false, true) => UNCERTAIN_LINE.to_owned(),
            (false, false) => String::new(),
        };
        let mut groups: Vec<(String, String)> = Vec::new();
        for one in shown {
            let heading = heading(one, &self.reasons);
            let line = entry_text(&one.entry, one.end, one.is_ended, &self.reasons);
            match groups.iter_mut().find(|(known, _)| *known == heading) {
                Some((_, lines)) => lines.push_str(&line),
                None => groups.push((heading, line)),
            }
        }
        for (heading, lines) in groups {
            text.extend([heading, lines]);
        }
        text.push_str(&omitted_line(&self.omitted_after(count)));
        text.trim().to_owned()
    }

    /// The number of entries by kind that a context of the first `count` entries leaves out.
    pub fn omitted_after(&self, count: usize) -> BTreeMap<String, usize> {
        let mut omitted = self.omitted.clone();
        for one in self.entries.iter().skip(count) {
            *omitted.entry(one.entry.label.kind.clone()).or_default() += 1;
        }
        omitted
    }
}
