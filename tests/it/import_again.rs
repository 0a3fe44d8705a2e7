//! A second `reqlore import`: the identity of items, and edits in the project and in the source.

use serde_json::json;

use crate::client::{project, reqlore};
use crate::copy_and_backup::run_ok;
use crate::imports::{counts, import, record, records, write};
use crate::init::output;

#[test]
fn own_export_updates_the_records_of_other_sources() {
    let project = project();
    let root = project.path();
    write(root, "a.csv", "id,title,text\nA,one,t1\nB,two,t2\n");
    import(root, "import a.csv");
    run_ok(root, "add requirement native --in US-001");
    for format in ["csv", "xlsx", "json", "reqif", "needs-json"] {
        run_ok(root, &format!("export {format} --out own.{format}"));
        let name = format.rsplit('-').next().unwrap();
        let path = root.join(format!("own.{format}"));
        std::fs::rename(path, root.join(format!("own.{name}"))).unwrap();
        let report = import(root, &format!("import own.{name} --from {format}"));
        assert_eq!(counts(&report), [0, 0, 5, 0, 0], "{format}: {report}");
    }
    let text = std::fs::read_to_string(root.join("own.csv")).unwrap();
    write(root, "own.csv", text.replace("t1", "t3"));
    let report = import(root, "import own.csv");
    assert_eq!(counts(&report), [0, 0, 4, 0, 1], "{report}");
    assert_eq!(counts(&import(root, "import own.csv --update")), [0, 1, 4, 0, 0]);
    let all = records(root, "fs");
    assert_eq!((all.len(), &record(&all, "one")["description"]), (5, &json!("t3")));
    // The first source still owns its records.
    let report = import(root, "import a.csv");
    assert_eq!(counts(&report), [0, 0, 3, 1, 0], "{report}");
}

#[test]
fn files_of_one_name_in_two_folders_have_their_own_items() {
    let project = project();
    let root = project.path();
    write(root, "a/items.csv", "id,title\n1,Alpha\n");
    write(root, "b/items.csv", "id,title\n1,Beta\n");
    assert_eq!(counts(&import(root, "import a/items.csv"))[0], 3);
    assert_eq!(counts(&import(root, "import b"))[0], 3);
    assert_eq!(counts(&import(root, "import .")), [0, 0, 6, 0, 0]);
    let spec = "# Login\n\n## Requirements\n### Requirement: Password\nThe user shall have one.\n";
    write(root, "openspec/specs/login/spec.md", spec);
    for (source, created) in
        [("openspec/specs/login/spec.md", 3), ("openspec/specs", 0), ("openspec", 0)]
    {
        let report = import(root, &format!("import {source}"));
        assert_eq!(counts(&report)[0], created, "{source}");
    }
}

#[test]
fn project_decides_on_the_place_of_items_without_a_parent() {
    let project = project();
    let root = project.path();
    write(root, "a.csv", "ID,Title,Text\nR1,One,t1\nR2,Two,t2\n");
    import(root, "import a.csv");
    for command in ["add epic Base", "add story Mine --in EP-002", "link REQ-001 parent US-002"] {
        run_ok(root, command);
    }
    write(root, "a.csv", "ID,Title,Text\nR1,One,t3\nR2,Two,t2\n");
    assert_eq!(counts(&import(root, "import a.csv")), [0, 1, 3, 0, 0]);
    let all = records(root, "fs");
    let moved = record(&all, "One");
    assert_eq!((&moved["description"], &moved["parent"]), (&json!("t3"), &json!("US-002")));
    // Epics and stories that no item needs are not made again.
    for command in ["link REQ-002 parent US-002", "delete US-001 --yes", "delete EP-001 --yes"] {
        run_ok(root, command);
    }
    assert_eq!(counts(&import(root, "import a.csv")), [0, 0, 2, 0, 0]);
    // A parent that the source names for the first time replaces a generated one only.
    write(root, "b.csv", "ID,Title,Epic\nR3,Three,\nR4,Four,\n");
    import(root, "import b.csv");
    run_ok(root, "link REQ-003 parent US-002");
    write(root, "b.csv", "ID,Title,Epic\nR3,Three,EP-002\nR4,Four,EP-002\n");
    let report = import(root, "import b.csv");
    assert_eq!((counts(&report)[1], counts(&report)[4]), (1, 1), "{report}");
    assert_eq!(report["gone"], json!([]));
}

#[test]
fn values_that_left_the_source_are_no_edits_of_the_project() {
    let project = project();
    let root = project.path();
    let (old, new) = ("ID,Title,Team,Prio\nR1,One,x,Niedrig\n", "ID,Title,Prio\nR1,Two,Niedrig\n");
    write(root, "a.csv", old);
    import(root, "import a.csv");
    write(root, "a.csv", new);
    assert_eq!(counts(&import(root, "import a.csv")), [0, 1, 2, 0, 0]);
    let all = records(root, "fs");
    assert_eq!(record(&all, "Two")["extra"], json!({ "source_priority": "Niedrig", "team": "x" }));
    // A value that has a meaning now replaces the key. The project may have edited it before.
    write(root, "a.toml", "[values.priority]\nNiedrig = \"Low\"\n");
    assert_eq!(counts(&import(root, "import a.csv --map a.toml")), [0, 0, 2, 0, 1]);
    assert_eq!(counts(&import(root, "import a.csv --map a.toml --update")), [0, 1, 2, 0, 0]);
    let all = records(root, "fs");
    let item = record(&all, "Two");
    assert_eq!((&item["priority"], &item["extra"]), (&json!(4), &json!({ "team": "x" })));
}

#[test]
fn source_without_a_text_or_status_keeps_those_of_the_project() {
    let project = project();
    let root = project.path();
    write(root, "a.csv", "ID,Title,Text,Status\nR1,One,t1,Active\nR2,Two,t2,Draft\n");
    import(root, "import a.csv");
    write(root, "a.csv", "ID,Title\nR1,One\nR2,Three\n");
    assert_eq!(counts(&import(root, "import a.csv")), [0, 1, 3, 0, 0]);
    let all = records(root, "fs");
    assert_eq!(record(&all, "One")["status"], "Active");
    assert_eq!(record(&all, "Three")["description"], "t2");
    // An edit of the project is never taken for an old value.
    run_ok(root, "set REQ-001 title=Mine");
    write(root, "a.csv", "ID,Title\nR1,Yours\nR2,Three\n");
    assert_eq!(counts(&import(root, "import a.csv")), [0, 0, 3, 0, 1]);
}

#[test]
fn repeated_ids_are_a_problem_of_the_source() {
    let project = project();
    let root = project.path();
    write(root, "a.csv", "ID,Title,Parent\nR1,a,\nR2,b,R1\nR1,c,\n");
    let (code, printed, error) = output(reqlore().current_dir(root).args(["import", "a.csv"]));
    assert_eq!(code, 1, "{error}");
    assert!(printed.contains("csv:a.csv#R1: the source has this ID twice"), "{printed}");
}

#[cfg(unix)]
#[test]
fn linked_file_keeps_its_identity() {
    let project = project();
    let root = project.path();
    for (name, title) in [("1", "One"), ("2", "Two")] {
        write(root, &format!("exports/{name}/items.csv"), format!("ID,Title\nR1,{title}\n"));
    }
    let link = root.join("latest.csv");
    std::os::unix::fs::symlink("exports/1/items.csv", &link).unwrap();
    assert_eq!(counts(&import(root, "import latest.csv"))[0], 3);
    std::fs::remove_file(&link).unwrap();
    std::os::unix::fs::symlink("exports/2/items.csv", &link).unwrap();
    assert_eq!(counts(&import(root, "import latest.csv")), [0, 1, 2, 0, 0]);
}

#[test]
fn json_removes_values_and_keeps_unknown_keys() {
    let project = project();
    let root = project.path();
    let file = |values: &str| {
        format!(
            "{{\"format\": \"reqlore-items\", \"items\": [{{\"reference_id\": \"US-001\", \"kind\": \"user_story\", \
             \"title\": \"Pay\"{values}}}]}}"
        )
    };
    let values = ", \"tags\": [\"a\"], \"assignee_username\": \"ann\", \"team\": 5";
    write(root, "a.json", file(values));
    assert_eq!(counts(&import(root, "import a.json"))[0], 2);
    let story = record(&records(root, "fs"), "Pay").clone();
    assert_eq!(
        (&story["tags"], &story["assignee_username"], &story["extra"]),
        (&json!(["a"]), &json!("ann"), &json!({ "team": "5" }))
    );
    write(root, "a.json", file(""));
    assert_eq!(counts(&import(root, "import a.json")), [0, 1, 1, 0, 0]);
    let story = record(&records(root, "fs"), "Pay").clone();
    assert_eq!((&story["tags"], &story["assignee_username"]), (&json!([]), &json!(null)));
}

#[test]
fn new_relations_and_successors_are_written_in_one_import() {
    let project = project();
    let root = project.path();
    write(root, "a.csv", "ID,Title\nR1,One\nR2,Two\n");
    import(root, "import a.csv");
    write(root, "a.csv", "ID,Title,depends_on,supersedes\nR1,One,,\nR2,Two,R1,R1\n");
    let report = import(root, "import a.csv");
    assert_eq!(report["links"], 2, "{report}");
    let links = record(&records(root, "fs"), "Two")["links"].clone();
    assert_eq!(links, json!({ "depends_on": ["REQ-001"], "supersedes": ["REQ-001"] }));
}

#[test]
fn unwritten_mapping_names_the_values_that_it_lacks() {
    let project = project();
    let root = project.path();
    write(root, "a.csv", "ID,Title,Prio\nR1,One,Niedrig\nR2,Two,Niedrig\n");
    write(root, "a.toml", "[values.priority]\nHoch = \"High\"\n");
    let command = ["import", "a.csv", "--map", "a.toml", "--dry-run"];
    let (code, printed, _) = output(reqlore().current_dir(root).args(command));
    assert_eq!(code, 0, "{printed}");
    for line in [
        "Notes: 1\n",
        "Unknown values of priority: \"Niedrig\"\n",
        "Add the unknown values to [values] in a.toml and run again.\n",
    ] {
        assert!(printed.contains(line), "{printed}");
    }
}
