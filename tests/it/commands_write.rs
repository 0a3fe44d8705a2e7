//! Commands that write: `add`, `set`, `edit`, `link`, `unlink` and `delete`.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;

use expect_test::expect_file;
use serde_json::Value;
use tempfile::TempDir;

use crate::client::{BINARY, project, reqlore, storage_argument};
use crate::http::{STORAGES, Server, TestTeam};
use crate::init::output;

/// A project as a user of commands sees it.
pub(crate) struct WriteProject {
    name: String,
    folder: TempDir,
    variables: Vec<(&'static str, String)>,
    /// The server and its storage, for a remote project.
    pub(crate) server: Option<(Server, TestTeam)>,
}

impl WriteProject {
    pub(crate) fn local(storage: &str) -> Self {
        let folder = project();
        let root = folder.path().join("root");
        fs::create_dir(&root).unwrap();
        let variables = vec![
            ("REQLORE_ROOT", root.to_str().unwrap().to_owned()),
            ("REQLORE_STORAGE", storage_argument(storage)),
        ];
        Self { name: storage.to_owned(), folder, variables, server: None }
    }

    /// The project of a team server, for a user of this role.
    pub(crate) fn remote(role: &str) -> Self {
        let team = TestTeam::new("sqlite");
        team.user("bob", role);
        let token = team.token("bob", "");
        let server = team.serve();
        let variables =
            vec![("REQLORE_URL", format!("http://{}", server.address)), ("REQLORE_TOKEN", token)];
        Self {
            name: "server".to_owned(),
            folder: project(),
            variables,
            server: Some((server, team)),
        }
    }

    fn all() -> Vec<Self> {
        let mut projects: Vec<Self> = STORAGES.into_iter().map(Self::local).collect();
        projects.push(Self::remote("user"));
        projects
    }

    pub(crate) fn root(&self) -> PathBuf {
        self.folder.path().join("root")
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = reqlore();
        command.current_dir(self.folder.path()).envs(self.variables.iter().cloned());
        command.env("PATH", "/usr/bin:/bin").env("TMPDIR", self.folder.path()).args(arguments);
        command
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> (i32, String) {
        let (code, stdout, stderr) = output(&mut self.command(arguments));
        assert!(stdout.is_empty() || stderr.is_empty(), "{}: {stdout}{stderr}", self.name);
        (code, stdout + &stderr)
    }

    #[track_caller]
    pub(crate) fn run_ok(&self, arguments: &[&str]) -> String {
        let (code, output) = self.run(arguments);
        assert_eq!(code, 0, "{}: {arguments:?}: {output}", self.name);
        output
    }

    #[track_caller]
    pub(crate) fn json(&self, arguments: &[&str]) -> Value {
        let arguments = [arguments, &["--json"]].concat();
        serde_json::from_str(&self.run_ok(&arguments)).unwrap()
    }

    /// Runs `edit` with a shell script as editor; `$1` is the file and `$REQLORE` the program.
    fn edit(&self, id: &str, script: &str) -> (i32, String) {
        let path = self.folder.path().join("editor.sh");
        fs::write(&path, script).unwrap();
        let mut command = self.command(&["edit", id]);
        command.env("EDITOR", format!("sh {}", path.display())).env("REQLORE", BINARY);
        let (code, stdout, stderr) = output(&mut command);
        (code, stdout + &stderr)
    }

    /// An epic, a user story and a requirement.
    pub(crate) fn with_items(self) -> Self {
        self.run_ok(&["add", "epic", "Checkout"]);
        self.run_ok(&["add", "story", "Pay by card", "--epic", "EP-001"]);
        self.run_ok(&["add", "requirement", "Accept Visa", "--user-story", "US-001"]);
        self
    }

    fn drafts(&self) -> Vec<PathBuf> {
        let mut drafts = Vec::new();
        for entry in fs::read_dir(self.folder.path()).unwrap() {
            let path = entry.unwrap().path();
            if path.file_name().unwrap().to_str().unwrap().starts_with("reqlore-") {
                drafts.extend(fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()));
            }
        }
        drafts
    }
}

/// Replaces the version of each outcome, which differs between runs.
pub(crate) fn hide_versions(text: &str) -> String {
    let mut parts = text.split("(version ");
    let mut hidden = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        hidden.extend(["(version …", &part[8..]]);
    }
    hidden
}

/// The ID of the only decision.
fn decision_id(project: &WriteProject) -> String {
    let added = project.json(&["add", "decision", "Use one provider", "--body", "It is cheaper."]);
    added["id"].as_str().unwrap().to_owned()
}

#[test]
fn writing_commands_answer_alike_on_every_storage_and_server() {
    for project in WriteProject::all() {
        let decision = decision_id(&project);
        let mut session = String::new();
        // One command on each line, its arguments separated by `|`.
        for line in fs::read_to_string(session_file("txt")).unwrap().lines() {
            let line = line.replace("DECISION", &decision);
            let arguments: Vec<&str> = line.split('|').collect();
            let (code, output) = project.run(&arguments);
            session.extend(["$ reqlore ", &arguments.join(" "), "\n", &output]);
            if code != 0 {
                session.extend(["exit code ", &code.to_string(), "\n"]);
            }
        }
        let session = hide_versions(&session).replace(&decision, "dec-ID");
        expect_file![session_file("out")].assert_eq(&session);
    }
}

fn session_file(extension: &str) -> PathBuf {
    crate::repository().join("tests/snapshots").join(format!("writing-commands.{extension}"))
}

#[test]
fn writing_commands_json_is_the_data_of_the_tool() {
    for project in WriteProject::all() {
        let epic = project.json(&["add", "epic", "Checkout"]);
        assert_eq!((&epic["reference_id"], &epic["title"]), (&"EP-001".into(), &"Checkout".into()));
        let changed = project.json(&["set", "ep-1", "status=in progress", "TAGS=a, b"]);
        assert_eq!(changed["status"], "In Progress", "{}", project.name);
        assert_eq!(changed["tags"], serde_json::json!(["a", "b"]));
        let deleted = project.json(&["delete", "EP-001", "--yes"]);
        assert_eq!(deleted["deleted"], serde_json::json!(["EP-001"]));
    }
}

#[test]
fn writing_command_creates_a_database_only_by_default() {
    let folder = project();
    let misspelt = folder.path().join("misspelt.db");
    let named = format!("sqlite:{}", misspelt.display());
    for (storage, line, expected) in [
        (&*named, "add epic Fees", "does not exist; correct the storage"),
        (&*named, "set EP-001 status=Done", "does not exist; correct the storage"),
        ("sqlite", "set EP-001 status=Done", "does not exist; pass --storage"),
        ("sqlite", "delete EP-001", "does not exist; pass --storage"),
        ("sqlite", "add epic Fees", ""),
        ("sqlite", "set EP-001 status=Done", ""),
    ] {
        let mut command = reqlore();
        command.arg("--root").arg(folder.path()).args(["--storage", storage]);
        let (code, _, errors) = output(command.args(line.split(' ')));
        assert_eq!(code == 0, expected.is_empty(), "{storage} {line}: {errors}");
        assert!(errors.contains(expected), "{storage} {line}: {errors}");
        fs::symlink_metadata(&misspelt).unwrap_err();
    }
}

#[test]
fn set_on_files_changes_one_field_in_git_diff() {
    let project = WriteProject::local("fs").with_items();
    let root = project.root();
    let git = |arguments: &[&str]| {
        let mut command = Command::new("git");
        command.args(["-c", "user.name=a", "-c", "user.email=a@b.c"]).args(arguments);
        output(command.current_dir(&root)).1
    };
    project.run_ok(&["set", "REQ-001", "status=active"]);
    git(&["init", "--quiet"]);
    git(&["add", "--all"]);
    git(&["commit", "--quiet", "--message=x"]);
    project.run_ok(&["set", "REQ-001", "State=OBSOLETE"]);
    let diff = git(&["diff", "--unified=0"]);
    let is_change = |line: &&str| {
        line.starts_with(['+', '-']) && !line[1..].starts_with(['+', '-']) && !line.contains("_at:")
    };
    let changes: Vec<&str> = diff.lines().filter(is_change).collect();
    assert_eq!(changes, ["-status: Active", "+status: Obsolete"], "{diff}");
    project.run_ok(&["set", "REQ-001", "status=obsolete", "assignee="]);
    assert_eq!(git(&["diff", "--unified=0"]), diff);
}

#[test]
fn edit_stores_only_changed_fields_and_removes_the_file() {
    for project in WriteProject::all() {
        let project = project.with_items();
        let script = "ls -ld $(dirname \"$1\") \"$1\" | cut -c1-10 > modes\n\
                      sed -i -e 's/^title: .*/title: \"Accept: all\"/' -e '$a Any card.' \"$1\"";
        let (code, output) = project.edit("req-1", script);
        assert_eq!(code, 0, "{}: {output}", project.name);
        assert!(output.contains("Updated requirement REQ-001: Accept: all (version"), "{output}");
        let modes = fs::read_to_string(project.folder.path().join("modes")).unwrap();
        assert_eq!(modes, "drwx------\n-rw-------\n");
        let item = project.json(&["set", "REQ-001", "status=draft"]);
        assert_eq!((&item["description"], &item["priority"]), (&"Any card.".into(), &3.into()));
        assert_eq!(project.drafts(), Vec::<PathBuf>::new(), "{}", project.name);
    }
}

#[test]
fn edit_of_entity_and_section_requirement_changes_the_text() {
    for project in WriteProject::all() {
        let decision = decision_id(&project);
        project.run_ok(&["add", "requirement", "Log it.", "--in", "general:1"]);
        for (id, text) in [(&*decision, "cheaper"), ("general:1", "Log")] {
            let (code, output) = project.edit(id, &format!("sed -i s/{text}/BETTER/ \"$1\""));
            assert_eq!(code, 0, "{}: {output}", project.name);
            let (_, output) = project.edit(id, "grep BETTER \"$1\"");
            assert!(output.contains("BETTER") && output.contains("No change in"), "{output}");
        }
    }
}

#[test]
fn edit_unchanged_or_empty_text_stores_nothing() {
    let project = WriteProject::local("fs").with_items();
    let before = crate::copy_and_backup::files_with_times(&project.root());
    for script in [":", "truncate -s 0 \"$1\"", "echo > \"$1\"", "sed -i s/Medium/medium/ \"$1\""] {
        let (code, output) = project.edit("US-001", script);
        assert_eq!(code, 0, "{output}");
        assert!(output.starts_with("No change in user story US-001: Pay by card"), "{output}");
    }
    let (code, output) = project.edit("US-001", "exit 3");
    assert_eq!(
        (code, &*output),
        (1, "reqlore: editor: it ended with exit status: 3; nothing was stored\n")
    );
    assert_eq!(crate::copy_and_backup::files_with_times(&project.root()), before);
    assert_eq!(project.drafts(), Vec::<PathBuf>::new());
    let (code, output) = project.run(&["edit", "US-001"]);
    assert_eq!((code, &*output), (2, "reqlore: editor: none is set; set VISUAL or EDITOR\n"));
}

#[test]
fn edit_conflict_shows_and_keeps_both_versions() {
    for project in WriteProject::all() {
        let project = project.with_items();
        let script = "sed -i 's/^title: .*/title: Mine/' \"$1\"\n\
                      $REQLORE set US-001 priority=low > /dev/null";
        let (code, output) = project.edit("US-001", script);
        let context = format!("{}: {output}", project.name);
        assert_eq!(code, 1, "{context}");
        for part in [
            "Conflict: US-001 changed while it was open in the editor",
            "priority: [-Medium-]{+Low+}",
            "title: [-Pay by card-]{+Mine+}",
            "run the command again and copy your changes",
        ] {
            assert!(output.contains(part), "{part} is missing in {context}");
        }
        let drafts = project.drafts();
        assert_eq!(drafts.len(), 1, "{context}");
        assert!(output.contains(drafts[0].to_str().unwrap()), "{context}");
        assert_eq!(fs::metadata(&drafts[0]).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(fs::read_to_string(&drafts[0]).unwrap().contains("title: Mine"));
        let item = project.json(&["set", "US-001", "status=done"]);
        assert_eq!((&item["title"], &item["priority"]), (&"Pay by card".into(), &4.into()));
    }
}

#[test]
fn edit_unrelated_change_of_the_document_is_no_conflict() {
    for project in WriteProject::all() {
        for index in ["general:1", "general:2"] {
            project.run_ok(&["add", "requirement", "Log it.", "--in", index]);
        }
        let script = "sed -i s/Log/Record/ \"$1\"\n$REQLORE set general:2 text=Other > /dev/null";
        let (code, output) = project.edit("general:1", script);
        assert_eq!(code, 0, "{}: {output}", project.name);
        assert!(output.contains("**1.** Record it."), "{output}");
        let (_, second) = project.edit("general:2", "cat \"$1\"");
        assert!(second.contains("\nOther\n"), "{second}");
    }
}

#[test]
fn edit_refused_text_is_kept_and_named() {
    let project = WriteProject::local("fs").with_items();
    for (script, problem) in [
        ("sed -i s/Medium/Huge/ \"$1\"", "\"Huge\" is not one of 1 Critical"),
        ("sed -i s/epic:/epci:/ \"$1\"", "line 9: \"epci\" is not a field of this user story"),
        ("echo text > \"$1\"", "line 1: the fields are missing"),
        ("sed -i s/EP-001/EP-009/ \"$1\"", "Epic not found: EP-009"),
        ("printf '\\377' > \"$1\"", "temporary file: stream did not contain valid UTF-8"),
        ("sed -i s/Pay/Play/ \"$1\"; $REQLORE delete US-001 --cascade --yes >/dev/null", "deleted"),
    ] {
        let count = project.drafts().len();
        let (code, output) = project.edit("US-001", script);
        assert_eq!(code, 1, "{output}");
        assert!(output.contains(problem) && output.contains("Your text is kept in"), "{output}");
        assert_eq!(project.drafts().len(), count + 1, "{output}");
    }
}

#[test]
fn add_with_edit_creates_the_edited_document() {
    for project in WriteProject::all() {
        let project = project.with_items();
        let add = |editor: &str, arguments: &[&str]| {
            let mut command = project.command(&[&["add", "--edit"], arguments].concat());
            output(command.env("EDITOR", editor))
        };
        let editor = "sed -i 's/^title:.*/title: New/; s/^priority:.*/priority: low/'";
        let added = add(editor, &["story", "--in", "EP-001", "--tags", "x"]);
        assert!(added.1.starts_with("Created user story US-002: New"), "{added:?}");
        let item = project.json(&["set", "US-002", "status=draft"]);
        assert_eq!((&item["priority"], &item["tags"][0]), (&4.into(), &"x".into()));
        let added = add("sed -i '$a Given'", &["criterion", "--in", "US-002"]);
        assert!(added.1.contains("AC-001: Given"), "{added:?}");
        let added = add("true", &["story", "--in", "EP-001"]);
        assert_eq!(added.1, "The text is empty or unchanged; nothing was added.\n");
        assert_eq!(project.drafts(), Vec::<PathBuf>::new());
    }
}

#[test]
fn writing_commands_of_readers_are_refused() {
    let local = WriteProject::local("fs").with_items();
    let remote = WriteProject::remote("user").with_items();
    let (_, team) = remote.server.as_ref().unwrap();
    team.user("eve", "commenter");
    let token = team.token("eve", "");
    for (project, reader) in
        [(&local, ("REQLORE_READ_ONLY", "true")), (&remote, ("REQLORE_TOKEN", &*token))]
    {
        for arguments in [
            &["add", "epic", "x"][..],
            &["set", "EP-001", "status=done"],
            &["edit", "EP-001"],
            &["link", "US-001", "epic", "EP-001"],
            &["unlink", "REQ-001", "blocks", "REQ-001"],
            &["delete", "REQ-001", "--yes"],
            &["delete", "REQ-001"],
        ] {
            let mut command = project.command(arguments);
            command.env(reader.0, reader.1).env("EDITOR", "sed -i s/Medium/Low/");
            let (code, _, errors) = output(&mut command);
            assert_eq!(code, 1, "{}: {arguments:?}: {errors}", project.name);
            assert!(errors.contains("is a write operation"), "{arguments:?}: {errors}");
        }
        let item = project.json(&["set", "EP-001", "status=backlog"]);
        assert_eq!((&item["status"], &item["priority"]), (&"Backlog".into(), &3.into()));
        project.run_ok(&["delete", "REQ-001", "--yes"]);
    }
}

#[test]
fn writing_commands_encode_hostile_titles() {
    for project in WriteProject::all() {
        let title = "no: '# [x] \u{202e} ##vso[y] --- {{";
        let output = project.run_ok(&["add", "epic", "--", title]);
        assert!(output.contains(r"no: '# [x] \u{202e} #\u{23}vso[y] --- {{"), "{output}");
        let text = "---\n::error::x\n---\n\n  **1.** y\n";
        project.run_ok(&["add", "decision", title, "--body", text]);
        project.run_ok(&["set", "EP-001", &format!("text={text}"), "tags='a',::b,-"]);
        let (code, output) = project.edit("EP-001", ":");
        assert_eq!(code, 0, "{output}");
        assert!(output.starts_with(r"No change in epic EP-001: no: '# [x] \u{202e}"), "{output}");
        let (_, output) = project.edit("EP-001", "sed -i s/Medium/Low/ \"$1\"");
        assert!(output.starts_with("Updated epic EP-001"), "{output}");
        let (code, output) = project.run(&["delete", "EP-001"]);
        assert!(code == 2 && !output.contains('\u{202e}'), "{output}");
        let item = project.json(&["set", "EP-001", "status=done"]);
        assert_eq!(item["title"], title, "{}", project.name);
        assert_eq!(item["description"], text.trim_end(), "{}", project.name);
    }
}
