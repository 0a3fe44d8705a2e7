//! History of a document from the Git repository around its project.
//!
//! Git only lists commits and returns objects. Texts are compared here, because Git's own
//! comparison may start a program of the repository.

mod repository;

use std::collections::HashSet;
use std::path::Path;

use async_trait::async_trait;
use bytes::Bytes;
use reqlore_domain::backlog::Deletion;
use reqlore_domain::document::{Document, DocumentId, DocumentKind, DocumentMeta, Version};
use reqlore_domain::knowledge::parse_deletion;
use reqlore_domain::ports::documents::{StoreError, StoreResult};
use reqlore_domain::ports::history::{
    ChangeOrigin, DocumentHistory, HistoryEntry, HistoryNote, HistoryPage, HistoryQuery,
    invalid_history_cursor,
};
use reqlore_domain::ports::write_context::WriteContext;
use reqlore_domain::project_key::ProjectKey;
use reqlore_domain::timestamp::Timestamp;

use crate::FsStore;
use crate::layout::ProjectTree;
use crate::list_files;
use crate::store_inner::StoreInner;
use repository::{CommittedFile, FileCommit, GitRepository, GitResult, parse_commit};

/// Maximum histories that are read at the same time; each starts several processes.
pub(crate) const MAX_CONCURRENT: usize = 4;
/// Maximum bytes that one page or one step of a search reads from Git, after its first text.
const MAX_BYTES_PER_STEP: u64 = 8 << 20;

/// The present state of a document's file.
struct PresentFile {
    document: Option<Document>,
    /// When the file was changed or removed.
    changed_at: Timestamp,
    /// From the tombstone of a deleted document.
    deletion: Option<Deletion>,
    /// Paths of the file in Git, relative to the project's folder, without links. Empty if Git
    /// cannot be asked.
    paths: Vec<String>,
}

#[async_trait]
impl DocumentHistory for FsStore {
    async fn history(
        &self,
        project: &ProjectKey,
        id: &DocumentId,
        query: &HistoryQuery,
    ) -> StoreResult<HistoryPage> {
        // Acquired here, so that waiting for it occupies no thread.
        let _permit = self.inner.git_permits.acquire().await;
        let (project, id, query) = (project.clone(), id.clone(), query.clone());
        self.run_blocking(move |store| list_versions(store, &project, &id, &query)).await
    }

    async fn document_at(
        &self,
        project: &ProjectKey,
        id: &DocumentId,
        version: Version,
    ) -> StoreResult<Option<Document>> {
        let _permit = self.inner.git_permits.acquire().await;
        let (project, id) = (project.clone(), id.clone());
        self.run_blocking(move |store| find_version(store, &project, &id, version)).await
    }

    async fn purge_history(
        &self,
        _: &ProjectKey,
        id: &DocumentId,
        _: Option<Version>,
        _: WriteContext,
    ) -> StoreResult<u64> {
        let reason = "has its history in Git, which Reqlore does not change; remove the text there";
        Err(StoreError::Refused { place: id.to_string(), reason: reason.to_owned() })
    }

    async fn prune_history(&self, _: Timestamp) -> StoreResult<u64> {
        Ok(0)
    }
}

fn list_versions(
    store: &StoreInner,
    project: &ProjectKey,
    id: &DocumentId,
    query: &HistoryQuery,
) -> StoreResult<HistoryPage> {
    let present = PresentFile::read(store, project, id)?;
    let mut notes = Vec::new();
    match committed_page(store, project, &present, query, &mut notes) {
        Ok(Some(page)) => Ok(HistoryPage { notes, ..page }),
        Ok(None) => Err(invalid_history_cursor()),
        Err(note) => {
            // Without Git, the present text is the whole history.
            let is_known = query.after.is_none() && present.is_known();
            let entries = if is_known { vec![present.entry()] } else { Vec::new() };
            Ok(HistoryPage { entries, next: None, notes: vec![note] })
        }
    }
}

/// Finds the text of a version among the present file and the committed ones.
fn find_version(
    store: &StoreInner,
    project: &ProjectKey,
    id: &DocumentId,
    version: Version,
) -> StoreResult<Option<Document>> {
    let present = PresentFile::read(store, project, id)?;
    if let Some(document) = present.document.as_ref().filter(|found| found.version == version) {
        return Ok(Some(document.clone()));
    }
    // The list of versions has the reason if Git cannot be asked.
    let body = find_blob(store, project, &present, version).unwrap_or_default();
    Ok(body.map(|body| Document::new(id.clone(), body)))
}

/// Returns a page of committed and uncommitted versions; `None` if the cursor is not in them.
fn committed_page(
    store: &StoreInner,
    project: &ProjectKey,
    present: &PresentFile,
    query: &HistoryQuery,
    notes: &mut Vec<HistoryNote>,
) -> GitResult<Option<HistoryPage>> {
    let Some(repository) = open_repository(store, project, present)? else {
        return Ok(Some(present.uncommitted_page(notes)));
    };
    if repository.is_shallow {
        notes.push(HistoryNote::ShallowClone);
    }
    let (head, commits) = find_commits(&repository, &present.paths, notes)?;
    let revisions = distinct_revisions(commits);
    let (start, mut entries) = match &query.after {
        Some(after) => match revisions.iter().position(|revision| revision.commit == *after) {
            Some(position) => (position, Vec::new()),
            None => return Ok(None),
        },
        None => (0, present.uncommitted_entries(&repository, &head, notes)?),
    };
    let rest = &revisions[start..];
    let page = cut_page(rest, query.limit.saturating_sub(entries.len()));
    // Named by the first commit of the next page, so later commits do not move it.
    let next = rest.get(page.len()).map(|revision| revision.commit.clone());
    entries.extend(read_entries(&repository, page, notes)?);
    Ok(Some(HistoryPage { entries, next, notes: Vec::new() }))
}

/// Opens the repository; `None` if it has no commit.
fn open_repository(
    store: &StoreInner,
    project: &ProjectKey,
    present: &PresentFile,
) -> GitResult<Option<GitRepository>> {
    if present.paths.is_empty() {
        return Err(HistoryNote::Unreadable);
    }
    GitRepository::open(store.project_path(project), &store.git)
}

/// Returns the file in the current commit, and the commits that changed it, newest first.
fn find_commits(
    repository: &GitRepository,
    paths: &[String],
    notes: &mut Vec<HistoryNote>,
) -> GitResult<(CommittedFile, Vec<FileCommit>)> {
    let (commits, is_complete) = repository.commits_of(paths)?;
    if !is_complete {
        notes.push(HistoryNote::Truncated);
    }
    let (head, mut commits) = repository.find_files(paths, commits)?;
    // A text that was not downloaded looks like a deletion.
    let has_missing = commits.iter().any(|commit| commit.file == CommittedFile::Missing);
    if has_missing && repository.is_partial_clone()? {
        commits.retain(|commit| commit.file != CommittedFile::Missing);
        push_note(notes, HistoryNote::ShallowClone);
    }
    Ok((head, commits))
}

/// The commits after which the text differs from the next older one.
fn distinct_revisions(commits: Vec<FileCommit>) -> Vec<FileCommit> {
    let mut revisions = Vec::with_capacity(commits.len());
    let mut older = CommittedFile::Missing;
    for commit in commits.into_iter().rev() {
        // For example a merge, or a changed file mode.
        if commit.file != older {
            older = commit.file.clone();
            revisions.push(commit);
        }
    }
    revisions.reverse();
    revisions
}

/// The first revisions, up to the limit and to a size in bytes.
fn cut_page(revisions: &[FileCommit], limit: usize) -> &[FileCommit] {
    let mut bytes = 0;
    for (count, revision) in revisions.iter().enumerate() {
        if let CommittedFile::Blob(_, size) = revision.file {
            bytes += size;
        }
        // The first text is always included, so that each page makes progress.
        if count == limit || (count > 0 && bytes > MAX_BYTES_PER_STEP) {
            return &revisions[..count];
        }
    }
    revisions
}

fn read_entries(
    repository: &GitRepository,
    page: &[FileCommit],
    notes: &mut Vec<HistoryNote>,
) -> GitResult<Vec<HistoryEntry>> {
    let mut names = Vec::new();
    for revision in page {
        names.push(revision.commit.clone());
        names.extend(revision.file.blob().map(str::to_owned));
    }
    // One process for the whole page, because starting one for each object is slow.
    let mut objects = repository.read_objects(&names)?.into_iter();
    let mut entries = Vec::with_capacity(page.len());
    for revision in page {
        let commit = objects.next().flatten().ok_or(HistoryNote::Unreadable)?;
        let version = match revision.file {
            CommittedFile::Missing => None,
            CommittedFile::Blob(..) => {
                let body = objects.next().flatten().ok_or(HistoryNote::Unreadable)?;
                Some(Version::of_bytes(&body))
            }
            CommittedFile::TooLarge(_) => {
                push_note(notes, HistoryNote::Truncated);
                continue;
            }
        };
        let info = parse_commit(&commit);
        entries.push(HistoryEntry {
            version,
            at: info.committed_at,
            origin: ChangeOrigin { user: info.author, tool: None, reason: info.subject },
            is_purged: false,
        });
    }
    Ok(entries)
}

fn find_blob(
    store: &StoreInner,
    project: &ProjectKey,
    present: &PresentFile,
    version: Version,
) -> GitResult<Option<Bytes>> {
    let Some(repository) = open_repository(store, project, present)? else {
        return Ok(None);
    };
    let (commits, _) = repository.commits_of(&present.paths)?;
    let (_, commits) = repository.find_files(&present.paths, commits)?;
    let mut revisions = distinct_revisions(commits);
    let mut seen = HashSet::new();
    // The same text may return later.
    revisions
        .retain(|revision| revision.file.blob().is_some_and(|blob| seen.insert(blob.to_owned())));
    let mut rest = &revisions[..];
    while !rest.is_empty() {
        let step = cut_page(rest, rest.len());
        let blobs = step.iter().filter_map(|revision| revision.file.blob());
        let names: Vec<String> = blobs.map(str::to_owned).collect();
        for body in repository.read_objects(&names)?.into_iter().flatten() {
            if Version::of_bytes(&body) == version {
                return Ok(Some(body.into()));
            }
        }
        rest = &rest[step.len()..];
    }
    Ok(None)
}

impl PresentFile {
    fn read(store: &StoreInner, project: &ProjectKey, id: &DocumentId) -> StoreResult<Self> {
        let document = store.get(project, std::slice::from_ref(id))?.pop().flatten();
        let deletion = match &document {
            None => read_deletion(store, project, id)?,
            Some(_) => None,
        };
        let root = store.open_root(project)?;
        let tree = ProjectTree::new(&root, &store.layout);
        // Without a tombstone: the folder of a deleted file was changed when it was removed.
        let changed_at = match tree.locate(id)? {
            Some(location) => list_files::stat_file(&location.dir, &location.name)
                .or_else(|| list_files::stat_folder(&location.dir))
                .map(|stamp| stamp.modified_at()),
            None => None,
        };
        let folder = store.project_path(project);
        let mut paths = Vec::new();
        paths.extend(git_path(&tree, folder, id)?);
        // An item's name is unique, so a file that was moved to a subfolder is followed.
        if let (DocumentKind::Item(_), Some((_, name))) = (id.kind, id.name.rsplit_once('/')) {
            let id = DocumentId { kind: id.kind, name: name.to_owned() };
            paths.extend(git_path(&tree, folder, &id)?);
        }
        let changed_at = changed_at.unwrap_or_default();
        Ok(Self { document, changed_at, deletion, paths })
    }

    /// True if the present state proves that the document exists or was deleted.
    fn is_known(&self) -> bool {
        self.document.is_some() || self.deletion.is_some()
    }

    fn entry(&self) -> HistoryEntry {
        let (at, user) = match self.deletion.clone() {
            Some(deletion) => (deletion.at, deletion.by),
            None => (self.changed_at, None),
        };
        HistoryEntry {
            version: self.document.as_ref().map(|document| document.version),
            at,
            origin: ChangeOrigin { user, ..ChangeOrigin::default() },
            is_purged: false,
        }
    }

    /// The history in a repository without commits.
    fn uncommitted_page(&self, notes: &mut Vec<HistoryNote>) -> HistoryPage {
        let mut page = HistoryPage::default();
        if self.is_known() {
            page.entries.push(self.entry());
            notes.push(HistoryNote::Uncommitted);
        }
        page
    }

    /// Returns the present state as an entry if the current commit has another one. Git itself is
    /// not asked, because its comparison may start a filter of the repository.
    fn uncommitted_entries(
        &self,
        repository: &GitRepository,
        head: &CommittedFile,
        notes: &mut Vec<HistoryNote>,
    ) -> GitResult<Vec<HistoryEntry>> {
        let committed = match head.blob() {
            Some(blob) => repository.read_objects(&[blob.to_owned()])?.pop().flatten(),
            None => None,
        };
        let body = self.document.as_ref().map(|document| &document.body[..]);
        let note = match (body, committed) {
            (None, None) => return Ok(Vec::new()),
            (Some(body), Some(committed)) if body == committed => return Ok(Vec::new()),
            (Some(body), Some(committed)) if without_carriage_returns(body) == committed => {
                push_note(notes, HistoryNote::FiltersChangeBytes);
                return Ok(Vec::new());
            }
            (Some(_), Some(_)) if repository.is_converted(&self.paths[0])? => {
                HistoryNote::FiltersChangeBytes
            }
            _ => HistoryNote::Uncommitted,
        };
        push_note(notes, note);
        Ok(vec![self.entry()])
    }
}

/// Time and user of a deletion, if a tombstone has them.
fn read_deletion(
    store: &StoreInner,
    project: &ProjectKey,
    id: &DocumentId,
) -> StoreResult<Option<Deletion>> {
    if !matches!(id.kind, DocumentKind::Item(_) | DocumentKind::Entity) {
        return Ok(None);
    }
    let Some(tombstone) = store.get(project, &[id.tombstone()])?.pop().flatten() else {
        return Ok(None);
    };
    let meta = DocumentMeta::from_document(&tombstone, Timestamp::default());
    Ok(match (meta.item, tombstone.text()) {
        (Some(item), _) => item.deletion.clone(),
        (None, Ok(text)) => parse_deletion(text),
        (None, Err(_)) => None,
    })
}

/// The path of a document's file in Git, relative to the project's folder; `None` for a name that
/// would add a line to a query.
fn git_path(tree: &ProjectTree<'_>, folder: &Path, id: &DocumentId) -> StoreResult<Option<String>> {
    let display_path = match id.kind {
        DocumentKind::Instructions => tree.requirements()?.display_path("AGENTS.md"),
        DocumentKind::Section => tree.requirements()?.display_path(&format!("{}.md", id.name)),
        _ => id.to_string(),
    };
    if display_path.contains(char::is_control) {
        return Ok(None);
    }
    let path = folder.join(&display_path);
    // Git follows no links in paths. AGENTS.md may be a link itself.
    let resolved = match (id.kind, path.parent(), path.file_name()) {
        (DocumentKind::Instructions, ..) => path.canonicalize().ok(),
        (_, Some(parent), Some(name)) => parent.canonicalize().ok().map(|dir| dir.join(name)),
        _ => None,
    };
    // The folder of a deleted document may be gone.
    let Some(resolved) = resolved else { return Ok(Some(display_path)) };
    let path = resolved.strip_prefix(folder).ok().and_then(Path::to_str);
    Ok(path.filter(|path| !path.contains(char::is_control)).map(str::to_owned))
}

/// Replaces CRLF by LF, as Git does when it stores a file.
fn without_carriage_returns(body: &[u8]) -> Vec<u8> {
    let mut converted = Vec::with_capacity(body.len());
    for (index, byte) in body.iter().enumerate() {
        if *byte != b'\r' || body.get(index + 1) != Some(&b'\n') {
            converted.push(*byte);
        }
    }
    converted
}

fn push_note(notes: &mut Vec<HistoryNote>, note: HistoryNote) {
    if !notes.contains(&note) {
        notes.push(note);
    }
}
