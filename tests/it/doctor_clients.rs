//! `reqlore doctor` on clients' files, which may come from a cloned repository.

use std::net::TcpListener;
use std::path::Path;

use crate::client::BINARY;
use crate::doctor::Machine;
use crate::http::{STORAGES, TestTeam, token_id};

const PROJECT: &str = "project/.mcp.json";
const USER: &str = "home/.claude.json";

fn servers(entry: &str) -> String {
    format!("{{\"mcpServers\":{{\"reqlore\":{entry}}}}}")
}

/// A machine with this entry in one file.
fn with(file: &str, entry: &str) -> Machine {
    let machine = Machine::new();
    machine.write(file, servers(entry));
    machine
}

#[test]
fn doctor_starts_an_entry_of_this_binary() {
    let program = Path::new(BINARY).display();
    for (file, entry) in [
        (PROJECT, r#"{"command":"reqlore","args":["serve","--read-only"]}"#.to_owned()),
        (PROJECT, r#"{"command":"reqlore","args":["--storage","sled:x","--root=."]}"#.to_owned()),
        (PROJECT, format!(r#"{{"command":"{program}"}}"#)),
        (USER, r#"{"command":"reqlore","env":{"NODE_OPTIONS":"x"}}"#.to_owned()),
    ] {
        let report = with(file, &entry).doctor(&[]);
        report.assert("clients", "ok", "starts and answers as reqlore");
        assert!(!report.text.contains("no client was found"), "{}", report.text);
    }
    let machine = Machine::new();
    machine.write("project/opencode.json", r#"{"mcp":{"reqlore":{"command":["reqlore"]}}}"#);
    machine.write("home/.codex/config.toml", "[mcp_servers.reqlore]\ncommand = \"reqlore\"\n");
    machine.write("home/.cursor/x", "");
    let report = machine.doctor(&[]);
    report.assert("clients", "ok", "OpenCode");
    report.assert("clients", "ok", "Codex CLI");
    report.assert("clients", "note", "has no `type`");
    report.assert("clients", "note", "run `reqlore init --client cursor`");
}

#[test]
fn doctor_result_of_an_entry_has_its_state() {
    let env = r#"{"command":"reqlore","env":{"EVIL":"x","REQLORE_LOG":"info"}}"#;
    let quoted = r#"{"command":"sh","args":["-c","reqlore x"]}"#;
    for (file, entry, state, message) in [
        (PROJECT, r#"{"command":"reqlore","args":["--sotrage","fs"]}"#, "problem", "unexpected"),
        (PROJECT, r#"{"command":"npx","args":["-y","reqlore","check"]}"#, "problem", "`serve`"),
        (PROJECT, r#"{"command":["reqlore"]}"#, "problem", "`command` has the wrong type"),
        (PROJECT, r#"{"command":"reqlore","args":"x"}"#, "problem", "`args` has the wrong type"),
        (PROJECT, r#"{"args":[]}"#, "problem", "has no command and no address"),
        (PROJECT, r#"{"url":"http://example.org/mcp"}"#, "problem", "is not encrypted"),
        (USER, r#"{"command":"/no/such/program"}"#, "problem", "not found"),
        (USER, r#"{"command":"no-such-program"}"#, "problem", "not found"),
        (USER, r#"{"url":"http://127.0.0.1:1/mcp"}"#, "problem", "connection refused"),
        (USER, r#"{"url":"https://h.example/"}"#, "problem", "https://h.example/api/v1/mcp"),
        (USER, r#"{"command":"sh","disabled":true}"#, "note", "is disabled"),
        (PROJECT, env, "warning", "sets variables unknown to Reqlore: EVIL"),
        (USER, quoted, "note", "to test it, run `sh -c 'reqlore x' </dev/null`"),
    ] {
        let report = with(file, entry).doctor(&[]);
        report.assert("clients", state, message);
        assert_eq!(report.code, i32::from(state == "problem"), "{entry}");
    }
    let machine =
        with("home/.config/Claude/claude_desktop_config.json", r#"{"command":"reqlore"}"#);
    machine.doctor(&[]).assert("clients", "warning", "does not name the project");
    machine.write(PROJECT, "{");
    machine.doctor(&[]).assert_problem("clients", "the client can't read the file");
    let report = with(USER, r#"{"url":"http://127.0.0.1:1/mcp?key=foreign"}"#).doctor(&[]);
    report.assert_problem("clients", "http://127.0.0.1:1/mcp?… does not listen");
    assert!(!report.text.contains("foreign"), "{}", report.text);
}

#[test]
fn doctor_checks_the_settings_of_an_entry() {
    let machine = Machine::new();
    for (entry, message) in [
        (r#""args":["--storage","mongodb"]"#, "mongodb"),
        (r#""args":["--toolsets","none"]"#, "none"),
        (r#""args":["--config","no.toml"]"#, "--config no.toml is not a file"),
        (r#""args":["--config","/dev/zero"]"#, "--config /dev/zero is not a file"),
        (r#""env":{"REQLORE_STORAGE":"mongodb"}"#, "mongodb"),
    ] {
        machine.write(PROJECT, servers(&format!(r#"{{"command":"reqlore",{entry}}}"#)));
        machine.doctor(&[]).assert_problem("clients", message);
    }
    let args = r#"{"command":"reqlore","args":["--storage","sqlite:a b.db","--log","warn"]}"#;
    machine.write(PROJECT, servers(args));
    let next = "`reqlore doctor --storage 'sqlite:a b.db'` checks it";
    let others = args.replace('[', r#"["--root","${workspaceFolder}","#);
    machine.write("project/.cursor/mcp.json", servers(&others));
    let report = machine.doctor(&[]);
    report.assert("clients", "note", next);
    assert_eq!(report.text.matches("checks it").count(), 1, "{}", report.text);
    machine.write(PROJECT, "{}");
    machine.doctor(&[]).assert("clients", "note", next);
    let report = machine.doctor(&["--storage", "sqlite:a b.db"]);
    assert!(!report.text.contains("checks it"), "{}", report.text);
    machine.write("project/.cursor/mcp.json", "{}");
    let root = r#"{"command":"reqlore","args":["--root","${workspaceFolder}"]}"#;
    machine.write(PROJECT, servers(root));
    let report = machine.doctor(&[]);
    assert!(!report.text.contains("checks it"), "{}", report.text);
}

/// Each of these programs would create a file.
#[test]
fn doctor_starts_no_program_of_a_project() {
    let machine = Machine::new();
    let mark = machine.at("home/started");
    let script = format!("echo x > '{}'", mark.display());
    for folder in ["project/reqlore", "project/bin/git", "project/node_modules/.bin/reqlore"] {
        machine.program(folder, &script);
    }
    for name in ["bin/npx", "bin/uvx", "bin/node", "bin/env"] {
        machine.program(name, &script);
    }
    let program = machine.at("project/reqlore");
    for (entry, state) in [
        (format!(r#"{{"command":"sh","args":["-c","{script}"]}}"#), "warning"),
        (format!(r#"{{"command":"{}"}}"#, program.display()), "note"),
        (r#"{"command":"./reqlore"}"#.to_owned(), "note"),
        (r#"{"command":"node","args":["evil.js"]}"#.to_owned(), "warning"),
        (r#"{"command":"npx","args":["-y","reqlore@1.2.3"]}"#.to_owned(), "note"),
        (r#"{"command":"uvx","args":["reqlore@1.2.3"]}"#.to_owned(), "note"),
        (r#"{"command":"uvx","args":["evil"]}"#.to_owned(), "warning"),
        (r#"{"command":"npx","args":["-y","evil"]}"#.to_owned(), "warning"),
        (r#"{"command":"npx","args":["reqlore"]}"#.to_owned(), "warning"),
        (r#"{"command":"env","args":["reqlore"]}"#.to_owned(), "warning"),
    ] {
        for (file, state) in [(PROJECT, state), (USER, "note")] {
            machine.write(file, servers(&entry));
            machine.doctor(&[]).assert(
                "clients",
                state,
                "was not started, because it is not this reqlore binary",
            );
            machine.write(file, "{}");
        }
    }
    // A user's file that is a link into the project belongs to the project.
    machine.write("project/claude.json", servers(r#"{"command":"sh"}"#));
    std::fs::remove_file(machine.at(USER)).unwrap();
    std::os::unix::fs::symlink(machine.at("project/claude.json"), machine.at(USER)).unwrap();
    machine.doctor(&[]).assert("clients", "warning", "was not started, because");

    machine.git(&["init", "-q"]);
    machine.write(PROJECT, servers(r#"{"command":"reqlore"}"#));
    let folders = ["project/bin", "project", "project/node_modules/.bin", "bin"];
    let hostile = std::env::join_paths(folders.map(|folder| machine.at(folder))).unwrap();
    let report = machine.doctor_with(&[], &[("PATH", hostile.to_str().unwrap())]);
    report.assert("clients", "note", "was not started, because");
    report.assert("program", "note", "it was not started");
    report.assert("git", "ok", "in a Git repository");
    // In a subfolder of a repository too, whose other folders are on PATH.
    std::fs::create_dir(machine.at("project/part")).unwrap();
    let mut command = machine.command();
    command.env("PATH", hostile).current_dir(machine.at("project/part")).arg("doctor");
    let shown = String::from_utf8(command.output().unwrap().stdout).unwrap();
    assert!(shown.contains("ok the project is in a Git repository"), "{shown}");
    assert!(!mark.is_file());
}

#[test]
fn doctor_starts_no_program_of_a_git_configuration() {
    let machine = Machine::new();
    machine.git(&["init", "-q"]);
    let mark = machine.at("home/started");
    machine.program("project/evil", &format!("echo x > '{}'", mark.display()));
    let evil = machine.at("project/evil");
    let evil = evil.to_str().unwrap();
    for key in ["core.fsmonitor", "core.pager", "core.sshCommand", "core.editor", "core.askPass"] {
        machine.git(&["config", key, evil]);
    }
    machine.git(&["config", "core.hooksPath", machine.at("project").to_str().unwrap()]);
    machine.git(&["config", "filter.evil.clean", evil]);
    machine.git(&["config", "alias.check-ignore", &format!("!{evil}")]);
    machine.write("project/.gitattributes", "* filter=evil\n");
    machine.write("project/.ixchel/decisions/dec-000000.md", "x");
    machine.doctor(&[]).assert("git", "ok", "documents are shared");
    assert!(!mark.is_file());
}

#[test]
fn doctor_reports_tracked_private_files() {
    let machine = Machine::new();
    machine.git(&["init", "-q"]);
    machine.write("project/.reqlore/local/team.db", "{}");
    machine.write("project/.reqlore/local/.gitignore", "*\n");
    machine.git(&["add", "--force", ".reqlore/local/team.db"]);
    machine.doctor(&[]).assert_problem("git", "`git rm -r --cached .reqlore/local`");
    machine.git(&["rm", "-q", "-r", "--cached", ".reqlore/local"]);
    // In a Git hook, variables name another repository.
    let within = [("GIT_DIR", "/no/such/folder"), ("GIT_INDEX_FILE", "/no/such/file")];
    machine.doctor_with(&[], &within).assert("git", "ok", "documents are shared");
}

const BEARER: &str = r#""headers":{"Authorization":"Bearer ${REQLORE_TOKEN}"}"#;

#[test]
fn doctor_contacts_an_http_server_and_hides_the_token() {
    let place = TestTeam::new("fs");
    let token = place.administrator();
    let other = place.token("ada", "");
    place.run(&format!("token revoke {}", token_id(&other)));
    let server = place.serve();
    let url = format!("http://{}/api/v1/mcp", server.address);
    let entry = format!(r#"{{"type":"http","url":"{url}",{BEARER}}}"#);
    for file in [PROJECT, USER] {
        let machine = with(file, &entry);
        let doctor = |token: &str| {
            let report = machine.doctor_with(&["--with-token"], &[("REQLORE_TOKEN", token)]);
            let secret = token.split('_').nth(3).unwrap_or(token);
            assert!(!report.text.contains(secret) && !report.json.to_string().contains(secret));
            report
        };
        doctor(&token).assert("clients", "ok", "answers as reqlore");
        doctor(&other)
            .assert_problem("clients", "answered with status 401: the token is not valid");
        doctor("ghp_other").assert("clients", "warning", "does not begin with reqlore_pat_");
        let quoted = format!("\"{token}\"");
        doctor(&quoted).assert("clients", "warning", "REQLORE_TOKEN has quotes");
        doctor("${OTHER}").assert("clients", "warning", "is a variable that was not replaced");
        let report = machine.doctor(&["--with-token"]);
        report.assert("clients", "warning", "REQLORE_TOKEN is not set");
        machine.write(file, servers(&entry.replace("v1/mcp", "v1/other")));
        doctor(&token).assert_problem("clients", "is /api/v1/mcp");
    }
    let inside = entry.replace("${REQLORE_TOKEN}", &token);
    let report = with(PROJECT, &inside).doctor(&[]);
    report.assert_problem("clients", "the file contains a token");
    assert!(!report.text.contains(token.split('_').nth(3).unwrap()));
    server.end();
}

#[test]
fn doctor_sends_no_secret_to_an_address_of_a_project() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let entry = format!(r#"{{"url":"{url}",{}}}"#, BEARER.replace("REQLORE_TOKEN", "CLOUD_KEY"));
    let token = format!("reqlore_pat_{}_{}", "a".repeat(12), "b".repeat(38));
    let variables = [("CLOUD_KEY", &*token), ("REQLORE_TOKEN", "of-another-kind")];
    let machine = with(PROJECT, &entry);
    machine.doctor_with(&["--with-token"], &variables).assert(
        "clients",
        "warning",
        "not one of Reqlore's",
    );
    machine.write(PROJECT, servers(&entry.replace("CLOUD_KEY", "REQLORE_TOKEN")));
    machine.doctor_with(&["--with-token"], &variables).assert(
        "clients",
        "warning",
        "does not begin with reqlore_pat_",
    );
    let here = [("REQLORE_TOKEN", &*token)];
    machine.doctor_with(&[], &here).assert("clients", "note", "because a project file names it");
    assert!(listener.accept().is_err(), "it was contacted");
    for away in ["https://reqlore.invalid/mcp", "https://127.0.0.1.reqlore.invalid/mcp"] {
        machine.write(PROJECT, servers(&format!(r#"{{"url":"{away}",{BEARER}}}"#)));
        machine.doctor(&[]).assert("clients", "note", "because a project file names it");
        let report = machine.doctor_with(&["--with-token"], &[("REQLORE_TOKEN", "x")]);
        report.assert("clients", "warning", "does not begin with reqlore_pat_");
    }
}

#[test]
fn doctor_of_an_http_server_checks_users_and_tokens() {
    for storage in STORAGES {
        let place = TestTeam::new(storage);
        let machine = Machine::new();
        let doctor = || {
            let root = place.root();
            let config = root.join("reqlore.toml");
            let (root, config) = (root.to_str().unwrap(), config.to_str().unwrap());
            let storage = &place.storage_argument;
            let arguments =
                ["--root", root, "--config", config, "--storage", storage, "--transport", "http"];
            machine.doctor(&arguments)
        };
        // The database already has its tables.
        if matches!(storage, "fs" | "postgres") {
            doctor().assert_problem("http", "there is no active user");
        } else {
            doctor().assert("http", "note", "users were not checked");
        }
        place.user("ada", "user");
        if storage == "sled" {
            doctor().assert("http", "note", "users were not checked");
            continue;
        }
        doctor().assert_problem("http", "there is no valid token");
        place.token("ada", "");
        let report = doctor();
        report.assert("http", "ok", "active users: 1, valid tokens: 1");
        report.assert("http", "note", "no active user is an administrator");
        place.run("user set-role ada --role administrator");
        assert!(!doctor().text.contains("no active user"));
        place.run("user disable ada --force");
        doctor().assert_problem("http", "there is no active user");
    }
}
