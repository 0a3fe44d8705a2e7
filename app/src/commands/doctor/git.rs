//! Checks what Git ignores and tracks: private files must stay out, shared ones must get in.

use std::path::Path;

use reqlore_probe::{CommandOutput, ProbeError};

use super::report::AreaReport;
use crate::git::GitCommand;
use crate::storage::LOCAL;

/// A folder and an example of a file in it.
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
    if let Err(ProbeError { message, next }) = check_repository(root, requirements, &mut report) {
        report.warning(message, next);
    }
}

fn check_repository(
    root: &Path,
    requirements: Option<&str>,
    report: &mut AreaReport<'_>,
) -> Result<(), ProbeError> {
    let Some(git) = GitCommand::find(root) else {
        report.note("there is no git on PATH; ignored files were not checked", "");
        return Ok(());
    };
    let inside = git.run_git(&["rev-parse", "--is-inside-work-tree"])?;
    if inside.code != Some(0) || inside.text.trim() != "true" {
        if inside.code != Some(0) && !inside.errors.contains("not a git repository") {
            return Err(git_error(&inside));
        }
        let next = "`git init` keeps the history of requirements with that of the code";
        report.note("the project is not in a Git repository", next);
        return Ok(());
    }
    // Git refuses to look behind a link, and such files are not in this repository.
    let is_there = |(folder, _): &FolderExample<'_>| {
        let folder = root.join(folder);
        folder.canonicalize().is_ok_and(|resolved| resolved == folder)
    };
    let example = requirements.map(|folder| format!("{folder}/AGENTS.md"));
    let own = requirements.zip(example.as_deref());
    let private = Some(PRIVATE_FOLDER).filter(is_there);
    let shared: Vec<FolderExample<'_>> =
        SHARED_FOLDERS.into_iter().chain(own).filter(is_there).collect();
    if private.is_none() && shared.is_empty() {
        report.ok("the project is in a Git repository");
        return Ok(());
    }
    let mut arguments = vec!["check-ignore", "--no-index", "--"];
    arguments.extend(private.iter().chain(&shared).map(|(_, example)| *example));
    let ignored = git.run_git(&arguments)?;
    if !matches!(ignored.code, Some(0 | 1)) {
        return Err(git_error(&ignored));
    }
    let is_ignored = |example: &str| ignored.text.lines().any(|line| line == example);
    if let Some((_, example)) = private {
        check_private(&git, is_ignored(example), report)?;
    }
    for (folder, example) in shared.into_iter().filter(|(_, example)| is_ignored(example)) {
        report.warning(
            format!("{folder} is ignored, so changes there stay on this machine"),
            format!(
                "`git check-ignore --no-index -v {example}` shows the rule; remove it, or make \
                 it narrower"
            ),
        );
    }
    if report.is_empty() {
        report.ok("documents are shared, and .reqlore/local stays on this machine");
    }
    Ok(())
}

fn check_private(
    git: &GitCommand,
    is_ignored: bool,
    report: &mut AreaReport<'_>,
) -> Result<(), ProbeError> {
    // A tracked file stays tracked, even if it is ignored.
    let tracked = git.run_git(&["ls-files", "--", LOCAL])?;
    if tracked.code != Some(0) {
        return Err(git_error(&tracked));
    }
    if !tracked.text.is_empty() {
        report.problem(
            format!("Git tracks files of {LOCAL}, which may hold users, tokens and the audit"),
            "take them out with `git rm -r --cached .reqlore/local`, and revoke tokens if \
             the repository was shared",
        );
    }
    if !is_ignored {
        report.problem(
            format!("{LOCAL} is not ignored, and may hold users, tokens and the audit"),
            "put `*` into .reqlore/local/.gitignore",
        );
    }
    Ok(())
}

fn git_error(CommandOutput { errors, .. }: &CommandOutput) -> ProbeError {
    ProbeError {
        message: format!("git failed: {errors}"),
        next: "fix what git reports; until then ignored files are not checked".to_owned(),
    }
}
