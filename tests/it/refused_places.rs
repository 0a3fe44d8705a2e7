//! Places and files that no project may be: folders of the system, pipes, NUL characters.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::client::{DIRECTORY, Server, project, reqlore, text};
use crate::init::{Place, output};

const SYSTEM: [&str; 9] =
    ["/", "/etc", "/usr", "/usr/bin", "/boot", "/proc", "/var", "/var/lib", "/home"];

fn exists(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok()
}

#[track_caller]
fn error_text(answer: &Value) -> &str {
    assert_eq!(answer["result"]["isError"], true, "{answer}");
    text(answer)
}

/// Ruling: folders of the system are no projects, also for root and through a link.
#[test]
fn system_folders_are_refused_as_projects() {
    let place = Place::new();
    symlink("/etc", place.at("project/link")).unwrap();
    let link = place.at("project/link");
    let folders = SYSTEM.iter().copied().chain([link.to_str().unwrap()]);
    for folder in folders.clone().filter(|folder| Path::new(folder).is_dir()) {
        for words in [&["serve"][..], &["check"], &["user", "add", "eve", "--role", "user"]] {
            let (code, shown, errors) =
                output(place.command().args(words).args(["--root", folder]));
            assert_eq!((code, shown.as_str()), (2, ""), "{words:?} {folder}: {errors}");
            assert!(
                errors.contains("root: ") && errors.contains("belongs to the system"),
                "{errors}"
            );
        }
        let mut command = place.command();
        command.args(["serve", "--storage", "sqlite", "--root", folder]);
        assert_eq!(output(&mut command).0, 2, "{folder}");
        let create = ["init", "--client", "cursor", "--yes", "--root", folder];
        assert_eq!(output(place.command().args(create)).0, 1, "{folder}");
        let storage = format!("fs:{folder}");
        let (code, _, errors) = output(place.command().args(["serve", "--storage", &storage]));
        assert!(code == 2 && errors.contains("belongs to the system"), "{errors}");
    }
    for storage in ["fs", "sqlite"] {
        let mut server = Server::start_with(&place.at("project"), &["--storage", storage]);
        for folder in folders.clone().filter(|folder| Path::new(folder).is_dir()) {
            let section =
                json!({ "project_root": folder, "section": "a", "index": "1", "text": "x" });
            let entity = json!({ "repo": folder, "kind": "idea", "title": "x" });
            for (tool, arguments) in
                [("reqlix_set_requirements", section), ("ixchel_create", entity)]
            {
                let answer = server.call(tool, arguments);
                assert!(error_text(&answer).contains("belongs to the system"), "{folder} {answer}");
            }
        }
        let file = json!({ "repo": "/etc/passwd", "kind": "idea", "title": "x" });
        assert!(error_text(&server.call("ixchel_create", file)).contains("belongs to the system"));
    }
    for folder in SYSTEM {
        for created in [".ixchel", ".reqlore", "docs", ".cursor", "AGENTS.md"] {
            assert!(!exists(&Path::new(folder).join(created)), "{folder}/{created}");
        }
    }
}

/// Containers mount projects directly below the root and in other folders of the system.
#[test]
fn project_below_a_system_parent_is_served() {
    for parent in ["/srv", "/opt", "/var/tmp", "/tmp", "/var/lib", "/root"] {
        // Only root may create some of them.
        let Ok(folder) = tempfile::Builder::new().prefix("reqlore-").tempdir_in(parent) else {
            continue;
        };
        let mut server = Server::start(folder.path());
        server
            .data("reqlix_set_requirements", json!({ "section": "a", "index": "1", "text": "x" }));
        server.end();
    }
}

#[test]
fn nul_in_a_section_is_refused_with_its_place() {
    let project = project();
    let file = project.path().join(DIRECTORY).join("a.md");
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    let body = "**1.** one\n\n**2.** t\0wo\n";
    fs::write(&file, body).unwrap();
    let mut server = Server::start(project.path());
    for (tool, arguments) in [
        ("reqlix_get_requirements", json!({ "section": "a" })),
        ("reqlix_set_requirements", json!({ "section": "a", "index": "1", "text": "new" })),
        ("reqlix_delete_requirements", json!({ "section": "a", "index": "1" })),
    ] {
        let answer = server.call(tool, arguments);
        let message = error_text(&answer);
        assert!(message.contains("a.md") || message.contains("section a"), "{message}");
        assert!(message.contains("line 3 has a NUL character; remove it"), "{message}");
    }
    server.end();
    assert_eq!(fs::read_to_string(&file).unwrap(), body, "not rewritten");
    let (code, findings, _) = output(reqlore().arg("check").arg("--root").arg(project.path()));
    assert!(code == 1 && findings.contains("section a: line 3 has a NUL character"), "{findings}");
}

#[test]
fn exact_section_id_with_a_path_names_no_item() {
    let project = project();
    let mut server = Server::start(project.path());
    server.data("create_epic", json!({ "title": "A", "priority": 1 }));
    for reference in ["section:../x/EP-001", "section:EP-001", "docset:x/EP-001"] {
        let answer = server.call("get_item", json!({ "reference": reference }));
        assert!(!error_text(&answer).contains("priority"), "{answer}");
    }
}

/// Pipes at every place that is read, each of which would block a reader for ever.
#[test]
fn pipe_instead_of_a_file_is_refused_at_once() {
    let place = Place::new();
    assert_eq!(output(Command::new("git").arg("init").arg("-q").arg(place.at("project"))).0, 0);
    let pipes = [
        "project/docs/development/requirements/a.md",
        "project/docs/development/requirements/AGENTS.md",
        "project/.reqlore/backlog/epics/EP-001.md",
        "project/.reqlore/local/team.db",
        "project/.reqlore/local/team.id",
        "project/.ixchel/ideas/idea-1a2b3c.md",
        "project/.knowledge/config.yaml",
        "project/AGENTS.md",
        "project/CLAUDE.md",
        "project/.mcp.json",
        "project/.gitignore",
        "project/pipe",
        "project/sled/db",
        "project/x.db-wal",
        "project/y.db-journal",
        "project/z.db-commits",
    ];
    for pipe in pipes {
        fs::create_dir_all(place.at(pipe).parent().unwrap()).unwrap();
        assert_eq!(output(Command::new("mkfifo").arg(place.at(pipe))).0, 0);
    }
    // Git reads included files itself.
    let include = "[include]\n\tpath = ../pipe\n[core]\n\trepositoryformatversion = 0\n";
    place.write("project/.git/config", include);
    for words in [
        "check",
        "check --fix",
        "doctor",
        "init --yes --client claude-code",
        "init --check --client cursor",
        "user list",
        "token list",
        "audit list",
        "audit verify",
        "history EP-001",
        "history a",
        "docsets import pipe",
        "docsets import .knowledge/config.yaml",
        "restore pipe",
        "backup pipe",
        "backup new.dump",
        "copy --from fs --to sqlite:new.db",
        "copy --from sqlite:pipe --to fs:new",
        "check --storage sqlite:pipe",
        "check --storage sled:pipe",
        "check --storage sled:sled",
        "doctor --storage sled:sled",
        "doctor --storage sqlite:pipe",
        "check --storage sqlite:x.db",
        "check --storage sqlite:y.db",
        "check --storage sqlite:z.db",
        "user add eve --role user",
        "serve",
    ] {
        let mut command = place.command();
        command.env("PATH", "/usr/bin:/bin").env_remove("GIT_AUTHOR_NAME");
        let started = Instant::now();
        let (_, shown, errors) = output(command.args(words.split(' ')));
        let elapsed = started.elapsed();
        assert!(elapsed < Duration::from_secs(5), "{words}: {elapsed:?} {shown}{errors}");
        assert!(!errors.contains("panicked"), "{words}: {errors}");
    }
}

/// A client passes a variable that it does not know as it is, and a shell does not replace `~`
/// after a colon. A folder of that name would be created.
#[test]
fn variable_in_a_path_setting_is_refused_by_its_name() {
    let place = Place::new();
    let reason = "was not replaced by your client; write the full ";
    let check = |words: &[&str], variable: Option<(&str, &str)>, setting: &str, name: &str| {
        for command in ["list", "serve", "doctor", "check"] {
            let mut process = place.command();
            process.current_dir(place.at("project")).arg(command).args(words);
            if let Some((variable, value)) = variable {
                process.env(variable, value);
            }
            let (code, shown, errors) = output(&mut process);
            let all = shown + &errors;
            assert_ne!(code, 0, "{command} {words:?} {variable:?}: {all}");
            let expected = format!("{setting}: the {name} {reason}");
            assert!(all.contains(&expected), "{command} {words:?} {variable:?}: {all}");
        }
    };
    for (path, name) in [
        ("${workspaceFolder}", "variable ${workspaceFolder}"),
        ("${env:HOME}/app", "variable ${env:HOME}"),
        ("$PWD", "variable $PWD"),
        ("%USERPROFILE%/app", "variable %USERPROFILE%"),
        ("~/app", "variable ~"),
        ("/srv/${NAME}/app", "variable ${NAME}"),
    ] {
        check(&["--root", path], None, "root", name);
        check(&[], Some(("REQLORE_ROOT", path)), "root", name);
        check(&["--storage", &format!("fs:{path}")], None, "storage", name);
        check(&["--storage", &format!("sqlite:{path}/x.db")], None, "storage", name);
        check(&[], Some(("REQLORE_STORAGE", &format!("sled:{path}"))), "storage", name);
        check(&[], Some(("REQLORE_CACHE", path)), "cache", name);
        check(
            &[],
            Some(("REQLORE_ROOTS", &path.replace(':', "_"))),
            "roots",
            &name.replace(':', "_"),
        );
        check(&[], Some(("REQLIX_REQ_REL_PATH", path)), "sections.directory", name);
        check(&["--config", &format!("{path}/reqlore.toml")], None, "--config", name);
    }
    let url = "postgres://u@${DB_HOST}/n";
    check(&["--storage", url], None, "storage", "variable ${DB_HOST}");
    let url = "postgres://u@127.0.0.1/n?sslrootcert=~/ca.pem";
    check(&["--storage", url], None, "storage: sslrootcert", "variable ~");
    fs::write(place.at("project/reqlore.toml"), "[projects.a]\nroot = \"$A\"\n").unwrap();
    check(&[], None, "projects.a", "variable $A");
    fs::remove_file(place.at("project/reqlore.toml")).unwrap();
    let mut names = Vec::new();
    for entry in fs::read_dir(place.at("project")).unwrap() {
        names.push(entry.unwrap().file_name().into_string().unwrap());
    }
    assert!(!names.iter().any(|name| name.contains(['$', '~', '%'])), "{names:?}");
    // A folder that exists by this name is no reason to use it.
    fs::create_dir(place.at("project/${workspaceFolder}")).unwrap();
    check(&["--root", "${workspaceFolder}"], None, "root", "variable ${workspaceFolder}");
    let mut server = Server::start(&place.at("project"));
    for root in ["${workspaceFolder}", "$PWD", "~/app", "%CD%", "/a/${b}"] {
        let arguments = json!({ "project_root": root, "section": "a", "index": "1", "text": "x" });
        let answer = server.call("reqlix_set_requirements", arguments);
        assert!(error_text(&answer).contains(reason), "{answer}");
        let entity = json!({ "repo": root, "kind": "idea", "title": "x" });
        let answer = server.call("ixchel_create", entity);
        assert!(error_text(&answer).contains(reason), "{answer}");
    }
}

#[test]
fn relative_folder_of_the_user_is_ignored() {
    for name in ["HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME", "XDG_RUNTIME_DIR"] {
        for value in ["$HOME", "${env:HOME}", "~", "cache", "./x"] {
            let folder = project();
            let mut command = reqlore();
            command.env_remove("REQLORE_CACHE").env(name, value).current_dir(folder.path());
            output(command.args(["search", "a"]));
            let mut entries = fs::read_dir(folder.path()).unwrap();
            assert!(entries.next().is_none(), "{name}={value}");
        }
    }
}
