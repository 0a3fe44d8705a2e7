//! Git: what must not get into the repository, and what has to.
//!
//! The trap: git runs programs that a repository's own configuration names. So it is only asked
//! what is ignored and what is kept, without looking at files, without hooks, without fetching, and
//! not in a repository that lies inside of another folder by surprise.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use reqlore_probe::NoAnswer;
use reqlore_probe::command::{self, Output};

use super::finding::{Area, Findings};
use super::programs::Programs;
use crate::storage::LOCAL;

const TIMEOUT: Duration = Duration::from_secs(10);
const GUARDS: [&str; 9] = [
    "--no-pager",
    "-c",
    "core.quotePath=false",
    "-c",
    "core.fsmonitor=false",
    "-c",
    "core.hooksPath=/dev/null",
    "-c",
    "safe.bareRepository=explicit",
];
const ENVIRONMENT: [(&str, &str); 5] = [
    ("GIT_OPTIONAL_LOCKS", "0"),
    ("GIT_NO_LAZY_FETCH", "1"),
    ("GIT_TERMINAL_PROMPT", "0"),
    ("GIT_ALLOW_PROTOCOL", ""),
    ("LC_ALL", "C"),
];

/// What a hook gives to what it starts: they name another repository than that of the project.
const OTHERS: [&str; 5] =
    ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_COMMON_DIR", "GIT_PREFIX"];

/// What is this machine's alone, by an example.
const PRIVATE: (&str, &str) = (LOCAL, ".reqlore/local/identity.json");
/// What is everybody's: the folder, and an example of what lies in it.
const SHARED: [(&str, &str); 6] = [
    (".reqlore/backlog", ".reqlore/backlog/requirements/REQ-001-000000.md"),
    ("docs/development/requirements", "docs/development/requirements/AGENTS.md"),
    ("docs/dev/req", "docs/dev/req/AGENTS.md"),
    (".ixchel", ".ixchel/decisions/dec-000000.md"),
    (".knowledge/config.yaml", ".knowledge/config.yaml"),
    ("reqlore.toml", "reqlore.toml"),
];

pub(super) fn look(
    root: &Path,
    requirements: Option<&str>,
    programs: &Programs,
    findings: &mut Findings,
) {
    let Some(git) = repository(root, programs, findings) else { return };
    // git refuses to tell of what lies behind a link, and it is not this repository's.
    let is_there = |(place, _): &(&str, &str)| {
        let place = root.join(place);
        place.canonicalize().is_ok_and(|real| real == place)
    };
    let example = requirements.map(|folder| format!("{folder}/AGENTS.md"));
    let own = requirements.zip(example.as_deref());
    let local = Some(PRIVATE).filter(is_there);
    let shared: Vec<_> = SHARED.into_iter().chain(own).filter(is_there).collect();
    let mut asked = vec!["check-ignore", "--no-index", "--"];
    asked.extend(local.iter().chain(&shared).map(|(_, example)| *example));
    if local.is_none() && shared.is_empty() {
        return findings.ok(Area::Git, "the project is in a git repository");
    }
    let ignored = match run(&git, programs, root, &asked) {
        Ok(Output { code: Some(0 | 1), text, .. }) => text,
        Ok(Output { errors, .. }) => {
            let next = "mend what git says";
            return findings.warning(Area::Git, format!("git can't tell: {errors}"), next);
        }
        Err(error) => return unasked(&error, findings),
    };
    if local.is_some() {
        tracked(&git, programs, root, findings);
    }
    let is_ignored = |example: &str| ignored.lines().any(|line| line == example);
    let hidden = shared.iter().filter(|(_, example)| is_ignored(example));
    let hidden: Vec<(&str, &str)> = hidden.copied().collect();
    judge(local.is_none_or(|(_, example)| is_ignored(example)), &hidden, findings);
}

/// git, if the project is in a repository.
fn repository(root: &Path, programs: &Programs, findings: &mut Findings) -> Option<PathBuf> {
    let Some(git) = programs.named("git") else {
        findings.note(Area::Git, "there is no git on PATH; nothing was asked of it", None);
        return None;
    };
    match run(&git, programs, root, &["rev-parse", "--is-inside-work-tree"]) {
        Ok(Output { code: Some(0), text, .. }) if text.trim() == "true" => return Some(git),
        Ok(Output { errors, .. }) if !errors.contains("not a git repository") => {
            let next = "mend what git says; until then nobody knows what it would ignore";
            let message = format!("git can't be asked here: {errors}");
            findings.warning(Area::Git, message, next);
        }
        Ok(_) => {
            let next = "`git init` keeps the history of requirements with that of the code";
            let message = "the project is in no git repository";
            findings.note(Area::Git, message, Some(next));
        }
        Err(error) => unasked(&error, findings),
    }
    None
}

/// What was added once is kept, whatever is ignored.
fn tracked(git: &Path, programs: &Programs, root: &Path, findings: &mut Findings) {
    match run(git, programs, root, &["ls-files", "--", LOCAL]) {
        Ok(Output { code: Some(0), text, .. }) if text.is_empty() => {}
        Ok(Output { code: Some(0), .. }) => findings.problem(
            Area::Git,
            format!("git keeps files of {LOCAL}, which may hold users, tokens and the audit"),
            "take them out with `git rm -r --cached .reqlore/local`, and revoke tokens where \
             others may have got the repository",
        ),
        Ok(Output { errors, .. }) => {
            let next = "mend what git says";
            findings.warning(Area::Git, format!("git can't tell: {errors}"), next);
        }
        Err(error) => unasked(&error, findings),
    }
}

fn judge(hides_local: bool, hidden: &[(&str, &str)], findings: &mut Findings) {
    if !hides_local {
        findings.problem(
            Area::Git,
            format!("{LOCAL} is not ignored, and may hold users, tokens and the audit"),
            "put `*` into .reqlore/local/.gitignore",
        );
    }
    for (place, example) in hidden {
        findings.warning(
            Area::Git,
            format!("{place} is ignored, so what is written there stays on this machine"),
            &format!(
                "`git check-ignore --no-index -v {example}` shows the rule; take it out, or make \
                 it less wide"
            ),
        );
    }
    if findings.count_of(Area::Git) == 0 {
        let message = "documents are for everybody, and .reqlore/local for this machine alone";
        findings.ok(Area::Git, message);
    }
}

fn unasked(error: &NoAnswer, findings: &mut Findings) {
    findings.warning(Area::Git, format!("git {}", error.message), &error.next);
}

fn run(
    git: &Path,
    programs: &Programs,
    root: &Path,
    arguments: &[&str],
) -> Result<Output, NoAnswer> {
    let mut command = Command::new(git);
    command.env("PATH", programs.path());
    command.args(GUARDS).args(arguments).envs(ENVIRONMENT).current_dir(root);
    for variable in OTHERS {
        command.env_remove(variable);
    }
    let output = command::output(command, TIMEOUT)?;
    if output.code.is_none() {
        return Err(NoAnswer {
            message: format!("did not end by itself within {TIMEOUT:?}"),
            next: "run `git status` in the project, and mend what keeps it waiting".to_owned(),
        });
    }
    Ok(output)
}
