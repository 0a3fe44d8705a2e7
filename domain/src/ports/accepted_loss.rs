//! Acceptance of a storage that lost commits, by `reqlore check --accept-loss`.
//!
//! A storage that lost acknowledged commits, or cannot prove that it has all of them, refuses to
//! open. An acceptance raises its sequences, appends an audit row and makes the remaining content
//! the valid one, in one transaction.

use std::collections::BTreeMap;

use super::archive::{ArchiveRecord, DocumentRecord, HighWaterMark, HistoryRecord};
use super::history::PastContent;
use super::store_error::StoreError;
use super::write_context::WriteContext;
use crate::audit_log::{AuditEvent, AuditTarget};
use crate::backlog::reference::MAX_NUMBER;
use crate::backlog::{ItemKind, Reference};
use crate::project_key::ProjectKey;

/// The result of an acceptance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AcceptedLoss {
    /// The loss as the refusal named it, such as `its -wal file is missing`.
    pub loss: String,
    /// The sequences that were raised.
    pub raised: Vec<HighWaterMark>,
}

impl AcceptedLoss {
    /// The event for the audit log; `None` if `context` is not audited.
    pub fn audit_event(&self, mut context: WriteContext) -> Option<AuditEvent> {
        let mut targets = Vec::new();
        for HighWaterMark { project, kind, number } in &self.raised {
            let reference = Reference { kind: *kind, number: *number };
            let scope = if project.is_default() { String::new() } else { format!(" in {project}") };
            targets.push(AuditTarget::unchanged(format!("numbers up to {reference}{scope}")));
        }
        context.reason.clone_from(&self.loss);
        context.audit_event(None, targets)
    }
}

/// The error of a storage that has all its commits.
pub fn nothing_to_accept(subject: &str) -> StoreError {
    let reason = "has all its commits, so there is no loss to accept; start the server";
    StoreError::Refused { subject: subject.to_owned(), reason: reason.to_owned() }
}

/// A text may mention a number that was never issued. Above this limit it would use up the
/// sequence.
const MAX_MENTIONED_NUMBER: u32 = 1_000_000;

/// The highest numbers that the content of a storage mentions: an item with a higher number was
/// lost without a trace.
#[derive(Debug, Default)]
pub struct KnownReferences {
    by_project: BTreeMap<ProjectKey, HighestNumbers>,
    /// Mentioned without a project, so they are valid for each.
    unscoped: HighestNumbers,
}

/// In the order of [`ItemKind::ALL`].
type HighestNumbers = [u32; ItemKind::ALL.len()];

impl KnownReferences {
    /// Adds the references in a record: its name, its text and everything that these mention.
    pub fn add_record(&mut self, record: &ArchiveRecord) {
        match record {
            ArchiveRecord::Document(DocumentRecord { project, document, entry, .. }) => {
                self.add_reference(project, Reference::from_document(&document.id));
                self.add_text(Some(project), &String::from_utf8_lossy(&document.body));
                self.add_text(Some(project), entry.origin.reason.as_deref().unwrap_or_default());
            }
            ArchiveRecord::HighWaterMark(HighWaterMark { project, kind, number }) => {
                let reference = Reference { kind: *kind, number: *number };
                self.add_reference(project, Some(reference));
            }
            ArchiveRecord::History(HistoryRecord { project, document, entry }) => {
                self.add_reference(project, Reference::from_document(document));
                if let PastContent::Text(text) = &entry.content {
                    self.add_text(Some(project), &String::from_utf8_lossy(text));
                }
                self.add_text(Some(project), entry.origin.reason.as_deref().unwrap_or_default());
            }
            ArchiveRecord::AuditRow(row) => {
                let project = row.parse_event().and_then(|event| event.project);
                self.add_text(project.as_ref(), &row.text);
            }
            ArchiveRecord::User(_) | ArchiveRecord::Token(_) => {}
        }
    }

    /// Adds a reference that was issued.
    pub fn add_reference(&mut self, project: &ProjectKey, reference: Option<Reference>) {
        let numbers = self.by_project.entry(project.clone()).or_default();
        if let Some(Reference { kind, number }) = reference {
            raise(numbers, kind, number.min(MAX_NUMBER));
        }
    }

    /// Adds a reference that was issued in one of the projects.
    pub fn add_unscoped(&mut self, reference: Reference) {
        raise(&mut self.unscoped, reference.kind, reference.number.min(MAX_NUMBER));
    }

    /// Adds the references that a text mentions, in any case and with any suffix. Without a project
    /// they are valid for every project.
    pub fn add_text(&mut self, project: Option<&ProjectKey>, text: &str) {
        let numbers = match project {
            Some(project) => self.by_project.entry(project.clone()).or_default(),
            None => &mut self.unscoped,
        };
        for (hyphen, _) in text.match_indices('-') {
            let (before, after) = (&text[..hyphen], &text[hyphen + 1..]);
            let prefix = &before[before.trim_end_matches(|c: char| c.is_alphanumeric()).len()..];
            let kind =
                ItemKind::ALL.into_iter().find(|kind| kind.prefix().eq_ignore_ascii_case(prefix));
            let end = after.find(|c: char| !c.is_ascii_digit()).unwrap_or(after.len());
            if let (Some(kind), Ok(number)) = (kind, after[..end].parse())
                && number <= MAX_MENTIONED_NUMBER
            {
                raise(numbers, kind, number);
            }
        }
    }

    /// Returns the highest numbers, by project and kind.
    pub fn into_high_water_marks(mut self) -> Vec<HighWaterMark> {
        if self.by_project.is_empty() {
            self.by_project.insert(ProjectKey::default(), self.unscoped);
        }
        let mut marks = Vec::new();
        for (project, numbers) in self.by_project {
            for (at, kind) in ItemKind::ALL.into_iter().enumerate() {
                let number = numbers[at].max(self.unscoped[at]);
                if number > 0 {
                    marks.push(HighWaterMark { project: project.clone(), kind, number });
                }
            }
        }
        marks
    }
}

fn raise(numbers: &mut HighestNumbers, kind: ItemKind, number: u32) {
    for (at, known) in ItemKind::ALL.into_iter().enumerate() {
        if known == kind {
            numbers[at] = numbers[at].max(number);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::{Document, DocumentId, DocumentKind};
    use crate::ports::history::{PastEntry, PresentEntry};
    use crate::ports::write_context::ChangeOrigin;
    use crate::timestamp::Timestamp;

    fn marks_of(known: KnownReferences) -> Vec<(String, String)> {
        let mut marks = Vec::new();
        for HighWaterMark { project, kind, number } in known.into_high_water_marks() {
            marks.push((project.to_string(), Reference { kind, number }.to_string()));
        }
        marks
    }

    fn pair(project: &str, reference: &str) -> (String, String) {
        (project.to_owned(), reference.to_owned())
    }

    #[test]
    fn mentions_of_any_form_are_known_references() {
        let mut known = KnownReferences::default();
        let text =
            "epic: EP-012-3f9a1c\nsee (us-7), `REQ-041`, REQ-99999999, xAC-5, AC-, EP-x, é-3";
        known.add_text(Some(&ProjectKey::default()), text);
        let project = ProjectKey::default().to_string();
        let expected =
            [("EP-012"), ("US-007"), ("REQ-041")].map(|reference| pair(&project, reference));
        assert_eq!(marks_of(known), expected);
    }

    #[test]
    fn records_raise_the_numbers_of_their_project() {
        let (one, two) = (ProjectKey::new("/one"), ProjectKey::new("/two"));
        let id = |name: &str| DocumentId {
            kind: DocumentKind::Item(ItemKind::Epic),
            name: name.to_owned(),
        };
        let mut known = KnownReferences::default();
        known.add_record(&ArchiveRecord::Document(DocumentRecord {
            project: one.clone(),
            document: Document::new(id("EP-1000001"), "REQ-2".into()),
            modified: Timestamp::default(),
            path: None,
            entry: PresentEntry::default(),
        }));
        known.add_record(&ArchiveRecord::History(HistoryRecord {
            project: two.clone(),
            document: id("EP-003"),
            entry: PastEntry {
                number: 1,
                at: Timestamp::default(),
                ended: Timestamp::default(),
                origin: ChangeOrigin {
                    reason: Some("after US-9".to_owned()),
                    ..Default::default()
                },
                content: PastContent::Text("REQ-5".into()),
            },
        }));
        known.add_text(None, "REQ-4");
        let expected = [
            pair("/one", "EP-1000001"),
            pair("/one", "REQ-004"),
            pair("/two", "EP-003"),
            pair("/two", "US-009"),
            pair("/two", "REQ-005"),
        ];
        assert_eq!(marks_of(known), expected);
    }
}
