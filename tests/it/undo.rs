//! `reqlore undo` and `reqlore restore-item` of the real program.

use std::fs;

use serde_json::Value;

use crate::commands_write::WriteProject;
use crate::git_merges::run_git;

/// The documents of the project as a user sees them.
fn shown(project: &WriteProject) -> Vec<Value> {
    let mut documents = Vec::new();
    for id in ["EP-001", "US-001", "REQ-001", "REQ-002", "payments"] {
        let (code, output) = project.run(&["show", id, "--json"]);
        let document = serde_json::from_str::<Value>(&output).unwrap_or_default();
        documents.push(if code == 0 { document } else { Value::Null });
    }
    documents
}

macro_rules! tests {
    ($($name:ident: $project:expr;)+) => {$(
        #[test]
        fn $name() {
            check_undo(&$project.with_items());
        }
    )+};
}

tests! {
    undo_restores_documents_on_files: WriteProject::local("fs");
    undo_restores_documents_on_sqlite: WriteProject::local("sqlite");
    undo_restores_documents_on_sled: WriteProject::local("sled");
    undo_restores_documents_on_postgres: WriteProject::local("postgres");
    undo_restores_documents_through_a_server: WriteProject::remote("user");
}

fn check_undo(project: &WriteProject) {
    project.run_ok(&["add", "requirement", "Refund", "--in", "US-001"]);
    project.run_ok(&["link", "REQ-002", "depends_on", "REQ-001"]);
    project.run_ok(&["add", "requirement", "Log payments.", "--in", "payments:1"]);
    let before = shown(project);
    let undo = |arguments: &[&str]| project.run_ok(&[&["undo"], arguments].concat());

    project.run_ok(&["set", "REQ-001", "title=Other", "status=active"]);
    let changed = shown(project);
    let planned = undo(&["req-1", "--dry-run"]);
    assert!(planned.starts_with("Nothing was changed; this would be done:\nUndone: "), "{planned}");
    assert_eq!(shown(project), changed);
    let undone = undo(&["req-1"]);
    let is_named = undone.starts_with("Undone: ") && undone.contains(", update_requirement: ");
    assert!(is_named && undone.contains("\nREQ-001 restored to version "), "{undone}");
    assert_eq!(shown(project), before);
    undo(&[]);
    assert_eq!(shown(project), changed);
    undo(&["REQ-001"]);

    project.run_ok(&["delete", "EP-001", "--cascade", "--yes"]);
    let deleted = shown(project);
    assert_eq!(deleted[0], Value::Null);
    let undone = project.json(&["undo", "EP-001"]);
    assert_eq!(undone["documents"].as_array().unwrap().len(), 4, "{undone}");
    assert_eq!(shown(project), before);
    undo(&[]);
    assert_eq!(shown(project), deleted);
    undo(&[]);
    assert_eq!(shown(project), before);

    project.run_ok(&["set", "payments:1", "text=Log nothing."]);
    undo(&["payments:1"]);
    assert_eq!(shown(project), before);
    project.run_ok(&["delete", "payments:1", "--yes"]);
    undo(&["payments:1"]);
    assert_eq!(shown(project), before);

    let history = project.json(&["history", "REQ-001"]);
    let first = history["versions"].as_array().unwrap().last().unwrap()["version"].clone();
    let version = &first.as_str().unwrap()[..8];
    let restored = project.run_ok(&["restore-item", "REQ-001", "--version", version]);
    assert_eq!(restored, format!("REQ-001 restored to version {version}\n"));
    for (arguments, expected) in [
        (&["undo", "EP-009"][..], "not found"),
        (&["undo", "REQ\u{2011}001"], "did you mean REQ-001"),
        (&["restore-item", "REQ-001", "--version", "12345678"], "has no version 12345678"),
        (&["restore-item", "REQ-001", "--version", "x"], "is not a version"),
    ] {
        let (code, output) = project.run(arguments);
        assert!(code != 0 && output.contains(expected), "{arguments:?}: {output}");
    }
}

#[test]
fn undo_works_after_a_commit_and_a_discard() {
    let project = WriteProject::local("fs").with_items();
    let root = project.root();
    run_git(&root, &["init", "--quiet"]);
    let commit = |subject: &str| {
        run_git(&root, &["add", "--all"]);
        run_git(&root, &["commit", "--quiet", "--message", subject]);
    };
    project.run_ok(&["add", "story", "Refund", "--in", "EP-001"]);
    project.run_ok(&["add", "requirement", "Refund", "--in", "US-002"]);
    project.run_ok(&["link", "REQ-002", "depends_on", "REQ-001"]);
    let before = shown(&project);
    commit("plan");
    project.run_ok(&["delete", "EP-001", "--cascade", "--yes"]);
    let deleted = shown(&project);
    // The last call as a whole, then the deletion of one item with all that went with it.
    for undo in [&["undo"][..], &["undo", "EP-001"]] {
        commit("delete");
        project.run_ok(undo);
        assert_eq!(shown(&project), before, "{undo:?}");
        commit("undo");
        project.run_ok(&["undo"]);
        assert_eq!(shown(&project), deleted, "{undo:?}");
    }
    let (code, refused) = project.run(&["undo", "US-001"]);
    assert!(code != 0 && refused.contains("`reqlore undo EP-001` restores it first"), "{refused}");
    // As committed.
    project.run_ok(&["undo", "EP-001"]);

    // Texts that Git discards before a commit.
    project.run_ok(&["set", "REQ-001", "title=Discarded"]);
    project.run_ok(&["add", "epic", "Never committed"]);
    run_git(&root, &["checkout", "--quiet", "."]);
    run_git(&root, &["clean", "--quiet", "--force", "-d", "--exclude=.reqlore/local"]);
    assert_eq!(shown(&project), before);
    let listed = project.json(&["history", "REQ-001"]);
    assert_eq!(listed["versions"][0]["reason"], "checkout of the committed text", "{listed}");
    assert_eq!(listed["versions"][1]["tool"], "update_requirement", "{listed}");
    let version = listed["versions"][1]["version"].as_str().unwrap();
    project.run_ok(&["restore-item", "REQ-001", "--version", version]);
    assert_eq!(project.json(&["show", "REQ-001"])["item"]["title"], "Discarded");
    project.run_ok(&["undo", "EP-002"]);
    assert_eq!(project.json(&["show", "EP-002"])["item"]["title"], "Never committed");

    let history = root.join(".reqlore/local/history");
    fs::remove_file(&history).unwrap();
    fs::create_dir(&history).unwrap();
    let listed = project.run_ok(&["history", "REQ-001"]);
    assert!(listed.contains("Note: The local history cannot be used"), "{listed}");
}

#[test]
fn undo_needs_write_access_and_is_audited() {
    let project = WriteProject::remote("user").with_items();
    let (server, team) = project.server.as_ref().unwrap();
    team.user("eve", "commenter");
    team.user("mia", "user");
    let as_user = |user: &str, arguments: &[&str]| {
        let token = team.token(user, "");
        let mut command = project.command(arguments);
        crate::init::output(command.env("REQLORE_TOKEN", token))
    };
    let before = shown(&project);
    let (code, _, refused) = as_user("eve", &["undo", "REQ-001"]);
    assert!(code != 0 && refused.contains("eve has read access only"), "{refused}");
    // Each user has changes of their own.
    let (code, _, refused) = as_user("mia", &["undo"]);
    assert!(code != 0 && refused.contains("mia has no recent change"), "{refused}");
    assert_eq!(shown(&project), before);
    project.run_ok(&["set", "REQ-001", "title=Bob's"]);
    assert_eq!(as_user("mia", &["set", "REQ-001", "title=Mia's"]).0, 0);
    let (code, refused) = project.run(&["undo"]);
    assert!(code != 0 && refused.contains("REQ-001 changed since: "), "{refused}");
    assert!(refused.contains(" mia, update_requirement"), "{refused}");
    project.run_ok(&["undo", "REQ-001"]);
    let item = project.json(&["show", "REQ-001"]);
    assert_eq!(item["item"]["title"], "Bob's");
    let listed = server.client(&team.token("mia", "")).request("tools/list", serde_json::json!({}));
    assert!(!format!("{listed:?}").contains("undo"), "{listed:?}");
    let rows = team.rows();
    let of_undo = rows.iter().filter(|row| row["action"] == "undo");
    let results: Vec<[&str; 2]> =
        of_undo.map(|row| ["user", "result"].map(|key| row[key].as_str().unwrap())).collect();
    let expected = [["eve", "forbidden"], ["mia", "not_found"], ["bob", "conflict"], ["bob", "ok"]];
    assert_eq!(results, expected);
    let last = rows.iter().rfind(|row| row["action"] == "undo").unwrap();
    assert_eq!(last["reason"], "undo a change of REQ-001");
}
