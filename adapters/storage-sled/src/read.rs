//! Read queries on the trees. The caller holds the read gate.
//!
//! A damaged value affects the reads of one document only: lists still contain it, with a
//! diagnostic instead of its metadata, and it is never reported as missing. Every damage disables
//! writes.

use std::collections::BTreeSet;
use std::ops::Bound;
use std::sync::Arc;

use bytes::Bytes;
use reqlore_domain::document::{Document, DocumentId, DocumentKind, DocumentMeta, Version};
use reqlore_domain::ports::change_page::{ChangePage, ChangePosition};
use reqlore_domain::ports::documents::{
    BacklinkQuery, DocumentFilter, MetadataPage, Revision, SharedMetadata, StoreResult,
};
use reqlore_domain::project_key::ProjectKey;
use reqlore_domain::timestamp::Timestamp;
use sled::IVec;

use crate::database::{
    BODIES, DELETIONS, DOCUMENTS, HISTORY, LINKS, PROJECTS, REFERENCES, SledDatabase, WRITERS,
    WriteStop,
};
use crate::error::{damaged_database, damaged_document, damaged_value, from_sled};
use crate::records::{
    DocumentRow, ProjectRow, damaged_row, decode, document_key, kind_prefix, link_prefix,
    parse_change_key, parse_name, piece_key, reference_prefix, revision_prefix, unseal_value,
};

impl SledDatabase {
    /// Returns the default row for a project that is not stored.
    pub(crate) fn project_row(&self, project: &ProjectKey) -> StoreResult<ProjectRow> {
        let key = project.as_str().as_bytes();
        let Some(value) = self.get(PROJECTS, key)? else { return Ok(ProjectRow::default()) };
        ProjectRow::decode(key, &value).ok_or_else(|| damaged_database("a project's row"))
    }

    pub(crate) fn read_documents(
        &self,
        project: u32,
        ids: &[DocumentId],
    ) -> StoreResult<Vec<Option<Document>>> {
        let mut documents = Vec::with_capacity(ids.len());
        for id in ids {
            documents.push(self.read_document(project, id)?);
        }
        Ok(documents)
    }

    fn read_document(&self, project: u32, id: &DocumentId) -> StoreResult<Option<Document>> {
        let key = document_key(project, id);
        let Some(row) = self.document_row(&key, id)? else { return Ok(None) };
        let body = self.read_body(&key, &row, id)?;
        Ok(Some(Document { id: id.clone(), body, version: row.version }))
    }

    pub(crate) fn document_row(
        &self,
        key: &[u8],
        id: &DocumentId,
    ) -> StoreResult<Option<DocumentRow>> {
        let Some(value) = self.get(DOCUMENTS, key)? else { return Ok(None) };
        match DocumentRow::decode(key, &value) {
            Some(row) => Ok(Some(row)),
            None => Err(damaged_document(id)),
        }
    }

    pub(crate) fn read_body(
        &self,
        key: &[u8],
        row: &DocumentRow,
        id: &DocumentId,
    ) -> StoreResult<Bytes> {
        let mut body = Vec::new();
        for piece in 0..row.body_pieces() {
            let key = piece_key(key, piece);
            let Some(value) = self.get(BODIES, &key)? else { return Err(damaged_document(id)) };
            let Some(payload) = unseal_value(&key, &value) else {
                return Err(damaged_document(id));
            };
            body.extend_from_slice(payload);
        }
        // The row and the pieces have separate checksums, so a missing last piece shows here.
        if body.len() as u64 != row.length {
            return Err(damaged_document(id));
        }
        Ok(body.into())
    }

    pub(crate) fn read_versions(
        &self,
        project: u32,
        ids: &[DocumentId],
    ) -> StoreResult<Vec<Option<Version>>> {
        let mut versions = Vec::with_capacity(ids.len());
        for id in ids {
            let key = document_key(project, id);
            let Some(value) = self.get(DOCUMENTS, &key)? else {
                versions.push(None);
                continue;
            };
            let row = DocumentRow::decode(&key, &value);
            if row.is_none() {
                self.stop_writes(WriteStop::Damaged, &damaged_document(id));
            }
            // A damaged document exists: its version is unknown, not absent.
            let version = row.map_or(Version::UNREADABLE, |row| row.version);
            versions.push(Some(version));
        }
        Ok(versions)
    }

    pub(crate) fn find_metadata(
        &self,
        project: &ProjectRow,
        filter: &DocumentFilter,
    ) -> StoreResult<MetadataPage> {
        let limit = filter.limit;
        // One row beyond the limit shows whether there is another page.
        let rows = limit.saturating_add(1);
        let after = filter.after_name.as_deref();
        let mut metadata = self.list_metadata(project.id, filter.kind, after, rows)?;
        let has_more = metadata.len() > limit;
        metadata.truncate(limit);
        let next = match metadata.last() {
            Some(last) if has_more => Some(last.id.name.clone()),
            _ => None,
        };
        Ok(MetadataPage { metadata, next_name: next, unread: Vec::new() })
    }

    /// Returns at most `limit` documents of a kind, sorted by name.
    pub(crate) fn list_metadata(
        &self,
        project: u32,
        kind: DocumentKind,
        after: Option<&str>,
        limit: usize,
    ) -> StoreResult<Vec<Arc<DocumentMeta>>> {
        let mut metadata = Vec::new();
        for entry in self.document_entries(project, kind, after).take(limit) {
            let (id, key, value) = entry?;
            metadata.push(Arc::new(self.entry_meta(id, &key, &value)));
        }
        Ok(metadata)
    }

    /// Returns ids, keys and values of the documents of a kind after a name, sorted by name.
    pub(crate) fn document_entries(
        &self,
        project: u32,
        kind: DocumentKind,
        after: Option<&str>,
    ) -> impl Iterator<Item = StoreResult<(DocumentId, IVec, IVec)>> + use<> {
        let prefix = kind_prefix(project, kind);
        let start = match after {
            None => Bound::Included(prefix.clone()),
            Some(name) => Bound::Excluded([&prefix, name.as_bytes()].concat()),
        };
        let entries = self.tree(DOCUMENTS).range((start, Bound::Unbounded));
        entries.map_while(move |entry| {
            let (key, value) = match entry {
                Ok(entry) => entry,
                Err(error) => return Some(Err(from_sled(error))),
            };
            // A key of another kind or project ends the iteration.
            let name = key.strip_prefix(&prefix[..])?;
            Some(match parse_name(name) {
                Some(name) => Ok((DocumentId { kind, name }, key, value)),
                None => Err(damaged_database("a name is not text")),
            })
        })
    }

    /// Returns the metadata of a stored document, or a placeholder if it is damaged.
    fn entry_meta(&self, id: DocumentId, key: &[u8], value: &[u8]) -> DocumentMeta {
        let mut modified = Timestamp::default();
        if let Some(row) = DocumentRow::decode(key, value) {
            if let Some(meta) = self.row_meta(&id, key, &row) {
                return meta;
            }
            modified = row.modified;
        }
        self.stop_writes(WriteStop::Damaged, &damaged_document(&id));
        DocumentMeta::placeholder(id, Version::UNREADABLE, modified, damaged_value())
    }

    /// Returns `None` if the metadata is damaged.
    pub(crate) fn row_meta(
        &self,
        id: &DocumentId,
        key: &[u8],
        row: &DocumentRow,
    ) -> Option<DocumentMeta> {
        if !row.meta.is_empty() {
            return postcard::from_bytes(&row.meta).ok();
        }
        // The row has no room for large metadata, so it is derived from the body.
        let body = self.read_body(key, row, id).ok()?;
        let document = Document { id: id.clone(), body, version: row.version };
        Some(DocumentMeta::from_document(&document, row.modified))
    }

    fn document_meta(&self, project: u32, id: DocumentId) -> StoreResult<Option<DocumentMeta>> {
        let key = document_key(project, &id);
        match self.get(DOCUMENTS, &key)? {
            Some(value) => Ok(Some(self.entry_meta(id, &key, &value))),
            None => Ok(None),
        }
    }

    pub(crate) fn lookup_metadata(
        &self,
        project: u32,
        kind: DocumentKind,
        word: &str,
    ) -> StoreResult<Vec<Arc<DocumentMeta>>> {
        let mut names = BTreeSet::from([word.to_owned()]);
        // No reference contains NUL, and a prefix with NUL would match parts of other keys.
        if !word.contains('\0') {
            let prefix = reference_prefix(project, kind, word);
            for key in self.tree(REFERENCES).scan_prefix(&prefix).keys() {
                let key = key.map_err(from_sled)?;
                names.extend(parse_name(&key[prefix.len()..]));
            }
        }
        let mut metadata = Vec::new();
        for name in names {
            if let Some(meta) = self.document_meta(project, DocumentId { kind, name })? {
                metadata.push(Arc::new(meta));
            }
        }
        Ok(metadata)
    }

    pub(crate) fn backlinks(
        &self,
        project: u32,
        query: &BacklinkQuery,
    ) -> StoreResult<Vec<Vec<Arc<DocumentMeta>>>> {
        let (mut backlinks, mut shared) = (Vec::new(), SharedMetadata::default());
        for target in &query.targets {
            let mut sources = Vec::new();
            for kind in DocumentKind::ALL {
                if query.kinds.contains(&kind) {
                    self.add_backlinks(project, kind, target, &mut sources)?;
                }
            }
            shared.share(&mut sources);
            backlinks.push(sources);
        }
        Ok(backlinks)
    }

    /// Appends the documents of one kind that link to the target.
    fn add_backlinks(
        &self,
        project: u32,
        kind: DocumentKind,
        target: &str,
        sources: &mut Vec<Arc<DocumentMeta>>,
    ) -> StoreResult<()> {
        let prefix = link_prefix(project, kind, target);
        for key in self.tree(LINKS).scan_prefix(&prefix).keys() {
            let key = key.map_err(from_sled)?;
            let Some(name) = parse_name(&key[prefix.len()..]) else { continue };
            let Some(meta) = self.document_meta(project, DocumentId { kind, name })? else {
                continue;
            };
            if may_link(&meta, target) {
                sources.push(Arc::new(meta));
            }
        }
        Ok(())
    }

    /// Returns a page of changes. A document that was deleted and put again is in both trees.
    pub(crate) fn changes_since(
        &self,
        project: &ProjectRow,
        since: Option<ChangePosition>,
        limit: usize,
    ) -> StoreResult<ChangePage> {
        let current = ChangePosition {
            store_id: u128::from_be_bytes(self.database_id.0),
            writer_id: project.writer_id,
            revision: Revision(project.revision),
        };
        let known = since.filter(|since| {
            since.store_id == current.store_id
                && since.revision <= current.revision
                && since.revision.0 >= project.complete_from
        });
        let Some(since) = known else { return Ok(ChangePage::Reset { position: current }) };
        // The common poll reads no other row.
        let writer_id = if since.revision == current.revision {
            current.writer_id
        } else {
            self.writer_of(project.id, since.revision)?
        };
        if since.writer_id != writer_id {
            return Ok(ChangePage::Reset { position: current });
        }
        let first = revision_prefix(project.id, since.revision.0.saturating_add(1));
        let [mut puts, mut deletions] = [HISTORY, DELETIONS].map(|tree| {
            let prefix = project.id.to_be_bytes();
            let keys = self.tree(tree).range(&first[..]..).keys();
            let in_project = move |key: &sled::Result<IVec>| {
                key.as_ref().map_or(true, |key| key.starts_with(&prefix))
            };
            keys.take_while(in_project).peekable()
        });
        let changes = std::iter::from_fn(|| {
            let key = match (puts.peek(), deletions.peek()) {
                (Some(Ok(put)), Some(Ok(deletion))) if put > deletion => deletions.next()?,
                (Some(_), _) => puts.next()?,
                (None, _) => deletions.next()?,
            };
            Some(key.map_err(from_sled).and_then(|key| match parse_change_key(&key) {
                Some((revision, id)) => Ok((Revision(revision), id)),
                None => Err(damaged_database("a key of a change")),
            }))
        });
        ChangePage::select(changes, limit, current, |last| self.writer_of(project.id, last))
    }

    /// Returns the writer of a revision that is not later than the present one.
    pub(crate) fn writer_of(&self, project: u32, revision: Revision) -> StoreResult<u64> {
        let first = revision_prefix(project, 0);
        let last = revision_prefix(project, revision.0);
        match self.tree(WRITERS).range(first..=last).next_back() {
            None => Ok(0),
            Some(row) => {
                let (key, value) = row.map_err(from_sled)?;
                decode(&key, &value).ok_or_else(|| damaged_row(WRITERS))
            }
        }
    }
}

/// Confirms a hit of [`LINKS`], because targets with the same hash share a key. A damaged document
/// is kept: its metadata cannot be read, and its key shows that it linked to the target.
fn may_link(meta: &DocumentMeta, target: &str) -> bool {
    meta.version == Version::UNREADABLE || meta.links().iter().any(|(_, link)| link == target)
}
