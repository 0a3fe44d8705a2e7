//! Two branches that both extended the backlog, merged by git and repaired by `check --fix`.
//!
//! Both are grown within one second, so which of two items is the younger is told by their
//! identities alone.

use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::backlog::{data, epic, made, requirement, story};
use crate::client::{Server, project};
use crate::copy_and_backup::run;

/// git without the user's configuration.
fn git(folder: &Path, arguments: &[&str]) -> String {
    let mut git = Command::new("git");
    git.current_dir(folder)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_SYSTEM", "/dev/null");
    for name in ["AUTHOR", "COMMITTER"] {
        git.env(format!("GIT_{name}_NAME"), "tester");
        git.env(format!("GIT_{name}_EMAIL"), "tester@example.org");
    }
    let output = git.args(arguments).output().unwrap();
    let said = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
    assert!(output.status.success(), "git {arguments:?}: {said}");
    said
}

/// Makes an epic with a story with a requirement, each called after who made it, and commits.
fn grow(root: &Path, who: &str) {
    let mut server = Server::start(root);
    let epic = epic(&mut server, &format!("{who}'s epic"));
    let story = story(&mut server, &epic, &format!("{who}'s story"));
    let first = requirement(&story, &format!("{who}'s requirement"));
    let first = made(&mut server, "create_requirement", first);
    let second = requirement(&story, &format!("{who}'s other"));
    let second = made(&mut server, "create_requirement", second);
    let link = json!({ "source": second, "target": first, "type": "depends_on" });
    data(&server.call("create_relationship", link));
    assert!(server.end().1.success());
    git(root, &["add", "--all"]);
    git(root, &["commit", "--message", who]);
}

/// The references and titles of everything below one epic.
fn titles(server: &mut Server, epic: &Value) -> Vec<String> {
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
            let shown = data(&answer).to_string();
            let who = title(story).split('\'').next().unwrap().to_owned();
            let other = if who == "Ada" { "Bob" } else { "Ada" };
            assert!(!shown.contains(&format!("{other}'s")), "{who}'s links to {other}'s: {shown}");
        }
    }
    titles
}

#[test]
fn merged_branches_duplicate_references_are_repaired() {
    let version = Command::new("git").arg("--version").stdout(Stdio::null()).status();
    if !version.is_ok_and(|status| status.success()) {
        println!("git is missing; nothing was proved");
        return;
    }
    let place = project();
    let (place, ada, bob) = (place.path(), place.path().join("ada"), place.path().join("bob"));
    git(place, &["init", "--quiet", "--initial-branch=main", "ada"]);
    std::fs::write(ada.join("README.md"), "# A project\n").unwrap();
    git(&ada, &["add", "--all"]);
    git(&ada, &["commit", "--message", "begin"]);
    git(place, &["clone", "--quiet", "ada", "bob"]);
    grow(&ada, "Ada");
    grow(&bob, "Bob");
    let tracked = git(&ada, &["ls-files"]);
    assert!(!tracked.contains(".reqlore/local"), "{tracked}");
    git(&bob, &["pull", "--quiet", "--no-rebase", "--no-edit", "origin", "main"]);

    let (code, said) = run(&bob, "check");
    assert_eq!(code, 1, "{said}");
    let names = std::fs::read_dir(bob.join(".reqlore/backlog/epics")).unwrap();
    let names: Vec<_> = names.map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names.len(), 2, "both are there: {names:?}");
    for name in names {
        assert!(said.contains(name.to_str().unwrap()), "{name:?} is not named: {said}");
    }
    for reference in ["EP-001", "US-001", "REQ-001", "REQ-002"] {
        assert!(said.contains(reference), "{reference} is not named: {said}");
    }
    let (code, said) = run(&bob, "check --fix --log warn");
    assert_eq!(code, 0, "{said}");
    assert!(said.contains("EP-001 is now EP-002"), "{said}");
    let (code, said) = run(&bob, "check");
    assert_eq!((code, said.as_str()), (0, "Nothing to fix.\n"));

    let mut server = Server::start(&bob);
    for (reference, who) in [("EP-001", "Ada"), ("EP-002", "Bob")] {
        let expected =
            ["epic", "story", "other", "requirement"].map(|what| format!("{who}'s {what}"));
        assert_eq!(titles(&mut server, &json!(reference)), expected);
    }
    // Ada's are the older ones, so they keep what they were called.
    for (reference, title) in
        [("US-001", "Ada's story"), ("REQ-001", "Ada's requirement"), ("REQ-002", "Ada's other")]
    {
        let answer = server.call("get_item", json!({ "reference": reference }));
        assert_eq!(data(&answer)["item"]["title"], title, "{reference}");
    }
    assert_eq!(epic(&mut server, "Next"), "EP-003");
}
