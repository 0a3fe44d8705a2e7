//! Which clients count as present, and which of several files is taken.

use std::fs;
use std::path::Path;

use reqlore_client_config::{Client, NoPlace, Platform, Scope, Server, Surroundings};
use tempfile::TempDir;

fn around(ground: &TempDir, platform: Platform) -> Surroundings {
    let folder = |name: &str| {
        let folder = ground.path().join(name);
        fs::create_dir_all(&folder).unwrap();
        folder
    };
    Surroundings {
        project: folder("project"),
        home: folder("home"),
        platform,
        path: vec![ground.path().join("absent"), folder("bin")],
        variables: Vec::new(),
    }
}

fn present(around: &Surroundings) -> Vec<&'static str> {
    let found = Client::ALL.into_iter().filter(|client| client.is_present(around));
    found.map(Client::name).collect()
}

fn touch(path: &Path) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, "").unwrap();
}

#[test]
fn an_empty_machine_has_no_client() {
    let ground = TempDir::new().unwrap();
    for platform in [Platform::Linux, Platform::MacOs, Platform::Windows] {
        assert_eq!(present(&around(&ground, platform)), [""; 0]);
    }
}

#[test]
fn a_program_on_the_path_tells() {
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
        let ground = TempDir::new().unwrap();
        touch(&ground.path().join("bin").join(program));
        assert_eq!(present(&around(&ground, Platform::Linux)), [client], "{program}");
        assert_eq!(present(&around(&ground, Platform::Windows)), [""; 0], "{program} is no .exe");
        for ending in ["exe", "cmd"] {
            let ground = TempDir::new().unwrap();
            touch(&ground.path().join("bin").join(format!("{program}.{ending}")));
            assert_eq!(present(&around(&ground, Platform::Windows)), [client], "{program}");
        }
    }
}

#[test]
fn a_folder_on_the_path_is_no_program() {
    let ground = TempDir::new().unwrap();
    fs::create_dir_all(ground.path().join("bin/zed")).unwrap();
    assert_eq!(present(&around(&ground, Platform::Linux)), [""; 0]);
}

#[test]
fn what_a_client_keeps_for_a_person_tells() {
    for (file, client) in [
        (".claude/settings.json", "claude-code"),
        (".claude.json", "claude-code"),
        (".config/Claude/claude_desktop_config.json", "claude-desktop"),
        (".cursor/mcp.json", "cursor"),
        (".vscode/extensions/extensions.json", "vscode"),
        (".config/Code/User/settings.json", "vscode"),
        (".config/zed/settings.json", "zed"),
        (".codex/config.toml", "codex"),
        (".gemini/settings.json", "gemini"),
        (".copilot/config.json", "copilot"),
        (".kiro/settings/mcp.json", "kiro"),
        (".config/opencode/opencode.json", "opencode"),
        (".opencode/bin/opencode", "opencode"),
    ] {
        let ground = TempDir::new().unwrap();
        touch(&ground.path().join("home").join(file));
        assert_eq!(present(&around(&ground, Platform::Linux)), [client], "{file}");
    }
}

#[test]
fn what_a_client_has_in_the_project_tells() {
    for (file, client) in [
        (".mcp.json", "claude-code"),
        (".claude/settings.json", "claude-code"),
        (".cursor/rules/house.mdc", "cursor"),
        (".vscode/settings.json", "vscode"),
        (".zed/settings.json", "zed"),
        (".codex/config.toml", "codex"),
        (".gemini/settings.json", "gemini"),
        (".github/mcp.json", "copilot"),
        (".kiro/steering/product.md", "kiro"),
        ("opencode.json", "opencode"),
        ("opencode.jsonc", "opencode"),
        (".opencode/agents/review.md", "opencode"),
    ] {
        let ground = TempDir::new().unwrap();
        touch(&ground.path().join("project").join(file));
        assert_eq!(present(&around(&ground, Platform::Linux)), [client], "{file}");
    }
}

#[test]
fn a_folder_that_a_variable_moved_is_found_there() {
    let ground = TempDir::new().unwrap();
    touch(&ground.path().join("moved/config.toml"));
    let mut around = around(&ground, Platform::Linux);
    around.variables = vec![("CODEX_HOME".to_owned(), String::new())];
    assert_eq!(present(&around), [""; 0], "an empty variable counts as unset");
    let moved = ground.path().join("moved").to_str().unwrap().to_owned();
    around.variables = vec![("CODEX_HOME".to_owned(), moved)];
    assert_eq!(present(&around), ["codex"]);
}

#[test]
fn a_relative_xdg_config_home_is_ignored() {
    let ground = TempDir::new().unwrap();
    let mut around = around(&ground, Platform::Linux);
    around.variables = vec![("XDG_CONFIG_HOME".to_owned(), "settings".to_owned())];
    let file = Client::Zed.place(Scope::User, &around).unwrap().file;
    assert_eq!(file, around.home.join(".config/zed/settings.json"));
}

#[test]
fn of_several_names_the_file_that_is_there_is_taken() {
    let ground = TempDir::new().unwrap();
    let around = around(&ground, Platform::Linux);
    let place = |scope| Client::OpenCode.place(scope, &around).unwrap().file;
    let (project, user) = (&around.project, around.home.join(".config/opencode"));
    assert_eq!(place(Scope::Project), project.join("opencode.json"), "the usual one");
    for file in [".opencode/opencode.jsonc", "opencode.jsonc", "opencode.json"] {
        touch(&project.join(file));
        assert_eq!(place(Scope::Project), project.join(file));
    }
    for file in ["opencode.jsonc", "opencode.json"] {
        touch(&user.join(file));
        assert_eq!(place(Scope::User), user.join(file));
    }
}

fn refusal(client: Client, server: &Server) -> Option<String> {
    client.entry(server).err().map(|NoPlace(reason)| reason)
}

#[test]
fn a_path_that_a_client_would_take_for_a_variable_is_refused() {
    let at = |root: &str| Server::Command {
        program: "reqlore".to_owned(),
        arguments: vec!["--root".to_owned(), root.to_owned()],
    };
    let refusing = |root: &str| -> Vec<&str> {
        let refuses = |client: &Client| refusal(*client, &at(root)).is_some();
        Client::ALL.into_iter().filter(refuses).map(Client::name).collect()
    };
    let braced = ["claude-code", "cursor", "vscode", "gemini", "copilot", "kiro"];
    assert_eq!(refusing("/home/ann/${x}"), braced);
    assert_eq!(refusing("/home/ann/$x"), ["gemini", "copilot"]);
    assert_eq!(refusing("/home/ann/{env:x}"), ["opencode"]);
    assert_eq!(refusing("/home/ann/{file:x}"), ["opencode"]);
    assert_eq!(refusing("/home/ann/5$ \"'\\ {x} %x% ü/a b$"), [""; 0]);
    assert_eq!(
        refusal(Client::Gemini, &at("/home/ann/$x")).unwrap(),
        "Gemini CLI takes `$` in `/home/ann/$x` for the beginning of a variable; use a path without \
         it, a symbolic link for instance"
    );
}

#[test]
fn the_program_is_looked_at_like_an_argument() {
    let server = Server::Command { program: "/opt/${x}/reqlore".to_owned(), arguments: Vec::new() };
    assert!(refusal(Client::Cursor, &server).is_some());
    assert!(refusal(Client::Zed, &server).is_none());
}

#[test]
fn a_clients_own_variable_for_the_project_is_written_as_it_is() {
    let variable = Client::Cursor.project_variable().unwrap().to_owned();
    let server = Server::Command {
        program: "reqlore".to_owned(),
        arguments: vec!["--root".to_owned(), variable.clone()],
    };
    let entry = Client::Cursor.entry(&server).unwrap();
    assert_eq!(entry.set["args"][1], variable);
    assert!(refusal(Client::VsCode, &server).is_some(), "another client's variable is a path");
}

#[test]
fn a_token_in_place_of_its_variable_is_refused_and_not_repeated() {
    for given in ["reqlore_pat_7f3a_secret", "Bearer secret", "secret}", "", "7secret"] {
        let server = Server::Url {
            url: "https://reqlore.example.org/mcp".to_owned(),
            token_variable: given.to_owned(),
        };
        for client in Client::ALL {
            let reason = refusal(client, &server).unwrap();
            assert!(!reason.contains("secret"), "{client}: {reason}");
        }
    }
}

#[test]
fn no_entry_has_a_key_that_it_drops() {
    let servers = [
        Server::Command { program: "reqlore".to_owned(), arguments: Vec::new() },
        Server::Command { program: "reqlore".to_owned(), arguments: vec!["serve".to_owned()] },
        Server::Url {
            url: "https://reqlore.example.org/mcp".to_owned(),
            token_variable: "REQLORE_TOKEN".to_owned(),
        },
    ];
    for client in Client::ALL {
        for entry in servers.iter().filter_map(|server| client.entry(server).ok()) {
            let both = entry.drop.iter().find(|key| entry.set.contains_key(**key));
            assert_eq!(both, None, "{client}");
        }
    }
}
