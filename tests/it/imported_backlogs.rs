//! The example script imports a real backlog of another project, if available.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::backlog::{data, requirement_titles};
use crate::client::{BINARY, Server, project};
use crate::copy_and_backup::run;
use crate::repository;

fn request_result(server: &mut Server, method: &str, params: &Value) -> Value {
    let answer = server.request(method, params.clone());
    assert!(answer["result"].is_object(), "{method} {params}: {answer}");
    answer["result"].clone()
}

/// Reads all pages of a list.
fn list_all(server: &mut Server, tool: &str, list: &str) -> Vec<Value> {
    let (mut items, mut arguments) = (Vec::new(), json!({ "limit": 20 }));
    loop {
        let answer = server.call(tool, arguments.clone());
        let page = data(&answer);
        items.extend(page[list].as_array().unwrap().iter().cloned());
        match &page["next_cursor"] {
            Value::Null => return items,
            cursor => arguments["cursor"] = cursor.clone(),
        }
    }
}

fn load_backlog(file: &Path, root: &Path) -> bool {
    let script = repository().join("tests/examples/load_backlog.py");
    let output = Command::new("python3")
        .arg(script)
        .arg(file)
        .args(["--", BINARY, "--log", "warn", "--root"])
        .arg(root)
        .env("REQLORE_CACHE", "off")
        .env("GIT_AUTHOR_NAME", "tester")
        .output();
    let Ok(output) = output else {
        println!("python3 is missing; nothing was tested");
        return false;
    };
    let printed = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
    assert!(output.status.success(), "{printed}");
    println!("{}", printed.trim());
    true
}

/// Asserts that each epic has the counts of the file. Returns the number of requirements.
fn check_hierarchies(server: &mut Server, source: &[Value]) -> usize {
    let mut total = 0;
    for epic in list_all(server, "list_epics", "epics") {
        let source_epic =
            source.iter().find(|source_epic| source_epic["title"] == epic["title"]).unwrap();
        let stories = source_epic["user_stories"].as_array().map_or(&[][..], Vec::as_slice);
        let mut requirement_count = 0;
        for story in stories {
            requirement_count += story["requirements"].as_array().map_or(0, Vec::len);
        }
        let tree = server.data("epic_hierarchy", json!({ "epic": epic["reference_id"] }));
        let counts = [&tree["counts"]["user_stories"], &tree["counts"]["requirements"]];
        assert_eq!(counts, [&json!(stories.len()), &json!(requirement_count)], "{epic}");
        total += requirement_count;
    }
    total
}

// S5: 6.1, 6.2, 6.3, 8.2, 8.4, 8.5
#[test]
fn public_backlogs_are_imported_and_read_completely() {
    let file = repository().join("../shared/data/openspec-backlog.json");
    let Ok(source) = std::fs::read(&file) else {
        println!("no public backlog was found next to the repository; nothing was tested");
        return;
    };
    let source: Vec<Value> = serde_json::from_slice(&source).unwrap();
    let project = project();
    let root = project.path();
    if !load_backlog(&file, root) {
        return;
    }
    let mut server = Server::start(root);
    assert_eq!(data(&server.call("list_epics", json!({})))["total"], source.len());
    assert_eq!(source.len(), 36);
    let count = check_hierarchies(&mut server, &source);
    assert_eq!(requirement_titles(&mut server).len(), count);
    let mut uris = BTreeSet::new();
    let mut params = json!({});
    loop {
        let page = request_result(&mut server, "resources/list", &params);
        for resource in page["resources"].as_array().unwrap() {
            let uri = resource["uri"].as_str().unwrap();
            assert!(uris.insert(uri.to_owned()), "{uri} is listed twice");
            let answer = request_result(&mut server, "resources/read", &json!({ "uri": uri }));
            let content = &answer["contents"][0];
            assert_eq!(content["uri"], uri);
            let parsed = serde_json::from_str::<Value>(content["text"].as_str().unwrap());
            assert!(parsed.unwrap().is_object(), "{uri}");
        }
        match &page["nextCursor"] {
            Value::Null => break,
            cursor => params = json!({ "cursor": cursor }),
        }
    }
    assert!(uris.len() >= 994, "only {} resources", uris.len());
    assert!(server.end().1.success());
    let (code, output) = run(root, "check");
    assert_eq!((code, output.as_str()), (0, "Nothing to fix.\n"));
}
