//! History of a document: the local history, then the Git repository around its project.
//!
//! Git only lists commits and returns objects. Texts are compared here, because Git's own
//! comparison may start a program of the repository.

mod changed_documents;
pub(crate) mod local_history;
mod merged_entries;
mod repository;

use std::collections::HashSet;
use std::path::Path;

use async_trait::async_trait;
use bytes::Bytes;
use reqlore_domain::audit_log::AuditTarget;
use reqlore_domain::backlog::Deletion;
use reqlore_domain::document::{Document, DocumentId, DocumentKind, DocumentMeta, Version};
use reqlore_domain::ports::documents::{Refresh, StoreError, StoreResult};
use reqlore_domain::ports::history::{
    ChangedDocument, DocumentHistory, HistoryEntry, HistoryNote, HistoryPage, HistoryQuery,
    RecentChange, check_purge, invalid_history_cursor,
};
use reqlore_domain::ports::write_context::{ChangeOrigin, WriteContext};
use reqlore_domain::project_key::ProjectKey;
use reqlore_domain::records::tombstone::parse_deletion;
use reqlore_domain::timestamp::Timestamp;

use crate::FsStore;
use crate::layout::ProjectTree;
use crate::list_files;
use crate::lock::ProjectLock;
use crate::metadata_index::MetadataIndex;
use crate::store_inner::StoreInner;
use crate::system::stat_folder;
use local_history::LocalHistory;
use merged_entries::{EntrySource, ListedEntry, merge_commits};
use repository::{CommittedFile, FileCommit, GitRepository, GitResult, MAX_COMMITS, parse_commit};

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

    async fn recent_changes(
        &self,
        project: &ProjectKey,
        since: Timestamp,
        limit: usize,
    ) -> StoreResult<Vec<RecentChange>> {
        let project = project.clone();
        self.run_blocking(move |store| {
            let history = LocalHistory::read(&store.open_root(&project)?);
            Ok(history.recent_changes(since, limit))
        })
        .await
    }

    async fn changed_documents(
        &self,
        project: &ProjectKey,
        since: Timestamp,
        ids: Option<Vec<DocumentId>>,
    ) -> StoreResult<Vec<ChangedDocument>> {
        // Most calls with a token: no file has to be compared with Git.
        if ids.as_ref().is_some_and(Vec::is_empty) {
            return Ok(Vec::new());
        }
        let kinds = DocumentKind::ALL.to_vec();
        let read_files = |index: &mut MetadataIndex| {
            let files = DocumentKind::ALL.map(|kind| index.of_kind(kind).files(kind).collect());
            files.into_iter().flat_map(|files: Vec<_>| files).collect()
        };
        let present = self.query_index(project, kinds, Refresh::Incremental, read_files).await?;
        let _permit = self.inner.git_permits.acquire().await;
        let project = project.clone();
        self.run_blocking(move |store| {
            changed_documents::list(store, &project, &present, since, ids)
        })
        .await
    }

    async fn purge_history(
        &self,
        project: &ProjectKey,
        id: &DocumentId,
        version: Option<Version>,
        context: WriteContext,
    ) -> StoreResult<u64> {
        let lock = self.inner.locks.lock(project, self.inner.project_path(project)).await?;
        let _permit = self.inner.git_permits.acquire().await;
        let (project, id) = (project.clone(), id.clone());
        self.run_blocking(move |store| purge(store, &project, &id, version, &context, &lock)).await
    }

    /// The size limit of the local history is enough.
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
    let history = LocalHistory::read(&store.open_root(project)?);
    let local = history.entries(id);
    let present = PresentFile::read(store, project, id)?;
    let (count, commit) = match query.after.as_deref() {
        None => (local.len(), None),
        Some(after) => parse_position(after, local.len()).ok_or_else(invalid_history_cursor)?,
    };
    let mut notes = Vec::new();
    notes.extend(history.is_blocked.then_some(HistoryNote::LocalBlocked));
    let committed = match commit {
        // Only local entries follow.
        Some("") => CommittedPage::default(),
        _ => match committed_page(store, project, &present, commit, query.limit, &mut notes) {
            Ok(page) => page.ok_or_else(invalid_history_cursor)?,
            Err(_) if commit.is_some() => return Err(invalid_history_cursor()),
            Err(note) => {
                notes.push(note);
                CommittedPage::default()
            }
        },
    };
    let CommittedPage { is_known, is_committed, entries: commits, next } = committed;
    let skipped = local.len() - count;
    let is_inside = match skipped.checked_sub(1) {
        None => local.first().is_some_and(|first| first.entry.version == present.version()),
        Some(last) => local[last].source == EntrySource::Change,
    };
    let rest = local.into_iter().skip(skipped).collect();
    let mut entries = merge_commits(rest, commits, is_inside, next.is_none());
    if query.after.is_none() {
        present.add_to(&mut entries, is_committed);
        let is_converted = notes.contains(&HistoryNote::FiltersChangeBytes);
        if is_known && !is_committed && !entries.is_empty() && !is_converted {
            push_note(&mut notes, HistoryNote::Uncommitted);
        }
    }
    let following = entries.split_off(query.limit.min(entries.len()));
    let next_commit = following.iter().find_map(|entry| entry.commit.clone()).or(next);
    let is_local = |entry: &&ListedEntry| entry.source != EntrySource::Git;
    let count = count - entries.iter().filter(is_local).count();
    let has_next = count > 0 || next_commit.is_some();
    // Both numbers stay the same when changes are added.
    let next = has_next.then(|| format!("{count}.{}", next_commit.unwrap_or_default()));
    let entries = entries.into_iter().map(|listed| listed.entry).collect();
    Ok(HistoryPage { entries, next, notes })
}

/// Parses the start of a page: the number of local entries from there on, at most `max_count`, and
/// the first commit.
fn parse_position(after: &str, max_count: usize) -> Option<(usize, Option<&str>)> {
    let (count, commit) = after.split_once('.')?;
    let count = count.parse().ok().filter(|count| *count <= max_count)?;
    Some((count, Some(commit)))
}

/// Finds the text of a version: in the present file, the local history, then in Git.
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
    let local = LocalHistory::read(&store.open_root(project)?).text(id, version);
    // The list of versions has the reason if Git cannot be asked.
    let body = match local {
        Some(body) => Some(body),
        None => find_blob(store, project, &present, version).unwrap_or_default(),
    };
    Ok(body.map(|body| Document::new(id.clone(), body)))
}

/// Erases texts from the local history. Fails afterwards if Git has them as well.
fn purge(
    store: &StoreInner,
    project: &ProjectKey,
    id: &DocumentId,
    version: Option<Version>,
    context: &WriteContext,
    lock: &ProjectLock,
) -> StoreResult<u64> {
    let present = PresentFile::read(store, project, id)?;
    let present_version = present.version();
    check_purge(id, present_version, version)?;
    let is_purged = |found: Version| {
        Some(found) != present_version && version.is_none_or(|version| version == found)
    };
    let history = LocalHistory::read(&lock.root);
    let is_erased = |entry: &HistoryEntry| entry.version.is_some_and(is_purged);
    let erased = history.entries(id).iter().filter(|listed| is_erased(&listed.entry)).count();
    if erased > 0 {
        history.purge(&lock.root, id, is_purged)?;
        let target = AuditTarget { name: id.to_string(), before: version, after: version };
        store.record_purge(context.audit_event(Some(project), vec![target]))?;
    }
    let has_committed_text =
        match committed_page(store, project, &present, None, MAX_COMMITS, &mut Vec::new()) {
            Ok(page) => {
                page.is_some_and(|page| page.entries.iter().any(|(_, entry)| is_erased(entry)))
            }
            // A repository that Git cannot read may have the text.
            Err(_) => lock.root.is_in_git_repository(),
        };
    if has_committed_text {
        let reason = "its earlier texts are in Git, and only the uncommitted ones were erased; \
                      remove the others there and purge again";
        return Err(StoreError::Refused { subject: id.to_string(), reason: reason.to_owned() });
    }
    Ok(erased as u64)
}

/// Committed versions, newest first.
#[derive(Default)]
struct CommittedPage {
    /// Git answered.
    is_known: bool,
    /// The present state is that of the current commit.
    is_committed: bool,
    /// With the commits as keys.
    entries: Vec<(String, HistoryEntry)>,
    /// The commit with which the next page begins.
    next: Option<String>,
}

/// Returns a page of committed versions; `None` if `start` is not one of the commits.
fn committed_page(
    store: &StoreInner,
    project: &ProjectKey,
    present: &PresentFile,
    start: Option<&str>,
    limit: usize,
    notes: &mut Vec<HistoryNote>,
) -> GitResult<Option<CommittedPage>> {
    let mut page = CommittedPage { is_known: true, ..CommittedPage::default() };
    let Some(repository) = open_repository(store, project, present)? else {
        return Ok(start.is_none().then_some(page));
    };
    if repository.is_shallow {
        notes.push(HistoryNote::ShallowClone);
    }
    let (head, commits) = find_commits(&repository, &present.paths, notes)?;
    let revisions = distinct_revisions(commits);
    let position = |start| revisions.iter().position(|revision| revision.commit == start);
    let Some(position) = start.map_or(Some(0), position) else { return Ok(None) };
    let rest = &revisions[position..];
    let revisions = cut_page(rest, limit);
    page.next = rest.get(revisions.len()).map(|revision| revision.commit.clone());
    page.entries = read_entries(&repository, revisions, notes)?;
    if start.is_none() && !matches!(head, CommittedFile::TooLarge(_)) {
        let head = page.entries.first().map(|(_, entry)| entry.version);
        page.is_committed = head == Some(present.version());
        present.detect_conversion(&repository, &mut page, notes)?;
    }
    Ok(Some(page))
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
) -> GitResult<Vec<(String, HistoryEntry)>> {
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
        let origin = ChangeOrigin { user: info.author, tool: None, reason: info.subject };
        let entry = HistoryEntry { version, at: info.committed_at, origin, is_purged: false };
        entries.push((revision.commit.clone(), entry));
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
                .or_else(|| stat_folder(&location.dir).ok())
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

    fn version(&self) -> Option<Version> {
        self.document.as_ref().map(|document| document.version)
    }

    fn entry(&self) -> HistoryEntry {
        let (at, user) = match self.deletion.clone() {
            Some(deletion) => (deletion.at, deletion.by),
            None => (self.changed_at, None),
        };
        HistoryEntry {
            version: self.version(),
            at,
            origin: ChangeOrigin { user, ..ChangeOrigin::default() },
            is_purged: false,
        }
    }

    /// Adds the present state if the first entry does not have it.
    fn add_to(&self, entries: &mut Vec<ListedEntry>, is_committed: bool) {
        let is_listed = match entries.first() {
            // A commit may have the same text with other line ends.
            Some(first) if first.source == EntrySource::Git && is_committed => true,
            Some(first) => first.entry.version == self.version(),
            None => !self.is_known(),
        };
        if !is_listed {
            let mut entry = self.entry();
            if is_committed {
                entry.origin.reason = Some("checkout of the committed text".to_owned());
            }
            entries.insert(0, ListedEntry { entry, source: EntrySource::Git, commit: None });
        }
    }

    /// Notes a conversion by Git. Git itself does not compare, because that may start a filter of
    /// the repository.
    fn detect_conversion(
        &self,
        repository: &GitRepository,
        page: &mut CommittedPage,
        notes: &mut Vec<HistoryNote>,
    ) -> GitResult<()> {
        let head = page.entries.first().and_then(|(_, entry)| entry.version);
        let (Some(document), Some(head), false) = (&self.document, head, page.is_committed) else {
            return Ok(());
        };
        let has_line_ends_only =
            Version::of_bytes(&without_carriage_returns(&document.body)) == head;
        page.is_committed = has_line_ends_only;
        if has_line_ends_only || repository.is_converted(&self.paths[0])? {
            push_note(notes, HistoryNote::FiltersChangeBytes);
        }
        Ok(())
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
        (DocumentKind::Instructions, ..) => dunce::canonicalize(&path).ok(),
        (_, Some(parent), Some(name)) => dunce::canonicalize(parent).ok().map(|dir| dir.join(name)),
        _ => None,
    };
    // The folder of a deleted document may be gone.
    let Some(resolved) = resolved else { return Ok(Some(display_path)) };
    let Ok(path) = resolved.strip_prefix(folder) else { return Ok(None) };
    // Git separates the parts by slashes on each system.
    let parts: Option<Vec<&str>> = path.iter().map(|part| part.to_str()).collect();
    let path = parts.map(|parts| parts.join("/"));
    Ok(path.filter(|path| !path.contains(char::is_control)))
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
