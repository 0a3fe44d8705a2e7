//! `reqlore import` of tables: exports of Jira and Linear, and mapping files.

use std::fs;

use serde_json::{Value, json};

use crate::client::{project, reqlore};
use crate::commands_write::WriteProject;
use crate::copy_and_backup::run_ok;
use crate::imports::{counts, import, record, records, write};
use crate::init::output;

#[test]
fn jira_export_keeps_labels_parents_and_links() {
    let project = project();
    let root = project.path();
    let headings = "Summary,Issue key,Issue id,Issue Type,Status,Labels,Labels,Parent,Parent key,\
                    Outward issue link (Blocks),Comment,Comment";
    let rows = "Sign in,P-1,10001,Epic,To Do,,,,,,,\n\
                With a password,P-2,10002,Story,To Do,web,login,10001,P-1,P-3,First,Second\n\
                Without,P-3,10003,Bug,Done,,,10001,P-1,,,\n\
                Form,P-4,10004,Sub-task,Done,,,10002,P-2,,,\n";
    write(root, "jira.csv", format!("{headings}\n{rows}"));
    let report = import(root, "import jira.csv");
    assert_eq!(counts(&report)[0], 4, "{report}");
    let all = records(root, "fs");
    let story = record(&all, "With a password");
    let epic = record(&all, "Sign in");
    let part = record(&all, "Form");
    assert_eq!((&story["kind"], &part["kind"]), (&json!("user_story"), &json!("requirement")));
    assert_eq!(story["parent"], epic["reference_id"]);
    assert_eq!(part["parent"], story["reference_id"]);
    assert_eq!(story["tags"], json!(["web", "login"]));
    assert_eq!(story["links"]["blocks"], json!([record(&all, "Without")["reference_id"]]));
    assert_eq!(
        (&story["extra"]["comment"], &story["extra"]["comment_2"]),
        (&json!("First"), &json!("Second"))
    );
    assert!(story["extra"]["source_status"] == "To Do", "{story}");
}

#[test]
fn jira_parents_are_found_by_issue_id_in_all_files_or_made() {
    let project = project();
    let root = project.path();
    let headings = "Summary,Issue key,Issue id,Issue Type,Parent,Parent summary";
    let one = "Form,P-4,10004,Sub-task,10002,Sign in\n\
               Sign in,P-2,10002,Story,10001,Accounts\n\
               Sign out,P-3,10003,Story,10009,Sessions\n\
               Time out,P-5,10005,Story,10009,Sessions\n\
               Alone,P-6,10006,Story,10010,\n";
    write(root, "jira/a.csv", format!("{headings}\n{one}"));
    let two = "Accounts,P-1,10001,Epic,10020,Initiative\n";
    write(root, "jira/b.csv", format!("{headings}\n{two}"));
    write(root, "jira/empty.csv", "");
    write(root, "jira/blank.csv", ";;\n;;\n");
    // With an epic for the story that has none.
    assert_eq!(counts(&import(root, "import jira"))[0], 8);
    let all = records(root, "fs");
    let parent = |title: &str| &record(&all, title)["parent"];
    let id = |title: &str| &record(&all, title)["reference_id"];
    assert_eq!((parent("Form"), parent("Sign in")), (id("Sign in"), id("Accounts")));
    assert_eq!((parent("Sign out"), parent("Time out")), (id("Sessions"), id("Sessions")));
    assert_eq!(record(&all, "Alone")["extra"]["parent_key"], "10010");
    assert_eq!(record(&all, "Accounts")["extra"]["parent_key"], "10020");
    assert_eq!(counts(&import(root, "import jira")), [0, 0, 8, 0, 0]);
    // The missing parent was exported later.
    let two = "Later,P-10,10010,Epic,,\nAccounts,P-1,10001,Epic,10020,Initiative\n";
    write(root, "jira/b.csv", format!("{headings}\n{two}"));
    assert_eq!(counts(&import(root, "import jira --update")), [1, 1, 6, 0, 0]);
    let all = records(root, "fs");
    assert_eq!(record(&all, "Alone")["parent"], record(&all, "Later")["reference_id"]);
    assert_eq!(record(&all, "Alone")["extra"]["parent_key"], json!(null));
}

#[test]
fn jira_rows_keep_named_epics_and_references() {
    let project = project();
    let root = project.path();
    run_ok(root, "add epic Here");
    let text = "Summary,Issue key,Issue id,Issue Type,Epic,Parent,Parent summary\n\
                Shown,P-2,2,Story,Shop,,\n\
                Known,P-3,3,Story,,EP-001,\n\
                Part,P-4,4,Sub-task,,9,Both\n\
                Whole,P-5,5,Story,,9,Both\n";
    write(root, "jira.csv", text);
    import(root, "import jira.csv");
    let all = records(root, "fs");
    let parent = |title: &str| &record(&all, title)["parent"];
    let id = |title: &str| &record(&all, title)["reference_id"];
    assert_eq!((parent("Shown"), parent("Known")), (id("Shop"), id("Here")));
    assert_eq!((parent("Whole"), &record(&all, "Both")["kind"]), (id("Both"), &json!("epic")));
}

#[test]
fn unknown_kinds_and_columns_are_listed_in_the_mapping_file() {
    let project = project();
    let root = project.path();
    write(
        root,
        "a.csv",
        "Nr,Titel,Art,Oberpunkt\na,a,Ding,\nb,b,Ding,\nc,c,Sache,a\nd,d,Anforderung,c\n",
    );
    let (code, printed, _) =
        output(reqlore().current_dir(root).args("import a.csv --map a.toml".split(' ')));
    assert_eq!(code, 1, "{printed}");
    let problem = "a.csv#a: \"Ding\" is not a kind of items; use epic, user_story or requirement, or \
                   for a table map it";
    assert!(printed.contains(problem) && printed.contains("Problems: 2\n"), "{printed}");
    let map = fs::read_to_string(root.join("a.toml")).unwrap();
    let map =
        map.replace("Ding = \"\"", "Ding = \"epic\"").replace("Sache = \"\"", "Sache = \"story\"");
    write(root, "a.toml", map);
    assert_eq!(counts(&import(root, "import a.csv --map a.toml"))[0], 4);
    write(root, "b.csv", "Anliegen,Nr\nd,1\n");
    let (_, _, error) =
        output(reqlore().current_dir(root).args("import b.csv --map b.toml".split(' ')));
    assert!(error.contains("no title or text column was found; map one with --map"), "{error}");
    let map = fs::read_to_string(root.join("b.toml")).unwrap();
    write(root, "b.toml", map.replace("Anliegen = \"Anliegen\"", "Anliegen = \"title\""));
    assert_eq!(counts(&import(root, "import b.csv --map b.toml"))[0], 3);
}

#[test]
fn linear_export_keeps_projects_priorities_and_links() {
    let project = project();
    let root = project.path();
    let headings = "ID,Team,Title,Description,Status,Estimate,Priority,Project ID,Project,Assignee,\
                    Labels,Cycle Number,Cycle Name,Due Date,Parent issue,Project Milestone,UUID,\
                    Time in status (minutes),Related to,Blocked by,Duplicate of";
    let rows = "E-1,Eng,Sign in,Text,Todo,,Urgent,u-1,Login,ann@example.org,\"web, ui\",,,,,,x,5,E-3,,\n\
                E-2,Eng,Sign out,,Done,3,No priority,u-1,Login,,,,,2026-12-01,,,y,,,\"E-1, E-3\",\n\
                E-3,Eng,Other,,Backlog,,Low,,,,,,,,,,z,,,,E-2\n";
    write(root, "linear.csv", format!("{headings}\n{rows}"));
    let report = import(root, "import linear.csv");
    // The epic and the story of the issue without a project are made, and those of the project.
    assert_eq!(counts(&report), [7, 0, 0, 0, 0], "{report}");
    let all = records(root, "fs");
    let (one, two, three) =
        (record(&all, "Sign in"), record(&all, "Sign out"), record(&all, "Other"));
    let priorities = [one, two, three].map(|issue| issue["priority"].as_u64().unwrap());
    assert_eq!(priorities, [1, 3, 4]);
    assert_eq!((&one["tags"], &one["parent"]), (&json!(["web", "ui"]), &two["parent"]));
    assert!(all.iter().any(|item| item["kind"] == "epic" && item["title"] == "Login"));
    let id = |issue: &Value| issue["reference_id"].clone();
    assert_eq!(one["links"], json!({ "relates_to": [id(three)] }));
    assert_eq!(two["links"], json!({ "depends_on": [id(one), id(three)] }));
    assert_eq!(three["extra"]["duplicate_of"], "E-2");
}

#[test]
fn assignees_of_a_team_are_its_users_and_others_are_noted() {
    let team = WriteProject::remote("user");
    let folder = project();
    write(folder.path(), "a.csv", "Title,Kind,Assignee\na,epic,BOB\nb,epic,Eve\nc,epic,Robert\n");
    write(folder.path(), "a.toml", "[values.assignee]\nRobert = \"bob\"\n");
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let import =
        || team.json(&["import", &path("a.csv"), "--map", &path("a.toml")])["report"].clone();
    let report = import();
    assert_eq!(counts(&report)[0], 3, "{report}");
    let note = "csv:a.csv#b: assignee: \"Eve\" is not a user of this server; kept as the key \
                source_assignee";
    assert_eq!(report["notes"], json!([note]));
    assert_eq!(report["unknown_values"], json!({ "assignee": ["Eve"] }));
    assert_eq!(counts(&import()), [0, 0, 3, 0, 0]);
    let printed = team.run_ok(&["list", "epics", "--assignee", "bob"]);
    let is_shown = ["EP-001", "EP-002", "EP-003"].map(|id| printed.contains(id));
    assert_eq!(is_shown, [true, false, true], "{printed}");
}

#[test]
fn values_of_custom_user_fields_follow_the_mapping() {
    let project = project();
    let root = project.path();
    let schema = "[fields.reviewer]\ntype = \"user\"\nkinds = [\"epic\"]\n";
    write(root, ".reqlore/project.toml", schema);
    write(root, "a.csv", "Title,Kind,Reviewer\na,epic,Eve Smith\nb,epic,\n");
    write(root, "a.toml", "[values.reviewer]\n\"Eve Smith\" = \"eve\"\n");
    assert_eq!(counts(&import(root, "import a.csv --map a.toml"))[0], 2);
    let all = records(root, "fs");
    assert_eq!(record(&all, "a")["fields"], json!({ "reviewer": "eve" }));
    assert_eq!(record(&all, "b")["fields"]["reviewer"], json!(null));
}
