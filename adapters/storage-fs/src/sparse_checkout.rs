//! Documents that a sparse checkout leaves out of the work tree. They are not missing, so reads and
//! writes that need them are refused.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use reqlore_domain::document::{BACKLOG_FOLDER, DocumentId, DocumentKind, TEMPLATE_FOLDER};
use reqlore_domain::ports::documents::StoreResult;
use reqlore_git_runner::{GitEnvironment, GitOutput, GitRunner, WorkTree};
use reqlore_local_state::error::refused;

use crate::file_stamp::{ClockTime, FileStamp};
use crate::folder_names::{DOCSETS_FOLDER, RequirementsLayout};
use crate::layout::DocumentArea;
use crate::system::path_of_git;
use crate::system::stamp_of;

/// The checkouts of the projects, by folder.
#[derive(Debug, Default)]
pub(crate) struct SparseCheckouts(Mutex<HashMap<PathBuf, CheckoutState>>);

#[derive(Debug, Default)]
struct CheckoutState {
    /// The file that a checkout has if it is or was sparse; `None` outside of Git.
    patterns: Option<PathBuf>,
    /// The folders that are left out, valid while Git's index is unchanged.
    left_out: Option<(FileStamp, Vec<String>)>,
}

const MAX_PROJECTS: usize = 10_000;

impl SparseCheckouts {
    /// True if documents of a project may be left out, so that Git may have to be asked.
    pub(crate) fn is_sparse(&self, project: &Path) -> bool {
        let Ok(known) = self.0.try_lock() else { return true };
        // As of the last call that could block: one follows when Git removes files.
        let Some(state) = known.get(project) else { return true };
        state.patterns.as_ref().is_some_and(|file| file.is_file())
    }

    /// Rejects kinds of which Git's index has documents that the work tree lacks.
    pub(crate) fn check_checked_out(
        &self,
        project: &Path,
        git: &GitEnvironment,
        layout: &RequirementsLayout,
        kinds: impl IntoIterator<Item = DocumentKind>,
    ) -> StoreResult<()> {
        let work_tree = WorkTree::around(project, git.home());
        // Held, so that concurrent reads start Git once.
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= MAX_PROJECTS {
            known.clear();
        }
        let state = known.entry(project.to_owned()).or_default();
        let Some(WorkTree { root, git_folder, .. }) = work_tree else {
            *state = CheckoutState::default();
            return Ok(());
        };
        let patterns = state.patterns.insert(git_folder.join("info/sparse-checkout"));
        let now = ClockTime::now();
        // Without an index, Git has no files. A pipe in its place must not block.
        let index = fs::metadata(git_folder.join("index")).ok().filter(fs::Metadata::is_file);
        let Some(index) = index.filter(|_| patterns.is_file()) else { return Ok(()) };
        let stamp = stamp_of(&index);
        let mut left_out = match &state.left_out {
            Some((known, left_out)) if *known == stamp => left_out.clone(),
            _ => folders_left_out(project, git, layout),
        };
        state.left_out = stamp.is_reliable_at(now).then(|| (stamp, left_out.clone()));
        let needed: Vec<_> = kinds.into_iter().flat_map(|kind| folders_of(layout, kind)).collect();
        left_out.retain(|folder| needed.contains(folder));
        let Some(first) = left_out.first() else { return Ok(()) };
        let mut command = "git sparse-checkout add".to_owned();
        let prefix = project.strip_prefix(&root).unwrap_or(project);
        for folder in &left_out {
            let _ = write!(command, " {}", prefix.join(folder).display());
        }
        let reason = format!("is not checked out; run `{command}` in the repository's root");
        Err(refused(first, &reason))
    }
}

fn folders_of(layout: &RequirementsLayout, kind: DocumentKind) -> Vec<String> {
    match (DocumentArea::of_kind(kind), kind) {
        (Some(area), _) => vec![area.top_folder().to_owned()],
        (None, DocumentKind::Docsets) => vec![DOCSETS_FOLDER.to_owned()],
        // Its folder has other documents, which may be left out without it.
        (None, DocumentKind::Schema) => vec![DocumentId::schema().to_string()],
        (None, DocumentKind::Template) => vec![TEMPLATE_FOLDER.to_owned()],
        (None, _) => layout.candidates.clone(),
    }
}

fn folders_left_out(
    project: &Path,
    git: &GitEnvironment,
    layout: &RequirementsLayout,
) -> Vec<String> {
    let kinds = DocumentKind::ALL.into_iter();
    let mut folders: Vec<String> = kinds.flat_map(|kind| folders_of(layout, kind)).collect();
    folders.sort_unstable();
    folders.dedup();
    let skipped = list_skipped_files(project, git, &folders);
    folders.retain(|folder| match &skipped {
        Some(files) => files.iter().any(|file| file.starts_with(folder)),
        // Without Git, only a missing backlog is refused, because its numbers may be in use.
        None => folder == BACKLOG_FOLDER && !project.join(folder).is_dir(),
    });
    folders
}

/// Lists the files that are in Git's index but not in the work tree; `None` without Git.
fn list_skipped_files(
    project: &Path,
    git: &GitEnvironment,
    folders: &[String],
) -> Option<Vec<PathBuf>> {
    let mut arguments = vec!["--literal-pathspecs", "ls-files", "-t", "-z", "--"];
    arguments.extend(folders.iter().map(String::as_str));
    let output = GitRunner::find(project, git)?.query(&arguments, Vec::new());
    let output = output.ok().filter(GitOutput::is_success)?;
    // `S` marks a file that Git does not check out.
    let entries = output.stdout.split(|byte| *byte == 0);
    let skipped = entries.filter_map(|entry| entry.strip_prefix(b"S "));
    let mut files: Vec<_> = skipped.map(path_of_git).collect();
    files.retain(|path| project.join(path).symlink_metadata().is_err());
    Some(files)
}
