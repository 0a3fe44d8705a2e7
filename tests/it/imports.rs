//! `reqlore import` and `reqlore export`: identity, conflicts, round trips and hostile sources.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::client::{Server, project, reqlore};
use crate::copy_and_backup::run_ok;
use crate::init::output;
use crate::repository;

const SHEET: &str = "\u{feff}Nr;Titel;Beschreibung;Typ;Epos;Priorität;Status;Aufwand;Team\r\n\
    A-1;Anmelden;\"Zeile 1\r\nZeile 2\";Anforderung;Konto;Hoch;Offen;3;'=Vertrieb\r\n\
    A-2;Abmelden;;Anforderung;Konto;2;Draft;1;\r\n\
    A-3;Rechnung;x;Story;Abrechnung;low;;5;-\r\n";

pub(crate) fn write(root: &Path, name: &str, text: impl AsRef<[u8]>) {
    let path = root.join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

/// The report of an import in JSON.
pub(crate) fn import(root: &Path, arguments: &str) -> Value {
    let printed = run_ok(root, &format!("{arguments} --json"));
    serde_json::from_str::<Value>(&printed).unwrap()["report"].clone()
}

/// The number of created, updated, unchanged, edited and conflicting items.
pub(crate) fn counts(report: &Value) -> [usize; 5] {
    let count = |key: &str| report[key].as_array().unwrap().len();
    let unchanged = report["unchanged"].as_u64().unwrap();
    let unchanged = usize::try_from(unchanged).unwrap();
    [count("created"), count("updated"), unchanged, count("edited_here"), count("conflicts")]
}

/// The records of the project by title, without their source.
pub(crate) fn records(root: &Path, storage: &str) -> Vec<Value> {
    let printed = run_ok(root, &format!("export json --storage {storage}"));
    let mut items = serde_json::from_str::<Value>(&printed).unwrap()["items"].take();
    for item in items.as_array_mut().unwrap() {
        let Some(extra) = item.get_mut("extra").and_then(Value::as_object_mut) else { continue };
        extra.remove("imported_from");
        if extra.is_empty() {
            item.as_object_mut().unwrap().remove("extra");
        }
    }
    items.as_array().unwrap().clone()
}

pub(crate) fn record<'r>(records: &'r [Value], title: &str) -> &'r Value {
    records.iter().find(|one| one["title"] == title).unwrap_or_else(|| panic!("{title}"))
}

#[test]
fn spreadsheet_is_imported_once_and_follows_edits_on_both_sides() {
    for storage in ["fs", "sqlite", "sled"] {
        let project = project();
        let root = project.path();
        write(root, "items.csv", SHEET);
        let import =
            |more: &str| import(root, &format!("import items.csv --storage {storage}{more}"));
        if storage == "fs" {
            let planned = import(" --map items.toml --dry-run");
            assert_eq!(counts(&planned), [6, 0, 0, 0, 0], "{planned}");
            assert!(!root.join(".reqlore/backlog").try_exists().unwrap());
        } else {
            write(
                root,
                "items.toml",
                "[values.priority]\nHoch = \"\"\n[values.status]\nOffen = \"\"\n",
            );
        }
        let map = fs::read_to_string(root.join("items.toml")).unwrap();
        assert!(map.contains("Hoch = \"\"") && map.contains("Offen = \"\""), "{map}");
        let map = map
            .replace("Hoch = \"\"", "Hoch = \"High\"")
            .replace("Offen = \"\"", "Offen = \"Active\"");
        write(root, "items.toml", map);
        assert_eq!(counts(&import(" --map items.toml")), [6, 0, 0, 0, 0]);
        assert_eq!(counts(&import(" --map items.toml")), [0, 0, 6, 0, 0]);
        let all = records(root, storage);
        let item = record(&all, "Anmelden");
        assert_eq!(item["description"], "Zeile 1\nZeile 2");
        assert_eq!((&item["priority"], &item["status"]), (&json!(2), &json!("Active")));
        assert_eq!(item["extra"], json!({ "aufwand": "3", "team": "=Vertrieb" }));
        assert_eq!(record(&all, "Rechnung")["kind"], "user_story");
        let id = |title: &str| record(&all, title)["reference_id"].as_str().unwrap().to_owned();
        // Here, there, and on both sides.
        let sheet = SHEET.replace("Abmelden", "Sicher abmelden").replace("Zeile 1", "Zeile 0");
        write(root, "items.csv", sheet);
        for title in ["Anmelden", "Rechnung"] {
            let set = ["set", &id(title), "priority=critical", "--storage", storage];
            let (code, _, error) = output(reqlore().current_dir(root).args(set));
            assert_eq!(code, 0, "{error}");
        }
        let report = import(" --map items.toml");
        assert_eq!(counts(&report), [0, 1, 3, 1, 1], "{report}");
        assert_eq!(report["conflicts"][0]["id"], id("Anmelden"));
        assert_eq!(report["edited_here"][0]["id"], id("Rechnung"));
        assert_eq!(counts(&import(" --map items.toml --update")), [0, 1, 4, 1, 0]);
        assert_eq!(record(&records(root, storage), "Anmelden")["priority"], 2);
        write(root, "items.csv", &SHEET[..SHEET.find("A-3").unwrap()]);
        let gone = import(" --map items.toml")["gone"].clone();
        assert!(gone.to_string().contains("items.csv#A-3"), "{gone}");
    }
}

#[test]
fn exported_items_are_the_same_records_in_an_empty_project() {
    let project = project();
    let root = project.path();
    write(
        root,
        ".reqlore/project.toml",
        "[fields.risk]\ntype = \"number\"\nkinds = [\"requirement\"]\n",
    );
    for command in [
        &["add", "epic", "=Shop, \"one\"", "--description", "a\n\n  b"][..],
        &["add", "story", "Buy", "--in", "EP-001", "--assignee", "ada"],
        &["add", "requirement", "Pay", "--in", "US-001", "--field", "risk=2.5", "--tags", "x"],
        &["add", "requirement", "Ship", "--in", "US-001"],
        &["add", "criterion", "It is paid.", "--in", "US-001"],
        &["add", "decision", "Use cards", "--description", "Because."],
        &["link", "REQ-002", "depends_on", "REQ-001"],
        &["link", "REQ-002", "derives_from", "REQ-001"],
        &["set", "REQ-001", "status=active"],
    ] {
        let (code, _, error) = output(reqlore().current_dir(root).args(command));
        assert_eq!(code, 0, "{command:?}: {error}");
    }
    write(root, ".reqlore/backlog/epics/EP-007.md", "---\ntitle: Late\nsource: a\n---\n");
    let all = records(root, "fs");
    assert_eq!(all.len(), 7);
    for (format, path) in [
        ("json", "json/items.json"),
        ("csv", "items.csv"),
        ("xlsx", "items.xlsx"),
        ("reqif", "items.reqif"),
        ("needs-json", "needs/items.json"),
        ("strictdoc", "sdoc"),
    ] {
        run_ok(root, &format!("export {format} --out {path}"));
        let mut expected = all.clone();
        expected.retain(|record| format != "strictdoc" || record["kind"] != "decision");
        let count = expected.len();
        let other = crate::client::project();
        write(
            other.path(),
            ".reqlore/project.toml",
            fs::read(root.join(".reqlore/project.toml")).unwrap(),
        );
        let command = format!("import {}", root.join(path).display());
        let report = import(other.path(), &command);
        assert_eq!(counts(&report), [count, 0, 0, 0, 0], "{report}");
        assert_eq!(records(other.path(), "fs"), expected, "{format}");
        assert_eq!(counts(&import(other.path(), &command)), [0, 0, count, 0, 0]);
    }
}

#[test]
fn requirement_below_another_one_derives_from_it() {
    let project = project();
    let root = project.path();
    write(root, "tree.csv", "ID,Title,Parent\nC,Part,B\nB,System,A\nA,Need,\n");
    let report = import(root, "import tree.csv");
    assert_eq!(counts(&report), [5, 0, 0, 0, 0], "{report}");
    assert!(report["notes"][0].as_str().unwrap().starts_with("2 requirements"), "{report}");
    let all = records(root, "fs");
    let id = |title: &str| record(&all, title)["reference_id"].clone();
    for (title, above) in [("Part", "System"), ("System", "Need")] {
        assert_eq!(record(&all, title)["links"]["derives_from"], json!([id(above)]));
        assert_eq!(record(&all, title)["parent"], record(&all, "Need")["parent"]);
    }
    assert_eq!(counts(&import(root, "import tree.csv")), [0, 0, 5, 0, 0]);
}

#[test]
fn reqlix_folder_is_imported_and_follows_edited_titles() {
    let project = project();
    let root = project.path();
    let path = "app/docs/development/requirements/general.md";
    write(root, "app/README.md", "# Read me\n");
    write(root, "app/docs/dev/req/testing.md", "**2.1.** All tests run.\n");
    let text = "# Errors\n\n## G.E.1: Way out\n\nText.\n\n## G.E.2: Second\n";
    let report = import_and_edit(root, path, text, "Second");
    // The story of the requirement without a heading is made.
    assert_eq!((&report["format"], counts(&report)[0]), (&json!("reqlix"), 7));
}

#[test]
fn docsets_are_not_imported_and_the_error_names_the_command() {
    let project = project();
    let root = project.path();
    write(root, "config.yaml", "version: \"1.0\"\ndocsets:\n  - id: guide\n");
    for arguments in ["import config.yaml", "import . --from agentic-knowledge"] {
        let arguments = arguments.split(' ');
        let (code, _, error) = output(reqlore().current_dir(root).args(arguments));
        let expected = "docsets need no import; put the file at .knowledge/config.yaml, or into a \
                        database with `reqlore docsets import FILE`";
        assert!(code == 2 && error.contains(expected), "{code}: {error}");
    }
}

#[test]
fn openspec_folder_is_imported_and_exported_again() {
    let project = project();
    let root = project.path();
    let spec = "# login Specification\n\n## Purpose\nPeople log in.\n\n## Requirements\n\n\
        ### Requirement: Password\nThe system SHALL ask.\n\n#### Scenario: Wrong\n- **WHEN** x\n\n\
        ```\n### Requirement: in code\n```\n\n### Requirement: Session\nIt ends.\n";
    write(root, "openspec/specs/login/spec.md", spec);
    write(root, "openspec/changes/x/specs/login/spec.md", "## ADDED\n### Requirement: New\n");
    let report = import(root, "import openspec");
    assert_eq!(counts(&report), [4, 0, 0, 0, 0], "{report}");
    assert!(
        report["notes"][0].as_str().unwrap().ends_with("changes, archives and designs: 1"),
        "{report}"
    );
    let all = records(root, "fs");
    assert_eq!(record(&all, "login")["description"], "People log in.");
    let text = record(&all, "Password")["description"].as_str().unwrap();
    assert!(text.ends_with("```\n### Requirement: in code\n```"), "{text}");
    run_ok(root, "export openspec --out written");
    let written = fs::read_to_string(root.join("written/specs/login/spec.md")).unwrap();
    assert_eq!(written, spec);
}

/// Imports a source twice, and then with another title of one item, which is an update.
fn import_and_edit(root: &Path, path: &str, text: &str, title: &str) -> Value {
    let command = format!("import {}", path.split('/').next().unwrap());
    write(root, path, text);
    let first = import(root, &command);
    let count = first["created"].as_array().unwrap().len();
    assert_eq!(counts(&first), [count, 0, 0, 0, 0], "{first}");
    assert_eq!(counts(&import(root, &command)), [0, 0, count, 0, 0]);
    write(root, path, text.replace(title, "Edited title"));
    let edited = import(root, &command);
    assert_eq!(counts(&edited), [0, 1, count - 1, 0, 0], "{edited}");
    assert!(edited["updated"][0]["title"].as_str().unwrap().ends_with("Edited title"), "{edited}");
    assert_eq!(run_ok(root, "check"), "Nothing to fix.\n");
    first
}

#[test]
fn kiro_folder_is_imported_and_follows_edited_titles() {
    let project = project();
    let root = project.path();
    let spec = "# Requirements Document\n\n## Requirements\n\n### Requirement 1: Password\n\n\
        **User Story:** As a user, I want one.\n\n#### Acceptance Criteria\n\n\
        1. WHEN it is wrong THEN it SHALL ask\n2. IF x THEN y\n";
    write(root, ".kiro/specs/login/tasks.md", "- [ ] 1. Do it\n");
    let report = import_and_edit(root, ".kiro/specs/login/requirements.md", spec, "Password");
    assert_eq!(
        (&report["format"], report["created"].as_array().unwrap().len()),
        (&json!("kiro"), 4)
    );
    let all = records(root, "fs");
    assert_eq!(record(&all, "login")["kind"], "epic");
    let criteria = all.iter().filter(|one| one["kind"] == "acceptance_criteria");
    let texts: Vec<&Value> = criteria.map(|one| &one["description"]).collect();
    assert_eq!(texts, ["WHEN it is wrong THEN it SHALL ask", "IF x THEN y"]);
    let (code, _, error) = output(reqlore().current_dir(root).args(["export", "kiro"]));
    assert!(code != 0 && error.contains("kiro can only be imported; use json"), "{error}");
}

#[test]
fn spec_kit_folder_is_imported_and_follows_edited_titles() {
    let project = project();
    let root = project.path();
    let spec = "# Feature Specification: Login\n\n**Status**: Draft\n\n## User Scenarios\n\n\
        ### User Story 1 - Password (Priority: P1)\n\nText.\n\n1. **Given** a\n\n\
        ### User Story 2 - Session (Priority: P0)\n\n## Requirements\n\n\
        - **FR-001**: System MUST ask\n- **SC-001**: 95 % succeed\n";
    write(root, "specs/001-login/plan.md", "# Plan\n");
    let report = import_and_edit(root, "specs/001-login/spec.md", spec, "Password");
    // The story of the requirements is made.
    assert_eq!((&report["format"], counts(&report)[0]), (&json!("spec-kit"), 7));
    assert_eq!(report["unknown_values"], json!({ "priority": ["P0"] }));
    let all = records(root, "fs");
    assert_eq!(record(&all, "Edited title")["priority"], 1);
    assert_eq!(record(&all, "Session")["extra"], json!({ "source_priority": "P0" }));
    assert_eq!(record(&all, "95 % succeed")["type_name"], "Non-Functional");
    let made = &record(&all, "System MUST ask")["parent"];
    assert!(all.iter().any(|one| one["reference_id"] == *made && one["title"] == "Login"));
}

#[test]
fn github_issues_are_imported_and_follow_edited_titles() {
    let project = project();
    let root = project.path();
    let issues = json!([
        { "number": 7, "title": "Log in", "body": "As a user\r\n- [ ] task", "state": "OPEN",
          "labels": [{ "name": "good first issue" }, { "name": "a,b" }], "id": "I_1",
          "assignees": [{ "login": "ann" }, { "login": "bob" }], "url": "https://x/7",
          "milestone": { "number": 2, "title": "v1", "description": "First.", "dueOn": null } },
        { "number": 8, "title": "Log out", "state": "CLOSED", "labels": [], "assignees": [] },
    ]);
    let report = import_and_edit(root, "issues.json", &issues.to_string(), "Log in");
    // The epic of the issue without a milestone is made.
    assert_eq!((&report["format"], counts(&report)[0]), (&json!("github"), 4));
    assert_eq!(report["unknown_values"], json!({ "status": ["CLOSED", "OPEN"] }));
    let all = records(root, "fs");
    let issue = record(&all, "Edited title");
    assert_eq!(issue["description"], "As a user\n- [ ] task");
    assert_eq!(issue["tags"], json!(["good first issue", "a,b"]));
    assert_eq!(
        (&issue["assignee_username"], &issue["kind"]),
        (&json!("ann"), &json!("user_story"))
    );
    let extra = json!({
        "other_assignees": "bob", "source_id": "I_1", "source_status": "OPEN", "url": "https://x/7",
    });
    assert_eq!(issue["extra"], extra);
    assert_eq!(record(&all, "v1")["reference_id"], issue["parent"]);
    assert_eq!(record(&all, "v1")["description"], "First.");
    assert_eq!(record(&all, "issues")["reference_id"], record(&all, "Log out")["parent"]);
    write(root, "map.toml", "[values.status]\nOPEN = \"Draft\"\nCLOSED = \"Done\"\n");
    let mapped = import(root, "import issues.json --map map.toml --update");
    assert_eq!(counts(&mapped), [0, 2, 2, 0, 0], "{mapped}");
    assert_eq!(record(&records(root, "fs"), "Log out")["status"], "Done");
}

#[test]
fn backlog_md_tasks_are_imported_and_follow_edited_titles() {
    let project = project();
    let root = project.path();
    let task = "---\nid: TASK-1\ntitle: Log in\nstatus: In Progress\nassignee: []\nlabels: [web]\n\
        dependencies: [TASK-2, TASK-404]\npriority: high\nparent_task_id: TASK-2\n---\n\n\
        ## Acceptance Criteria\n- [x] #1 It works\n";
    let other = "---\nid: task-2\ntitle: Other\nstatus: To Do\n---\n";
    write(root, "backlog/completed/task-2 - Other.md", other);
    let report = import_and_edit(root, "backlog/tasks/task-1 - Log-in.md", task, "Log in");
    // The epic of tasks without a milestone is made.
    assert_eq!((&report["format"], counts(&report)[0]), (&json!("backlog-md"), 4));
    assert_eq!(report["unknown_values"], json!({ "status": ["To Do"] }));
    let all = records(root, "fs");
    let (story, other) = (record(&all, "Edited title"), record(&all, "Other"));
    assert_eq!(story["links"], json!({ "depends_on": [other["reference_id"]] }));
    assert_eq!((&story["priority"], &story["status"]), (&json!(2), &json!("In Progress")));
    let extra = &story["extra"];
    assert_eq!(extra["parent_task_id"], "TASK-2");
    assert!(extra["source_depends_on"].to_string().contains("task-404"), "{extra}");
    fs::rename(
        root.join("backlog/tasks/task-1 - Log-in.md"),
        root.join("backlog/completed/task-1 - Edited.md"),
    )
    .unwrap();
    assert_eq!(counts(&import(root, "import backlog")), [0, 0, 4, 0, 0]);
}

#[test]
fn missing_links_are_added_and_mutual_ones_only_once() {
    let project = project();
    let root = project.path();
    let sheet = "id,title,depends_on,relates_to\n1,A,2,2\n2,B,,1\n";
    write(root, "items.csv", sheet);
    let links = |report: &Value| report["links"].as_u64().unwrap();
    assert_eq!(links(&import(root, "import items.csv")), 2);
    assert_eq!(links(&import(root, "import items.csv")), 0);
    let all = records(root, "fs");
    let (first, second) = (record(&all, "A"), record(&all, "B"));
    let id = |story: &Value| story["reference_id"].clone();
    assert_eq!(first["links"], json!({ "depends_on": [id(second)], "relates_to": [id(second)] }));
    assert!(second.get("links").is_none(), "{second}");
    let link = json!({ "source": id(first), "type": "depends_on", "target": id(second) });
    Server::start(root).data("delete_relationship", link);
    let report = import(root, "import items.csv");
    assert_eq!((links(&report), counts(&report)), (1, [0, 0, 4, 0, 0]));
    // A link that the source lost is kept, and is not an edit.
    write(root, "items.csv", sheet.replace("A,2,2", "A,,"));
    let report = import(root, "import items.csv");
    assert_eq!((links(&report), counts(&report)), (0, [0, 0, 4, 0, 0]));
    assert_eq!(record(&records(root, "fs"), "A"), first);
}

#[test]
fn values_without_a_field_become_custom_fields_on_request() {
    let project = project();
    let root = project.path();
    write(
        root,
        ".reqlore/project.toml",
        "# Ours\n[fields.risk]\ntype = \"number\"\nkinds = [\"requirement\"]\n",
    );
    write(
        root,
        "items.csv",
        "id,title,Risk,Größe (h),Build,Due,Notes,x-1,X 1\n\
         1,A,2,1.5,007,2026-11-28,\"a\nb\",p,q\n2,B,,3,,,,,\n",
    );
    let planned = import(root, "import items.csv --add-fields --dry-run");
    let notes = planned["notes"].to_string();
    assert!(notes.contains("Größe (h): new field groesse_h (number)"), "{notes}");
    let schema = || fs::read_to_string(root.join(".reqlore/project.toml")).unwrap();
    assert!(!schema().contains("groesse_h"));
    // The fields of the second import have the values of extra keys.
    assert_eq!(counts(&import(root, "import items.csv")), [4, 0, 0, 0, 0]);
    assert_eq!(counts(&import(root, "import items.csv --add-fields")), [0, 0, 4, 0, 0]);
    let text = schema();
    assert!(text.starts_with("# Ours\n[fields.risk]"), "{text}");
    let due = "[fields.due]\nlabel = \"Due\"\ntype = \"date\"\nkinds = [\"requirement\"]\n";
    assert!(text.contains(due), "{text}");
    let all = records(root, "fs");
    // A mapping file that was written before the fields has their headings.
    write(root, "map.toml", "[columns]\n\"Größe (h)\" = \"Größe (h)\"\nBuild = \"Build\"\n");
    let report = import(root, "import items.csv --add-fields --map map.toml");
    assert_eq!(counts(&report), [0, 0, 4, 0, 0], "{report}");
    let fields = json!({ "build": "007", "due": "2026-11-28", "groesse_h": 1.5, "risk": 2 });
    assert_eq!(record(&all, "A")["fields"], fields);
    // Neither several lines nor two headings of the same form become a field.
    let extra = json!({ "notes": "a\nb", "x_1": "q", "x_1_2": "p" });
    assert_eq!(record(&all, "A")["extra"], extra);
    assert_eq!(run_ok(root, "check"), "Nothing to fix.\n");
}

#[test]
fn doorstop_documents_are_imported_and_follow_edited_titles() {
    let project = project();
    let root = project.path();
    write(root, "reqs/.doorstop.yml", "settings:\n  prefix: REQ\n");
    write(root, "reqs/REQ001.yml", "level: 1.0\nnormative: false\ntext: Login\n");
    write(root, "reqs/REQ003.yml", "level: 1.2\nactive: false\ntext: Session\nlinks: [REQ002]\n");
    // A link to a heading or to itself is not a relation, and own keys replace no field.
    let item = "level: 1.1\nheader: Password\ntext: |\n  It asks.\nlinks: [REQ001, REQ002, SYS1]\n\
        title: Own\ndescription: Words\nepic: EP-9\npriority: high\nreviewed: x=\nимя: A\n\
        цена: B\n";
    let report = import_and_edit(root, "reqs/REQ002.yml", item, "Password");
    assert_eq!((&report["format"], counts(&report)[0]), (&json!("doorstop"), 4));
    let all = records(root, "fs");
    let (story, item) = (record(&all, "Login"), record(&all, "Edited title"));
    assert_eq!((&item["parent"], &item["priority"]), (&story["reference_id"], &json!(2)));
    assert_eq!(item["description"], "It asks.");
    let extra = json!({
        "level": "1.1", "reviewed": "x=", "source_derives_from": "REQ001, REQ002, SYS1",
        "source_description": "Words", "source_epic": "EP-9", "source_title": "Own",
        "source_": "A", "source__2": "B",
    });
    assert_eq!((&item["extra"], &item["links"]), (&extra, &Value::Null));
    let session = record(&all, "Session");
    assert_eq!(session["links"], json!({ "derives_from": [item["reference_id"]] }));
    assert_eq!(session["extra"]["active"], "false");
}

#[test]
fn hostile_source_is_refused_and_nothing_is_written() {
    let project = project();
    let root = project.path();
    let headings: Vec<String> = (0..40).map(|number| format!("x{number}")).collect();
    let wide = format!("title,{}\nx{}\n", headings.join(","), ",1".repeat(40));
    for (name, bytes, expected) in [
        ("a.csv", &b"id,title\r\n1,\xe4\r\n"[..], "a.csv: row 2: it is not UTF-8"),
        ("a.csv", b"\xff\xfei\0d\0", "it is UTF-16"),
        ("a.csv", b"id,title\n1,x\n1,y\n", "the source has this ID twice"),
        ("a.csv", b"id,title\n1,x\x1b[2J\n", "is not allowed; write it on one line"),
        ("a.csv", b"id,title\n1,x,y\n", "a.csv: row 2: it has 3 cells"),
        ("a.csv", b"id,kind,title,parent\n1,story,a,2\n2,story,b,1\n", "its own ancestor"),
        ("a.csv", b"id,title,parent\n1,a,2\n2,b,1\n", "its own ancestor"),
        ("a.csv", b"id,title,parent\n1,a,US-404\n", "US-404 does not exist"),
        ("a.csv", b"id,kind,title\n1,banana,a\n", "\"banana\" is not a kind"),
        ("wide.csv", wide.as_bytes(), "it has 40 values without a field; at most 39"),
        ("a.json", b"{\"items\": [{}]}", "missing field"),
        ("a.md", b"# A\n\n## \xff\n", "a.md:3: it is not UTF-8"),
        ("a.sdoc", b"[DOCUMENT]\nTITLE: A\n\n[[SECTION]]\n", "a.sdoc:4: [[/SECTION]] is missing"),
    ] {
        write(root, name, bytes);
        let (code, out, error) = output(reqlore().current_dir(root).args(["import", name]));
        assert_ne!(code, 0, "{expected}");
        assert!((out.clone() + &error).contains(expected), "{expected}: {out}{error}");
        assert!(!root.join(".reqlore/backlog").try_exists().unwrap(), "{expected}");
    }
}

// S5: 6.1, 6.2, 6.3, 8.2, 8.4, 8.5
#[test]
fn public_backlog_is_imported_and_read_completely() {
    let file = repository().join("../shared/data/openspec-backlog.json");
    let Ok(source) = fs::read(&file) else {
        println!("no public backlog was found next to the repository; nothing was tested");
        return;
    };
    let epics: Vec<Value> = serde_json::from_slice(&source).unwrap();
    let project = project();
    let root = project.path();
    let mut items = Vec::new();
    let mut add = |kind: &str, item: &Value, parent: Option<&str>| {
        let id = format!("item{}", items.len());
        items.push(json!({
            "reference_id": id, "kind": kind, "parent": parent, "title": item["title"],
            "description": item["description"], "priority": item["priority"],
            "type_name": item["type"],
        }));
        id
    };
    for epic in &epics {
        let id = add("epic", epic, None);
        for story in epic["user_stories"].as_array().into_iter().flatten() {
            let id = add("user_story", story, Some(&id));
            for requirement in story["requirements"].as_array().into_iter().flatten() {
                add("requirement", requirement, Some(&id));
            }
        }
    }
    write(root, "backlog.json", json!({ "items": items }).to_string());
    assert_eq!(counts(&import(root, "import backlog.json"))[0], items.len());
    let stored = records(root, "fs");
    assert_eq!((epics.len(), stored.len()), (36, items.len()));
    for item in &items {
        let same = |one: &&Value| {
            one["title"] == item["title"] && one["description"] == item["description"]
        };
        assert!(stored.iter().any(|one| same(&one)), "{item}");
    }
    assert_eq!(run_ok(root, "check"), "Nothing to fix.\n");
}
