//! `reqlore doctor` and the clients' files: what works, what does not, and what is never started,
//! because a repository that somebody cloned wrote it.

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
    bed.write(file, &servers(entry));
    bed
}

#[test]
fn an_entry_is_started_as_its_client_would_start_it() {
    let program = Path::new(BINARY).display();
    for (file, entry) in [
        (PROJECT, r#"{"command":"reqlore","args":["serve","--read-only"]}"#.to_owned()),
        (PROJECT, format!(r#"{{"command":"{program}"}}"#)),
        (USER, r#"{"command":"reqlore","env":{"NODE_OPTIONS":"x"}}"#.to_owned()),
        (USER, format!(r#"{{"command":"sh","args":["-c","exec {program}"]}}"#)),
    ] {
        let report = with(file, &entry).doctor(&[]);
        report.assert("clients", "ok", "starts and answers as reqlore");
        assert!(!report.text.contains("no client was found"), "{}", report.text);
    }
    let bed = Bed::new();
    bed.write("project/opencode.json", r#"{"mcp":{"reqlore":{"command":["reqlore"]}}}"#);
    bed.write("home/.codex/config.toml", "[mcp_servers.reqlore]\ncommand = \"reqlore\"\n");
    let report = bed.doctor(&[]);
    report.assert("clients", "ok", "OpenCode");
    report.assert("clients", "ok", "Codex CLI");
}

#[test]
fn a_client_that_is_here_and_knows_nothing_is_named() {
    let bed = Bed::new();
    bed.write("home/.cursor/x", "");
    bed.write("home/.claude.json", "{}");
    let report = bed.doctor(&[]);
    report.assert("clients", "note", "`reqlore init --client cursor` tells it");
    report.assert("clients", "note", "`reqlore init --client claude-code` tells it");
}

#[test]
fn an_entry_that_does_not_work_says_why() {
    for (file, entry, message) in [
        (PROJECT, r#"{"command":"reqlore","args":["--sotrage","fs"]}"#, "unexpected argument"),
        (PROJECT, r#"{"command":"reqlore","args":["check"]}"#, "another command than `serve`"),
        (PROJECT, r#"{"args":[]}"#, "names no command and no address"),
        (USER, r#"{"command":"/no/such/program"}"#, "there is no program"),
        (USER, r#"{"command":"no-such-program"}"#, "there is no program"),
        (USER, r#"{"command":"sh","args":["-c","echo Ready; sleep 100"]}"#, "wrote \\\"Ready\\\""),
        (USER, r#"{"command":"sh","args":["-c","echo broken >&2; exit 1"]}"#, "it wrote: broken"),
        (
            USER,
            r#"{"command":"sh","args":["-c",":"]}"#,
            "ended (exit status: 0) before it answered",
        ),
        (PROJECT, r#"{"url":"http://example.org/mcp"}"#, "is not encrypted"),
        (USER, r#"{"url":"http://127.0.0.1:1/mcp"}"#, "connection refused"),
    ] {
        with(file, entry).doctor(&[]).assert_problem("clients", message);
    }
    let bed = Bed::new();
    bed.write(PROJECT, "{");
    bed.doctor(&[]).assert_problem("clients", "the client can't read it");
    let bed = with(USER, r#"{"command":"sh","disabled":true}"#);
    bed.doctor(&[]).assert("clients", "note", "is switched off");
    let bed = with("home/.config/Claude/claude_desktop_config.json", r#"{"command":"reqlore"}"#);
    bed.doctor(&[]).assert("clients", "warning", "does not say which project it serves");
}

#[test]
fn what_an_entry_says_of_settings_is_looked_at() {
    let bed = Bed::new();
    for (entry, message) in [
        (r#""args":["--storage","mongodb"]"#, "mongodb"),
        (r#""args":["--toolsets","none"]"#, "none"),
        (r#""args":["--config","no.toml"]"#, "--config no.toml is no file"),
        (r#""args":["--config","/dev/zero"]"#, "--config /dev/zero is no file"),
        (r#""env":{"REQLORE_STORAGE":"mongodb"}"#, "mongodb"),
    ] {
        bed.write(PROJECT, &servers(&format!(r#"{{"command":"reqlore",{entry}}}"#)));
        bed.doctor(&[]).assert_problem("clients", message);
    }
    let args = r#"{"command":"reqlore","args":["--storage","sqlite:a b.db","--log","warn"]}"#;
    bed.write(PROJECT, &servers(args));
    let next = "`reqlore doctor --storage 'sqlite:a b.db'` looks at it";
    let others = args.replace('[', r#"["--root","${workspaceFolder}","#);
    bed.write("project/.cursor/mcp.json", &servers(&others));
    let report = bed.doctor(&[]);
    report.assert("clients", "note", next);
    assert_eq!(report.text.matches("looks at it").count(), 1, "{}", report.text);
    bed.write(PROJECT, "{}");
    bed.doctor(&[]).assert("clients", "note", next);
    let report = bed.doctor(&["--storage", "sqlite:a b.db"]);
    assert!(!report.text.contains("looks at it"), "{}", report.text);
    bed.write("project/.cursor/mcp.json", "{}");
    let root = r#"{"command":"reqlore","args":["--root","${workspaceFolder}"]}"#;
    bed.write(PROJECT, &servers(root));
    let report = bed.doctor(&[]);
    assert!(!report.text.contains("looks at it"), "{}", report.text);
}

#[test]
fn an_entry_that_its_client_reads_otherwise_is_told() {
    for (file, entry, message) in [
        (PROJECT, r#"{"command":["reqlore"]}"#, "`command` has to be a string"),
        (PROJECT, r#"{"command":"reqlore","args":"--read-only"}"#, "`args` has to be a list"),
    ] {
        with(file, entry).doctor(&[]).assert_problem("clients", message);
    }
    let bed = Bed::new();
    bed.write("project/opencode.json", r#"{"mcp":{"reqlore":{"command":["reqlore"]}}}"#);
    bed.doctor(&[]).assert("clients", "note", "has no `type`");
}

#[test]
fn what_only_the_client_knows_is_not_guessed() {
    let entry = r#"{"command":"sh","args":["-c","reqlore --root ${workspaceFolder}"]}"#;
    let report = with(USER, entry).doctor(&[]);
    report.assert("clients", "note", "only the client knows what ${…} is");
    let bed = Bed::new();
    let mark = bed.at("home/bin");
    bed.program("home/bin/own", &format!("exec {BINARY}"));
    let path = format!("{}:/usr/bin:/bin", mark.display());
    let entry = format!(r#"{{"command":"sh","args":["-c","own"],"env":{{"PATH":"{path}"}}}}"#);
    bed.write(USER, &servers(&entry));
    bed.doctor(&[]).assert("clients", "ok", "starts and answers");
}

/// npm takes a package from any folder above, and everybody may write into a shared one.
#[test]
fn what_is_started_finds_nothing_above_it() {
    let bed = Bed::new();
    let checks = "test \"$(pwd -P)$1$2\" = /-yreqlore || exit 1";
    bed.program("bin/npx", &format!("{checks}; shift 2; exec reqlore \"$@\""));
    bed.write(PROJECT, &servers(r#"{"command":"npx","args":["-y","reqlore"]}"#));
    bed.doctor(&[]).assert("clients", "ok", "`npx` starts and answers as reqlore");
    std::fs::remove_file(bed.at(PROJECT)).unwrap();
    bed.write(USER, &servers(r#"{"command":"npx","args":["-y","reqlore","--log=warn"]}"#));
    bed.doctor(&[]).assert("clients", "ok", "`npx` starts and answers as reqlore");
}

#[test]
fn a_persons_file_that_leads_into_the_project_is_the_projects() {
    let bed = with("project/claude.json", r#"{"command":"sh","args":["-c","echo x > ~/started"]}"#);
    std::os::unix::fs::symlink(bed.at("project/claude.json"), bed.at(USER)).unwrap();
    bed.doctor(&[]).assert("clients", "warning", "was not started");
    assert!(!bed.at("home/started").is_file());
}

#[test]
fn what_an_address_carries_is_not_shown() {
    let bed = with(USER, r#"{"url":"http://127.0.0.1:1/mcp?key=of-another"}"#);
    let report = bed.doctor(&[]);
    report.assert_problem("clients", "http://127.0.0.1:1/mcp?… nobody listens there");
    assert!(!report.text.contains("of-another"), "{}", report.text);
}

/// Each of these would leave a file behind.
#[test]
fn what_a_cloned_project_names_is_not_started() {
    let bed = Bed::new();
    let mark = bed.at("home/started");
    let script = format!("echo x > '{}'", mark.display());
    bed.program("project/reqlore", &script);
    bed.program("project/bin/git", &script);
    bed.program("project/node_modules/.bin/reqlore", &script);
    bed.program("bin/npx", "exit 1");
    bed.write("project/evil.js", "");
    let program = bed.at("project/reqlore");
    let program = program.display();
    for (entry, message) in [
        (format!(r#"{{"command":"sh","args":["-c","{script}"]}}"#), "was not started"),
        (format!(r#"{{"command":"{program}"}}"#), "was not started"),
        (r#"{"command":"./reqlore"}"#.to_owned(), "was not started"),
        (r#"{"command":"node","args":["evil.js"]}"#.to_owned(), "was not started"),
        (r#"{"command":"npx","args":["-y","evil"]}"#.to_owned(), "was not started"),
        (r#"{"command":"npx","args":["reqlore"]}"#.to_owned(), "was not started"),
        (r#"{"command":"npx","args":["-y","reqlore@file:."]}"#.to_owned(), "was not started"),
        (r#"{"command":"env","args":["reqlore"]}"#.to_owned(), "was not started"),
        (r#"{"command":"reqlore; sh"}"#.to_owned(), "was not started"),
    ] {
        bed.write(PROJECT, &servers(&entry));
        bed.doctor(&[]).assert("clients", "warning", message);
        assert!(!mark.is_file(), "{entry}");
    }
    // What is the person's is believed, but for what the project would put in its way.
    for entry in [format!(r#"{{"command":"{program}"}}"#), r#"{"command":"./reqlore"}"#.to_owned()]
    {
        std::fs::write(bed.at(PROJECT), "{}").unwrap();
        bed.write(USER, &servers(&entry));
        bed.doctor(&[]).assert("clients", "warning", "was not started");
        assert!(!mark.is_file(), "{entry}");
    }
    let path = format!(
        "{0}/bin:{0}:.:{1}:/usr/bin:/bin",
        bed.at("project").display(),
        bed.at("bin").display()
    );
    bed.write(PROJECT, &servers(r#"{"command":"reqlore"}"#));
    let report = bed.doctor_with(&[], &[("PATH", &path)]);
    report.assert("clients", "ok", "starts and answers as reqlore");
    report.assert("program", "ok", "is this one");
    assert!(!mark.is_file());
}

#[test]
fn a_projects_arguments_and_variables_reach_nobody() {
    let bed = Bed::new();
    let mark = bed.at("home/started");
    // Whatever they say, what is started serves an empty folder.
    bed.program("bin/npx", &format!("echo \"$PWD $* $EVIL\" > '{}'; exit 1", mark.display()));
    let entry = r#"{"command":"npx","args":["-y","reqlore@1.2.3","--storage","sled:x","--root","."],
                    "env":{"EVIL":"evil","NODE_OPTIONS":"x","REQLORE_LOG":"debug"}}"#;
    bed.write(PROJECT, &servers(entry));
    let before = std::fs::read_dir(bed.at("project")).unwrap().count();
    let output = bed.command().arg("doctor").output().unwrap();
    let shown = String::from_utf8(output.stdout).unwrap();
    assert!(shown.contains("it sets EVIL, NODE_OPTIONS for what it starts"), "{shown}");
    let started = std::fs::read_to_string(mark).unwrap();
    let (folder, words) = started.split_once(' ').unwrap();
    let (words, root) = words.split_once(" --root ").unwrap();
    assert_eq!((folder, root.contains("reqlore-doctor-")), ("/", true), "{started}");
    let expected = "-y reqlore@1.2.3 serve --storage fs --transport stdio --log error";
    assert_eq!(words, expected);
    assert_eq!(std::fs::read_dir(bed.at("project")).unwrap().count(), before);
    assert_eq!(std::fs::read_dir(bed.at("tmp")).unwrap().count(), 0);
}

#[test]
fn a_repositorys_git_configuration_starts_nothing() {
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
    bed.doctor(&[]).assert("git", "ok", "documents are for everybody");
    assert!(!mark.is_file());
}

#[test]
fn what_git_was_told_to_keep_all_the_same_is_a_problem() {
    let bed = Bed::new();
    bed.git(&["init", "-q"]);
    bed.write("project/.reqlore/local/identity.json", "{}");
    bed.write("project/.reqlore/local/.gitignore", "*\n");
    bed.git(&["add", "--force", ".reqlore/local/identity.json"]);
    bed.doctor(&[]).assert_problem("git", "`git rm -r --cached .reqlore/local`");
    bed.git(&["rm", "-q", "-r", "--cached", ".reqlore/local"]);
    // As within a hook, which is told of another repository.
    let within = [("GIT_DIR", "/no/such/folder"), ("GIT_INDEX_FILE", "/no/such/file")];
    bed.doctor_with(&[], &within).assert("git", "ok", "documents are for everybody");
}

/// Whoever stands in a part of a repository has its other folders on the PATH as well.
#[test]
fn a_program_of_the_repository_around_the_project_is_not_started() {
    let bed = Bed::new();
    bed.git(&["init", "-q"]);
    let mark = bed.at("home/started");
    bed.program("project/bin/git", &format!("echo x > '{}'", mark.display()));
    std::fs::create_dir(bed.at("project/part")).unwrap();
    let path = format!("{}:{}", bed.at("project/bin").display(), bed.at("bin").display());
    let mut command = bed.command();
    command.env("PATH", path).current_dir(bed.at("project/part")).arg("doctor");
    let shown = String::from_utf8(command.output().unwrap().stdout).unwrap();
    assert!(shown.contains("ok the project is in a git repository"), "{shown}");
    assert!(!mark.is_file(), "{shown}");
}

const BEARER: &str = r#""headers":{"Authorization":"Bearer ${REQLORE_TOKEN}"}"#;

#[test]
fn a_server_over_http_is_asked_with_the_token_that_nobody_sees() {
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
        told(&other)
            .assert_problem("clients", "answered with status 401: the token does not count");
        told("x").assert("clients", "warning", "is no token of Reqlore's");
        let report = bed.doctor(&["--with-token"]);
        report.assert("clients", "warning", "REQLORE_TOKEN is not set here");
        bed.write(file, &servers(&entry.replace("v1/mcp", "v1/other")));
        told(&token).assert_problem("clients", "ends with /api/v1/mcp");
    }
    let inside = entry.replace("${REQLORE_TOKEN}", &token);
    let report = with(PROJECT, &inside).doctor(&[]);
    report.assert_problem("clients", "a token stands in the file");
    assert!(!report.text.contains(token.split('_').nth(3).unwrap()));
    server.end();
}

#[test]
fn a_projects_address_gets_no_secret() {
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
        "none of Reqlore's",
    );
    bed.write(PROJECT, &servers(&entry.replace("CLOUD_KEY", "REQLORE_TOKEN")));
    bed.doctor_with(&["--with-token"], &variables).assert(
        "clients",
        "warning",
        "is no token of Reqlore's",
    );
    let here = [("REQLORE_TOKEN", &*token)];
    bed.doctor_with(&[], &here).assert("clients", "note", "since the project chose it and not you");
    assert!(listener.accept().is_err(), "it was asked");
    for away in ["https://reqlore.invalid/mcp", "https://127.0.0.1.reqlore.invalid/mcp"] {
        bed.write(PROJECT, &servers(&format!(r#"{{"url":"{away}",{BEARER}}}"#)));
        bed.doctor(&[]).assert("clients", "note", "since the project chose it and not you");
        let report = bed.doctor_with(&["--with-token"], &[("REQLORE_TOKEN", "x")]);
        report.assert("clients", "warning", "is no token");
    }
}

#[test]
fn a_server_over_http_needs_somebody_who_may_use_it() {
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
            doctor().assert("http", "note", "users were not looked at");
        }
        place.user("ada", "user");
        if storage == "sled" {
            doctor().assert("http", "note", "users were not looked at");
            continue;
        }
        doctor().assert_problem("http", "no token counts");
        place.token("ada", "");
        let report = doctor();
        report.assert("http", "ok", "active users: 1, tokens that count: 1");
        report.assert("http", "note", "no active user is an administrator");
        place.run("user set-role ada --role administrator");
        assert!(!doctor().text.contains("no active user"));
        place.run("user disable ada");
        doctor().assert_problem("http", "there is no active user");
    }
}
