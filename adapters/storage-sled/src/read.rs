//! The questions of the port, answered from the trees. The caller holds the gate.
//!
//! A damaged value is a diagnostic of one document: lists are complete, and the document does not
//! pass for a missing one.

use std::collections::BTreeSet;
use std::ops::Bound;
use std::sync::Arc;

use bytes::Bytes;
use reqlore_domain::document::{Document, DocumentId, DocumentKind, DocumentMeta, Version};
use reqlore_domain::ports::documents::{
    BacklinkQuery, ChangeSet, DocumentFilter, MetadataPage, Revision, StoreResult,
};
use reqlore_domain::project_key::ProjectKey;
use sled::IVec;

use crate::database::{
    BODIES, DELETIONS, DOCUMENTS, HISTORY, LINKS, PROJECTS, REFERENCES, SledDatabase,
};
use crate::error::{damaged_database, damaged_document, damaged_value, from_sled};
use crate::records::{
    DocumentRow, ProjectRow, decode, deletions_prefix, document_key, kind_prefix, link_prefix,
    parse_deletion_key, parse_name, piece_key, reference_prefix, unseal_value,
};

/// The most changes that are listed, and the most deletions that are remembered. After more of
/// them a reader reads everything.
pub(crate) const MAX_CHANGES: usize = if cfg!(test) { 50 } else { 10_000 };

impl SledDatabase {
    /// The default row for a project that is not stored.
    pub(crate) fn project_row(&self, project: &ProjectKey) -> StoreResult<ProjectRow> {
        let key = project.as_str().as_bytes();
        let Some(value) = self.get(PROJECTS, key)? else { return Ok(ProjectRow::default()) };
        decode(key, &value).ok_or_else(|| damaged_database("a project's row"))
    }

    pub(crate) fn read_documents(
        &self,
        project: u32,
        ids: &[DocumentId],
    ) -> StoreResult<Vec<Option<Document>>> {
        ids.iter().map(|id| self.read_document(project, id)).collect()
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
        decode(key, &value).ok_or_else(|| damaged_document(id)).map(Some)
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
            let value = self.get(BODIES, &key)?;
            let payload = value.as_ref().and_then(|value| unseal_value(&key, value));
            body.extend_from_slice(payload.ok_or_else(|| damaged_document(id))?);
        }
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
        let version = |id: &DocumentId| {
            let key = document_key(project, id);
            let value = self.get(DOCUMENTS, &key)?;
            let row = value.map(|value| decode::<DocumentRow>(&key, &value));
            Ok(row.map(|row| row.map_or(Version::UNREAD, |row| row.version)))
        };
        ids.iter().map(version).collect()
    }

    pub(crate) fn find_metadata(
        &self,
        project: &ProjectRow,
        filter: &DocumentFilter,
    ) -> StoreResult<MetadataPage> {
        let total = usize::try_from(project.document_count(filter.kind)).unwrap_or(usize::MAX);
        let limit = filter.limit.unwrap_or(usize::MAX);
        // One more than the limit shows whether there are more.
        let most = limit.saturating_add(1);
        let mut heads =
            self.list_metadata(project.id, filter.kind, filter.after.as_deref(), most)?;
        let more = heads.len() > limit;
        heads.truncate(limit);
        let next = heads.last().filter(|_| more).map(|meta| meta.id.name.clone());
        Ok(MetadataPage { metadata: heads, total, next })
    }

    /// At most `limit` documents of a kind, by name.
    pub(crate) fn list_metadata(
        &self,
        project: u32,
        kind: DocumentKind,
        after: Option<&str>,
        limit: usize,
    ) -> StoreResult<Vec<Arc<DocumentMeta>>> {
        let mut found = Vec::new();
        for entry in self.document_entries(project, kind, after).take(limit) {
            let (id, key, value) = entry?;
            found.push(Arc::new(self.entry_meta(id, &key, &value)));
        }
        Ok(found)
    }

    /// Ids, keys and values of documents of a kind, by name.
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
        let rest = self.tree(DOCUMENTS).range((start, Bound::Unbounded));
        rest.map_while(move |entry| {
            let (key, value) = match entry {
                Ok(entry) => entry,
                Err(error) => return Some(Err(from_sled(error))),
            };
            let name = parse_name(key.strip_prefix(&prefix[..])?);
            let name = name.ok_or_else(|| damaged_database("a name is not text"));
            Some(name.map(|name| (DocumentId { kind, name }, key, value)))
        })
    }

    /// The metadata of a stored document; of a damaged one, its diagnostic.
    fn entry_meta(&self, id: DocumentId, key: &[u8], value: &[u8]) -> DocumentMeta {
        let row: Option<DocumentRow> = decode(key, value);
        let modified = row.as_ref().map(|row| row.modified).unwrap_or_default();
        let meta = row.and_then(|row| self.row_meta(&id, key, &row));
        meta.unwrap_or_else(|| {
            DocumentMeta::placeholder(id, Version::UNREAD, modified, damaged_value())
        })
    }

    /// `None` if it is damaged.
    pub(crate) fn row_meta(
        &self,
        id: &DocumentId,
        key: &[u8],
        row: &DocumentRow,
    ) -> Option<DocumentMeta> {
        if !row.meta.is_empty() {
            return postcard::from_bytes(&row.meta).ok();
        }
        let body = self.read_body(key, row, id).ok()?;
        let document = Document { id: id.clone(), body, version: row.version };
        Some(DocumentMeta::of(&document, row.modified))
    }

    /// The metadata of a document by its name, `None` if there is none.
    fn document_meta(&self, project: u32, id: DocumentId) -> StoreResult<Option<DocumentMeta>> {
        let key = document_key(project, &id);
        let value = self.get(DOCUMENTS, &key)?;
        Ok(value.map(|value| self.entry_meta(id, &key, &value)))
    }

    pub(crate) fn lookup_metadata(
        &self,
        project: u32,
        kind: DocumentKind,
        word: &str,
    ) -> StoreResult<Vec<Arc<DocumentMeta>>> {
        let mut names = BTreeSet::from([word.to_owned()]);
        // No reference holds NUL. A prefix with one would match parts of other keys.
        if !word.contains('\0') {
            let prefix = reference_prefix(project, kind, word);
            for key in self.tree(REFERENCES).scan_prefix(&prefix).keys() {
                let key = key.map_err(from_sled)?;
                names.extend(parse_name(&key[prefix.len()..]));
            }
        }
        let mut found = Vec::new();
        for name in names {
            found.extend(self.document_meta(project, DocumentId { kind, name })?.map(Arc::new));
        }
        Ok(found)
    }

    pub(crate) fn backlinks(
        &self,
        project: u32,
        query: &BacklinkQuery,
    ) -> StoreResult<Vec<Vec<Arc<DocumentMeta>>>> {
        let mut all = Vec::new();
        for target in &query.targets {
            let mut found = Vec::new();
            for kind in DocumentKind::ALL.into_iter().filter(|kind| query.kinds.contains(kind)) {
                let prefix = link_prefix(project, kind, target);
                for key in self.tree(LINKS).scan_prefix(&prefix).keys() {
                    let key = key.map_err(from_sled)?;
                    let Some(name) = parse_name(&key[prefix.len()..]) else { continue };
                    let meta = self.document_meta(project, DocumentId { kind, name })?;
                    found.extend(meta.filter(|meta| may_link(meta, target)).map(Arc::new));
                }
            }
            all.push(found);
        }
        Ok(all)
    }

    pub(crate) fn changes_since(
        &self,
        project: &ProjectRow,
        kind: DocumentKind,
        since: Revision,
    ) -> StoreResult<ChangeSet> {
        let revision = Revision(project.revision);
        if since > revision || since.0 < project.complete_from {
            return Ok(ChangeSet::Reset { revision });
        }
        // A document that was deleted and put again is in both trees.
        let mut names = BTreeSet::new();
        let prefix = kind_prefix(project.id, kind);
        let first = since.0.saturating_add(1);
        let start = [&prefix[..], &first.to_be_bytes()].concat();
        for key in self.tree(HISTORY).range(start..).keys() {
            let key = key.map_err(from_sled)?;
            let Some(rest) = key.strip_prefix(&prefix[..]) else { break };
            names.extend(rest.get(8..).and_then(parse_name));
            if names.len() > MAX_CHANGES {
                return Ok(ChangeSet::Reset { revision });
            }
        }
        for key in self.tree(DELETIONS).range(deletions_prefix(project.id, first)..).keys() {
            let key = key.map_err(from_sled)?;
            if !key.starts_with(&project.id.to_be_bytes()) {
                break;
            }
            let deleted = parse_deletion_key(&key).map(|(_, id)| id);
            names.extend(deleted.filter(|id| id.kind == kind).map(|id| id.name));
        }
        if names.len() > MAX_CHANGES {
            return Ok(ChangeSet::Reset { revision });
        }
        let ids = names.into_iter().map(|name| DocumentId { kind, name }).collect();
        Ok(ChangeSet::Since { revision, ids })
    }
}

/// Other targets may have the hash of this one. A damaged document can't be asked, and did link
/// here.
fn may_link(meta: &DocumentMeta, target: &str) -> bool {
    meta.version == Version::UNREAD || meta.links().iter().any(|(_, found)| found == target)
}
