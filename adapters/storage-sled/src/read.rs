//! Reading: each question of the port as a look into the trees, under a gate that somebody else
//! holds.
//!
//! The trap: one damaged value is a fault of one document. It must not keep a list from being
//! given, and it must not pass for a document that is not there.

use std::collections::BTreeSet;
use std::ops::Bound;
use std::sync::Arc;

use bytes::Bytes;
use reqlore_domain::document::{Document, DocumentId, DocumentMeta, Kind, Version};
use reqlore_domain::ports::documents::{
    BacklinkQuery, Changes, Filter, Page, Revision, StoreResult,
};
use reqlore_domain::project::ProjectKey;
use sled::IVec;

use crate::base::{BODIES, Base, DELETIONS, DOCUMENTS, HISTORY, LINKS, PROJECTS, REFERENCES};
use crate::error::{damaged, damaged_document, damaged_value, of_sled};
use crate::keys;
use crate::values::{ProjectRow, Row, decode, unseal};

/// After more changes than this a reader reads everything, and so many deletions are remembered.
pub(crate) const MOST_CHANGES: usize = if cfg!(test) { 50 } else { 10_000 };

impl Base {
    pub(crate) fn project(&self, project: &ProjectKey) -> StoreResult<Option<ProjectRow>> {
        let key = project.as_str().as_bytes();
        let Some(value) = self.tree(PROJECTS).get(key).map_err(of_sled)? else { return Ok(None) };
        let damaged = || damaged("what is known of this project does not match its checksum");
        decode(key, &value).ok_or_else(damaged).map(Some)
    }

    pub(crate) fn get(
        &self,
        project: &ProjectKey,
        ids: &[DocumentId],
    ) -> StoreResult<Vec<Option<Document>>> {
        let Some(ProjectRow { id: project, .. }) = self.project(project)? else {
            return Ok(vec![None; ids.len()]);
        };
        ids.iter().map(|id| self.document(project, id)).collect()
    }

    fn document(&self, project: u32, id: &DocumentId) -> StoreResult<Option<Document>> {
        let key = keys::document(project, id);
        let Some(row) = self.row(&key, id)? else { return Ok(None) };
        let body = self.body(&key, &row, id)?;
        Ok(Some(Document { id: id.clone(), body, version: row.version }))
    }

    pub(crate) fn row(&self, key: &[u8], id: &DocumentId) -> StoreResult<Option<Row>> {
        let Some(value) = self.tree(DOCUMENTS).get(key).map_err(of_sled)? else { return Ok(None) };
        decode(key, &value).ok_or_else(|| damaged_document(id)).map(Some)
    }

    pub(crate) fn body(&self, key: &[u8], row: &Row, id: &DocumentId) -> StoreResult<Bytes> {
        let mut body = Vec::new();
        for piece in 0..row.pieces() {
            let key = keys::piece(key, piece);
            let value = self.tree(BODIES).get(&key).map_err(of_sled)?;
            let payload = value.as_ref().and_then(|value| unseal(&key, value));
            body.extend_from_slice(payload.ok_or_else(|| damaged_document(id))?);
        }
        if body.len() as u64 != row.length {
            return Err(damaged_document(id));
        }
        Ok(body.into())
    }

    pub(crate) fn versions(
        &self,
        project: &ProjectKey,
        ids: &[DocumentId],
    ) -> StoreResult<Vec<Option<Version>>> {
        let Some(ProjectRow { id: project, .. }) = self.project(project)? else {
            return Ok(vec![None; ids.len()]);
        };
        let version = |id: &DocumentId| {
            let key = keys::document(project, id);
            let value = self.tree(DOCUMENTS).get(&key).map_err(of_sled)?;
            let row = value.map(|value| decode::<Row>(&key, &value));
            Ok(row.map(|row| row.map_or(Version::UNREAD, |row| row.version)))
        };
        ids.iter().map(version).collect()
    }

    pub(crate) fn find(&self, project: &ProjectKey, filter: &Filter) -> StoreResult<Page> {
        let none = Page { heads: Vec::new(), total: 0, next: None };
        let Some(project) = self.project(project)? else { return Ok(none) };
        let total = usize::try_from(project.count(filter.kind)).unwrap_or(usize::MAX);
        let limit = filter.limit.unwrap_or(usize::MAX);
        let after = filter.after.as_deref();
        let mut heads = self.heads(project.id, filter.kind, after, limit.saturating_add(1))?;
        let more = heads.len() > limit;
        heads.truncate(limit);
        let next = heads.last().filter(|_| more).map(|head| head.id.name.clone());
        Ok(Page { heads, total, next })
    }

    /// Heads of a kind by name.
    pub(crate) fn heads(
        &self,
        project: u32,
        kind: Kind,
        after: Option<&str>,
        most: usize,
    ) -> StoreResult<Vec<Arc<DocumentMeta>>> {
        let entries = self.entries(project, kind, after).take(most);
        let head = |entry: sled::Result<(IVec, IVec)>| {
            let (key, value) = entry.map_err(of_sled)?;
            self.head(kind, project, &key, &value).map(Arc::new)
        };
        entries.map(head).collect()
    }

    /// Keys and values of documents of a kind by name.
    pub(crate) fn entries(
        &self,
        project: u32,
        kind: Kind,
        after: Option<&str>,
    ) -> impl Iterator<Item = sled::Result<(IVec, IVec)>> + use<> {
        let prefix = keys::kind(project, kind);
        let start = after.map_or_else(
            || Bound::Included(prefix.clone()),
            |name| Bound::Excluded([&prefix, name.as_bytes()].concat()),
        );
        let rest = self.tree(DOCUMENTS).range((start, Bound::Unbounded));
        rest.take_while(move |entry| match entry {
            Ok((key, _)) => key.starts_with(&prefix),
            Err(_) => true,
        })
    }

    /// The head that a document's value holds; of one that can't be read, its fault.
    fn head(
        &self,
        kind: Kind,
        project: u32,
        key: &[u8],
        value: &[u8],
    ) -> StoreResult<DocumentMeta> {
        let id = self::id(project, kind, key)?;
        let row = decode::<Row>(key, value);
        let modified = row.as_ref().map(|row| row.modified).unwrap_or_default();
        let head = row.and_then(|row| self.head_of(&id, key, &row));
        let unread = || DocumentMeta::unread(id, Version::UNREAD, modified, damaged_value());
        Ok(head.unwrap_or_else(unread))
    }

    /// `None` when it is damaged.
    pub(crate) fn head_of(&self, id: &DocumentId, key: &[u8], row: &Row) -> Option<DocumentMeta> {
        if row.head.is_empty() {
            let body = self.body(key, row, id).ok()?;
            let document = Document { id: id.clone(), body, version: row.version };
            return Some(DocumentMeta::of(&document, row.modified));
        }
        postcard::from_bytes(&row.head).ok()
    }

    pub(crate) fn lookup(
        &self,
        project: &ProjectKey,
        kind: Kind,
        words: &[String],
    ) -> StoreResult<Vec<Vec<Arc<DocumentMeta>>>> {
        let Some(ProjectRow { id: project, .. }) = self.project(project)? else {
            return Ok(vec![Vec::new(); words.len()]);
        };
        words.iter().map(|word| self.named_by(project, kind, word)).collect()
    }

    fn named_by(
        &self,
        project: u32,
        kind: Kind,
        word: &str,
    ) -> StoreResult<Vec<Arc<DocumentMeta>>> {
        let mut names = BTreeSet::from([word.to_owned()]);
        // No reference holds NUL; with one the scan would find a part of other keys.
        if !word.contains('\0') {
            let prefix = keys::reference(project, kind, word);
            for key in self.tree(REFERENCES).scan_prefix(&prefix).keys() {
                let key = key.map_err(of_sled)?;
                names.extend(keys::name(&key[prefix.len()..]));
            }
        }
        let mut heads = Vec::new();
        for name in names {
            let key = keys::document(project, &DocumentId { kind, name });
            if let Some(value) = self.tree(DOCUMENTS).get(&key).map_err(of_sled)? {
                heads.push(Arc::new(self.head(kind, project, &key, &value)?));
            }
        }
        Ok(heads)
    }

    /// `None` when there are more than `most` in all.
    pub(crate) fn backlinks(
        &self,
        project: &ProjectKey,
        links: &BacklinkQuery,
        most: usize,
    ) -> StoreResult<Option<Vec<Vec<Arc<DocumentMeta>>>>> {
        let Some(ProjectRow { id: project, .. }) = self.project(project)? else {
            return Ok(Some(vec![Vec::new(); links.targets.len()]));
        };
        let (mut all, mut left) = (Vec::new(), most);
        for target in &links.targets {
            let mut heads = Vec::new();
            for kind in Kind::ALL.into_iter().filter(|kind| links.kinds.contains(kind)) {
                let linking = self.linking_from(project, kind, target);
                // One more than asked tells whether there is more.
                for head in linking.take(left.saturating_add(1)) {
                    heads.push(head?);
                    let Some(rest) = left.checked_sub(1) else { return Ok(None) };
                    left = rest;
                }
            }
            all.push(heads);
        }
        Ok(Some(all))
    }

    /// Documents of a kind that link to a target, by name.
    fn linking_from(
        &self,
        project: u32,
        kind: Kind,
        target: &str,
    ) -> impl Iterator<Item = StoreResult<Arc<DocumentMeta>>> {
        let prefix = keys::link(project, kind, target);
        let keys = self.tree(LINKS).scan_prefix(&prefix).keys();
        let head = move |key: sled::Result<IVec>| {
            let key = key.map_err(of_sled)?;
            let Some(name) = keys::name(&key[prefix.len()..]) else { return Ok(None) };
            let key = keys::document(project, &DocumentId { kind, name });
            let Some(value) = self.tree(DOCUMENTS).get(&key).map_err(of_sled)? else {
                return Ok(None);
            };
            let head = self.head(kind, project, &key, &value)?;
            // Other targets may have this hash. What is damaged can't be asked, and did link here.
            let links = head.version == Version::UNREAD
                || head.links().iter().any(|(_, found)| found == target);
            Ok(links.then(|| Arc::new(head)))
        };
        keys.map(head).filter_map(Result::transpose)
    }

    pub(crate) fn changes(
        &self,
        project: &ProjectKey,
        kind: Kind,
        since: Revision,
    ) -> StoreResult<Changes> {
        let project = self.project(project)?.unwrap_or_default();
        let revision = Revision(project.revision);
        if since > revision || since.0 < project.complete_from {
            return Ok(Changes::Reset { revision });
        }
        // A document that was deleted and put again is in both trees.
        let mut names = BTreeSet::new();
        let prefix = keys::kind(project.id, kind);
        let first = since.0.saturating_add(1);
        let start = [&prefix[..], &first.to_be_bytes()].concat();
        for key in self.tree(HISTORY).range(start..).keys() {
            let key = key.map_err(of_sled)?;
            let Some(rest) = key.strip_prefix(&prefix[..]) else { break };
            names.extend(rest.get(8..).and_then(keys::name));
            if names.len() > MOST_CHANGES {
                return Ok(Changes::Reset { revision });
            }
        }
        for key in self.tree(DELETIONS).range(keys::deletions(project.id, first)..).keys() {
            let key = key.map_err(of_sled)?;
            if !key.starts_with(&project.id.to_be_bytes()) {
                break;
            }
            let deleted = keys::deleted(&key).map(|(_, id)| id);
            names.extend(deleted.filter(|id| id.kind == kind).map(|id| id.name));
        }
        if names.len() > MOST_CHANGES {
            return Ok(Changes::Reset { revision });
        }
        let ids = names.into_iter().map(|name| DocumentId { kind, name }).collect();
        Ok(Changes::Since { revision, ids })
    }
}

/// The document of a key in [`DOCUMENTS`].
pub(crate) fn id(project: u32, kind: Kind, key: &[u8]) -> StoreResult<DocumentId> {
    let name = key.get(keys::kind(project, kind).len()..).and_then(keys::name);
    let name = name.ok_or_else(|| damaged("a name is no text"))?;
    Ok(DocumentId { kind, name })
}
