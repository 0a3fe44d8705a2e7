//! Parses and edits the items and entities of a commit.

use reqlore_domain::backlog::ItemMeta;
use reqlore_domain::document::{Document, DocumentKind, DocumentMeta};
use reqlore_domain::error::{Error, ErrorKind, Result};
use reqlore_domain::knowledge::Entity;
use reqlore_domain::records::edit::{RecordEdit, edit_record};
use reqlore_domain::records::tombstone::RecordRef;
use reqlore_domain::timestamp::Timestamp;

use crate::backlog::item_lookup;
use crate::documents::document_text;

/// The metadata of an item or entity.
pub(crate) enum StoredRecord {
    Item(ItemMeta),
    Entity(Entity),
}

impl StoredRecord {
    /// Parses a document. Missing times come from its earlier metadata.
    pub(crate) fn parse(meta: &DocumentMeta, document: &Document) -> Result<Self> {
        let text = document_text(document)?;
        Ok(match meta.entity {
            // A diagnostic is ignored: an edit rejects front matter that it cannot edit.
            Some(_) => Self::Entity(Entity::parse(&document.id.name, text).0),
            None => Self::Item(item_lookup::parse_item(meta, document, text)),
        })
    }

    /// Parses a document of a commit. `at` is the default for missing times.
    pub(crate) fn parse_new(document: &Document, at: Timestamp) -> Result<Self> {
        let (name, text) = (&document.id.name, document_text(document)?);
        Ok(match document.id.kind {
            DocumentKind::Item(kind) => Self::Item(ItemMeta::parse(kind, name, text, at).0),
            _ => Self::Entity(Entity::parse(name, text).0),
        })
    }

    pub(crate) fn as_ref(&self) -> RecordRef<'_> {
        match self {
            Self::Item(item) => item.into(),
            Self::Entity(entity) => entity.into(),
        }
    }

    /// The reference or ID, or the document's name for an item without one.
    pub(crate) fn name(&self, document: &Document) -> String {
        match self {
            Self::Item(item) => item.display_name(&document.id.name).into_owned(),
            Self::Entity(entity) => entity.id.clone(),
        }
    }

    /// Returns the edited document; `None` if the edit has no effect.
    pub(crate) fn edit(
        &self,
        document: &Document,
        edit: &RecordEdit,
        at: Timestamp,
    ) -> Result<Option<Document>> {
        let edited = edit_record(self.as_ref(), document_text(document)?, edit, at);
        let edited = edited.map_err(|problem| {
            let message = format!("{}: {problem}. Nothing was changed.", document.id);
            Error::new(ErrorKind::Refused, message).reference(self.name(document))
        })?;
        Ok(edited.map(|edited| Document::new(document.id.clone(), edited.into())))
    }
}

/// Returns a document of a commit, or an error if it was deleted after the lookup. `field` is the
/// argument that names it.
pub(crate) fn require_document<'d>(
    document: Option<&'d Document>,
    name: &str,
    field: &str,
) -> Result<&'d Document> {
    document.ok_or_else(|| {
        let message = format!("{name} was just deleted; nothing was changed");
        Error::new(ErrorKind::NotFound, message).field(field).reference(name)
    })
}
