//! What a client can't be told, and what it is told word for word.
//!
//! Paths are no variables and tokens no names: what would be read as something else is refused.

use reqlore_client_config::{Client, NoPlace, Server};

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
    let braced = ["claude-code", "cursor", "vscode", "zed", "gemini", "copilot", "kiro"];
    assert_eq!(refusing("/home/ann/${x}"), braced);
    assert_eq!(refusing("/home/ann/$x"), ["zed", "gemini", "copilot"]);
    assert_eq!(refusing("/home/ann/{env:x}"), ["opencode"]);
    assert_eq!(refusing("/home/ann/{file:x}"), ["opencode"]);
    assert_eq!(refusing("/home/ann/5$ \"'\\ {x} %x% ü/a b$"), [""; 0]);
    assert_eq!(
        refusal(Client::Gemini, &at("/home/ann/$x")).unwrap(),
        "Gemini CLI takes `$` in `/home/ann/$x` for the beginning of a variable; give it \
         another name"
    );
}

#[test]
fn the_program_is_looked_at_like_an_argument() {
    let server = Server::Command { program: "/opt/${x}/reqlore".to_owned(), arguments: Vec::new() };
    assert!(refusal(Client::Cursor, &server).is_some());
    assert!(refusal(Client::Codex, &server).is_none());
}

#[test]
fn a_program_that_a_shell_would_split_is_refused_where_one_reads_it() {
    let at = |program: &str, arguments: &[&str]| Server::Command {
        program: program.to_owned(),
        arguments: arguments.iter().map(|argument| (*argument).to_owned()).collect(),
    };
    let spaced = "/Users/ann/my tools/reqlore";
    assert!(refusal(Client::Zed, &at(spaced, &[])).unwrap().contains(spaced));
    assert_eq!(refusal(Client::Zed, &at(spaced, &["serve"])), None, "then it is quoted");
    for program in ["reqlore", "/opt/reqlore-0.1/bin/reqlore", "C:\\Users\\Änne\\reqlore.exe"] {
        assert_eq!(refusal(Client::Zed, &at(program, &[])), None);
    }
    assert_eq!(refusal(Client::Codex, &at(spaced, &[])), None);
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
