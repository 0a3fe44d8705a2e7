//! README.md and the pages of docs/: their commands run, their configurations parse, what they show
//! is what happens, and their links lead somewhere.
//!
//! The convention: a block marked `sh` is run, all of one page in one new project, from top to
//! bottom. One that can't be has `<!-- not run: why -->` in the line above it.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use expect_test::expect_file;

use crate::client::{BINARY, project};
use crate::repository;

/// Languages of blocks: what is run, what is parsed, and what is only shown.
const LANGUAGES: [&str; 6] = ["sh", "json", "toml", "yaml", "markdown", "text"];
/// The two commands of the README that others start by their words.
const FIRST: [&str; 2] = ["cargo run --release -- demo\n", ".ci/check\n"];

/// A page that people read.
struct Page {
    /// Beneath the repository: `docs/solo.md`.
    name: String,
    text: String,
}

/// A fenced block of a page.
struct Block {
    line: usize,
    language: String,
    text: String,
    /// Does the line above say that it is not run, and why?
    skipped: bool,
}

/// README.md, ARCHITECTURE.md, and the pages in docs/ and deploy/.
fn pages() -> Vec<Page> {
    let mut names = vec!["README.md".to_owned(), "ARCHITECTURE.md".to_owned()];
    for folder in ["docs", "docs/decisions", "deploy"] {
        let entries = std::fs::read_dir(repository().join(folder)).unwrap();
        let files = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let files = files.filter(|file| Path::new(file).extension().is_some_and(|it| it == "md"));
        names.extend(files.map(|file| format!("{folder}/{file}")));
    }
    let read = |name: &String| std::fs::read_to_string(repository().join(name)).unwrap();
    names.sort();
    names.iter().map(|name| Page { name: name.clone(), text: read(name) }).collect()
}

impl Page {
    fn blocks(&self) -> Vec<Block> {
        let (mut blocks, mut open) = (Vec::new(), None::<Block>);
        let mut above = "";
        for (at, line) in self.text.lines().enumerate() {
            match (&mut open, line.strip_prefix("```")) {
                (None, Some(language)) => {
                    let skipped = above.strip_prefix("<!-- not run: ");
                    let skipped = skipped.is_some_and(|why| why.ends_with(" -->"));
                    let language = language.to_owned();
                    open = Some(Block { line: at + 1, language, text: String::new(), skipped });
                }
                (Some(_), Some(_)) => blocks.extend(open.take()),
                (Some(block), None) => writeln!(block.text, "{line}").unwrap(),
                (None, None) => {}
            }
            above = line;
        }
        assert!(open.is_none(), "{} has a block that nothing closes", self.name);
        blocks
    }

    /// Everything that is run of it as one script, which says where it stopped.
    fn script(&self) -> Option<String> {
        let mut script = String::from("set -eu\ntrap 'echo \"$here: $BASH_COMMAND\" >&2' ERR\n");
        let mut any = false;
        for block in self.blocks() {
            if block.language == "sh" && !block.skipped {
                write!(script, "here={}:{}\n{}", self.name, block.line, block.text).unwrap();
                any = true;
            }
        }
        any.then_some(script)
    }
}

/// Runs a page's commands in a new project, with reqlore on the PATH.
fn run(page: &Page, script: &str) {
    let home = project();
    let (bin, folder) = (home.path().join("bin"), home.path().join("project"));
    for folder in [&bin, &folder] {
        std::fs::create_dir(folder).unwrap();
    }
    std::os::unix::fs::symlink(BINARY, bin.join("reqlore")).unwrap();
    let mut bash = Command::new("bash");
    bash.args(["-c", script]).current_dir(&folder).stdin(Stdio::null()).env_clear();
    bash.env("PATH", format!("{}:/usr/local/bin:/usr/bin:/bin", bin.display()));
    bash.env("HOME", home.path()).env("CLONE", repository());
    for name in ["AUTHOR", "COMMITTER"] {
        bash.env(format!("GIT_{name}_NAME"), "ann");
        bash.env(format!("GIT_{name}_EMAIL"), "ann@example.org");
    }
    let output = bash.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let said = said + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{} does not work: {}\n{said}", page.name, output.status);
}

#[test]
fn pages_shell_commands_succeed() {
    let mut ran = 0;
    for page in pages() {
        if let Some(script) = page.script() {
            run(&page, &script);
            ran += 1;
        }
    }
    assert!(ran > 2, "only {ran} pages have anything to run");
}

#[test]
fn pages_code_blocks_have_a_language_and_parse() {
    for page in pages() {
        for Block { line, language, text, skipped } in page.blocks() {
            let place = format!("{}:{line}", page.name);
            assert!(LANGUAGES.contains(&language.as_str()), "{place}: a block of {language:?}");
            assert!(!skipped || language == "sh", "{place}: nothing runs a block of {language}");
            if language == "json" {
                let parsed = serde_json::from_str::<serde_json::Value>(&text);
                assert!(parsed.is_ok(), "{place}: {parsed:?}");
            }
            if language == "toml" {
                let parsed = text.parse::<toml::Table>();
                assert!(parsed.is_ok(), "{place}: {parsed:?}");
            }
        }
    }
}

#[test]
fn readme_begins_with_the_demo_and_check_commands() {
    let readme = pages().into_iter().find(|page| page.name == "README.md").unwrap();
    let blocks = readme.blocks();
    let shell = blocks.iter().filter(|block| block.language == "sh").map(|block| &block.text);
    assert_eq!(shell.take(2).collect::<Vec<_>>(), FIRST);
}

/// The README shows the session of `reqlore demo`. `UPDATE_EXPECT=1` writes it.
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
    let mut shown = String::new();
    for line in session.lines() {
        match line.rsplit_once('-') {
            // File names of items end in random digits.
            Some((name, _)) if line.starts_with("  .reqlore/") => {
                writeln!(shown, "{name}-\u{2026}.md").unwrap();
            }
            _ => writeln!(shown, "{line}").unwrap(),
        }
    }
    expect_file![path].assert_eq(&format!("{before}{BEGIN}{shown}```\n{after}"));
}

#[test]
fn pages_links_have_targets() {
    for page in pages() {
        let folder: PathBuf = repository().join(&page.name).parent().unwrap().into();
        let targets = page.text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
        for target in targets.filter(|target| !target.contains("://")) {
            let (file, section) = target.split_once('#').unwrap_or((target, ""));
            let path =
                if file.is_empty() { repository().join(&page.name) } else { folder.join(file) };
            let found = path.symlink_metadata();
            assert!(found.is_ok(), "{}: {target} leads nowhere", page.name);
            if !section.is_empty() {
                let text = std::fs::read_to_string(&path).unwrap();
                let there = text.lines().any(|line| anchor(line).as_deref() == Some(section));
                assert!(there, "{}: {target} names no heading", page.name);
            }
        }
    }
}

/// The anchor of a heading.
fn anchor(line: &str) -> Option<String> {
    let heading = line.starts_with('#').then(|| line.trim_start_matches('#').trim())?;
    let kept = heading.to_lowercase().replace(' ', "-");
    Some(kept.chars().filter(|c| c.is_alphanumeric() || "-_".contains(*c)).collect())
}
