//! Runs hooks as their clients would, and shows the text that they add.
//!
//! A project's file may come from a cloned repository. So only commands that init writes are run,
//! with this binary.

use std::path::Path;
use std::time::Instant;

use reqlore_client_config::{ClientEnvironment, ClientHook, ConfigScope, HOOKS, HookEvent, edit};
use serde_json::Value;

use super::report::AreaReport;
use crate::client_environment::{own_program, run_in_shell};
use crate::commands::init::server_entry::guarded_command;
use crate::commands::untrusted_text::read_file;

const MAX_FILE_BYTES: u64 = 4 << 20;
const BYTES_PER_TOKEN: usize = 4;
/// The input of a hook for prompts.
const TEST_INPUT: &str = "{\"prompt\": \"What must a change of this project respect?\"}";

pub(super) fn check_hooks(
    environment: &ClientEnvironment,
    with_token: bool,
    report: &mut AreaReport<'_>,
) {
    for hook in HOOKS {
        for asked in ConfigScope::ALL {
            let (scope, file) = hook.location(asked, environment);
            // A client without a file in the project has one location.
            if scope != asked {
                continue;
            }
            let Ok(Some(text)) = read_file(&file, MAX_FILE_BYTES) else { continue };
            let ClientHook { client, event, .. } = hook;
            let (name, title) = (event.name(), client.title());
            let subject = format!("{name} hook of {title} ({})", file.display());
            let mut report = report.with_subject(&subject);
            let found = match edit::find_hook(&text, hook.path) {
                Ok(found) => found,
                Err(error) => {
                    let message = format!("the client can't read the file: {error}");
                    report.problem(message, "correct the file by hand");
                    continue;
                }
            };
            let Some(command) = found.first().and_then(edit::hook_command) else { continue };
            let words = hook_words(command);
            let is_remote = words.iter().any(|word| word == "--url");
            if words.is_empty() {
                report.warning(
                    "was not run, because it is not a command that init writes for this binary",
                    format!(
                        "check the command, or run `reqlore init --client {client} --hooks {name}`"
                    ),
                );
            } else if is_remote && scope == ConfigScope::Project && !with_token {
                report.note(
                    "was not run, because a project file names its server",
                    "if you trust that server, run `reqlore doctor --with-token`",
                );
            } else {
                run_hook(hook, command, &environment.project, &mut report);
            }
        }
    }
}

/// The words of a command that init writes for this binary; none for any other command.
fn hook_words(command: &str) -> Vec<String> {
    let Some((_, guarded)) = command.split_once(" && ") else { return Vec::new() };
    let words = split_words(guarded.trim_end_matches(" || true"));
    let is_own = words.first().is_some_and(|program| {
        dunce::canonicalize(program).is_ok_and(|path| Some(path) == own_program())
    });
    let is_hook = words.get(1).is_some_and(|word| word == "hook");
    // The comparison also rejects what a shell would read in another way.
    if is_own && is_hook && guarded_command(&words) == command { words } else { Vec::new() }
}

/// Words that are quoted as `shell_word` quotes them.
fn split_words(text: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut is_quoted = false;
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        let word = words.len() - 1;
        match c {
            '\'' => is_quoted = !is_quoted,
            ' ' if !is_quoted => words.push(String::new()),
            '\\' if !is_quoted => words[word].extend(chars.next()),
            c => words[word].push(c),
        }
    }
    words
}

fn run_hook(hook: &ClientHook, command: &str, project: &Path, report: &mut AreaReport<'_>) {
    let start = Instant::now();
    let output = match run_in_shell(command, project, TEST_INPUT) {
        Ok(output) => output,
        Err(error) => return report.problem(format!("/bin/sh: {error}"), ""),
    };
    let milliseconds = start.elapsed().as_millis();
    let errors = String::from_utf8_lossy(&output.stderr);
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    let Some(text) = hook.text_of(&answer) else {
        if !errors.is_empty() {
            return report.problem(format!("adds nothing: {}", errors.trim_end()), "");
        }
        return match hook.event {
            HookEvent::Session => report.note(
                "adds nothing in this project",
                "run `reqlore init --hooks session` in this project",
            ),
            HookEvent::Prompt => report.ok(format!("answers in {milliseconds} ms; no text fits")),
        };
    };
    let tokens = text.len().div_ceil(BYTES_PER_TOKEN);
    let size = format!("adds {tokens} tokens ({} bytes) in {milliseconds} ms", text.len());
    report.ok_with_text(size, hook.advice, text);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hook_words_accepts_only_commands_of_this_binary() {
        let own = own_program().unwrap().to_string_lossy().into_owned();
        let folder = "/tmp/a b/it's $HOME".to_owned();
        let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
        let good: Vec<String> = words(&[&own, "hook", "session", "--root", &folder]);
        let command = guarded_command(&good);
        assert_eq!(hook_words(&command), good);
        let other: Vec<String> = words(&["/bin/sh", "hook", "session"]);
        let serve: Vec<String> = words(&[&own, "serve"]);
        for bad in [
            guarded_command(&other),
            guarded_command(&serve),
            format!("{command}; rm -rf /"),
            command.replace(" || true", " $(id) || true"),
            command.replace('\'', ""),
            format!("{own} hook session"),
            String::new(),
        ] {
            assert_eq!(hook_words(&bad), [] as [String; 0], "{bad}");
        }
    }
}
