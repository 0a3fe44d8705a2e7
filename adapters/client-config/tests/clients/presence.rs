//! Detection of clients, and the choice among several files.

use std::fs;
use std::path::Path;

use reqlore_client_config::{Client, ClientEnvironment, ConfigScope, Platform};
use tempfile::TempDir;

fn environment(machine: &TempDir, platform: Platform) -> ClientEnvironment {
    let folder = |name: &str| {
        let folder = machine.path().join(name);
        fs::create_dir_all(&folder).unwrap();
        folder
    };
    ClientEnvironment {
        project: folder("project"),
        home: folder("home"),
        platform,
        path: vec![machine.path().join("absent"), folder("bin")],
        variables: Vec::new(),
    }
}

fn present(environment: &ClientEnvironment) -> Vec<&'static str> {
    let found = Client::ALL.into_iter().filter(|client| client.is_present(environment));
    found.map(Client::name).collect()
}

fn touch(path: &Path) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, "").unwrap();
}

#[test]
fn client_with_a_program_on_path_is_present() {
    let machine = TempDir::new().unwrap();
    for platform in [Platform::Linux, Platform::MacOs, Platform::Windows] {
        assert_eq!(present(&environment(&machine, platform)), [""; 0], "an empty machine");
    }
    fs::create_dir_all(machine.path().join("bin/zed")).unwrap();
    assert_eq!(
        present(&environment(&machine, Platform::Linux)),
        [""; 0],
        "a folder is not a program"
    );
    for (program, client) in [
        ("claude", "claude-code"),
        ("claude-desktop", "claude-desktop"),
        ("cursor", "cursor"),
        ("cursor-agent", "cursor"),
        ("code", "vscode"),
        ("zed", "zed"),
        ("zeditor", "zed"),
        ("codex", "codex"),
        ("gemini", "gemini"),
        ("copilot", "copilot"),
        ("kiro", "kiro"),
        ("kiro-cli", "kiro"),
        ("opencode", "opencode"),
    ] {
        let machine = TempDir::new().unwrap();
        touch(&machine.path().join("bin").join(program));
        assert_eq!(present(&environment(&machine, Platform::Linux)), [client], "{program}");
        assert_eq!(present(&environment(&machine, Platform::Windows)), [""; 0], "{program}");
        for ending in ["exe", "cmd"] {
            let machine = TempDir::new().unwrap();
            touch(&machine.path().join("bin").join(format!("{program}.{ending}")));
            assert_eq!(present(&environment(&machine, Platform::Windows)), [client], "{program}");
        }
    }
}

#[test]
fn client_with_files_is_present() {
    for (file, client) in [
        ("home/.claude/settings.json", "claude-code"),
        ("home/.claude.json", "claude-code"),
        ("home/.config/Claude/claude_desktop_config.json", "claude-desktop"),
        ("home/.cursor/mcp.json", "cursor"),
        ("home/.vscode/extensions/extensions.json", "vscode"),
        ("home/.config/Code/User/settings.json", "vscode"),
        ("home/.config/zed/settings.json", "zed"),
        ("home/.codex/config.toml", "codex"),
        ("home/.gemini/settings.json", "gemini"),
        ("home/.copilot/config.json", "copilot"),
        ("home/.kiro/settings/mcp.json", "kiro"),
        ("home/.config/opencode/opencode.json", "opencode"),
        ("home/.opencode/bin/opencode", "opencode"),
        ("project/.mcp.json", "claude-code"),
        ("project/.claude/settings.json", "claude-code"),
        ("project/.cursor/rules/house.mdc", "cursor"),
        ("project/.vscode/settings.json", "vscode"),
        ("project/.zed/settings.json", "zed"),
        ("project/.codex/config.toml", "codex"),
        ("project/.gemini/settings.json", "gemini"),
        ("project/.github/mcp.json", "copilot"),
        ("project/.kiro/steering/product.md", "kiro"),
        ("project/opencode.json", "opencode"),
        ("project/opencode.jsonc", "opencode"),
        ("project/.opencode/agents/review.md", "opencode"),
    ] {
        let machine = TempDir::new().unwrap();
        touch(&machine.path().join(file));
        assert_eq!(present(&environment(&machine, Platform::Linux)), [client], "{file}");
    }
}

#[test]
fn variable_moves_a_folder_unless_empty_or_relative() {
    let machine = TempDir::new().unwrap();
    touch(&machine.path().join("moved/config.toml"));
    let mut environment = environment(&machine, Platform::Linux);
    environment.variables = vec![("CODEX_HOME".to_owned(), String::new())];
    assert_eq!(present(&environment), [""; 0], "an empty variable is unset");
    let moved = machine.path().join("moved").to_str().unwrap().to_owned();
    environment.variables = vec![("CODEX_HOME".to_owned(), moved)];
    assert_eq!(present(&environment), ["codex"]);
    environment.variables = vec![("XDG_CONFIG_HOME".to_owned(), "settings".to_owned())];
    let file = Client::Zed.config_location(ConfigScope::User, &environment).unwrap().file;
    assert_eq!(file, environment.home.join(".config/zed/settings.json"));
}

#[test]
fn config_location_prefers_the_existing_file() {
    let machine = TempDir::new().unwrap();
    let environment = environment(&machine, Platform::Linux);
    let location = |scope| Client::OpenCode.config_location(scope, &environment).unwrap().file;
    let (project, user) = (&environment.project, environment.home.join(".config/opencode"));
    assert_eq!(location(ConfigScope::Project), project.join("opencode.json"), "the usual one");
    for file in [".opencode/opencode.jsonc", "opencode.jsonc", "opencode.json"] {
        touch(&project.join(file));
        assert_eq!(location(ConfigScope::Project), project.join(file));
    }
    for file in ["opencode.jsonc", "opencode.json"] {
        touch(&user.join(file));
        assert_eq!(location(ConfigScope::User), user.join(file));
    }
}
