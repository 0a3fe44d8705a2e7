//! What lists say of all entities of a project: tags, kinds, faults, ids; kept in memory and
//! brought up to date document by document.
//!
//! It may hold a hundred thousand entities, so it keeps no titles and no links: whoever needs those
//! asks the storage for the head.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::document::{DocumentId, DocumentMeta, Version};
use crate::fault::Fault;

/// All entities of a project, in short.
#[derive(Debug, Default)]
pub struct Inventory {
    /// By the document's name.
    records: BTreeMap<Box<str>, Record>,
    /// How many entities of each kind have a tag.
    tags: BTreeMap<Arc<str>, BTreeMap<Arc<str>, usize>>,
    /// Words that many records share, each once.
    kinds: BTreeMap<Arc<str>, usize>,
}

#[derive(Debug)]
struct Record {
    version: Version,
    kind: Arc<str>,
    /// `None` where it is the document's name.
    id: Option<Box<str>>,
    tags: Box<[Arc<str>]>,
    fault: Option<Box<Fault>>,
}

/// A tag and how many entities have it.
#[derive(Debug, PartialEq, Eq)]
pub struct Tag<'a> {
    pub tag: &'a str,
    pub count: usize,
}

impl Inventory {
    /// Takes an entity's head in, in the place of what was known of its document. Heads of other
    /// kinds are none of its business.
    pub fn put(&mut self, head: &DocumentMeta) {
        self.remove(&head.id.name);
        let Some(entity) = &head.entity else { return };
        let kind = shared(&mut self.kinds, &entity.kind, |count| *count += 1);
        let tags = entity.tags.iter().map(|tag| {
            shared(&mut self.tags, tag, |kinds| *kinds.entry(Arc::clone(&kind)).or_default() += 1)
        });
        let tags = tags.collect();
        let id = (entity.id != head.id.name).then(|| entity.id.as_str().into());
        let fault = head.fault.clone().map(Box::new);
        let record = Record { version: head.version, kind, id, tags, fault };
        self.records.insert(head.id.name.as_str().into(), record);
    }

    /// Forgets a document.
    pub fn remove(&mut self, name: &str) {
        let Some(Record { kind, tags, .. }) = self.records.remove(name) else { return };
        for tag in tags {
            release(&mut self.tags, &tag, |kinds| {
                release(kinds, &kind, |count| {
                    *count -= 1;
                    *count == 0
                });
                kinds.is_empty()
            });
        }
        release(&mut self.kinds, &kind, |count| {
            *count -= 1;
            *count == 0
        });
    }

    pub fn len(&self) -> usize {
        self.records.len()
    }

    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// The version of every entity's document.
    pub fn versions(&self) -> BTreeMap<DocumentId, Version> {
        let records = self.records.iter();
        records.map(|(name, record)| (DocumentId::entity(&**name), record.version)).collect()
    }

    /// All tags in alphabetical order (S4 AC-004.3), or those of one kind.
    pub fn tags(&self, kind: Option<&str>) -> Vec<Tag<'_>> {
        let count = |kinds: &BTreeMap<Arc<str>, usize>| match kind {
            Some(kind) => kinds.get(kind).copied().unwrap_or_default(),
            None => kinds.values().sum(),
        };
        let tags = self.tags.iter().map(|(tag, kinds)| Tag { tag, count: count(kinds) });
        tags.filter(|tag| tag.count > 0).collect()
    }

    /// The names of documents whose entities have no tag, sorted.
    pub fn untagged(&self, kind: Option<&str>) -> Vec<String> {
        let is_meant = |record: &Record| kind.is_none_or(|kind| *record.kind == *kind);
        let records = self.records.iter();
        let untagged = records.filter(|(_, record)| record.tags.is_empty() && is_meant(record));
        untagged.map(|(name, _)| name.to_string()).collect()
    }

    /// What is wrong with documents, by their names.
    pub fn faults(&self) -> impl Iterator<Item = (&str, &Fault)> {
        self.records.iter().filter_map(|(name, record)| Some((&**name, record.fault.as_deref()?)))
    }

    /// Ids that several documents claim, with the documents' names, by id.
    pub fn duplicates(&self) -> Vec<(&str, Vec<&str>)> {
        let ids = self
            .records
            .iter()
            .map(|(name, record)| (record.id.as_deref().unwrap_or(name), &**name));
        let mut ids: Vec<(&str, &str)> = ids.collect();
        ids.sort_unstable();
        let claims = ids.chunk_by(|a, b| a.0 == b.0).filter(|claims| claims.len() > 1);
        claims.map(|claims| (claims[0].0, claims.iter().map(|claim| claim.1).collect())).collect()
    }

    /// Ids that somebody may have meant who typed this one.
    pub fn similar(&self, id: &str) -> Vec<&str> {
        let ids = self.records.iter();
        similar(id, ids.map(|(name, record)| record.id.as_deref().unwrap_or(name)))
    }
}

/// A few of these ids, sorted, that are like the one that somebody typed.
pub(super) fn similar<'a>(id: &str, ids: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    const MOST: usize = 3;
    let wanted = id.to_lowercase();
    let part = wanted.rsplit(['-', '/']).next().unwrap_or(&wanted);
    if part.len() < 3 {
        return Vec::new();
    }
    let mut near: Vec<&str> = ids.filter(|id| id.to_lowercase().contains(part)).collect();
    near.sort_unstable();
    near.dedup();
    near.truncate(MOST);
    near
}

/// The word as it is kept, once for all who use it; `use_it` counts this use.
fn shared<T: Default>(
    words: &mut BTreeMap<Arc<str>, T>,
    word: &str,
    use_it: impl FnOnce(&mut T),
) -> Arc<str> {
    let word = match words.get_key_value(word) {
        Some((known, _)) => Arc::clone(known),
        None => word.into(),
    };
    use_it(words.entry(Arc::clone(&word)).or_default());
    word
}

/// Takes a use back; the word goes when `is_last` says so.
fn release<T>(words: &mut BTreeMap<Arc<str>, T>, word: &str, is_last: impl FnOnce(&mut T) -> bool) {
    if words.get_mut(word).is_some_and(is_last) {
        words.remove(word);
    }
}
