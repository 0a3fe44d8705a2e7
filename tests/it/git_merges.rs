//! Two branches that both extend the backlog, merged by git and repaired by `check --fix`.
//!
//! Both change within one second, so only the uids show which of two items is newer.

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};

use crate::backlog::{create_epic, create_item, create_story, data, requirement_arguments};
use crate::client::{Server, project, set};
use crate::copy_and_backup::run;

/// Runs git without the user's configuration. Returns its output.
pub(crate) fn run_git(folder: &Path, arguments: &[&str]) -> String {
    let (succeeded, printed) = try_git(folder, arguments);
    assert!(succeeded, "git {arguments:?}: {printed}");
    printed
}

fn try_git(folder: &Path, arguments: &[&str]) -> (bool, String) {
    let mut git = Command::new("git");
    git.current_dir(folder)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_SYSTEM", "/dev/null");
    for name in ["AUTHOR", "COMMITTER"] {
        git.env(format!("GIT_{name}_NAME"), "tester");
        git.env(format!("GIT_{name}_EMAIL"), "tester@example.org");
    }
    let output = git.args(arguments).output().unwrap();
    let printed = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
    (output.status.success(), printed)
}

/// Creates an epic, a story and requirements with the author in their titles, and commits.
fn add_items(root: &Path, author: &str) {
    let mut server = Server::start(root);
    let epic = create_epic(&mut server, &format!("{author}'s epic"));
    let story = create_story(&mut server, &epic, &format!("{author}'s story"));
    let first = requirement_arguments(&story, &format!("{author}'s requirement"));
    let first = create_item(&mut server, "create_requirement", first);
    let second = requirement_arguments(&story, &format!("{author}'s other"));
    let second = create_item(&mut server, "create_requirement", second);
    let link = json!({ "source": second, "target": first, "type": "depends_on" });
    data(&server.call("create_relationship", link));
    assert!(server.end().1.success());
    run_git(root, &["add", "--all"]);
    run_git(root, &["commit", "--message", author]);
}

/// The titles of an epic and everything below it. No item may link to items of the other author.
fn titles_below(server: &mut Server, epic: &Value) -> Vec<String> {
    let answer = server.call("epic_hierarchy", json!({ "epic": epic }));
    let tree = data(&answer).clone();
    let title = |item: &Value| item["title"].as_str().unwrap().to_owned();
    let mut titles = vec![title(&tree["epic"])];
    for story in tree["user_stories"].as_array().unwrap() {
        titles.push(title(story));
        let requirements = story["requirements"].as_array().unwrap();
        let mut below: Vec<String> = requirements.iter().map(title).collect();
        below.sort();
        titles.extend(below);
        for requirement in requirements {
            let answer =
                server.call("get_item", json!({ "reference": requirement["reference_id"] }));
            let item = data(&answer).to_string();
            let author = title(story).split('\'').next().unwrap().to_owned();
            let other_author = if author == "Ada" { "Bob" } else { "Ada" };
            assert!(
                !item.contains(&format!("{other_author}'s")),
                "{author}'s links to {other_author}'s: {item}"
            );
        }
    }
    titles
}

#[test]
fn merged_branches_duplicate_references_are_repaired() {
    let version = Command::new("git").arg("--version").stdout(Stdio::null()).status();
    if !version.is_ok_and(|status| status.success()) {
        println!("git is missing; nothing was tested");
        return;
    }
    let folder = project();
    let (folder, ada, bob) = (folder.path(), folder.path().join("ada"), folder.path().join("bob"));
    run_git(folder, &["init", "--quiet", "--initial-branch=main", "ada"]);
    std::fs::write(ada.join("README.md"), "# A project\n").unwrap();
    run_git(&ada, &["add", "--all"]);
    run_git(&ada, &["commit", "--message", "begin"]);
    run_git(folder, &["clone", "--quiet", "ada", "bob"]);
    add_items(&ada, "Ada");
    add_items(&bob, "Bob");
    let tracked = run_git(&ada, &["ls-files"]);
    assert!(!tracked.contains(".reqlore/local"), "{tracked}");
    run_git(&bob, &["pull", "--quiet", "--no-rebase", "--no-edit", "origin", "main"]);

    let (code, output) = run(&bob, "check");
    assert_eq!(code, 1, "{output}");
    let names = std::fs::read_dir(bob.join(".reqlore/backlog/epics")).unwrap();
    let names: Vec<_> = names.map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names.len(), 2, "both epics exist: {names:?}");
    for name in names {
        assert!(output.contains(name.to_str().unwrap()), "{name:?} is not named: {output}");
    }
    for reference in ["EP-001", "US-001", "REQ-001", "REQ-002"] {
        assert!(output.contains(reference), "{reference} is not named: {output}");
    }
    let (code, output) = run(&bob, "check --fix --log warn");
    assert_eq!(code, 0, "{output}");
    assert!(output.contains("EP-001 is now EP-002"), "{output}");
    let (code, output) = run(&bob, "check");
    assert_eq!((code, output.as_str()), (0, "Nothing to fix.\n"));

    let mut server = Server::start(&bob);
    for (reference, author) in [("EP-001", "Ada"), ("EP-002", "Bob")] {
        let expected =
            ["epic", "story", "other", "requirement"].map(|item| format!("{author}'s {item}"));
        assert_eq!(titles_below(&mut server, &json!(reference)), expected);
    }
    // Ada's items are older, so they keep their references.
    for (reference, title) in
        [("US-001", "Ada's story"), ("REQ-001", "Ada's requirement"), ("REQ-002", "Ada's other")]
    {
        let answer = server.call("get_item", json!({ "reference": reference }));
        assert_eq!(data(&answer)["item"]["title"], title, "{reference}");
    }
    assert_eq!(create_epic(&mut server, "Next"), "EP-003");
}

/// Documents of all kinds: the path, a text, and the line that both branches change.
const MERGED_FILES: [(&str, &str, usize); 6] = [
    (
        "docs/development/requirements/money.md",
        "# Money\n\n**1.** One.\n\n**2.** SIDE\n\n**3.** Three.\n",
        5,
    ),
    (
        "docs/development/requirements/AGENTS.md",
        "# R\n\n## Sections\n\n- Money (key: money)\n\nSIDE\n",
        7,
    ),
    (
        ".reqlore/backlog/epics/EP-001.md",
        "---\ntitle: One\npriority: 2\nassignee_username: SIDE\n---\n",
        4,
    ),
    (".reqlore/backlog/epics/EP-002.md", "---\ntitle: Two\n---\n\nText\n\nSIDE\n", 7),
    (".ixchel/decisions/dec-00000a.md", "---\nid: dec-00000a\ntitle: A\n---\nSIDE\n", 5),
    (".knowledge/config.yaml", "docsets:\n  a:\n    local_path: docs\n    description: SIDE\n", 4),
];

/// Makes a repository in the middle of a merge.
fn begin_merge(root: &Path) {
    run_git(root, &["init", "--quiet", "--initial-branch=main"]);
    for (branch, side) in [("main", "base"), ("topic", "theirs"), ("main", "ours")] {
        if side == "theirs" {
            run_git(root, &["checkout", "--quiet", "-b", branch]);
        } else if side == "ours" {
            run_git(root, &["checkout", "--quiet", branch]);
        }
        for (path, text, _) in MERGED_FILES {
            let path = root.join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text.replace("SIDE", side)).unwrap();
        }
        run_git(root, &["add", "--all"]);
        run_git(root, &["commit", "--quiet", "--message", side]);
    }
    assert_eq!(run(root, "check"), (0, "Nothing to fix.\n".to_owned()));
    let (merged, printed) = try_git(root, &["merge", "topic"]);
    assert!(!merged && printed.contains("CONFLICT"), "{printed}");
}

#[test]
fn unresolved_merge_is_named_and_not_written() {
    let version = Command::new("git").arg("--version").stdout(Stdio::null()).status();
    if !version.is_ok_and(|status| status.success()) {
        println!("git is missing; nothing was tested");
        return;
    }
    let folder = project();
    let root = folder.path();
    begin_merge(root);
    let read = || MERGED_FILES.map(|(path, ..)| std::fs::read_to_string(root.join(path)).unwrap());
    let before = read();

    let (code, output) = run(root, "check");
    assert_eq!(code, 1, "{output}");
    let named: Vec<&str> =
        output.lines().filter(|line| line.contains("unresolved merge; keep the right")).collect();
    assert_eq!(named.len(), MERGED_FILES.len(), "{output}");
    for (path, _, line) in MERGED_FILES {
        let document = match path.strip_prefix("docs/development/requirements/") {
            Some("money.md") => "section money",
            Some(name) => name,
            None => path,
        };
        assert!(
            named.iter().any(|named| named.starts_with(&format!("{document}:{line}: "))),
            "{output}"
        );
    }
    let mut server = Server::start(root);
    let rule = |index: &str| {
        json!({
            "project_root": root, "operation_description": "test", "section": "money",
            "index": index, "text": "New.",
        })
    };
    let writes = [
        ("reqlix_set_requirements", rule("3")),
        ("reqlix_set_requirements", rule("1")),
        ("update_epic", json!({ "epic": "EP-001", "status": "Done" })),
        ("update_epic", json!({ "epic": "EP-002", "status": "Done" })),
        ("delete_item", json!({ "reference": "EP-002" })),
        ("ixchel_update", json!({ "id": "dec-00000a", "status": "accepted" })),
    ];
    for (tool, arguments) in &writes {
        let answer = server.call(tool, arguments.clone());
        assert_eq!(answer["result"]["isError"], true, "{tool}: {answer}");
        assert!(answer.to_string().contains("unresolved merge; keep the right"), "{answer}");
    }
    let answer = server.call("list_docsets", json!({}));
    assert!(answer.to_string().contains("unresolved merge"), "{answer}");
    assert_eq!(read(), before);
    run_git(root, &["checkout", "--ours", "."]);
    run_git(root, &["add", "--all"]);
    for (tool, arguments) in writes {
        let answer = server.call(tool, arguments);
        assert_ne!(answer["result"]["isError"], true, "{tool}: {answer}");
    }
    assert_eq!(run(root, "check"), (0, "Nothing to fix.\n".to_owned()));
}

/// `git add` would commit a temporary file, and a merge would take it for an item.
#[test]
fn git_status_beside_a_writer_shows_no_temporary_file() {
    for knows_local in [true, false] {
        let folder = project();
        let root = folder.path();
        run_git(root, &["init", "--quiet"]);
        let mut server = Server::start(root);
        if knows_local {
            create_epic(&mut server, "First");
        }
        let is_done = Arc::new(AtomicBool::new(false));
        let stop = Arc::clone(&is_done);
        let writer = std::thread::spawn(move || {
            let mut number = 0;
            while !stop.load(Ordering::Relaxed) {
                number += 1;
                let rule = set(1, &format!("Rule {number}"));
                server.data("reqlix_set_requirements", rule);
                let entity = json!({ "kind": "idea", "title": format!("Idea {number}") });
                server.data("ixchel_create", entity);
                let epic = create_epic(&mut server, &format!("Epic {number}"));
                server.data("update_epic", json!({ "epic": epic, "title": "Other" }));
                server.data("delete_item", json!({ "reference": epic }));
            }
            server.end()
        });
        for _ in 0..200 {
            let status = run_git(root, &["status", "--porcelain", "--untracked-files=all"]);
            assert!(!status.contains(".tmp"), "{status}");
        }
        is_done.store(true, Ordering::Relaxed);
        writer.join().unwrap();
    }
}
