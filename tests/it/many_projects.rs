//! Hundreds of projects on one HTTP server: few descriptors, and answers of the named project.

use std::fmt::Write;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use serde_json::json;

use crate::client::BINARY;
use crate::http::{Client, Server, TestTeam};

/// More than a server keeps open.
const PROJECTS: usize = 200;
/// The soft limit is too low for this number of projects, and the hard one for all of them.
const SOFT_LIMIT: usize = 64;
const HARD_LIMIT: usize = 512;
/// Half of the limit is for search indexes, and a quarter more while they wait to be closed. The
/// storage and connections need few.
const MAX_DESCRIPTORS: usize = HARD_LIMIT / 2 + HARD_LIMIT / 8 + 64;

struct ManyProjects {
    team: TestTeam,
    server: Server,
    token: String,
}

impl ManyProjects {
    fn start(storage: &'static str) -> Self {
        let team = TestTeam::new(storage);
        let mut settings = "[http.limits]\nrequests_per_second = 0\n".to_owned();
        for number in 0..PROJECTS {
            fs::create_dir_all(team.folder().join(format!("p-{number}"))).unwrap();
            writeln!(settings, "[projects.p-{number}]\nroot = \"../p-{number}\"").unwrap();
        }
        fs::write(team.root().join("reqlore.toml"), settings).unwrap();
        let token = team.administrator();
        let limits = format!("ulimit -S -n {SOFT_LIMIT} && ulimit -H -n {HARD_LIMIT}");
        let mut command = Command::new("sh");
        command.args(["-c", &format!("{limits} && exec \"$0\" \"$@\""), BINARY]);
        let configured = team.command();
        command.args(configured.get_args()).env_clear();
        for (name, value) in configured.get_envs() {
            command.env(name, value.unwrap_or_default());
        }
        let server = Server::start(command);
        Self { team, server, token }
    }

    fn client(&self, number: usize) -> Client {
        self.server.client(&self.token).with("Reqlore-Project", &format!("p-{number}"))
    }

    /// Asserts that a project's epics have exactly these titles, in a list and in a search.
    fn assert_epics(&self, number: usize, titles: &[&str]) {
        let mut client = self.client(number);
        let listed = client.data("list_epics", json!({}));
        let found = client.data("search_global", json!({ "query": titles.join(" ") }));
        for (answer, list) in [(&listed, "epics"), (&found, "results")] {
            let items = answer[list].as_array().unwrap();
            let mut found: Vec<_> =
                items.iter().map(|item| item["title"].as_str().unwrap()).collect();
            found.sort_unstable();
            assert_eq!(found, titles, "project {number}: {answer}");
        }
    }

    /// The targets of the server's descriptors.
    fn descriptors(&self) -> Vec<PathBuf> {
        let folder = fs::read_dir(format!("/proc/{}/fd", self.server.id())).unwrap();
        // A descriptor may be closed meanwhile.
        folder.filter_map(|entry| fs::read_link(entry.unwrap().path()).ok()).collect()
    }
}

fn title(number: usize, word: &str) -> String {
    format!("{word}{number}")
}

#[test]
fn many_projects_in_files_use_few_descriptors() {
    let projects = ManyProjects::start("fs");
    for number in 0..PROJECTS {
        let arguments = json!({ "title": title(number, "made"), "priority": 2 });
        projects.client(number).data("create_epic", arguments);
        projects.assert_epics(number, &[&title(number, "made")]);
    }
    // Now most projects are closed. Their files change by hand, those of open ones as well.
    for number in 0..PROJECTS {
        let folder = projects.team.folder().join(format!("p-{number}/.reqlore/backlog/epics"));
        for file in fs::read_dir(folder).unwrap() {
            let path = file.unwrap().path();
            let text = fs::read_to_string(&path).unwrap();
            let edited = text.replace(&title(number, "made"), &title(number, "edited"));
            assert_ne!(text, edited);
            fs::write(path, edited).unwrap();
        }
    }
    for number in (0..PROJECTS).rev() {
        projects.assert_epics(number, &[&title(number, "edited")]);
    }
    let descriptors = projects.descriptors();
    assert!(descriptors.len() <= MAX_DESCRIPTORS, "{}", descriptors.len());
    let is_inotify = |target: &&PathBuf| target.to_string_lossy().contains("inotify");
    assert_eq!(descriptors.iter().filter(is_inotify).count(), 1);
}

#[test]
fn many_projects_in_sqlite_use_few_descriptors() {
    let projects = ManyProjects::start("sqlite");
    for word in ["first", "second"] {
        for number in 0..PROJECTS {
            let arguments = json!({ "title": title(number, word), "priority": 2 });
            projects.client(number).data("create_epic", arguments);
        }
    }
    for number in 0..PROJECTS {
        projects.assert_epics(number, &[&title(number, "first"), &title(number, "second")]);
    }
    let descriptors = projects.descriptors();
    assert!(descriptors.len() <= MAX_DESCRIPTORS, "{}", descriptors.len());
    let limits = fs::read_to_string(format!("/proc/{}/limits", projects.server.id())).unwrap();
    let open_files = limits.lines().find(|line| line.starts_with("Max open files")).unwrap();
    let numbers: Vec<&str> = open_files.split_whitespace().skip(3).take(2).collect();
    let limit = HARD_LIMIT.to_string();
    assert_eq!(numbers, [&limit, &limit], "the server raises the soft limit");
}
