//! Looks up and reads the items of one project's backlog.

use std::collections::BTreeSet;
use std::sync::Arc;

use reqlore_domain::backlog::{
    Deletion, ItemKind, ItemMeta, Reference, Status, reference, sort_key,
};
use reqlore_domain::document::{Document, DocumentKind, DocumentMeta};
use reqlore_domain::error::{Error, ErrorKind, Result};
use reqlore_domain::identity::Caller;
use reqlore_domain::ports::documents::BacklinkQuery;
use reqlore_domain::ports::record_list::{RecordPage, RecordQuery, RecordSelection, UnreadFile};
use reqlore_domain::project_key::ProjectKey;
use reqlore_domain::records::edit::LinkTarget;
use reqlore_domain::records::parse::unknown_parent;
use reqlore_domain::records::schema::RecordSchema;
use reqlore_domain::records::tombstone::is_erased;
use reqlore_domain::untrusted_text::encode_line;

use super::arguments::not_found_error;
use crate::documents::get_one;
use crate::ports::ApplicationPorts;

/// Reads one project's backlog.
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
        let metas = self.find_items(&[reference]).await?;
        metas.into_iter().next().unwrap_or_else(|| Err(not_found_error(reference.kind, "")))
    }

    /// Finds the item that the argument `field` names; an error carries the field.
    pub(crate) async fn find_argument(
        self,
        reference: Reference,
        field: &str,
    ) -> Result<Arc<DocumentMeta>> {
        self.find_item(reference).await.map_err(|error| error.field(field))
    }

    /// The metadata of each item, or its error. All references must have the same kind.
    pub(crate) async fn find_items(
        self,
        references: &[Reference],
    ) -> Result<Vec<Result<Arc<DocumentMeta>>>> {
        let Some(Reference { kind, .. }) = references.first() else { return Ok(Vec::new()) };
        let kind = DocumentKind::Item(*kind);
        let names: Vec<String> = references.iter().map(ToString::to_string).collect();
        let matches = self.ports.documents.lookup(self.project, kind, &names).await?;
        let mut items = Vec::with_capacity(names.len());
        for (reference, metas) in references.iter().zip(matches) {
            items.push(match &metas[..] {
                [meta] => Ok(Arc::clone(meta)),
                // Its queries run only for a missing item, so the usual look-up stays one query.
                [] => Err(self.missing_item_error(*reference).await?),
                several => Err(ambiguous_reference_error(*reference, several)),
            });
        }
        Ok(items)
    }

    /// The error for a missing item. Its message says when the item was deleted, if it was.
    async fn missing_item_error(self, reference: Reference) -> Result<Error> {
        let name = reference.to_string();
        let names = std::slice::from_ref(&name);
        let tombstones =
            self.ports.documents.lookup(self.project, DocumentKind::Deleted, names).await?;
        let mut error = not_found_error(reference.kind, &name);
        let tombstone = tombstones.first().and_then(|metas| metas.first());
        if let Some(meta) = tombstone
            && let Some(item) = item_meta(meta)
            && let Some(deleted) = &item.deletion
        {
            let document = get_one(&*self.ports.documents, self.project, &meta.id).await?;
            let text = document.as_ref().and_then(|document| document.text().ok());
            error.message = format!("{} (it was {})", error.message, deletion_text(deleted));
            error.hint = Some(deletion_hint(deleted, text.unwrap_or_default()));
        }
        let unread = self.unread_files(reference.kind).await?;
        let is_of_item =
            |file: &&UnreadFile| file.reference == Some(reference) || file.may_contain(&name);
        if let Some(file) = unread.iter().find(is_of_item) {
            error.message = format!("{} ({} {})", error.message, file.path, file.reason);
            error.hint = Some(format!("{} {}", file.path, file.reason));
        }
        Ok(error)
    }

    pub(crate) async fn read_document(self, meta: &DocumentMeta) -> Result<Document> {
        let document = get_one(&*self.ports.documents, self.project, &meta.id).await?;
        document.ok_or_else(|| {
            let message = format!("{}: the file was just removed; try again", meta.id);
            Error::new(ErrorKind::NotFound, message)
        })
    }

    /// `None` for a document that was removed after its metadata was read.
    pub(crate) async fn read_documents<M: std::borrow::Borrow<DocumentMeta>>(
        self,
        metas: &[M],
    ) -> Result<Vec<Option<Document>>> {
        let ids: Vec<_> = metas.iter().map(|meta| meta.borrow().id.clone()).collect();
        Ok(self.ports.documents.get(self.project, &ids).await?)
    }

    /// The items above, from the parent on. The last one may be an error.
    pub(crate) async fn parents(
        self,
        mut parent: Option<Reference>,
    ) -> Vec<(Reference, Result<Arc<DocumentMeta>>)> {
        let mut parents = Vec::new();
        // Each one is of the kind above, so this ends.
        while let Some(reference) = parent {
            let found = self.find_item(reference).await;
            parent = found.as_ref().ok().and_then(|meta| item_meta(meta)?.parent);
            parents.push((reference, found));
        }
        parents
    }

    /// The item's children of this kind, sorted like all lists.
    pub(crate) async fn children(
        self,
        parent: Reference,
        kind: ItemKind,
    ) -> Result<Vec<Arc<DocumentMeta>>> {
        let mut warnings = FileWarnings::default();
        let children = self.children_by_parent(&[parent], kind, &mut warnings).await?;
        Ok(children.into_iter().next().unwrap_or_default())
    }

    /// The children of each parent, sorted like all lists. Adds the problems of items that may be
    /// children, because their parent cannot be read.
    pub(crate) async fn children_by_parent(
        self,
        parents: &[Reference],
        kind: ItemKind,
        warnings: &mut FileWarnings,
    ) -> Result<Vec<Vec<Arc<DocumentMeta>>>> {
        let mut targets: Vec<String> = parents.iter().map(ToString::to_string).collect();
        targets.extend(kind.parent().map(unknown_parent));
        let query = BacklinkQuery { kinds: vec![DocumentKind::Item(kind)], targets };
        let mut backlinks = self.ports.documents.backlinks(self.project, &query).await?;
        warnings.add_diagnostics(&backlinks.split_off(parents.len()).concat());
        for (metas, parent) in backlinks.iter_mut().zip(parents) {
            // Backlinks include items that only mention the parent.
            metas.retain(|meta| item_meta(meta).is_some_and(|item| item.parent == Some(*parent)));
            sort_items(metas);
        }
        Ok(backlinks)
    }

    /// The stories that items below an epic, a story or both may have as parent; `None` without
    /// either. A missing epic or story is an error, not an empty result.
    pub(crate) async fn parent_stories(
        self,
        epic: Option<Reference>,
        story: Option<Reference>,
    ) -> Result<Option<BTreeSet<Reference>>> {
        if let Some(story) = story {
            self.find_argument(story, "user_story").await?;
        }
        let Some(epic) = epic else { return Ok(story.map(|story| BTreeSet::from([story]))) };
        self.find_argument(epic, "epic").await?;
        let mut stories = BTreeSet::new();
        for meta in self.children(epic, ItemKind::UserStory).await? {
            stories.extend(item_meta(&meta).and_then(|item| item.reference));
        }
        if let Some(story) = story {
            // Both filters apply, so the story counts only if it is in the epic.
            stories.retain(|found| *found == story);
        }
        Ok(Some(stories))
    }

    /// A page of items, and warnings about files that the list lacks or that have a problem.
    pub(crate) async fn list_items(
        self,
        query: &RecordQuery,
    ) -> Result<(RecordPage, FileWarnings)> {
        let page = self.ports.documents.list(self.project, query).await?;
        Ok((page, self.list_warnings(query.kind).await?))
    }

    /// Warnings about files that a list of documents lacks or that have a problem.
    pub(crate) async fn list_warnings(self, kind: DocumentKind) -> Result<FileWarnings> {
        let (limit, selection) = (FileWarnings::MAX_LISTED, RecordSelection::WithDiagnostic);
        let query = RecordQuery::select(kind, selection, limit);
        let diagnostics = self.ports.documents.list(self.project, &query).await?;
        let mut warnings = FileWarnings::default();
        warnings.add_unread(&diagnostics.unread);
        warnings.add_diagnostics(&diagnostics.metadata);
        warnings.unlisted = diagnostics.total - diagnostics.metadata.len();
        Ok(warnings)
    }

    /// The files that look like items of this kind but are not read.
    pub(crate) async fn unread_files(self, kind: ItemKind) -> Result<Vec<UnreadFile>> {
        let query = RecordQuery::of_items(kind, 0);
        Ok(self.ports.documents.list(self.project, &query).await?.unread)
    }
}

/// Problems of the files behind an answer, as `<file>: <problem>`.
#[derive(Debug, Default)]
pub(crate) struct FileWarnings {
    lines: Vec<String>,
    /// Number of further problems without a line.
    unlisted: usize,
}

impl FileWarnings {
    const MAX_LISTED: usize = 5;

    pub(crate) fn add_unread(&mut self, files: &[UnreadFile]) {
        for file in files {
            self.lines.push(format!("{}: {}", file.path, file.reason));
        }
    }

    pub(crate) fn add_diagnostics<'a>(
        &mut self,
        metas: impl IntoIterator<Item = &'a Arc<DocumentMeta>>,
    ) {
        for meta in metas {
            self.lines.extend(diagnostic_with_path(meta));
        }
    }

    /// The first warnings, and the number of the others.
    pub(crate) fn into_list(self) -> Vec<String> {
        // A file name may contain line breaks, which would look like further lines.
        let mut listed: Vec<String> =
            self.lines.iter().map(|line| encode_line(line).into()).collect();
        // An item may name two of the parents.
        listed.sort();
        listed.dedup();
        let count = listed.len() + self.unlisted;
        listed.truncate(Self::MAX_LISTED);
        if count > listed.len() {
            let more = count - listed.len();
            listed.push(format!("and {more} more; `reqlore check` lists all"));
        }
        listed
    }
}

/// True for an error that concerns one item alone.
pub(crate) fn is_item_error(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::NotFound | ErrorKind::Refused | ErrorKind::Unreadable)
}

/// Time and user of a deletion, for errors.
pub(crate) fn deletion_text(deletion: &Deletion) -> String {
    let by = deletion.by.as_ref().map(|user| format!(" by {user}")).unwrap_or_default();
    format!("deleted on {}{by}", deletion.at.to_rfc3339())
}

/// `tombstone` is the text that the deletion left.
pub(crate) fn deletion_hint(deletion: &Deletion, tombstone: &str) -> String {
    let is_erased = is_erased(tombstone);
    let text = if is_erased { "was erased" } else { "is kept in the deleted items" };
    format!("it was {}; its text {text}", deletion_text(deletion))
}

fn ambiguous_reference_error(reference: Reference, metas: &[Arc<DocumentMeta>]) -> Error {
    let files: Vec<String> = metas.iter().map(|meta| meta.id.to_string()).collect();
    let message = format!(
        "{reference}: {} items have this reference: {}; run `reqlore check --fix` to renumber the \
         younger",
        files.len(),
        files.join(", ")
    );
    Error::new(ErrorKind::Refused, message).reference(reference.to_string())
}

/// The query for items that link to any of these references.
pub(crate) fn backlink_query(references: &[Reference]) -> BacklinkQuery {
    let targets = references.iter().map(ToString::to_string).collect();
    BacklinkQuery { kinds: DocumentKind::ITEMS.to_vec(), targets }
}

/// Sorts items into the order of all lists.
pub(crate) fn sort_items(metas: &mut [Arc<DocumentMeta>]) {
    metas.sort_by_cached_key(|meta| (item_meta(meta).map(sort_key), meta.id.name.clone()));
}

pub(crate) fn link_target(reference: Reference, name: &str) -> LinkTarget {
    LinkTarget { reference, file_suffix: reference::file_suffix(name).map(str::to_owned) }
}

/// Parses a document. Missing times come from the metadata.
pub(crate) fn parse_item(meta: &DocumentMeta, document: &Document, text: &str) -> ItemMeta {
    let cached = item_meta(meta);
    if let Some(item) = cached
        && meta.version == document.version
    {
        return item.clone();
    }
    // A file without times has those of its metadata, and a commit has no file times.
    let created_at = cached.map(|item| item.created_at).unwrap_or_default();
    let kind = match document.id.kind {
        DocumentKind::Item(kind) => kind,
        // Only a tombstone has another kind of document.
        _ => cached.map_or(ItemKind::Requirement, |item| item.kind),
    };
    ItemMeta::parse(kind, &document.id.name, text, created_at).0
}

pub(crate) fn item_meta(meta: &DocumentMeta) -> Option<&ItemMeta> {
    meta.item.as_deref()
}

/// The status that a caller names, if the project has it for the kind.
pub(crate) fn find_status(schema: &RecordSchema, kind: ItemKind, name: &str) -> Result<Status> {
    schema.find_status(kind, name).map_err(|problem| {
        let message = format!("status: {problem}");
        Error::new(ErrorKind::InvalidArgument, message).field("status")
    })
}

/// The diagnostic of an item's file as `<file>:<line>: <message>`.
pub(crate) fn diagnostic_with_path(meta: &DocumentMeta) -> Option<String> {
    let diagnostic = meta.diagnostic.as_ref()?;
    let line = diagnostic.line.map(|line| format!(":{line}")).unwrap_or_default();
    Some(format!("{}{line}: {}", meta.id, diagnostic.message))
}

/// The first problem of a record's file, or of a value that does not match the project's schema.
pub(crate) fn record_diagnostic(meta: &DocumentMeta, schema: &RecordSchema) -> Option<String> {
    let mismatch = || Some(format!("{}: {}", meta.id, schema.first_problem(meta)?));
    diagnostic_with_path(meta).or_else(mismatch)
}

pub(crate) fn diagnostic_text(diagnostic: &str) -> String {
    format!("Problem in the file: {}", encode_line(diagnostic))
}
