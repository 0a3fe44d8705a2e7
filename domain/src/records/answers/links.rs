//! The links of a document in both directions.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::cut_report::CutReport;
use super::document_label::DocumentLabel;
use crate::backlog::{Reference, inverse_relation};
use crate::records::ended::was_never_valid;
use crate::untrusted_text::encode_line;

/// Incoming links of one answer.
pub const MAX_INCOMING: usize = 50;
/// A link of a document, as seen from it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct LinkEntry {
    /// `mentions`, a relationship type, or a key of an entity's front matter.
    pub relation: String,
    /// The type of a link in the front matter, such as `blocks` under `depends_on`.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub attribute: Option<String>,
    /// The other end.
    #[serde(flatten)]
    pub label: DocumentLabel,
    /// True if no document, or several, have the ID.
    #[serde(skip)]
    pub is_missing: bool,
}

/// In the place of the title of a missing target.
pub const MISSING: &str = "(missing)";

// The links of a document. (A doc comment would become part of the schema.)
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct LinkList {
    #[schemars(with = "Vec<Map<String, Value>>")]
    pub outgoing: Vec<LinkEntry>,
    /// At most 50, by relation.
    #[schemars(with = "Vec<Map<String, Value>>")]
    pub incoming: Vec<LinkEntry>,
    pub incoming_total: usize,
}

impl LinkList {
    pub fn new(outgoing: Vec<LinkEntry>, mut incoming: Vec<LinkEntry>) -> Self {
        let incoming_total = incoming.len();
        // Counted before the cut, so that a reader knows that links are missing.
        incoming.truncate(MAX_INCOMING);
        Self { outgoing, incoming, incoming_total }
    }

    /// The line of each link.
    pub fn text_lines(&self) -> Vec<String> {
        let mut lines = Vec::with_capacity(self.outgoing.len() + self.incoming.len());
        for link in &self.outgoing {
            lines.push(link.outgoing_text());
        }
        for link in &self.incoming {
            lines.push(link.incoming_text());
        }
        lines
    }

    /// Names the number of incoming links that are not in the list.
    pub fn total_line(&self) -> Option<String> {
        let (shown, total) = (self.incoming.len(), self.incoming_total);
        (shown < total).then(|| format!("({shown} of {total} incoming links)"))
    }
}

impl LinkEntry {
    /// Such as `depends on bd-6af4f1 (blocks; issue, open): Title`.
    pub fn outgoing_text(&self) -> String {
        let words = self.relation.replace('_', " ");
        self.text(&words, self.attribute.as_deref().unwrap_or_default())
    }

    /// Such as `needed by bd-6af4f1 (issue, open): Title`.
    pub fn incoming_text(&self) -> String {
        match (self.relation.as_str(), self.attribute.as_deref()) {
            // The source waits for this document.
            ("depends_on", Some("blocks")) => self.text("blocks", ""),
            (relation, attribute) => {
                self.text(&inverse_relation(relation), attribute.unwrap_or_default())
            }
        }
    }

    pub fn text(&self, words: &str, attribute: &str) -> String {
        let is_entity = Reference::parse(&self.label.id).is_none();
        let is_proposal = words == "superseded by"
            && is_entity
            && self.label.status.as_deref().is_some_and(was_never_valid);
        let words = if is_proposal { "would be superseded by" } else { words };
        let label = self.label.text_with(attribute);
        let missing = if self.is_missing { format!(": {MISSING}") } else { String::new() };
        format!("{} {label}{missing}", encode_line(words))
    }
}

// The answer of `ixchel_graph`, with IDs as the document spells them.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct EntityGraph {
    #[serde(flatten)]
    pub label: DocumentLabel,
    /// Links, by relation.
    pub outgoing: Vec<OutgoingLinks>,
    /// Backlinks from all toolsets, by relation.
    pub incoming: Vec<IncomingLinks>,
    pub incoming_total: usize,
    #[serde(flatten)]
    pub cut: CutReport,
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct OutgoingLinks {
    /// Front matter key.
    #[serde(rename = "rel")]
    pub relation: String,
    /// A title is null if the target is missing.
    pub targets: Vec<LinkedDocument>,
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct IncomingLinks {
    /// As in outgoing, or "mentions" for mentions in texts.
    #[serde(rename = "rel")]
    pub relation: String,
    pub sources: Vec<LinkedDocument>,
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct LinkedDocument {
    #[serde(flatten)]
    pub label: DocumentLabel,
    /// Such as blocks under depends_on.
    #[serde(rename = "type", default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", extend("default" = ""))]
    pub attribute: Option<String>,
    // Null in the place of the title of a missing document.
    #[serde(rename = "title", skip_deserializing, skip_serializing_if = "Option::is_none")]
    #[schemars(skip)]
    pub missing_title: Option<()>,
}
