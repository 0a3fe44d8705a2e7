//! The backlog under concurrent processes and hostile input.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde_json::{Value, json};

use crate::client::{Server, call, project, request, storage_argument, text};
use crate::copy_and_backup::run;

/// Asserts that the answer is not an error and returns its structured content.
pub(crate) fn data(answer: &Value) -> &Value {
    assert_eq!(answer["result"]["isError"], false, "{answer}");
    &answer["result"]["structuredContent"]
}

/// Calls a tool that creates an item and returns the reference.
pub(crate) fn create_item(server: &mut Server, tool: &str, arguments: Value) -> String {
    let answer = server.call(tool, arguments);
    data(&answer)["reference_id"].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned()
}

pub(crate) fn create_epic(server: &mut Server, title: &str) -> String {
    create_item(server, "create_epic", json!({ "title": title, "priority": 1 }))
}

pub(crate) fn create_story(server: &mut Server, epic: &str, title: &str) -> String {
    create_item(server, "create_user_story", json!({ "epic": epic, "title": title, "priority": 2 }))
}

pub(crate) fn requirement_arguments(story: &str, title: &str) -> Value {
    json!({ "user_story": story, "title": title, "priority": 3, "type": "Functional" })
}

/// The bytes of every file below a folder, by relative path.
pub(crate) fn read_tree(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut files = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in std::fs::read_dir(next).into_iter().flatten() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let name = path.strip_prefix(folder).unwrap().to_string_lossy().into_owned();
                files.insert(name, std::fs::read(&path).unwrap());
            }
        }
    }
    files
}

/// Titles of all requirements, by reference. Reads every page.
pub(crate) fn requirement_titles(server: &mut Server) -> BTreeMap<String, String> {
    let mut titles = BTreeMap::new();
    let mut arguments = json!({ "limit": 100 });
    loop {
        let answer = server.call("search_requirements", arguments.clone());
        let page = data(&answer);
        for result in page["results"].as_array().unwrap() {
            let [reference, title] =
                ["reference_id", "title"].map(|key| result[key].as_str().unwrap().to_owned());
            let previous = titles.insert(reference, title);
            assert_eq!(previous, None, "listed twice: {result}");
        }
        match &page["next_cursor"] {
            Value::Null => {
                assert_eq!(page["total"], titles.len());
                return titles;
            }
            cursor => arguments["cursor"] = cursor.clone(),
        }
    }
}

/// Several processes create requirements of one story; each sends all its calls at once.
fn check_concurrent_processes(storage: &str, processes: usize, per_process: usize) {
    let project = project();
    let root = project.path();
    let start = || Server::start_with(root, &["--storage", storage, "--log", "warn"]);
    let mut server = start();
    let epic = create_epic(&mut server, "Epic");
    let story = create_story(&mut server, &epic, "Story");
    assert!(server.end().1.success());
    let answers: Vec<(String, String)> = std::thread::scope(|scope| {
        let story = &story;
        let writers: Vec<_> = (0..processes)
            .map(|process| {
                let mut server = start();
                scope.spawn(move || {
                    for number in 0..per_process {
                        let item = requirement_arguments(story, &format!("{process}.{number}"));
                        server.send(call(number, "create_requirement", root, item).to_string());
                    }
                    let (answers, _) = server.end();
                    assert_eq!(answers.len(), per_process);
                    let reference_and_title = |answer: &Value| {
                        let record = data(answer);
                        ["reference_id", "title"].map(|key| record[key].as_str().unwrap().into())
                    };
                    answers.iter().map(reference_and_title).map(|[a, b]| (a, b)).collect::<Vec<_>>()
                })
            })
            .collect();
        writers.into_iter().flat_map(|writer| writer.join().unwrap()).collect()
    });
    let total = processes * per_process;
    let created: BTreeMap<String, String> = answers.iter().cloned().collect();
    assert_eq!((answers.len(), created.len()), (total, total), "a reference was assigned twice");
    let expected: BTreeSet<String> = (1..=total).map(|n| format!("REQ-{n:03}")).collect();
    assert_eq!(created.keys().cloned().collect::<BTreeSet<_>>(), expected, "a number is missing");
    assert_eq!(requirement_titles(&mut start()), created);
    let (code, output) = run(root, &format!("check --storage {storage}"));
    assert_eq!((code, output.as_str()), (0, "Nothing to fix.\n"));
}

#[test]
fn references_concurrent_processes_are_unique() {
    for (storage, processes, per_process) in
        [("fs", 3, 20), ("sqlite", 3, 20), ("sled", 1, 60), ("postgres", 3, 20)]
    {
        check_concurrent_processes(&storage_argument(storage), processes, per_process);
    }
}

/// Starts a server and creates one item of each kind.
fn start_small_backlog(root: &Path) -> Server {
    let mut server = Server::start(root);
    let epic = create_epic(&mut server, "Epic");
    let story = create_story(&mut server, &epic, "Story");
    create_item(&mut server, "create_requirement", requirement_arguments(&story, "Requirement"));
    create_item(
        &mut server,
        "create_acceptance_criteria",
        json!({ "user_story": story, "description": "GIVEN x" }),
    );
    server
}

/// Asserts that a request is refused without an internal error, changes no file, and that the next
/// request succeeds.
fn check_refused(server: &mut Server, root: &Path, request: &Value) -> Value {
    let before = read_tree(root);
    let answer = server.ask(request);
    let excerpt = answer.to_string().chars().take(500).collect::<String>();
    let refused = answer["result"]["isError"] == true || answer["error"].is_object();
    assert!(refused, "{request} succeeded: {excerpt}");
    assert_ne!(answer["error"]["code"], -32603, "{request}: {excerpt}");
    assert!(!excerpt.contains("correlation"), "{request}: {excerpt}");
    assert_eq!(read_tree(root), before, "{request} changed a file");
    let next = server.call("list_epics", json!({}));
    assert_eq!(data(&next)["total"], 1);
    answer
}

// Catalogue 39; S2: 1.2, 1.5, 2.1, 2.2
#[test]
fn references_hostile_input_is_refused_by_every_tool() {
    let project = project();
    let root = project.path();
    let mut server = start_small_backlog(root);
    // Separated by bars.
    let hostile = "US-1 OR 1=1|US-\u{661}|US-1\n| US-1|us-1|US-|047|USER-047||\0|US-1\0|US--1|US-+1|\
                   US-1.0|US-1e3|../US-1|/etc/passwd|US-\u{ff11}";
    let with_title =
        |key: &str, hostile: &str| json!({ "title": "x", "priority": 1, key: hostile });
    for reference in hostile.split('|') {
        for (tool, arguments) in [
            ("get_user_story_requirements", json!({ "user_story": reference })),
            ("get_item", json!({ "reference": reference })),
            ("delete_item", json!({ "reference": reference, "cascade": true })),
            ("update_user_story", json!({ "user_story": reference, "title": "x" })),
            ("create_user_story", with_title("epic", reference)),
            ("create_requirement", requirement_arguments(reference, "x")),
            ("create_acceptance_criteria", json!({ "user_story": reference, "description": "x" })),
            ("epic_hierarchy", json!({ "epic": reference })),
        ] {
            // Only S2's own tool takes a reference in one spelling, and tools that read take
            // full-width digits.
            let is_clear = reference.trim().eq_ignore_ascii_case("us-1")
                || (reference == "US-\u{ff11}" && tool == "get_item");
            if is_clear && tool != "get_user_story_requirements" {
                continue;
            }
            let request = call(1, tool, root, arguments);
            let answer = check_refused(&mut server, root, &request);
            if tool == "get_user_story_requirements" && reference.starts_with("US") {
                let message = text(&answer);
                assert!(message.contains("Invalid user story reference ID format"), "{message}");
            }
        }
    }
    for reference in ["US-99999999999999999999", "US-4294967297", "US-007"] {
        let arguments = json!({ "user_story": reference });
        let request = call(1, "get_user_story_requirements", root, arguments);
        let answer = check_refused(&mut server, root, &request);
        let message = text(&answer);
        assert!(
            message.contains("User story not found") && message.contains(reference),
            "{message}"
        );
    }
    let padded = server.call("get_user_story_requirements", json!({ "user_story": "US-0001" }));
    assert_eq!(data(&padded)["user_story"], "US-001", "leading zeros do not matter");
}

// Catalogue 40, 46; S5: 6.1, 6.4, 6.7
#[test]
fn resource_uris_hostile_input_opens_no_file() {
    let project = project();
    let root = project.path();
    std::fs::write(root.join("secret.md"), "---\nid: secret\n---\n").unwrap();
    let mut server = start_small_backlog(root);
    let codes = |uri: &str| if uri.contains("EP-002") { -32002 } else { -32602 };
    // Separated by blanks, with one empty URI.
    let hostile = "epic://../1 epic://1/hierarchy/.. EPIC://1 epic://1?x epic://1#f epic:// \
                   epic://user@1 file:///etc/passwd http://127.0.0.1/ epic://EP-001/../EP-001 \
                   epic://EP-001?x epic://EP-001#f epic://x@EP-001 epic://EP-001/  \0 \
                   epic://EP-002 epic://EP-001%2f.. requirements://../epics epic:EP-001";
    for uri in hostile.split(' ') {
        for method in ["resources/read", "resources/subscribe"] {
            let request = request(1, method, json!({ "uri": uri }));
            let answer = check_refused(&mut server, root, &request);
            assert_eq!(answer["error"]["code"], codes(uri), "{method} {uri}: {answer}");
        }
    }
    for id in ["../secret", "/etc/passwd", "..", "secret\0", "a/../../secret", "", "REQ-9"] {
        for (tool, key) in [
            ("ixchel_show", "id"),
            ("ixchel_graph", "id"),
            ("ixchel_context", "id"),
            ("get_item", "reference"),
        ] {
            let request = call(1, tool, root, json!({ key: id }));
            let answer = check_refused(&mut server, root, &request);
            assert!(!answer.to_string().contains("id: secret"), "{answer}");
        }
    }
}

// Catalogue 48
#[test]
fn search_hostile_queries_are_plain_words_or_refused() {
    let project = project();
    let root = project.path();
    let mut server = start_small_backlog(root);
    let before = read_tree(root);
    let long_query = "word ".repeat(20_000);
    // Separated by commas.
    let hostile = "\",*,NEAR(,a OR,%_,the of and,' OR 1=1 --,title:,(,\\,[a TO,\u{202e}\u{200b},\0,\
                   a\0b,^~!,, ";
    for query in hostile.split(',').chain([long_query.as_str()]) {
        for tool in ["search_global", "search_requirements", "ixchel_search"] {
            let answer = server.call(tool, json!({ "query": query }));
            let refused = answer["result"]["isError"] == true;
            let excerpt = answer.to_string().chars().take(500).collect::<String>();
            assert!(answer["error"].is_null(), "{tool} {excerpt}");
            let is_unusable = query.trim().is_empty() || query.contains('\0');
            assert_eq!(refused, is_unusable || query.len() > 10_000, "{tool} {excerpt}");
            let lower = excerpt.to_lowercase();
            assert!(
                !["syntax", "sql", "fts", "parse"].iter().any(|w| lower.contains(w)),
                "{excerpt}"
            );
            if refused {
                assert!(lower.contains("query"), "{excerpt}");
            }
        }
    }
    for cursor in ["x", "\0", "' OR 1=1", "AAAA", "99999999999999999999", "%00"] {
        for tool in ["search_requirements", "list_epics"] {
            let request = call(1, tool, root, json!({ "cursor": cursor }));
            check_refused(&mut server, root, &request);
        }
    }
    assert_eq!(read_tree(root), before, "a search changed a file");
}

// Catalogue 46
#[test]
fn hierarchy_cycles_and_self_links_are_reported() {
    let project = project();
    let root = project.path();
    let mut server = start_small_backlog(root);
    let folder = root.join(".reqlore/backlog/requirements");
    let write = |name: &str, text: &str| std::fs::write(folder.join(name), text).unwrap();
    let front_matter = "---\nuser_story: US-001\ntitle: x\n";
    write("REQ-011.md", &format!("{front_matter}depends_on: [REQ-012]\n---\n"));
    write("REQ-012.md", &format!("{front_matter}depends_on: [REQ-011, REQ-012]\n---\n"));
    write("REQ-014.md", &format!("{front_matter}reference_id: REQ-099\n---\n"));
    for reference in ["REQ-011", "REQ-012", "REQ-014"] {
        let answer = server.data("get_item", json!({ "reference": reference }));
        assert_eq!(answer["item"]["reference_id"], reference, "the file name sets the reference");
    }
    let ixchel = root.join(".ixchel/decisions");
    std::fs::create_dir_all(&ixchel).unwrap();
    let body = "---\nid: dec-000001\nabout: [REQ-011, dec-000001]\n---\n";
    std::fs::write(ixchel.join("dec-000001.md"), body).unwrap();
    let context = server.data("ixchel_context", json!({ "id": "dec-000001" }));
    assert_eq!(context["items"].as_array().unwrap().len(), 2, "{context}");
    let (code, output) = run(root, "check");
    assert!(code == 1 && output.contains("REQ-012.md"), "{output}");
}
