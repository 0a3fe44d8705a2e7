//! The project that a command or a connection works on: found as Git finds it, and chosen by the
//! folders that a client announces.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::client::{Server, call, request, text};
use crate::init::{Place, Tree, add, output};

impl Place {
    fn git_in(&self, folder: &str, arguments: &[&str]) {
        let mut command = Command::new("git");
        command.env("HOME", self.at("home")).env("GIT_CONFIG_GLOBAL", "/dev/null");
        command.args(["-c", "user.name=t", "-c", "user.email=t@example.org"]);
        command.args(["-c", "protocol.file.allow=always", "-c", "init.defaultBranch=main"]);
        let done = command.args(arguments).current_dir(self.at(folder)).output().unwrap();
        assert!(done.status.success(), "git {arguments:?}: {done:?}");
    }

    /// A repository with one epic in a commit.
    fn repository(&self, folder: &str) {
        fs::create_dir_all(self.at(folder)).unwrap();
        self.git_in(folder, &["init", "--quiet"]);
        self.write(&format!("{folder}/.reqlore/backlog/epics/EP-001.md"), epic(folder));
        self.write(&format!("{folder}/src/deep/code.rs"), "");
        self.commit(folder);
    }

    fn commit(&self, folder: &str) {
        self.git_in(folder, &["add", "."]);
        self.git_in(folder, &["commit", "--quiet", "-m", "x"]);
    }

    fn run_in(&self, folder: &str, line: &str) -> (i32, String, String) {
        output(self.command().current_dir(self.at(folder)).args(line.split(' ')))
    }

    /// The root that commands use in a folder, relative to the place, and how it was found.
    fn root_in(&self, folder: &str) -> String {
        let (code, shown, errors) = self.run_in(folder, "--print-config");
        if code != 0 {
            return errors;
        }
        let line = shown.lines().find(|line| line.starts_with("root = ")).unwrap();
        let (root, source) = line["root = ".len()..].split_once('#').unwrap();
        let base = format!("{}/", self.at("").to_str().unwrap().trim_end_matches('/'));
        format!("{}:{source}", root.trim().trim_matches('"').replace(&base, ""))
    }
}

fn epic(title: &str) -> String {
    format!("---\ntitle: {title}\n---\n")
}

/// A client that announces folders, with a server that runs in one.
struct Session {
    server: Server,
    /// The URIs of the client's folders. `None` is answered with an error.
    uris: Option<Vec<String>>,
    asked: usize,
}

impl Session {
    fn start(place: &Place, folder: &str, announced: &[&str]) -> Self {
        Self::start_with(place, folder, announced, &[])
    }

    fn start_with(place: &Place, folder: &str, announced: &[&str], arguments: &[&str]) -> Self {
        let mut command = place.command();
        command.current_dir(place.at(folder)).args(arguments);
        let mut server = Server::start_as(command, &place.at(folder));
        let params = json!({
            "protocolVersion": "2025-11-25",
            "capabilities": { "roots": { "listChanged": true } },
            "clientInfo": { "name": "t", "version": "1" },
        });
        server.request("initialize", params);
        let uris = announced.iter().map(|folder| uri(&place.at(folder))).collect();
        Self { server, uris: Some(uris), asked: 0 }
    }

    fn announce(&mut self, uris: Vec<String>) {
        self.uris = Some(uris);
        let changed = json!({ "jsonrpc": "2.0", "method": "notifications/roots/list_changed" });
        self.server.send(changed.to_string());
    }

    /// Calls a tool. Returns its text without the note on the folder.
    fn call(&mut self, tool: &str, arguments: Value) -> String {
        let request = call(7, tool, Path::new("."), arguments);
        self.server.send(request.to_string());
        loop {
            let message = self.server.answer();
            if message["method"] == "roots/list" {
                self.asked += 1;
                let mut answer = json!({ "jsonrpc": "2.0", "id": message["id"] });
                match &self.uris {
                    Some(uris) => {
                        let roots: Vec<_> = uris.iter().map(|uri| json!({ "uri": uri })).collect();
                        answer["result"] = json!({ "roots": roots });
                    }
                    None => answer["error"] = json!({ "code": -32603, "message": "no" }),
                }
                self.server.send(answer.to_string());
            } else if message["id"] == 7 {
                return text(&message).to_owned();
            }
        }
    }

    fn add_epic(&mut self, title: &str) -> String {
        self.call("create_epic", json!({ "title": title, "priority": 2 }))
    }
}

fn uri(folder: &Path) -> String {
    format!("file://{}", folder.display()).replace(' ', "%20")
}

/// The titles of the epics in a folder.
fn epics(folder: &Path) -> Vec<String> {
    let mut titles = Vec::new();
    for entry in fs::read_dir(folder.join(".reqlore/backlog/epics")).into_iter().flatten() {
        let text = fs::read_to_string(entry.unwrap().path()).unwrap();
        titles
            .extend(text.lines().find_map(|line| line.strip_prefix("title: ")).map(str::to_owned));
    }
    titles.sort();
    titles
}

fn tree(folder: &Path) -> Tree {
    let mut tree = Tree::new();
    add(folder, &mut tree);
    tree
}

const COMMANDS: [&str; 27] = [
    "add user-story S --parent EP-001",
    "add epic T",
    "list",
    "show EP-001",
    "tree",
    "search repository",
    "board --print",
    "set EP-001 priority=1",
    "check",
    "check --json",
    "doctor",
    "history EP-001",
    "diff EP-001",
    "picture --out ../../../out.svg",
    "site ../../../out",
    "backup ../../../out.dump",
    "copy --from fs --to sqlite:../../../out.db",
    "index status",
    "docsets list",
    "model list",
    "user list",
    "audit list",
    "delete EP-002",
    "init --client cursor --yes",
    "init --client cursor --check",
    "init --remove",
    "--print-config",
];

#[test]
fn every_command_in_a_subfolder_uses_the_project_around() {
    let place = Place::new();
    place.repository("project");
    let before = tree(&place.at("project/src"));
    for command in COMMANDS {
        let (code, shown, errors) = place.run_in("project/src/deep", command);
        // Those that need Git or an existing team fail with the same message in the root.
        let is_same = code == 0 || {
            let in_root = place.run_in("project", &command.replace("../../../", "../root-"));
            println!("{command}: {in_root:?}");
            in_root == (code, shown.clone(), errors.clone())
        };
        assert!(is_same, "{command}: {shown}{errors}");
        assert_eq!(tree(&place.at("project/src")), before, "{command}");
    }
    let (_, shown, _) = place.run_in("project/src/deep", "list");
    assert!(shown.contains("EP-001") && shown.contains("project"), "{shown}");
    let (_, _, shown_all) = place.run_in("project/src", "init --client cursor --dry-run");
    let root = place.at("project").display().to_string();
    assert!(
        shown_all.contains(&format!("configuring the project {root}; pass --root .")),
        "{shown_all}"
    );
    let (_, shown, _) = place.run_in("project/src", "check");
    let found = format!("Project folder: {root} (found, contains .reqlore)\n");
    assert!(shown.starts_with(&found), "{shown}");
    let (_, shown, _) = place.run_in("project", "check");
    assert!(!shown.contains("Project folder"), "{shown}");
    // A folder that is named is taken exactly.
    assert_eq!(place.run_in("project/src", "add epic Own --root .").0, 0);
    assert_eq!(epics(&place.at("project/src")), ["Own"]);
    let (_, shown, _) = place.run_in("project/src/deep", "list");
    assert!(shown.contains("Own") && !shown.contains("project"), "{shown}");
}

#[test]
fn root_of_real_git_repositories_bounds_the_search() {
    let place = Place::new();
    place.repository("main");
    place.git_in("main", &["worktree", "add", "--quiet", "-b", "side", "../side"]);
    place.git_in("main", &["worktree", "add", "--quiet", "-b", "in", ".trees/in"]);
    place.git_in("main", &["clone", "--quiet", ".", "clone"]);
    place.git_in("", &["clone", "--quiet", "--bare", "main", "bare.git"]);
    place.git_in("bare.git", &["worktree", "add", "--quiet", "tree", "main"]);
    fs::create_dir_all(place.at("plain/src")).unwrap();
    place.git_in("plain", &["init", "--quiet"]);
    place.git_in("plain", &["submodule", "--quiet", "add", "../main", "part"]);
    place.write("main/mono/.reqlore/backlog/epics/EP-001.md", epic("mono"));
    place.write("main/mono/src/x", "");
    for (folder, root) in [
        ("main/src/deep", "main: found, contains .reqlore"),
        ("main/.reqlore/backlog/epics", "main: found, contains .reqlore"),
        ("main/mono/src", "main/mono: found, contains .reqlore"),
        ("main/clone/src", "main/clone: found, contains .reqlore"),
        ("main/.trees/in/src", "main/.trees/in: found, contains .reqlore"),
        ("side/src/deep", "side: found, contains .reqlore"),
        ("bare.git/tree/src", "bare.git/tree: found, contains .reqlore"),
        ("plain/src", "plain: found, root of the Git repository"),
        ("plain/part/src", "plain/part: found, contains .reqlore"),
        ("home", "home: default"),
    ] {
        assert_eq!(place.root_in(folder), root, "{folder}");
    }
    for folder in ["bare.git", "bare.git/hooks", "main/.git", "main/.git/worktrees/side"] {
        let before = tree(&place.at(folder));
        for command in ["--print-config", "add epic A", "serve", "doctor", "init --yes"] {
            let (code, shown, errors) = place.run_in(folder, command);
            let shown_all = format!("{shown}{errors}");
            assert!(
                code != 0 && shown_all.contains("is a folder of Git; change into"),
                "{shown_all}"
            );
        }
        assert_eq!(tree(&place.at(folder)), before, "{folder}");
    }
    // Without its state in the clone, a work tree still bounds the search.
    place.git_in("main", &["worktree", "remove", "--force", ".trees/in"]);
    fs::create_dir_all(place.at("main/.trees/in")).unwrap();
    assert_eq!(place.root_in("main/.trees/in"), "main: found, contains .reqlore");
    fs::rename(place.at("main"), place.at("moved")).unwrap();
    assert_eq!(place.root_in("moved/src"), "moved: found, contains .reqlore");
    assert_eq!(place.root_in("side/src"), "side: found, contains .reqlore");
}

#[test]
fn settings_of_the_found_root_apply_in_subfolders() {
    let place = Place::new();
    place.write("project/reqlore.toml", "root = \"inner\"\nsections.directory = \"rules\"\n");
    fs::create_dir_all(place.at("project/inner")).unwrap();
    fs::create_dir_all(place.at("project/a/b")).unwrap();
    let file = place.at("project/reqlore.toml").display().to_string();
    assert_eq!(place.root_in("project/a/b"), format!("project/inner: file {file}"));
    assert_eq!(place.root_in("project"), format!("project/inner: file {file}"));
    let (code, _, errors) = place.run_in("project/a", "add epic A");
    assert_eq!((code, errors.as_str()), (0, ""));
    assert_eq!(epics(&place.at("project/inner")), ["A"]);
}

#[test]
fn first_answer_names_folder_and_branch_on_every_storage() {
    for storage in ["fs", "sqlite", "sled"] {
        let place = Place::new();
        place.repository("project");
        place.write("project/.knowledge/config.yaml", "docsets: {react: {}}\n");
        let mut session = Session::start_with(&place, "project/src", &[], &["--storage", storage]);
        // A text that is JSON leaves the note to the next answer.
        assert!(session.call("list_docsets", json!({})).starts_with("[{"));
        assert_eq!(session.server.folder, None);
        session.call("list_epics", json!({}));
        let named = format!("{} (branch main)", place.at("project").display());
        assert_eq!(session.server.folder.take(), Some(named), "{storage}");
        session.add_epic("second");
        assert_eq!(session.server.folder, None);
    }
    let place = Place::new();
    let mut command = place.command();
    command.env(crate::client::ANSWERS_VARIABLE, "text");
    let mut server = Server::start_as(command, &place.at("project"));
    server.send(call(1, "list_epics", Path::new("."), json!({})).to_string());
    let line = server.line();
    let shown = format!("\\nNote: Project folder: {}.\"", place.at("project").display());
    assert!(line.contains(&shown), "{line}");
}

#[test]
fn client_in_another_work_tree_writes_there() {
    let place = Place::new();
    place.repository("main");
    place.git_in("main", &["worktree", "add", "--quiet", "-b", "side", "../side tree"]);
    let mut session = Session::start(&place, "main/src", &["side tree/src"]);
    assert!(session.add_epic("from the side").contains("EP-002"));
    let side = format!("{} (branch side)", place.at("side tree").display());
    assert_eq!(session.server.folder.take(), Some(side.clone()));
    assert_eq!(epics(&place.at("side tree")), ["from the side", "main"]);
    assert_eq!(epics(&place.at("main")), ["main"]);
    // Reads, rules, entities, resources and `.` follow.
    assert!(session.call("list_epics", json!({})).contains("from the side"));
    assert_eq!(session.server.folder, None, "a read is named once");
    for root in [".", "default"] {
        session.call(
            "reqlix_set_requirements",
            json!({ "project_root": root, "section": "a", "index": "new", "text": "x" }),
        );
        assert_eq!(session.server.folder.take(), Some(side.clone()));
    }
    session.call("ixchel_create", json!({ "kind": "decision", "title": "D" }));
    assert_eq!(session.server.folder.take(), Some(side));
    let resource = session.server.request("resources/read", json!({ "uri": "epic://EP-002" }));
    assert!(resource.to_string().contains("from the side"), "{resource}");
    let status = |folder: &str| {
        let mut git = Command::new("git");
        git.args(["status", "--porcelain", "--untracked-files=all"]);
        let done = git.current_dir(place.at(folder)).output().unwrap();
        String::from_utf8(done.stdout).unwrap()
    };
    assert!(!status("main").contains("docs") && !status("main").contains(".ixchel"));
    assert!(status("side tree").contains("docs") && status("side tree").contains(".ixchel"));
    assert_eq!(session.asked, 1);
    // A folder that is named is taken exactly.
    let main = place.at("main");
    session.call(
        "reqlix_set_requirements",
        json!({ "project_root": main, "section": "b", "index": "new", "text": "x" }),
    );
    assert!(status("main").contains("docs/development/requirements/b.md"));
    // The work tree is removed, and the client says so.
    place.git_in("main", &["worktree", "remove", "--force", "../side tree"]);
    session.announce(vec![uri(&place.at("side tree")), uri(&place.at("main"))]);
    session.add_epic("from main");
    assert_eq!(session.asked, 2);
    assert_eq!(epics(&place.at("main")), ["from main", "main"]);
    assert_eq!(session.server.folder, Some(format!("{} (branch main)", main.display())));
}

#[test]
fn announced_folders_choose_the_project() {
    const OWN: &str = "main/mono";
    let place = Place::new();
    place.repository("main");
    place.write("main/mono/.reqlore/backlog/epics/EP-001.md", epic("mono"));
    place.write("main/mono/src/x", "");
    place.write("main/mono/inner/.reqlore/backlog/epics/EP-001.md", epic("inner"));
    place.write("main/other/x", "");
    place.commit("main");
    place.git_in("main", &["worktree", "add", "--quiet", "-b", "side", "../side"]);
    place.git_in("main/mono", &["clone", "--quiet", "..", "clone"]);
    place.repository("foreign");
    place.repository("foreign2");
    place.write("project/.reqlore/backlog/epics/EP-001.md", epic("no Git"));
    for (announced, chosen) in [
        (vec![], Some(OWN)),
        (vec!["main/mono"], Some(OWN)),
        (vec!["main/mono/src"], Some(OWN)),
        (vec!["main"], Some(OWN)),
        (vec![""], Some(OWN)),
        (vec!["main/mono/inner"], Some("main/mono/inner")),
        (vec!["main/mono/clone/src"], Some("main/mono/clone")),
        (vec!["side"], Some("side/mono")),
        (vec!["side/mono/src"], Some("side/mono")),
        (vec!["side", "main/mono/src"], Some(OWN)),
        (vec!["foreign", "side"], Some("side/mono")),
        (vec!["foreign", "main"], Some(OWN)),
        (vec!["foreign", "missing"], None),
        (vec!["foreign/src", "foreign2"], None),
        (vec!["project"], None),
        (vec!["missing"], Some(OWN)),
        // Neither a project nor a repository, and a folder of the same clone.
        (vec!["home"], Some(OWN)),
        (vec!["main/other"], Some(OWN)),
    ] {
        let mut session = Session::start(&place, "main/mono/src", &announced);
        let before = tree(&place.at("foreign"));
        assert!(session.call("list_epics", json!({})).contains("EP-001"), "{announced:?}");
        let title = format!("epic in {}", announced.join(" and ")).trim_end().to_owned();
        let shown = session.add_epic(&title);
        assert_eq!(session.asked, 1);
        assert_eq!(tree(&place.at("foreign")), before);
        let Some(chosen) = chosen else {
            for part in ["works in", "this server's project is", "--root", "Nothing was changed"] {
                assert!(shown.contains(part), "{announced:?}: {shown}");
            }
            let own = place.at(OWN).display().to_string();
            let other = place.at(announced[0].trim_end_matches("/src")).display().to_string();
            assert!(shown.contains(&own) && shown.contains(&other), "{shown}");
            continue;
        };
        assert!(epics(&place.at(chosen)).contains(&title), "{announced:?}: {shown}");
    }
}

#[test]
fn roots_are_ignored_where_they_do_not_count() {
    let place = Place::new();
    place.repository("main");
    place.git_in("main", &["worktree", "add", "--quiet", "-b", "side", "../side"]);
    let main = place.at("main").display().to_string();
    for arguments in [&["--root", &main][..], &["--storage", "sqlite"]] {
        let mut session = Session::start_with(&place, "main", &["side"], arguments);
        session.add_epic("x");
        assert_eq!((session.asked, epics(&place.at("side"))), (0, vec!["main".to_owned()]));
    }
    // Configured roots limit where a call may go.
    place.write("main/reqlore.toml", format!("roots = [{main:?}]\n"));
    let mut session = Session::start(&place, "main", &["side"]);
    assert!(session.add_epic("outside").contains("--root"));
    fs::remove_file(place.at("main/reqlore.toml")).unwrap();
    // An error, and URIs that name no folder.
    let mut session = Session::start(&place, "main", &[]);
    session.uris = None;
    assert!(session.add_epic("no answer").starts_with("Created"));
    assert!(session.add_epic("again").starts_with("Created"));
    assert_eq!(session.asked, 1);
    let file = uri(&place.at("main/src/deep/code.rs"));
    let uris = ["https://example.org/x", "untitled:x", "file:///%zz", "", file.as_str()];
    session.announce(uris.map(str::to_owned).to_vec());
    assert!(session.add_epic("odd").starts_with("Created"));
    assert!(epics(&place.at("main")).contains(&"odd".to_owned()));
    // A client without the capability is not asked.
    let mut command = place.command();
    command.current_dir(place.at("main"));
    let mut server = Server::start_as(command, &place.at("main"));
    let answer = server.ask(&request(1, "tools/list", json!({})));
    assert!(answer["result"]["tools"].is_array());
}

#[test]
fn client_that_never_lists_its_roots_is_served() {
    let place = Place::new();
    place.repository("main");
    let mut session = Session::start(&place, "main", &[]);
    let root = place.at("main");
    let create = |id: u32| {
        let epic = json!({ "title": format!("epic {id}"), "priority": 2 });
        call(id, "create_epic", &root, epic).to_string()
    };
    session.server.send(create(1));
    let asked = session.server.answer();
    assert_eq!(asked["method"], "roots/list");
    // The server stops waiting.
    assert!(text(&session.server.answer()).starts_with("Created"));
    // A late answer has no effect, and the client is not asked again.
    let roots = json!({ "roots": [{ "uri": uri(&place.at("home")) }] });
    let late = json!({ "jsonrpc": "2.0", "id": asked["id"], "result": roots });
    session.server.send(late.to_string());
    session.server.send(create(2));
    assert!(text(&session.server.answer()).starts_with("Created"));
}

#[test]
fn list_of_roots_passes_requests_that_wait() {
    let place = Place::new();
    place.repository("main");
    place.git_in("main", &["worktree", "add", "--quiet", "-b", "side", "../side"]);
    let mut session = Session::start(&place, "main", &[]);
    let root = place.at("main");
    for id in [1, 2] {
        let epic = json!({ "title": format!("epic {id}"), "priority": 2 });
        session.server.send(call(id, "create_epic", &root, epic).to_string());
    }
    let asked = session.server.answer();
    assert_eq!(asked["method"], "roots/list");
    let roots = json!({ "roots": [{ "uri": uri(&place.at("side")) }] });
    let list = json!({ "jsonrpc": "2.0", "id": asked["id"], "result": roots });
    session.server.send(list.to_string());
    for id in [1, 2] {
        assert_eq!(session.server.answer()["id"], id);
    }
    assert_eq!(epics(&place.at("side")), ["epic 1", "epic 2", "main"]);
    assert_eq!(epics(&place.at("main")), ["main"]);
}
