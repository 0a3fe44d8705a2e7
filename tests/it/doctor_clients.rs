//! `reqlore doctor` and the clients' files: what works, and what a cloned repository can't start.

use std::net::TcpListener;
use std::path::Path;

use crate::client::BINARY;
use crate::doctor::Bed;
use crate::http::{Place, STORAGES, id};

const PROJECT: &str = "project/.mcp.json";
const USER: &str = "home/.claude.json";

fn servers(entry: &str) -> String {
    format!("{{\"mcpServers\":{{\"reqlore\":{entry}}}}}")
}

/// A bed with this entry in one file.
fn with(file: &str, entry: &str) -> Bed {
    let bed = Bed::new();
    bed.write(file, servers(entry));
    bed
}

#[test]
fn an_entry_that_starts_this_program_is_started() {
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
    let bed = Bed::new();
    bed.write("project/opencode.json", r#"{"mcp":{"reqlore":{"command":["reqlore"]}}}"#);
    bed.write("home/.codex/config.toml", "[mcp_servers.reqlore]\ncommand = \"reqlore\"\n");
    bed.write("home/.cursor/x", "");
    let report = bed.doctor(&[]);
    report.assert("clients", "ok", "OpenCode");
    report.assert("clients", "ok", "Codex CLI");
    report.assert("clients", "note", "has no `type`");
    report.assert("clients", "note", "`reqlore init --client cursor` configures it");
}

#[test]
fn each_finding_about_an_entry_has_its_state() {
    let env = r#"{"command":"reqlore","env":{"EVIL":"x","REQLORE_LOG":"info"}}"#;
    let quoted = r#"{"command":"sh","args":["-c","reqlore x"]}"#;
    for (file, entry, state, message) in [
        (PROJECT, r#"{"command":"reqlore","args":["--sotrage","fs"]}"#, "problem", "unexpected"),
        (PROJECT, r#"{"command":"npx","args":["-y","reqlore","check"]}"#, "problem", "`serve`"),
        (PROJECT, r#"{"command":["reqlore"]}"#, "problem", "`command` has another type"),
        (PROJECT, r#"{"command":"reqlore","args":"x"}"#, "problem", "`args` has another type"),
        (PROJECT, r#"{"args":[]}"#, "problem", "names no command and no address"),
        (PROJECT, r#"{"url":"http://example.org/mcp"}"#, "problem", "is not encrypted"),
        (USER, r#"{"command":"/no/such/program"}"#, "problem", "there is no program"),
        (USER, r#"{"command":"no-such-program"}"#, "problem", "there is no program"),
        (USER, r#"{"url":"http://127.0.0.1:1/mcp"}"#, "problem", "connection refused"),
        (USER, r#"{"command":"sh","disabled":true}"#, "note", "is disabled"),
        (PROJECT, env, "warning", "it sets EVIL for its program"),
        (USER, quoted, "note", "to try it by hand: `sh -c 'reqlore x' </dev/null`"),
    ] {
        let report = with(file, entry).doctor(&[]);
        report.assert("clients", state, message);
        assert_eq!(report.code, i32::from(state == "problem"), "{entry}");
    }
    let bed = with("home/.config/Claude/claude_desktop_config.json", r#"{"command":"reqlore"}"#);
    bed.doctor(&[]).assert("clients", "warning", "does not say which project it serves");
    bed.write(PROJECT, "{");
    bed.doctor(&[]).assert_problem("clients", "the client can't read it");
    let report = with(USER, r#"{"url":"http://127.0.0.1:1/mcp?key=foreign"}"#).doctor(&[]);
    report.assert_problem("clients", "http://127.0.0.1:1/mcp?… does not listen");
    assert!(!report.text.contains("foreign"), "{}", report.text);
}

#[test]
fn the_settings_of_an_entry_are_checked() {
    let bed = Bed::new();
    for (entry, message) in [
        (r#""args":["--storage","mongodb"]"#, "mongodb"),
        (r#""args":["--toolsets","none"]"#, "none"),
        (r#""args":["--config","no.toml"]"#, "--config no.toml is not a file"),
        (r#""args":["--config","/dev/zero"]"#, "--config /dev/zero is not a file"),
        (r#""env":{"REQLORE_STORAGE":"mongodb"}"#, "mongodb"),
    ] {
        bed.write(PROJECT, servers(&format!(r#"{{"command":"reqlore",{entry}}}"#)));
        bed.doctor(&[]).assert_problem("clients", message);
    }
    let args = r#"{"command":"reqlore","args":["--storage","sqlite:a b.db","--log","warn"]}"#;
    bed.write(PROJECT, servers(args));
    let next = "`reqlore doctor --storage 'sqlite:a b.db'` checks it";
    let others = args.replace('[', r#"["--root","${workspaceFolder}","#);
    bed.write("project/.cursor/mcp.json", servers(&others));
    let report = bed.doctor(&[]);
    report.assert("clients", "note", next);
    assert_eq!(report.text.matches("checks it").count(), 1, "{}", report.text);
    bed.write(PROJECT, "{}");
    bed.doctor(&[]).assert("clients", "note", next);
    let report = bed.doctor(&["--storage", "sqlite:a b.db"]);
    assert!(!report.text.contains("checks it"), "{}", report.text);
    bed.write("project/.cursor/mcp.json", "{}");
    let root = r#"{"command":"reqlore","args":["--root","${workspaceFolder}"]}"#;
    bed.write(PROJECT, servers(root));
    let report = bed.doctor(&[]);
    assert!(!report.text.contains("checks it"), "{}", report.text);
}

/// Each of these would leave a file behind.
#[test]
fn files_of_others_start_no_program() {
    let bed = Bed::new();
    let mark = bed.at("home/started");
    let script = format!("echo x > '{}'", mark.display());
    for folder in ["project/reqlore", "project/bin/git", "project/node_modules/.bin/reqlore"] {
        bed.program(folder, &script);
    }
    for name in ["bin/npx", "bin/node", "bin/env"] {
        bed.program(name, &script);
    }
    let program = bed.at("project/reqlore");
    for (entry, state) in [
        (format!(r#"{{"command":"sh","args":["-c","{script}"]}}"#), "warning"),
        (format!(r#"{{"command":"{}"}}"#, program.display()), "note"),
        (r#"{"command":"./reqlore"}"#.to_owned(), "note"),
        (r#"{"command":"node","args":["evil.js"]}"#.to_owned(), "warning"),
        (r#"{"command":"npx","args":["-y","reqlore@1.2.3"]}"#.to_owned(), "note"),
        (r#"{"command":"npx","args":["-y","evil"]}"#.to_owned(), "warning"),
        (r#"{"command":"npx","args":["reqlore"]}"#.to_owned(), "warning"),
        (r#"{"command":"env","args":["reqlore"]}"#.to_owned(), "warning"),
    ] {
        for (file, state) in [(PROJECT, state), (USER, "note")] {
            bed.write(file, servers(&entry));
            bed.doctor(&[]).assert("clients", state, "was not tried, it is not this program");
            bed.write(file, "{}");
        }
    }
    // A user's file that is a link into the project belongs to the project.
    bed.write("project/claude.json", servers(r#"{"command":"sh"}"#));
    std::fs::remove_file(bed.at(USER)).unwrap();
    std::os::unix::fs::symlink(bed.at("project/claude.json"), bed.at(USER)).unwrap();
    bed.doctor(&[]).assert("clients", "warning", "was not tried");

    bed.git(&["init", "-q"]);
    bed.write(PROJECT, servers(r#"{"command":"reqlore"}"#));
    let folders = ["project/bin", "project", "project/node_modules/.bin", "bin"];
    let hostile = std::env::join_paths(folders.map(|folder| bed.at(folder))).unwrap();
    let report = bed.doctor_with(&[], &[("PATH", hostile.to_str().unwrap())]);
    report.assert("clients", "note", "was not tried");
    report.assert("program", "note", "it was not started");
    report.assert("git", "ok", "in a Git repository");
    // In a part of a repository too, where its other folders are on the PATH.
    std::fs::create_dir(bed.at("project/part")).unwrap();
    let mut command = bed.command();
    command.env("PATH", hostile).current_dir(bed.at("project/part")).arg("doctor");
    let shown = String::from_utf8(command.output().unwrap().stdout).unwrap();
    assert!(shown.contains("ok the project is in a Git repository"), "{shown}");
    assert!(!mark.is_file());
}

#[test]
fn the_git_configuration_of_a_repository_starts_nothing() {
    let bed = Bed::new();
    bed.git(&["init", "-q"]);
    let mark = bed.at("home/started");
    bed.program("project/evil", &format!("echo x > '{}'", mark.display()));
    let evil = bed.at("project/evil");
    let evil = evil.to_str().unwrap();
    for key in ["core.fsmonitor", "core.pager", "core.sshCommand", "core.editor", "core.askPass"] {
        bed.git(&["config", key, evil]);
    }
    bed.git(&["config", "core.hooksPath", bed.at("project").to_str().unwrap()]);
    bed.git(&["config", "filter.evil.clean", evil]);
    bed.git(&["config", "alias.check-ignore", &format!("!{evil}")]);
    bed.write("project/.gitattributes", "* filter=evil\n");
    bed.write("project/.ixchel/decisions/dec-000000.md", "x");
    bed.doctor(&[]).assert("git", "ok", "documents are shared");
    assert!(!mark.is_file());
}

#[test]
fn tracked_private_files_are_a_problem() {
    let bed = Bed::new();
    bed.git(&["init", "-q"]);
    bed.write("project/.reqlore/local/identity.json", "{}");
    bed.write("project/.reqlore/local/.gitignore", "*\n");
    bed.git(&["add", "--force", ".reqlore/local/identity.json"]);
    bed.doctor(&[]).assert_problem("git", "`git rm -r --cached .reqlore/local`");
    bed.git(&["rm", "-q", "-r", "--cached", ".reqlore/local"]);
    // As in a hook, whose variables name another repository.
    let within = [("GIT_DIR", "/no/such/folder"), ("GIT_INDEX_FILE", "/no/such/file")];
    bed.doctor_with(&[], &within).assert("git", "ok", "documents are shared");
}

const BEARER: &str = r#""headers":{"Authorization":"Bearer ${REQLORE_TOKEN}"}"#;

#[test]
fn an_http_server_is_asked_and_the_token_not_shown() {
    let place = Place::new("fs");
    let token = place.administrator();
    let other = place.token("ada", "");
    place.run(&format!("token revoke {}", id(&other)));
    let server = place.serve();
    let url = format!("http://{}/api/v1/mcp", server.address);
    let entry = format!(r#"{{"type":"http","url":"{url}",{BEARER}}}"#);
    for file in [PROJECT, USER] {
        let bed = with(file, &entry);
        let told = |token: &str| {
            let report = bed.doctor_with(&["--with-token"], &[("REQLORE_TOKEN", token)]);
            let secret = token.split('_').nth(3).unwrap_or("reqlore_pat");
            assert!(!report.text.contains(secret) && !report.json.to_string().contains(secret));
            report
        };
        told(&token).assert("clients", "ok", "answers as reqlore");
        told(&other).assert_problem("clients", "answered with status 401: the token is not valid");
        told("x").assert("clients", "warning", "is not a token of Reqlore");
        let report = bed.doctor(&["--with-token"]);
        report.assert("clients", "warning", "REQLORE_TOKEN is not set here");
        bed.write(file, servers(&entry.replace("v1/mcp", "v1/other")));
        told(&token).assert_problem("clients", "ends with /api/v1/mcp");
    }
    let inside = entry.replace("${REQLORE_TOKEN}", &token);
    let report = with(PROJECT, &inside).doctor(&[]);
    report.assert_problem("clients", "the file contains a token");
    assert!(!report.text.contains(token.split('_').nth(3).unwrap()));
    server.end();
}

#[test]
fn the_address_in_a_projects_file_gets_no_secret() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let entry = format!(r#"{{"url":"{url}",{}}}"#, BEARER.replace("REQLORE_TOKEN", "CLOUD_KEY"));
    let token = format!("reqlore_pat_{}_{}", "a".repeat(12), "b".repeat(38));
    let variables = [("CLOUD_KEY", &*token), ("REQLORE_TOKEN", "of-another-kind")];
    let bed = with(PROJECT, &entry);
    bed.doctor_with(&["--with-token"], &variables).assert(
        "clients",
        "warning",
        "not one of Reqlore's",
    );
    bed.write(PROJECT, servers(&entry.replace("CLOUD_KEY", "REQLORE_TOKEN")));
    bed.doctor_with(&["--with-token"], &variables).assert(
        "clients",
        "warning",
        "is not a token of Reqlore",
    );
    let here = [("REQLORE_TOKEN", &*token)];
    bed.doctor_with(&[], &here).assert("clients", "note", "because the project chose it, not you");
    assert!(listener.accept().is_err(), "it was asked");
    for away in ["https://reqlore.invalid/mcp", "https://127.0.0.1.reqlore.invalid/mcp"] {
        bed.write(PROJECT, servers(&format!(r#"{{"url":"{away}",{BEARER}}}"#)));
        bed.doctor(&[]).assert("clients", "note", "because the project chose it, not you");
        let report = bed.doctor_with(&["--with-token"], &[("REQLORE_TOKEN", "x")]);
        report.assert("clients", "warning", "is not a token");
    }
}

#[test]
fn an_http_server_needs_an_active_user_with_a_token() {
    for storage in STORAGES {
        let place = Place::new(storage);
        let bed = Bed::new();
        let doctor = || {
            let root = place.root();
            let config = root.join("reqlore.toml");
            let (root, config) = (root.to_str().unwrap(), config.to_str().unwrap());
            let arguments =
                ["--root", root, "--config", config, "--storage", storage, "--transport", "http"];
            bed.doctor(&arguments)
        };
        if storage == "fs" {
            doctor().assert_problem("http", "there is no active user");
        } else {
            doctor().assert("http", "note", "users were not checked");
        }
        place.user("ada", "user");
        if storage == "sled" {
            doctor().assert("http", "note", "users were not checked");
            continue;
        }
        doctor().assert_problem("http", "no token is valid");
        place.token("ada", "");
        let report = doctor();
        report.assert("http", "ok", "active users: 1, valid tokens: 1");
        report.assert("http", "note", "no active user is an administrator");
        place.run("user set-role ada --role administrator");
        assert!(!doctor().text.contains("no active user"));
        place.run("user disable ada");
        doctor().assert_problem("http", "there is no active user");
    }
}
