//! docs/clients.md: what `reqlore init` makes of each client's files, by letting it make them.
//! UPDATE_EXPECT=1 writes the page anew; what stands there is what people copy.

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

Each file is shown as it becomes where there was none, on Linux, for somebody who has the program in `~/.cargo/bin` and the
project in `~/shop`. Where there is a file, the entry goes into it and everything else stays as it was, comments and order too.
`--dry-run` shows the change, `--remove` takes it back. A file of the project is for everybody who works on it and may be
committed; one in your home folder is for you, in all your projects, save where it names the project (`--root`): such a client
starts a server elsewhere, and knows this one project.

Clients ask before they start a server that is new to them: Claude Code and Cursor want it approved, VS Code and Zed want the
folder trusted, Codex, Gemini CLI and Copilot CLI read a project's file in trusted folders only. Claude Code reads CLAUDE.md
instead of AGENTS.md where there is one; a line `@AGENTS.md` in it brings the other in. Gemini CLI reads GEMINI.md unless
`context.fileName` names AGENTS.md.

Any other MCP client: its command is `reqlore`, without arguments, started in the project's folder (or with `--root DIR`).
";
const OVER_HTTP: &str = "
## Over http

For [one server for a team](team-server.md). The token is in a variable of the environment and never in a file:
`reqlore init --transport http --url URL --client NAME`, here with `https://reqlore.example.org/api/v1/mcp` as the URL.
";
const AGENTS: &str = "
## AGENTS.md

With a file of the project comes this, between markers, in the project's AGENTS.md (`--no-agents-md` leaves it out):

";
const URL: &str = "https://reqlore.example.org/api/v1/mcp";
/// Where a person of the page lives.
const HOME: &str = "/home/ann";

/// A person with the program and a project, and nothing else.
struct Machine(TempDir);

impl Machine {
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

    /// The one file that init made, beside its own record: as a person writes its path, and its text.
    fn made(&self) -> (String, String) {
        let mut found = Vec::new();
        collect(self.0.path(), &mut found);
        let own = |path: &PathBuf| {
            path.to_string_lossy().contains("/reqlore/") || path.ends_with("bin/reqlore")
        };
        found.retain(|path| !own(path));
        let [path] = &*found else { panic!("{found:?}") };
        let text = std::fs::read_to_string(path).unwrap();
        let home = self.0.path().to_str().unwrap();
        let place = path.strip_prefix(home).unwrap();
        let place = match place.strip_prefix("shop") {
            Ok(inside) => inside.display().to_string(),
            Err(_) => format!("~/{}", place.display()),
        };
        (place, text.replace(home, HOME))
    }
}

fn collect(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { collect(&path, found) } else { found.push(path) }
    }
}

/// What init does for one client, as a paragraph and a block, or why it does not.
fn part(client: &str, scope: &str, more: &[&str]) -> String {
    let machine = Machine::new();
    let arguments = ["--no-agents-md", "--client", client, "--scope", scope];
    let output = machine.init(&[&arguments, more].concat());
    if !output.status.success() {
        let said = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
        let reason = said.lines().find_map(|line| line.split_once(": ")).unwrap().1.to_owned();
        return format!("\n{reason}.\n");
    }
    let (place, text) = machine.made();
    let whose = if scope == "user" { "Yours" } else { "The project's" };
    let language = Path::new(&place).extension().unwrap().to_str().unwrap();
    format!("\n{whose}, `{place}`:\n\n```{language}\n{}\n```\n", text.trim_end())
}

// On other systems some clients have other folders.
#[cfg(target_os = "linux")]
#[test]
fn the_page_on_clients_is_what_init_writes() {
    let mut page = String::from(INTRODUCTION);
    for client in Client::ALL {
        let name = client.name();
        write!(page, "\n## {}\n\n`reqlore init --client {name}`\n", client.title()).unwrap();
        for scope in ["project", "user"] {
            page += &part(name, scope, &[]);
        }
    }
    page += OVER_HTTP;
    for client in Client::ALL {
        let scope = if client == Client::ClaudeDesktop { "user" } else { "project" };
        let part = part(client.name(), scope, &["--transport", "http", "--url", URL]);
        write!(page, "\n**{}**: {}", client.title(), part.trim_start()).unwrap();
    }
    let machine = Machine::new();
    assert!(machine.init(&["--client", "claude-code"]).status.success());
    let block = std::fs::read_to_string(machine.0.path().join("shop/AGENTS.md")).unwrap();
    write!(page, "{AGENTS}```markdown\n{}\n```\n", block.trim_end()).unwrap();
    expect_file![repository().join("docs/clients.md")].assert_eq(&page);
}

/// The snippet of the README is what most clients' files are made of.
#[test]
fn the_snippet_in_the_readme_is_what_init_writes() {
    let machine = Machine::new();
    assert!(machine.init(&["--no-agents-md", "--client", "claude-code"]).status.success());
    let written: serde_json::Value = serde_json::from_str(&machine.made().1).unwrap();
    let readme = std::fs::read_to_string(repository().join("README.md")).unwrap();
    let snippet = readme.split("```json\n").nth(1).unwrap().split("```").next().unwrap();
    let shown: serde_json::Value = serde_json::from_str(snippet).unwrap();
    let entry = &shown["mcpServers"]["reqlore"];
    assert_eq!(written["mcpServers"]["reqlore"]["command"], entry["command"]);
}
