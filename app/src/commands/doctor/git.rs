//! Checks that Git ignores private files and tracks shared ones.

use std::path::Path;

use reqlore_git_runner::{GitError, GitOutput, GitRunner};

use super::report::AreaReport;
use crate::git::git_environment;
use crate::storage_spec::LOCAL;

/// A folder and the path of a file in it.
type FolderExample<'a> = (&'a str, &'a str);

const PRIVATE_FOLDER: FolderExample<'_> = (LOCAL, ".reqlore/local/team.db");
const SHARED_FOLDERS: [FolderExample<'_>; 6] = [
    (".reqlore/backlog", ".reqlore/backlog/requirements/REQ-001-000000.md"),
    ("docs/development/requirements", "docs/development/requirements/AGENTS.md"),
    ("docs/dev/req", "docs/dev/req/AGENTS.md"),
    (".ixchel", ".ixchel/decisions/dec-000000.md"),
    (".knowledge/config.yaml", ".knowledge/config.yaml"),
    ("reqlore.toml", "reqlore.toml"),
];

pub(super) fn check_git(root: &Path, requirements: Option<&str>, mut report: AreaReport<'_>) {
    if let Err(GitFailure { message, next }) = check_repository(root, requirements, &mut report) {
        report.warning(message, next);
    }
}

fn check_repository(
    root: &Path,
    requirements: Option<&str>,
    report: &mut AreaReport<'_>,
) -> Result<(), GitFailure> {
    let Some(git) = GitRunner::find(root, &git_environment()) else {
        report.note("git is not on PATH; ignored files were not checked", "");
        return Ok(());
    };
    let inside = git.query(&["rev-parse", "--is-inside-work-tree"], Vec::new())?;
    if !inside.is_success() || inside.text().trim() != "true" {
        // Other errors, such as unsafe ownership, need the user.
        if !inside.is_success() && !inside.errors.contains("not a git repository") {
            return Err(git_error(&inside));
        }
        let next = "run `git init` to keep the history of requirements and code together";
        report.note("the project is not in a Git repository", next);
        return Ok(());
    }
    let example = requirements.map(|folder| format!("{folder}/AGENTS.md"));
    let mut shared = Vec::new();
    for (folder, example) in SHARED_FOLDERS.into_iter().chain(requirements.zip(example.as_deref()))
    {
        if is_without_links(root, folder) {
            shared.push((folder, example));
        }
    }
    let has_private = is_without_links(root, PRIVATE_FOLDER.0);
    if !has_private && shared.is_empty() {
        report.ok("the project is in a Git repository");
        return Ok(());
    }
    // With `--no-index`, the rules apply to tracked files too.
    let mut arguments = vec!["check-ignore", "--no-index", "--"];
    if has_private {
        arguments.push(PRIVATE_FOLDER.1);
    }
    for (_, example) in &shared {
        arguments.push(example);
    }
    let output = git.query(&arguments, Vec::new())?;
    // Git exits with 1 if no path is ignored.
    if !matches!(output.code, Some(0 | 1)) {
        return Err(git_error(&output));
    }
    let output = output.text();
    let ignored: Vec<&str> = output.lines().collect();
    if has_private {
        check_private(&git, ignored.contains(&PRIVATE_FOLDER.1), report)?;
    }
    for (folder, example) in shared {
        if ignored.contains(&example) {
            report.warning(
                format!("{folder} is ignored, so changes there stay on this machine"),
                format!(
                    "`git check-ignore --no-index -v {example}` shows the rule; remove or narrow it"
                ),
            );
        }
    }
    if report.is_empty() {
        report.ok("documents are shared, and .reqlore/local stays on this machine");
    }
    Ok(())
}

/// True if the folder exists inside the repository. Git rejects paths that pass a link.
fn is_without_links(root: &Path, folder: &str) -> bool {
    let folder = root.join(folder);
    dunce::canonicalize(&folder).is_ok_and(|resolved| resolved == folder)
}

fn check_private(
    git: &GitRunner,
    is_ignored: bool,
    report: &mut AreaReport<'_>,
) -> Result<(), GitFailure> {
    // A tracked file stays tracked, even if it is ignored.
    let tracked = git.query(&["ls-files", "--", LOCAL], Vec::new())?;
    if !tracked.is_success() {
        return Err(git_error(&tracked));
    }
    if !tracked.stdout.is_empty() {
        report.problem(
            format!("Git tracks files of {LOCAL}, which may hold users, tokens and the audit log"),
            "run `git rm -r --cached .reqlore/local`; if it was shared, revoke all tokens",
        );
    }
    if !is_ignored {
        report.problem(
            format!("{LOCAL} is not ignored, but may hold users, tokens and the audit log"),
            "write `*` to .reqlore/local/.gitignore",
        );
    }
    Ok(())
}

/// A failure of Git and the next step for the user.
struct GitFailure {
    message: String,
    next: String,
}

impl From<GitError> for GitFailure {
    fn from(error: GitError) -> Self {
        let next = "run `git status` in the project to see why";
        Self { message: error.to_string(), next: next.to_owned() }
    }
}

fn git_error(GitOutput { errors, .. }: &GitOutput) -> GitFailure {
    GitFailure {
        message: format!("git failed: {errors}"),
        next: "fix the error that git reports; ignored files were not checked".to_owned(),
    }
}
