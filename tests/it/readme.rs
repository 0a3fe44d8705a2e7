//! Tests of README.md and docs/: commands run, configurations parse, output matches, links resolve.
//!
//! The `sh` blocks of a page run in order, in one new project. A block that cannot run has
//! `<!-- not run: why -->` in the line above it.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use expect_test::expect_file;

use crate::client::{BINARY, project};
use crate::repository;

/// Permitted languages of code blocks.
const LANGUAGES: [&str; 6] = ["sh", "json", "toml", "yaml", "markdown", "text"];
/// The first two commands of the README. Other tools rely on their exact text.
const README_COMMANDS: [&str; 2] = ["cargo run --release -- demo\n", ".ci/check\n"];

/// A documentation page.
struct DocPage {
    /// Path relative to the repository: `docs/solo.md`.
    name: String,
    text: String,
}

struct CodeBlock {
    line: usize,
    language: String,
    text: String,
    /// True if the line above gives a reason not to run it.
    skipped: bool,
}

/// README.md, ARCHITECTURE.md, and the pages in docs/ and deploy/.
fn read_pages() -> Vec<DocPage> {
    let mut names = vec!["README.md".to_owned(), "ARCHITECTURE.md".to_owned()];
    for folder in ["docs", "docs/decisions", "deploy"] {
        let entries = std::fs::read_dir(repository().join(folder)).unwrap();
        let files = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let files = files.filter(|file| Path::new(file).extension().is_some_and(|it| it == "md"));
        names.extend(files.map(|file| format!("{folder}/{file}")));
    }
    let read = |name: &String| std::fs::read_to_string(repository().join(name)).unwrap();
    names.sort();
    names.iter().map(|name| DocPage { name: name.clone(), text: read(name) }).collect()
}

impl DocPage {
    fn blocks(&self) -> Vec<CodeBlock> {
        let (mut blocks, mut open) = (Vec::new(), None::<CodeBlock>);
        let mut previous_line = "";
        for (index, line) in self.text.lines().enumerate() {
            match (&mut open, line.strip_prefix("```")) {
                (None, Some(language)) => {
                    let skipped = previous_line.strip_prefix("<!-- not run: ");
                    let skipped = skipped.is_some_and(|why| why.ends_with(" -->"));
                    let language = language.to_owned();
                    open =
                        Some(CodeBlock { line: index + 1, language, text: String::new(), skipped });
                }
                (Some(_), Some(_)) => blocks.extend(open.take()),
                (Some(block), None) => writeln!(block.text, "{line}").unwrap(),
                (None, None) => {}
            }
            previous_line = line;
        }
        assert!(open.is_none(), "{} has an unclosed block", self.name);
        blocks
    }

    /// All runnable blocks as one script that reports the failed command. `None` without commands.
    fn script(&self) -> Option<String> {
        let mut script = String::from("set -eu\ntrap 'echo \"$here: $BASH_COMMAND\" >&2' ERR\n");
        let mut has_commands = false;
        for block in self.blocks() {
            if block.language == "sh" && !block.skipped {
                write!(script, "here={}:{}\n{}", self.name, block.line, block.text).unwrap();
                has_commands = true;
            }
        }
        has_commands.then_some(script)
    }
}

/// Runs a page's commands in a new project with reqlore on the PATH.
fn run_script(page: &DocPage, script: &str) {
    let home = project();
    let (bin, folder) = (home.path().join("bin"), home.path().join("project"));
    for folder in [&bin, &folder] {
        std::fs::create_dir(folder).unwrap();
    }
    std::os::unix::fs::symlink(BINARY, bin.join("reqlore")).unwrap();
    let mut bash = Command::new("bash");
    bash.args(["-c", script]).current_dir(&folder).stdin(Stdio::null()).env_clear();
    bash.env("PATH", format!("{}:/usr/local/bin:/usr/bin:/bin", bin.display()));
    bash.env("HOME", home.path());
    for name in ["AUTHOR", "COMMITTER"] {
        bash.env(format!("GIT_{name}_NAME"), "ann");
        bash.env(format!("GIT_{name}_EMAIL"), "ann@example.org");
    }
    let output = bash.output().unwrap();
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    let printed = printed + &String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "{}: a command failed: {}\n{printed}",
        page.name,
        output.status
    );
}

#[test]
fn pages_shell_commands_succeed() {
    let mut script_count = 0;
    for page in read_pages() {
        if let Some(script) = page.script() {
            run_script(&page, &script);
            script_count += 1;
        }
    }
    assert!(script_count > 2, "only {script_count} pages have commands");
}

#[test]
fn pages_code_blocks_have_a_language_and_parse() {
    for page in read_pages() {
        for CodeBlock { line, language, text, skipped } in page.blocks() {
            let location = format!("{}:{line}", page.name);
            assert!(LANGUAGES.contains(&language.as_str()), "{location}: a block of {language:?}");
            assert!(!skipped || language == "sh", "{location}: a block of {language} never runs");
            if language == "json" {
                let parsed = serde_json::from_str::<serde_json::Value>(&text);
                assert!(parsed.is_ok(), "{location}: {parsed:?}");
            }
            if language == "toml" {
                let parsed = text.parse::<toml::Table>();
                assert!(parsed.is_ok(), "{location}: {parsed:?}");
            }
        }
    }
}

#[test]
fn readme_begins_with_the_demo_and_check_commands() {
    let readme = read_pages().into_iter().find(|page| page.name == "README.md").unwrap();
    let blocks = readme.blocks();
    let shell = blocks.iter().filter(|block| block.language == "sh").map(|block| &block.text);
    assert_eq!(shell.take(2).collect::<Vec<_>>(), README_COMMANDS);
}

/// Generates the session in the README (`UPDATE_EXPECT=1`).
#[test]
fn readme_session_is_the_output_of_the_demo() {
    const BEGIN: &str = "<!-- output of `reqlore demo` -->\n```text\n";
    let path = repository().join("README.md");
    let readme = std::fs::read_to_string(&path).unwrap();
    let (before, rest) = readme.split_once(BEGIN).unwrap();
    let (_, after) = rest.split_once("```\n").unwrap();
    let scratch = project();
    let mut demo = Command::new(BINARY);
    let output = demo.arg("demo").env("TMPDIR", scratch.path()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let output = String::from_utf8(output.stdout).unwrap();
    let (_, session) = output.split_once("\n\n").unwrap();
    let (session, _) = session.split_once("\nTo connect your assistants").unwrap();
    let mut masked_session = String::new();
    for line in session.lines() {
        match line.rsplit_once('-') {
            // File names of items end in random digits.
            Some((name, _)) if line.starts_with("  .reqlore/") => {
                writeln!(masked_session, "{name}-\u{2026}.md").unwrap();
            }
            _ => writeln!(masked_session, "{line}").unwrap(),
        }
    }
    expect_file![path].assert_eq(&format!("{before}{BEGIN}{masked_session}```\n{after}"));
}

#[test]
fn pages_links_have_targets() {
    for page in read_pages() {
        let folder: PathBuf = repository().join(&page.name).parent().unwrap().into();
        let targets = page.text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
        for target in targets.filter(|target| !target.contains("://")) {
            let (file, section) = target.split_once('#').unwrap_or((target, ""));
            let path =
                if file.is_empty() { repository().join(&page.name) } else { folder.join(file) };
            let metadata = path.symlink_metadata();
            assert!(metadata.is_ok(), "{}: {target} does not exist", page.name);
            if !section.is_empty() {
                let text = std::fs::read_to_string(&path).unwrap();
                let has_heading =
                    text.lines().any(|line| heading_anchor(line).as_deref() == Some(section));
                assert!(has_heading, "{}: {target} is not a heading", page.name);
            }
        }
    }
}

/// The anchor of a heading; `None` for other lines.
fn heading_anchor(line: &str) -> Option<String> {
    let heading = line.starts_with('#').then(|| line.trim_start_matches('#').trim())?;
    let slug = heading.to_lowercase().replace(' ', "-");
    Some(slug.chars().filter(|c| c.is_alphanumeric() || "-_".contains(*c)).collect())
}
