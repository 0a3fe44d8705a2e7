//! Commands with the custom fields and statuses of a project: alike on every storage, from a
//! subfolder, and through a team server.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use expect_test::expect_file;

use crate::client::reqlore;
use crate::commands_write::hide_versions;
use crate::http::{STORAGES, TestTeam};
use crate::init::output;
use crate::repository;

const SCHEMA: &str = r#"
[fields.risk]
kinds = ["user_story", "requirement", "decision"]
type = "choice"
values = ["Low", "Medium", "High"]
column = true
card = true
filter = true
sort = true

[fields.effort_days]
kinds = ["user_story"]
label = "Effort (days)"
type = "number"
column = true

[fields.areas]
kinds = ["user_story", "entity"]
type = "tags"

[statuses.user_story]
order = ["Backlog", "Ready", "Review", "Done"]
category = { Ready = "open", Review = "active" }

[statuses.decision]
order = ["proposed", "trial", "accepted"]
"#;

/// A project with fixed dates, so that every storage shows the same.
fn team(storage: &'static str) -> TestTeam {
    let team = TestTeam::new(storage);
    let dates = "created_at: 2026-11-20T08:00:00Z\ncreator_username: ann\n\
                 updated_at: 2026-11-21T09:30:00Z\n";
    for (path, keys) in [
        ("backlog/epics/EP-001", "title: Checkout\nstatus: In Progress\n"),
        (
            "backlog/stories/US-001",
            "title: Pay\nepic: EP-001\nstatus: Ready\nrisk: High\neffort_days: 10\nareas: [ui]\n",
        ),
        ("backlog/stories/US-002", "title: Refund\nepic: EP-001\nstatus: Review\nrisk: Low\n"),
        ("backlog/stories/US-003", "title: Ship\nepic: EP-001\nrisk: Medium\neffort_days: 9\n"),
        ("backlog/stories/US-004", "title: Old\nepic: EP-001\nstatus: Waiting\n"),
        ("backlog/requirements/REQ-001", "title: Visa\nuser_story: US-001\nrisk: Low\n"),
        ("templates/story-bug", "risk: high\nareas: [ui]\npriority: Critical\ncar: red\n"),
        ("../.ixchel/decisions/dec-1d2c8f", "id: dec-1d2c8f\ntitle: Cards\nrisk: High\n"),
    ] {
        let path = team.root().join(".reqlore").join(format!("{path}.md"));
        fs::create_dir_all(team.root().join(".reqlore")).unwrap();
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, format!("---\n{keys}{dates}---\n")).unwrap();
    }
    fs::write(team.root().join(".reqlore/project.toml"), SCHEMA).unwrap();
    if storage != "fs" {
        let mut copy = team.command();
        let (code, _, errors) =
            output(copy.args(["copy", "--from", "fs", "--to", &team.storage_argument]));
        assert_eq!(code, 0, "{errors}");
    }
    team
}

fn fixture(extension: &str) -> PathBuf {
    repository().join("tests/snapshots").join(format!("commands-fields.{extension}"))
}

/// Runs each line of the fixture, its arguments separated by `|`.
fn session(command: impl Fn() -> Command) -> String {
    let mut session = String::new();
    for line in fs::read_to_string(fixture("txt")).unwrap().lines() {
        let arguments: Vec<&str> = line.split('|').collect();
        let mut command = command();
        command.env("EDITOR", "sed -i -e 's/^risk:.*/risk: medium/' -e 's/^areas:.*/areas: a/'");
        command.env("PATH", "/usr/bin:/bin");
        let (code, text, errors) = output(command.args(&arguments));
        session.extend(["$ reqlore ", &arguments.join(" "), "\n"]);
        // The times and versions of changed documents.
        let is_fixed = |line: &&str| !line.starts_with("created ");
        for line in text.lines().chain(errors.lines()).filter(is_fixed) {
            session.extend([line, "\n"]);
        }
        if code != 0 {
            session.extend(["exit code ", &code.to_string(), "\n"]);
        }
    }
    hide_versions(&session).replace("\r\n", "\n")
}

#[test]
fn commands_use_custom_fields_alike_everywhere() {
    for storage in STORAGES {
        let team = team(storage);
        if storage == "fs" {
            // Found from the subfolder, where it may not name the projects of a team.
            fs::remove_file(team.root().join("reqlore.toml")).unwrap();
        }
        let local = || match storage {
            "fs" => {
                let mut command = reqlore();
                command.current_dir(team.root().join(".ixchel/decisions"));
                command
            }
            _ => team.command(),
        };
        expect_file![fixture("out")].assert_eq(&session(local));
    }
    let team = team("sqlite");
    let token = team.administrator();
    let server = team.serve();
    let remote = || {
        let mut command = reqlore();
        command.current_dir(team.folder()).env("REQLORE_TOKEN", &token);
        command.env("REQLORE_URL", format!("http://{}", server.address));
        command
    };
    expect_file![fixture("out")].assert_eq(&session(remote));
    server.end();
}

#[test]
fn completion_offers_custom_fields_and_choices() {
    let team = team("fs");
    // A shell names no settings file, and a found one may not name the projects of a team.
    fs::remove_file(team.root().join("reqlore.toml")).unwrap();
    for (words, expected) in [
        (&["set", "US-001", "ri"][..], "risk=\n"),
        (&["set", "US-001", "risk="], "risk=High\nrisk=Low\nrisk=Medium\n"),
        (&["set", "US-001", "risk=h"], "risk=High\n"),
        (&["set", "US-001", "status=R"], "status=Ready\nstatus=Review\n"),
        (&["set", "US-001", "pr"], "priority=\n"),
        (&["list", "--field", ""], "areas=\neffort_days=\nrisk=\n"),
        (&["add", "story", "x", "--field", "ri"], "risk=\n"),
        (&["list", "--status", "re"], "Ready\nReview\n"),
    ] {
        let mut command = reqlore();
        command.current_dir(team.root()).env("REQLORE_COMPLETE", "fish");
        let (code, offered, errors) = output(command.args(["--", "reqlore"]).args(words));
        assert_eq!((code, &*offered, &*errors), (0, expected, ""), "{words:?}");
    }
}
