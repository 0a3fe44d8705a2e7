//! `reqlore context`: the stored texts that matter for a task, items or changed files.

use std::path::Path;

use reqlore_git_runner::{GitError, GitOutput, GitRunner};
use serde_json::json;

use super::output::{OutputScreen, TextStyle, print, print_json};
use super::tool_client::{ClientPurpose, ProjectOptions, ToolClient};
use crate::config::AppConfig;
use crate::console::{encode_console, eprint_line};
use crate::exit::{CommandError, Result};
use crate::git::git_environment;

/// The tool takes as many.
const MAX_FILES: usize = 1_000;

#[derive(Debug, clap::Args)]
#[command(group = clap::ArgGroup::new("subject").required(true).multiple(true))]
pub(crate) struct ContextOptions {
    /// The work in words
    #[arg(value_name = "TASK", group = "subject")]
    task: Vec<String>,
    /// Any ID: EP-001, dec-1d2c8f, general, general:2.1; may be repeated
    #[arg(long = "item", value_name = "ID", group = "subject", add = super::complete::all_ids())]
    items: Vec<String>,
    /// Changed files
    #[arg(long, value_name = "PATH", num_args = 1.., group = "subject")]
    files: Vec<String>,
    /// The files that HEAD changed since it left BASE, such as main..HEAD
    #[arg(long, value_name = "BASE..HEAD", group = "subject")]
    git: Option<String>,
    /// Only entries of this kind, such as requirement or decision; may be repeated
    #[arg(long = "kind", value_name = "KIND")]
    kinds: Vec<String>,
    /// Maximum size of the text; a token is four bytes
    #[arg(
        long,
        value_name = "TOKENS",
        default_value_t = 1_500,
        value_parser = clap::value_parser!(u32).range(200..=20_000)
    )]
    max_tokens: u32,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    project: ProjectOptions,
}

pub(crate) fn run(config: &AppConfig, options: &ContextOptions) -> Result<u8> {
    let ContextOptions { task, items, kinds, max_tokens, .. } = options;
    let mut files = options.files.clone();
    if let Some(range) = &options.git {
        files.extend(changed_files(&config.root, range)?);
    }
    let task = task.join(" ");
    let has_task = !task.trim().is_empty();
    if options.git.is_some() && !has_task && items.is_empty() && files.is_empty() {
        return print("No file was changed.\n");
    }
    if files.len() > MAX_FILES {
        eprint_line(&format!("{} files were changed; the first {MAX_FILES} count", files.len()));
        files.truncate(MAX_FILES);
    }
    let mut arguments =
        json!({ "items": items, "files": files, "kinds": kinds, "max_tokens": max_tokens });
    if has_task {
        arguments["task"] = json!(task);
    }
    let client = ToolClient::open(config, &options.project, ClientPurpose::Read)?;
    let answer = client.call_for_answer("get_context", arguments)?;
    drop(client);
    if options.json {
        return print_json(&*answer.data);
    }
    let screen = OutputScreen::of_stdout();
    let mut text = String::new();
    for line in encode_console(&answer.text).lines() {
        text += &screen.wrapped(line, TextStyle::Plain);
    }
    screen.print(&text)
}

/// The paths that differ between the second revision and the point at which it left the first one.
fn changed_files(root: &Path, range: &str) -> Result<Vec<String>> {
    let (base, head) = range.split_once("..").unwrap_or((range, "HEAD"));
    let head = head.trim_start_matches('.');
    let ends = format!("{base}...{}", if head.is_empty() { "HEAD" } else { head });
    let fail = |problem: &str| CommandError::failure(format!("--git: {problem}"));
    let Some(git) = GitRunner::find(root, &git_environment()) else {
        return Err(fail("git is not on PATH; install it, or pass --files"));
    };
    let query = |arguments: &[&str]| -> Result<GitOutput> {
        git.query(arguments, Vec::new()).map_err(|error: GitError| fail(&error.to_string()))
    };
    // Git takes what begins with a hyphen for an option.
    let found = query(&["rev-parse", "--revs-only", "--end-of-options", &ends])?;
    let revisions = found.text();
    // The head, the base, and their merge bases after `^`.
    let mut lines = revisions.lines();
    let (Some(head), Some(base), true) = (lines.next(), lines.next(), found.is_success()) else {
        let message = format!("{range:?} is not a range of commits here; use BASE..HEAD");
        return Err(CommandError::usage_error(format!("--git: {message}")));
    };
    let base = lines.next().map_or(base, |merge_base| merge_base.trim_start_matches('^'));
    let listed =
        query(&["diff-tree", "-r", "-z", "--name-only", "--no-renames", base, head, "--"])?;
    if !listed.is_success() {
        return Err(fail(&format!("git diff-tree: {}", listed.errors)));
    }
    let listed = listed.text();
    Ok(listed.split('\0').filter(|path| !path.is_empty()).map(str::to_owned).collect())
}
