//! Docset tools of the real binary on real files.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use serde_json::{Value, json};

use crate::client::{Server, project, text};
use crate::copy_and_backup::run;

fn write_config(root: &Path, config: &str) {
    std::fs::create_dir_all(root.join(".knowledge")).unwrap();
    std::fs::write(root.join(".knowledge/config.yaml"), config).unwrap();
}

fn search_arguments(docset: &str) -> Value {
    json!({ "docset": docset, "keywords": ["hooks"], "generalized_keywords": [] })
}

// S3: REQ-3.1, REQ-3.2, REQ-3.3, REQ-8.1
#[test]
fn docset_config_is_found_in_parent_folders() {
    let outer = project();
    let inner = outer.path().join("packages/app");
    std::fs::create_dir_all(&inner).unwrap();
    write_config(outer.path(), "docsets: {outer: {version: 1}}");
    std::fs::create_dir_all(outer.path().join(".knowledge/docs/outer-1")).unwrap();
    let mut server = Server::start(&inner);
    let answer = server.call("search_docs", search_arguments("outer"));
    let root = outer.path().canonicalize().unwrap();
    let path = format!("{}/.knowledge/docs/outer-1/", root.to_str().unwrap());
    let expected = format!("Search for 'hooks' in folder {path}.");
    assert!(text(&answer).starts_with(&expected), "{answer}");
    assert_eq!(answer["result"]["structuredContent"]["exists"], true);
    // The nearest configuration takes precedence.
    write_config(&inner, "docsets: {inner: }");
    let answer = server.call("list_docsets", json!({}));
    assert!(text(&answer).contains("inner") && !text(&answer).contains("outer"), "{answer}");
}

// S3: REQ-3.4, REQ-3.5
#[test]
fn docset_config_missing_explains_how_to_create_it() {
    let home = project();
    write_config(home.path(), "docsets: {global: }");
    let project = project();
    let mut server = Server::start(project.path());
    let answer = server.call("list_docsets", json!({}));
    assert_eq!(answer["result"]["isError"], true);
    let text = text(&answer);
    assert!(text.contains("Create ") && text.contains("`docsets: {react: {version: "), "{text}");
    assert_eq!(text.lines().count(), 2, "{text}");
    write_config(project.path(), "docsets: {react: }");
    let answer = server.call("list_docsets", json!({}));
    assert_eq!(answer["result"]["structuredContent"]["docsets"][0]["name"], "react", "{answer}");
}

// S3: REQ-3.2, REQ-3.4, REQ-7.3, REQ-9.3
#[test]
fn docset_config_above_the_root_is_live_or_named() {
    for storage in ["fs", "sqlite"] {
        let outer = project();
        let inner = outer.path().join("packages/app");
        std::fs::create_dir_all(&inner).unwrap();
        let mut server = Server::start_with(&inner, &["--storage", storage]);
        let mut list = || {
            let answer = server.call("list_docsets", json!({}));
            text(&answer).to_owned()
        };
        assert!(list().contains("or a folder above it.\nCreate "), "{storage}");
        for name in ["first", "edited"] {
            write_config(outer.path(), &format!("docsets: {{{name}: }}"));
            assert!(list().contains(name), "{storage}: {}", list());
        }
        let mode = |mode| std::fs::set_permissions(outer.path(), Permissions::from_mode(mode));
        mode(0o777).unwrap();
        let file = outer.path().canonicalize().unwrap().join(".knowledge/config.yaml");
        let expected = format!("{} is not used, because every user may write to", file.display());
        assert!(list().starts_with(&expected), "{storage}: {}", list());
        mode(0o700).unwrap();
        assert!(list().contains("edited"), "{storage}");
    }
}

// S3: REQ-8.1, REQ-8.2, REQ-8.3, REQ-8.4
#[test]
fn docset_tools_unknown_tool_and_message_are_errors() {
    let project = project();
    let mut server = Server::start(project.path());
    let tools = server.request("tools/list", json!({}));
    let tools = tools["result"]["tools"].as_array().unwrap();
    for name in ["search_docs", "list_docsets"] {
        assert!(tools.iter().any(|tool| tool["name"] == name), "{name}");
    }
    let unknown = server.request("tools/call", json!({ "name": "search_doc", "arguments": {} }));
    assert_eq!(unknown["error"]["code"], -32601);
    server.send("{\"jsonrpc\": ");
    assert_eq!(server.answer()["error"]["code"], -32700);
    assert!(server.request("tools/list", json!({}))["result"].is_object());
}

#[test]
fn check_docset_config_names_line_and_missing_folders() {
    let project = project();
    let check = || run(project.path(), "check");
    write_config(project.path(), "docsets:\n  a b:\n");
    let (code, output) = check();
    assert_eq!(code, 1);
    assert!(output.starts_with(".knowledge/config.yaml:2: column 3: docsets: \"a b\""), "{output}");
    write_config(project.path(), "docsets:\n  a:\n");
    assert!(check().1.contains(".knowledge/config.yaml:2: docset a: the folder "), "{}", check().1);
    std::fs::create_dir_all(project.path().join(".knowledge/docs/a")).unwrap();
    assert_eq!(check(), (0, "Nothing to fix.\n".to_owned()));
}
