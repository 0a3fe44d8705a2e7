//! The documents that changed since a time: by recorded changes, by hand, and by Git.

use std::collections::{BTreeMap, BTreeSet};

use reqlore_domain::document::{DocumentId, Version};
use reqlore_domain::ports::documents::StoreResult;
use reqlore_domain::ports::history::{ChangedDocument, HistoryEntry};
use reqlore_domain::ports::write_context::ChangeOrigin;
use reqlore_domain::project_key::ProjectKey;
use reqlore_domain::timestamp::Timestamp;

use super::local_history::LocalHistory;
use super::repository::GitRepository;
use super::{PresentFile, git_path};
use crate::layout::{ProjectTree, section_id};
use crate::store_inner::StoreInner;
use crate::team::pending_audit::target_document;

/// The documents of the index, with the times of their files.
type PresentFiles = BTreeMap<DocumentId, (Version, Option<Timestamp>)>;

pub(super) fn list(
    store: &StoreInner,
    project: &ProjectKey,
    present: &PresentFiles,
    since: Timestamp,
    ids: Option<Vec<DocumentId>>,
) -> StoreResult<Vec<ChangedDocument>> {
    let root = store.open_root(project)?;
    let tree = ProjectTree::new(&root, &store.layout);
    let recorded = LocalHistory::read(&root).last_changes(since);
    // `history` reports a repository that Git cannot read.
    let repository = GitRepository::open(store.project_path(project), &store.git).ok().flatten();
    let old = repository.as_ref().and_then(|repository| repository.commit_at(since).ok()?);
    let is_limited = ids.is_some();
    let mut candidates: BTreeSet<DocumentId> = ids.unwrap_or_default().into_iter().collect();
    // Lost after the time, as commits prove.
    let mut lost = candidates.clone();
    if !is_limited {
        if let (Some(repository), Some((old, _))) = (&repository, &old) {
            let document = |path: &String| document_at(&tree, path);
            let changed = repository.paths_changed_since(old).unwrap_or_default();
            lost.extend(changed.iter().filter_map(document));
            let deleted = repository.deleted_paths().unwrap_or_default();
            candidates.extend(deleted.iter().filter_map(document));
        }
        candidates.extend(present.keys().chain(recorded.keys()).chain(&lost).cloned());
    }
    let (mut changed, mut unrecorded) = (Vec::new(), Vec::new());
    for id in candidates {
        let (record, file) = (recorded.get(&id), present.get(&id));
        let version = file.map(|(version, _)| *version);
        let mut entry = match (record, file) {
            (Some((entry, _)), _) if entry.version == version => entry.clone(),
            (_, Some((_, modified_at))) => {
                let (at, origin) = (modified_at.unwrap_or(since), ChangeOrigin::default());
                HistoryEntry { version, at, origin, is_purged: false }
            }
            (_, None) => PresentFile::read(store, project, &id)?.entry(),
        };
        // The folder that had the file may be gone, or older than the log of Git.
        if version.is_none() && (lost.contains(&id) || entry.at == Timestamp::default()) {
            entry.at = entry.at.max(since);
        }
        if is_limited || entry.at >= since {
            if record.is_none() && version.is_some() {
                unrecorded.push(changed.len());
            }
            let is_new = version.is_some() && record.is_some_and(|(_, existed)| !existed);
            changed.push(ChangedDocument { id, entry, is_new });
        }
    }
    let mut paths = Vec::new();
    for index in &unrecorded {
        let path = git_path(&tree, store.project_path(project), &changed[*index].id)?;
        paths.push(path.unwrap_or_default());
    }
    let existed = match (&repository, &old) {
        (Some(repository), Some((old, true))) => repository.has_files(old, &paths).ok(),
        _ => None,
    };
    for (position, index) in unrecorded.into_iter().enumerate() {
        let ChangedDocument { id, is_new, .. } = &mut changed[index];
        *is_new = match existed.as_ref().and_then(|existed| existed.get(position)) {
            Some(existed) => !existed,
            None => is_file_younger(&tree, id, since)?,
        };
    }
    Ok(changed)
}

/// Returns the document at a path relative to the project's folder.
fn document_at(tree: &ProjectTree<'_>, path: &str) -> Option<DocumentId> {
    let requirements = tree.requirements().ok()?.display_path("");
    match path.strip_prefix(&requirements) {
        Some("AGENTS.md") => Some(DocumentId::instructions()),
        Some(file) => section_id(file),
        None => target_document(path),
    }
}

/// True if the file was created at or after a time, as far as the file system knows.
fn is_file_younger(tree: &ProjectTree<'_>, id: &DocumentId, since: Timestamp) -> StoreResult<bool> {
    let Some(location) = tree.locate(id)? else { return Ok(false) };
    let created = location.dir.metadata(&location.name).and_then(|file| file.created());
    let Ok(created) = created.map(cap_std::time::SystemTime::into_std) else { return Ok(false) };
    let age = created.duration_since(std::time::SystemTime::UNIX_EPOCH).unwrap_or_default();
    Ok(age.as_secs().cast_signed() >= since.seconds())
}
