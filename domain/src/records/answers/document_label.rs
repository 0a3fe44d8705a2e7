//! The line that names a document in answers of all toolsets.

use crate::backlog::Status;
use crate::document::DocumentMeta;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::entry_line::{EntryLine, RULE};
use crate::records::ended::{Freshness, stale_reason};

/// The kind of a rule in data.
pub const SECTION_REQUIREMENT: &str = "section_requirement";

// A document as answers name it. (A doc comment would become part of the schema.)
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct DocumentLabel {
    // A reference, an entity ID, a section, or a requirement of one.
    pub id: String,
    // `requirement`, `decision`, …; empty if it is unknown because the document is missing.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub kind: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
    /// ID of the successor.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub superseded_by: Option<String>,
    // The reason why it is no longer valid.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(skip)]
    pub stale: Option<String>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[schemars(skip)]
    pub review_overdue: bool,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
}

impl DocumentLabel {
    pub fn from_meta(meta: &DocumentMeta, id: String) -> Self {
        let (kind, title, status, tags) = match (&meta.item, &meta.entity) {
            (Some(item), _) => {
                (item.kind.name(), &item.title, item.status.as_ref().map(Status::name), &*item.tags)
            }
            (None, Some(entity)) => {
                (&*entity.kind, &entity.title, entity.status.as_deref(), &*entity.tags)
            }
            (None, None) => {
                (meta.id.kind.name(), meta.title.as_ref().unwrap_or(&meta.id.name), None, &[][..])
            }
        };
        Self {
            id,
            kind: kind.to_owned(),
            title: Some(title.clone()),
            status: status.map(str::to_owned),
            superseded_by: None,
            stale: status.and_then(|status| stale_reason(Some(status), None)),
            review_overdue: false,
            tags: tags.to_vec(),
        }
    }

    pub fn mark(&mut self, freshness: Freshness) {
        self.superseded_by = freshness.superseded_by;
        self.stale = stale_reason(self.status.as_deref(), self.superseded_by.as_deref());
        self.review_overdue = freshness.is_overdue && self.stale.is_none();
    }

    /// Removes the parts that a caller does not want. The ID stays, and the mark of an ended one.
    pub fn keep(&mut self, has: impl Fn(&str) -> bool) {
        if !has("kind") {
            self.kind.clear();
        }
        self.title.take_if(|_| !has("title"));
        self.status.take_if(|_| !has("status"));
        self.superseded_by.take_if(|_| !has("superseded_by"));
        if !has("tags") {
            self.tags.clear();
        }
    }

    /// Such as `dec-1d2c8f (decision, accepted): Files first [storage, git]`.
    pub fn text(&self) -> String {
        self.text_with("")
    }

    /// The kind as texts name it.
    pub fn kind_word(&self) -> Option<&str> {
        match &*self.kind {
            "" => None,
            SECTION_REQUIREMENT => Some(RULE),
            kind => Some(kind),
        }
    }

    /// The text with an attribute of the link to the document.
    pub fn text_with(&self, attribute: &str) -> String {
        let line = EntryLine {
            id: &self.id,
            attribute: Some(attribute),
            kind: self.kind_word(),
            status: self.status.as_deref(),
            stale: self.stale.as_deref(),
            review_overdue: self.review_overdue,
            title: self.title.as_deref(),
            tags: &self.tags,
            ..EntryLine::default()
        };
        line.render()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn label_text_has_the_status_tags_and_successor() {
        let mut label = DocumentLabel {
            id: "dec-1d2c8f".to_owned(),
            kind: "decision".to_owned(),
            title: Some("Files\nfirst".to_owned()),
            status: Some("accepted".to_owned()),
            superseded_by: None,
            stale: None,
            review_overdue: false,
            tags: vec!["storage".to_owned(), "git".to_owned()],
        };
        let superseded_by = Some("dec-aaaaaa".to_owned());
        label.mark(Freshness { superseded_by, is_overdue: true });
        assert_eq!(
            label.text_with("blocks"),
            "dec-1d2c8f (blocks; decision, accepted, superseded by dec-aaaaaa): \
             Files\\nfirst [storage, git]"
        );
        label.status = Some("superseded".to_owned());
        label.keep(|key| ["kind", "status", "superseded_by"].contains(&key));
        assert_eq!(label.text(), "dec-1d2c8f (decision, superseded by dec-aaaaaa)");
        label.keep(|_| false);
        assert_eq!(label.text(), "dec-1d2c8f (superseded by dec-aaaaaa)");
        label.mark(Freshness { is_overdue: true, ..Freshness::default() });
        assert_eq!(label.text(), "dec-1d2c8f (review overdue)");
        label.status = Some("Rejected".to_owned());
        label.mark(Freshness::default());
        assert_eq!(label.text(), "dec-1d2c8f (Rejected)");
        label.keep(|_| false);
        assert_eq!(label.text(), "dec-1d2c8f (rejected)");
    }
}
