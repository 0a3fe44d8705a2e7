//! Generates docs/clients.md from the files that `reqlore init` writes (`UPDATE_EXPECT=1`).

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Output;

use expect_test::expect_file;
use reqlore_client_config::Client;
use tempfile::TempDir;

use crate::client::{BINARY, project, reqlore};
use crate::repository;

const INTRODUCTION: &str = "\
# Clients

Generated from what `reqlore init` writes; a test keeps it true.

Each example shows a new file on Linux, with the program in `~/.cargo/bin` and the project in `~/shop`. In an existing file,
`reqlore init` adds its entry and keeps everything else, including comments and order. `--dry-run` shows the change, and
`--remove` undoes it. A project's file applies to everyone who works on the project and can be committed. A file in your
home folder applies to all your projects, unless it names one (`--root`): such a client starts its server elsewhere and
serves this project only.

Clients ask before they start a new server. Claude Code and Cursor ask for approval of the server. VS Code and Zed ask you to
trust the folder. Codex, Gemini CLI and Copilot CLI read a project's file in trusted folders only. Claude Code prefers
CLAUDE.md to AGENTS.md; the line `@AGENTS.md` in CLAUDE.md includes it. Gemini CLI reads GEMINI.md unless
`context.fileName` names AGENTS.md.

In any other MCP client, set the command to `reqlore` without arguments and start it in the project's folder or a folder in it, or add
`--root DIR`. Without `--root`, the folders that a client announces choose between the project and its
[other work trees](project.md#the-projects-folder).
";
const OVER_HTTP: &str = "
## Over http

For [one server for a team](team-server.md): `reqlore init --transport http --url URL --client NAME`. The examples use the
URL `https://reqlore.example.org/api/v1/mcp`. The token stays in an environment variable, never in a file.
";
const AGENTS: &str = "
## AGENTS.md

With a project's file, `reqlore init` adds this block to the project's AGENTS.md, between markers (`--no-agents-md` omits it):

";
const URL: &str = "https://reqlore.example.org/api/v1/mcp";
/// The home folder in the examples.
const HOME: &str = "/home/ann";

/// A home folder that contains only the program and a project.
struct UserMachine(TempDir);

impl UserMachine {
    fn new() -> Self {
        let home = project();
        for folder in [".cargo/bin", "shop"] {
            std::fs::create_dir_all(home.path().join(folder)).unwrap();
        }
        std::os::unix::fs::symlink(BINARY, home.path().join(".cargo/bin/reqlore")).unwrap();
        Self(home)
    }

    fn init(&self, arguments: &[&str]) -> Output {
        let home = self.0.path();
        let mut command = reqlore();
        command.env("HOME", home).env("PATH", home.join(".cargo/bin"));
        command.current_dir(home.join("shop")).args(["init", "--yes"]).args(arguments);
        command.output().unwrap()
    }

    /// The path and text of the only file that init wrote. `~` replaces the home folder.
    fn written_file(&self) -> (String, String) {
        let mut files = Vec::new();
        collect_files(self.0.path(), &mut files);
        let is_program_or_cache = |path: &PathBuf| {
            path.to_string_lossy().contains("/reqlore/") || path.ends_with("bin/reqlore")
        };
        files.retain(|path| !is_program_or_cache(path));
        let [path] = &*files else { panic!("{files:?}") };
        let text = std::fs::read_to_string(path).unwrap();
        let home = self.0.path().to_str().unwrap();
        let path_from_home = path.strip_prefix(home).unwrap();
        let path_from_home = match path_from_home.strip_prefix("shop") {
            Ok(inside) => inside.display().to_string(),
            Err(_) => format!("~/{}", path_from_home.display()),
        };
        (path_from_home, text.replace(home, HOME))
    }
}

fn collect_files(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { collect_files(&path, files) } else { files.push(path) }
    }
}

/// The Markdown example for one client, or the reason why init refuses it.
fn client_example(client: &str, scope: &str, options: &[&str]) -> String {
    let machine = UserMachine::new();
    let arguments = ["--no-agents-md", "--client", client, "--scope", scope];
    let output = machine.init(&[&arguments, options].concat());
    if !output.status.success() {
        let printed = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
        let reason = printed.lines().find_map(|line| line.split_once(": ")).unwrap().1.to_owned();
        return format!("\n{reason}.\n");
    }
    let (path, text) = machine.written_file();
    let owner = if scope == "user" { "User" } else { "Project" };
    let language = Path::new(&path).extension().unwrap().to_str().unwrap();
    format!("\n{owner} file `{path}`:\n\n```{language}\n{}\n```\n", text.trim_end())
}

// Some clients use other folders on other systems.
#[cfg(target_os = "linux")]
#[test]
fn clients_page_matches_files_written_by_init() {
    let mut page = String::from(INTRODUCTION);
    for client in Client::ALL {
        let name = client.name();
        write!(page, "\n## {}\n\n`reqlore init --client {name}`\n", client.title()).unwrap();
        for scope in ["project", "user"] {
            page += &client_example(name, scope, &[]);
        }
    }
    page += OVER_HTTP;
    for client in Client::ALL {
        let scope = if client == Client::ClaudeDesktop { "user" } else { "project" };
        let part = client_example(client.name(), scope, &["--transport", "http", "--url", URL]);
        write!(page, "\n**{}**: {}", client.title(), part.trim_start()).unwrap();
    }
    let machine = UserMachine::new();
    assert!(machine.init(&["--client", "claude-code"]).status.success());
    let block = std::fs::read_to_string(machine.0.path().join("shop/AGENTS.md")).unwrap();
    write!(page, "{AGENTS}```markdown\n{}\n```\n", block.trim_end()).unwrap();
    expect_file![repository().join("docs/clients.md")].assert_eq(&page);
}

#[test]
fn readme_snippet_matches_files_written_by_init() {
    let machine = UserMachine::new();
    assert!(machine.init(&["--no-agents-md", "--client", "claude-code"]).status.success());
    let written: serde_json::Value = serde_json::from_str(&machine.written_file().1).unwrap();
    let readme = std::fs::read_to_string(repository().join("README.md")).unwrap();
    let snippet = readme.split("```json\n").nth(1).unwrap().split("```").next().unwrap();
    let shown: serde_json::Value = serde_json::from_str(snippet).unwrap();
    let entry = &shown["mcpServers"]["reqlore"];
    assert_eq!(written["mcpServers"]["reqlore"]["command"], entry["command"]);
}
