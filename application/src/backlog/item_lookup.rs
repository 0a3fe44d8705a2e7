//! Looks up and reads the items of one project's backlog.

use std::collections::HashMap;
use std::sync::Arc;

use reqlore_domain::backlog::reference;
use reqlore_domain::backlog::{ItemKind, ItemMeta, LinkTarget, Reference, compare_items};
use reqlore_domain::document::{Document, DocumentKind, DocumentMeta};
use reqlore_domain::error::{Error, ErrorKind, Result};
use reqlore_domain::identity::Caller;
use reqlore_domain::ports::documents::{BacklinkQuery, DocumentFilter};
use reqlore_domain::project_key::ProjectKey;

use super::arguments::not_found_error;
use crate::ApplicationPorts;
use crate::transaction::get_one;

#[derive(Clone, Copy)]
pub(crate) struct BacklogReader<'a> {
    pub(crate) ports: &'a ApplicationPorts,
    pub(crate) project: &'a ProjectKey,
}

impl<'a> BacklogReader<'a> {
    pub(crate) fn for_caller(ports: &'a ApplicationPorts, caller: &'a Caller) -> Self {
        Self { ports, project: &caller.project }
    }

    pub(crate) async fn find_item(self, reference: Reference) -> Result<Arc<DocumentMeta>> {
        let found = self.find_items(&[reference]).await?;
        found.into_iter().next().unwrap_or_else(|| Err(not_found_error(reference.kind, "")))
    }

    /// The item of a reference that the argument `field` gave.
    pub(crate) async fn find_argument(
        self,
        reference: Reference,
        field: &str,
    ) -> Result<Arc<DocumentMeta>> {
        self.find_item(reference).await.map_err(|error| error.field(field))
    }

    /// The metadata of these items, which are of one kind, or the error for each.
    pub(crate) async fn find_items(
        self,
        references: &[Reference],
    ) -> Result<Vec<Result<Arc<DocumentMeta>>>> {
        let Some(Reference { kind, .. }) = references.first() else { return Ok(Vec::new()) };
        let words: Vec<String> = references.iter().map(ToString::to_string).collect();
        let named =
            self.ports.documents.lookup(self.project, DocumentKind::Item(*kind), &words).await?;
        let mut metas = Vec::with_capacity(words.len());
        for (reference, mut found) in references.iter().zip(named) {
            metas.push(match (found.pop(), found.is_empty()) {
                (Some(meta), true) => Ok(meta),
                (Some(meta), false) => {
                    found.push(meta);
                    Err(ambiguous_reference_error(*reference, &found))
                }
                (None, _) => Err(self.missing_item_error(*reference).await?),
            });
        }
        Ok(metas)
    }

    /// The error for a missing item. It tells if the item was deleted.
    async fn missing_item_error(self, reference: Reference) -> Result<Error> {
        let printed = reference.to_string();
        let words = std::slice::from_ref(&printed);
        let tombs = self.ports.documents.lookup(self.project, DocumentKind::Deleted, words).await?;
        let mut error = not_found_error(reference.kind, &printed);
        let tomb = tombs.first().and_then(|metas| metas.first());
        if let Some(deleted) = tomb.and_then(|tomb| item_meta(tomb)?.deleted.as_ref()) {
            let by = deleted.by.as_ref().map(|by| format!(" by {by}")).unwrap_or_default();
            let when = format!("deleted on {}{by}", deleted.at.rfc3339());
            error.message = format!("{} (it was {when})", error.message);
            error.hint = Some(format!("it was {when}; its text is kept among the deleted items"));
        }
        Ok(error)
    }

    /// The documents of these words, with one lookup for each kind. Words that name no document or
    /// several are left out.
    pub(crate) async fn named(
        self,
        words: impl Iterator<Item = String>,
    ) -> Result<HashMap<String, Arc<DocumentMeta>>> {
        let mut of_kind: HashMap<DocumentKind, Vec<String>> = HashMap::new();
        for word in words {
            let kind = Reference::parse(&word)
                .map_or(DocumentKind::Entity, |found| DocumentKind::Item(found.kind));
            of_kind.entry(kind).or_default().push(word);
        }
        let mut known = HashMap::new();
        for (kind, words) in of_kind {
            let found = self.ports.documents.lookup(self.project, kind, &words).await?;
            for (word, metas) in words.into_iter().zip(found) {
                if let [meta] = &metas[..] {
                    known.insert(word, Arc::clone(meta));
                }
            }
        }
        Ok(known)
    }

    pub(crate) async fn read_document(self, meta: &DocumentMeta) -> Result<Document> {
        let document = get_one(&*self.ports.documents, self.project, &meta.id).await?;
        document.ok_or_else(|| {
            let message = format!("{} was removed just now; ask again.", meta.id);
            Error::new(ErrorKind::NotFound, message)
        })
    }

    /// `None` for a document that was removed in between.
    pub(crate) async fn read_documents<H: std::borrow::Borrow<DocumentMeta>>(
        self,
        metas: &[H],
    ) -> Result<Vec<Option<Document>>> {
        let ids: Vec<_> = metas.iter().map(|meta| meta.borrow().id.clone()).collect();
        Ok(self.ports.documents.get(self.project, &ids).await?)
    }

    /// The children of an item that are of this kind, in the one order.
    pub(crate) async fn children(
        self,
        parent: Reference,
        kind: ItemKind,
    ) -> Result<Vec<Arc<DocumentMeta>>> {
        let all = self.children_by_parent(&[parent], kind).await?;
        Ok(all.into_iter().next().unwrap_or_default())
    }

    /// The children of each of these, in the one order.
    pub(crate) async fn children_by_parent(
        self,
        parents: &[Reference],
        kind: ItemKind,
    ) -> Result<Vec<Vec<Arc<DocumentMeta>>>> {
        let targets = parents.iter().map(ToString::to_string).collect();
        let links = BacklinkQuery { kinds: vec![DocumentKind::Item(kind)], targets };
        let mut linking = self.ports.documents.backlinks(self.project, &links).await?;
        for (metas, parent) in linking.iter_mut().zip(parents) {
            // Others only mention it.
            metas.retain(|meta| item_meta(meta).is_some_and(|item| item.parent == Some(*parent)));
            sort_items(metas);
        }
        Ok(linking)
    }

    /// All items of a kind, in the one order.
    pub(crate) async fn all_items(self, kind: ItemKind) -> Result<Vec<Arc<DocumentMeta>>> {
        let page = self
            .ports
            .documents
            .find(self.project, &DocumentFilter::all(DocumentKind::Item(kind)))
            .await?;
        let mut metas = page.metadata;
        metas.retain(|meta| item_meta(meta).is_some_and(|item| item.reference.is_some()));
        sort_items(&mut metas);
        Ok(metas)
    }
}

fn ambiguous_reference_error(reference: Reference, found: &[Arc<DocumentMeta>]) -> Error {
    let files: Vec<String> = found.iter().map(|meta| meta.id.to_string()).collect();
    let message = format!(
        "{} items have the reference {reference}: {}. `reqlore check --fix` gives the younger a \
         new one.",
        files.len(),
        files.join(", ")
    );
    Error::new(ErrorKind::Refused, message).reference(reference.to_string())
}

/// The query for items that link to any of these.
pub(crate) fn backlink_query(references: &[Reference]) -> BacklinkQuery {
    let targets = references.iter().map(ToString::to_string).collect();
    BacklinkQuery { kinds: DocumentKind::ITEMS.to_vec(), targets }
}

/// A document's text, or an error that names it.
pub(crate) fn document_text(document: &Document) -> Result<&str> {
    document
        .text()
        .map_err(|fault| Error::new(ErrorKind::Unreadable, format!("{}: {fault}", document.id)))
}

/// Sorts into the one order of all lists.
pub(crate) fn sort_items(metas: &mut [Arc<DocumentMeta>]) {
    metas.sort_by(|a, b| match (item_meta(a), item_meta(b)) {
        (Some(one), Some(other)) => compare_items(one, other).then_with(|| a.id.cmp(&b.id)),
        _ => a.id.cmp(&b.id),
    });
}

/// A document that a decision needs. It may have been removed since the lookup.
pub(crate) fn require_document(
    found: Option<&Option<Document>>,
    of: Reference,
) -> Result<&Document> {
    found.and_then(Option::as_ref).ok_or_else(|| not_found_error(of.kind, &of.to_string()))
}

pub(crate) fn link_target(reference: Reference, name: &str) -> LinkTarget {
    LinkTarget { reference, mark: reference::mark_of(name).map(str::to_owned) }
}

/// Parses a document. Times that it does not tell are those of its metadata.
pub(crate) fn parse_item(meta: &DocumentMeta, document: &Document, text: &str) -> ItemMeta {
    let known = item_meta(meta);
    if let Some(item) = known.filter(|_| meta.version == document.version) {
        return item.clone();
    }
    let modified = known.map(|item| item.created_at).unwrap_or_default();
    // Only tombstones have another kind.
    let kind = match document.id.kind {
        DocumentKind::Item(kind) => kind,
        _ => known.map_or(ItemKind::Requirement, |item| item.kind),
    };
    ItemMeta::read(kind, &document.id.name, text, modified).0
}

pub(crate) fn item_meta(meta: &DocumentMeta) -> Option<&ItemMeta> {
    meta.item.as_deref()
}

/// The fault of an item's file with its place. The faulty field has its default.
pub(crate) fn fault_with_place(meta: &DocumentMeta) -> Option<String> {
    let fault = meta.fault.as_ref()?;
    let line = fault.line.map(|line| format!(":{line}")).unwrap_or_default();
    Some(format!("{}{line}: {}", meta.id, fault.message))
}
