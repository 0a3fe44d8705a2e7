//! History from real Git repositories: ordinary, incomplete and hostile ones.

use std::os::unix::fs::PermissionsExt;

use reqlore_domain::document::Version;
use reqlore_domain::ports::history::{
    DocumentHistory, HistoryEntry, HistoryNote, HistoryPage, HistoryQuery,
};
use reqlore_domain::timestamp::Timestamp;
use reqlore_git_runner::GitEnvironment;

use super::*;

pub(super) const EPIC: &str = ".reqlore/backlog/epics/EP-001-abcdef.md";
/// The time of the first commit, in seconds.
const START: i64 = 1_700_000_000;

/// Git without the user's configuration; the same as the store gets.
pub(super) fn environment() -> GitEnvironment {
    let path: Vec<PathBuf> = ["/usr/local/bin", "/usr/bin", "/bin"].map(PathBuf::from).to_vec();
    let mut programs: Vec<PathBuf> = path.iter().map(|folder| folder.join("git")).collect();
    programs.retain(|program| program.is_file());
    let variables = [
        ("HOME", "/nonexistent"),
        ("GIT_CONFIG_GLOBAL", "/dev/null"),
        ("GIT_CONFIG_SYSTEM", "/dev/null"),
    ];
    let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
    GitEnvironment { programs, path, variables }
}

pub(super) fn epic() -> DocumentId {
    item(ItemKind::Epic, "EP-001-abcdef")
}

/// A project in a Git repository.
pub(super) struct GitProject {
    pub(super) project: Project,
    /// The folder of the documents.
    pub(super) root: PathBuf,
    pub(super) commits: i64,
}

impl GitProject {
    pub(super) fn new() -> Self {
        let project = Project::new();
        let root = project.root.clone();
        let git = Self { project, root, commits: 0 };
        git.run(&["init", "--quiet", "--initial-branch=main"]);
        git
    }

    pub(super) fn run(&self, arguments: &[&str]) -> String {
        run_git(&self.root, self.commits, arguments)
    }

    pub(super) fn write(&self, path: &str, body: impl AsRef<[u8]>) {
        self.project.write(self.root.join(path), body);
    }

    /// Commits all files. Each commit is a minute later than the one before.
    pub(super) fn commit(&mut self, subject: &str) {
        self.run(&["add", "--all"]);
        self.run(&["commit", "--quiet", "--allow-empty", "--message", subject]);
        self.commits += 1;
    }

    /// A project with three versions of an epic.
    fn with_versions() -> Self {
        let mut git = Self::new();
        for number in 1..=3 {
            git.write(EPIC, format!("text {number}\n"));
            git.commit(&format!("subject {number}\n\nbody"));
        }
        git
    }

    pub(super) fn store(&self) -> FsStore {
        store_of(&self.root)
    }

    pub(super) async fn history(&self) -> HistoryPage {
        history(&self.store(), &epic()).await
    }
}

pub(super) fn store_of(root: &Path) -> FsStore {
    FsStore::new(&Config { git: environment(), ..config(root) })
}

pub(super) fn run_git(folder: &Path, minutes: i64, arguments: &[&str]) -> String {
    let mut git = Command::new("git");
    git.args(arguments).current_dir(folder).envs(environment().variables);
    let date = format!("{} +0200", START + minutes * 60);
    for (role, name) in [("AUTHOR", "Ada"), ("COMMITTER", "Bob")] {
        git.env(format!("GIT_{role}_NAME"), name);
        git.env(format!("GIT_{role}_EMAIL"), "a@example.org");
        git.env(format!("GIT_{role}_DATE"), &date);
    }
    let output = git.output().unwrap();
    assert!(output.status.success(), "git {arguments:?}: {output:?}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

pub(super) fn query(limit: usize, after: Option<String>) -> HistoryQuery {
    HistoryQuery { after, limit }
}

pub(super) async fn history(store: &FsStore, id: &DocumentId) -> HistoryPage {
    store.history(&PROJECT(), id, &query(50, None)).await.unwrap()
}

pub(super) fn versions(entries: &[HistoryEntry]) -> Vec<Option<Version>> {
    entries.iter().map(|entry| entry.version).collect()
}

#[expect(clippy::unnecessary_wraps, reason = "an entry of a deletion has none")]
pub(super) fn version(text: &str) -> Option<Version> {
    Some(Version::of_bytes(text.as_bytes()))
}

pub(super) async fn text_at(store: &FsStore, id: &DocumentId, text: &str) -> Option<String> {
    let found = store.document_at(&PROJECT(), id, Version::of_bytes(text.as_bytes())).await;
    found.unwrap().map(|document| document.text().unwrap().to_owned())
}

#[tokio::test]
async fn git_history_lists_commits_newest_first() {
    let git = GitProject::with_versions();
    let page = git.history().await;
    assert_eq!((page.next, page.notes), (None, vec![]));
    let expected = ["text 3\n", "text 2\n", "text 1\n"].map(version);
    assert_eq!(versions(&page.entries), expected);
    let HistoryEntry { at, origin, is_purged, .. } = &page.entries[0];
    assert_eq!((*at, *is_purged), (Timestamp::new(START + 120, 0), false));
    assert_eq!(origin.user.as_deref(), Some("Ada"));
    assert_eq!(origin.reason.as_deref(), Some("subject 3"));
    assert_eq!(origin.tool, None);
    let store = git.store();
    for text in ["text 1\n", "text 2\n", "text 3\n"] {
        assert_eq!(text_at(&store, &epic(), text).await.as_deref(), Some(text));
    }
    assert_eq!(text_at(&store, &epic(), "other").await, None);
    let other = DocumentId::entity("decisions/dec-000000");
    assert_eq!(history(&store, &other).await, HistoryPage::default());
}

#[tokio::test]
async fn git_history_begins_with_the_uncommitted_text() {
    let git = GitProject::with_versions();
    git.write(EPIC, "text 4\n");
    let page = git.history().await;
    assert_eq!(page.notes, [HistoryNote::Uncommitted]);
    assert_eq!(versions(&page.entries[..2]), ["text 4\n", "text 3\n"].map(version));
    assert_eq!(page.entries[0].origin.user, None);
    assert!(page.entries[0].at > Timestamp::new(START + 120, 0));
    assert_eq!(text_at(&git.store(), &epic(), "text 4\n").await.as_deref(), Some("text 4\n"));
    // A file that was never committed, and a repository without a commit.
    let new = GitProject::new();
    new.write(EPIC, "text\n");
    for id in [epic(), DocumentId::entity("a")] {
        let page = history(&new.store(), &id).await;
        let is_epic = id == epic();
        assert_eq!(page.entries.len(), usize::from(is_epic));
        assert_eq!(page.notes.contains(&HistoryNote::Uncommitted), is_epic);
    }
}

#[tokio::test]
async fn git_history_of_a_deleted_item_is_kept() {
    let mut git = GitProject::with_versions();
    fs::remove_file(git.root.join(EPIC)).unwrap();
    let uncommitted = git.history().await;
    assert_eq!(uncommitted.notes, [HistoryNote::Uncommitted]);
    assert_eq!(versions(&uncommitted.entries)[..2], [None, version("text 3\n")]);
    assert!(uncommitted.entries[0].at > Timestamp::new(START + 120, 0));
    git.commit("delete");
    let page = git.history().await;
    assert_eq!((page.entries.len(), &page.notes[..]), (4, &[][..]));
    assert_eq!(versions(&page.entries)[..2], [None, version("text 3\n")]);
    assert_eq!(page.entries[0].origin.reason.as_deref(), Some("delete"));
    assert_eq!(text_at(&git.store(), &epic(), "text 2\n").await.as_deref(), Some("text 2\n"));
    fs::remove_dir_all(git.root.join(".reqlore")).unwrap();
    assert_eq!(git.history().await.entries.len(), 4);
}

#[tokio::test]
async fn uncommitted_deletion_has_time_and_user_of_its_tombstone() {
    let mut git = GitProject::with_versions();
    let entity = DocumentId::entity("decisions/dec-4f1a20");
    git.write(".ixchel/decisions/dec-4f1a20.md", "text\n");
    git.commit("decide");
    for path in [EPIC, ".ixchel/decisions/dec-4f1a20.md"] {
        fs::remove_file(git.root.join(path)).unwrap();
    }
    for (name, user_key) in
        [("EP-001-abcdef", "deleted_username"), ("ixchel/decisions/dec-4f1a20", "deleted_by")]
    {
        let text = format!("---\ndeleted_at: 2026-11-26T13:54:10Z\n{user_key}: Agent\n---\n");
        git.write(&format!(".reqlore/backlog/deleted/{name}.md"), text);
    }
    // Also without Git.
    for store in [git.store(), FsStore::new(&config(&git.root))] {
        for id in [epic(), entity.clone()] {
            let entry = history(&store, &id).await.entries.remove(0);
            assert_eq!(
                (entry.version, entry.at.to_rfc3339()),
                (None, "2026-11-26T13:54:10Z".to_owned())
            );
            assert_eq!(entry.origin.user.as_deref(), Some("Agent"), "{id}");
        }
    }
    // The commit is the better source.
    git.commit("delete");
    assert_eq!(git.history().await.entries[0].origin.user.as_deref(), Some("Ada"));
}

#[tokio::test]
async fn git_history_pages_survive_new_commits() {
    let mut git = GitProject::with_versions();
    git.write(EPIC, "text 4\n");
    let store = git.store();
    let first = store.history(&PROJECT(), &epic(), &query(1, None)).await.unwrap();
    assert_eq!(versions(&first.entries), [version("text 4\n")]);
    git.commit("subject 4");
    // The uncommitted entry is a commit now, and the first page showed it.
    let second = store.history(&PROJECT(), &epic(), &query(2, first.next)).await.unwrap();
    assert_eq!(versions(&second.entries), ["text 3\n", "text 2\n"].map(version));
    git.write(EPIC, "text 5\n");
    git.commit("subject 5");
    let third = store.history(&PROJECT(), &epic(), &query(2, second.next)).await.unwrap();
    assert_eq!((versions(&third.entries), third.next), (vec![version("text 1\n")], None));
    let error = store.history(&PROJECT(), &epic(), &query(2, Some("7".to_owned()))).await;
    assert!(error.unwrap_err().to_string().contains("cursor"));
}

#[tokio::test]
async fn git_history_lists_changes_of_merged_branches() {
    let mut git = GitProject::with_versions();
    git.run(&["checkout", "--quiet", "-b", "side"]);
    git.write(EPIC, "side\n");
    git.commit("on the side");
    git.run(&["checkout", "--quiet", "main"]);
    git.write("README.md", "x");
    git.commit("elsewhere");
    git.run(&["merge", "--quiet", "--no-edit", "side"]);
    git.run(&["update-index", "--chmod=+x", EPIC]);
    git.run(&["commit", "--quiet", "--message", "mode"]);
    let page = git.history().await;
    // Neither the merge nor the mode changed the text.
    assert_eq!(versions(&page.entries)[..2], ["side\n", "text 3\n"].map(version));
    assert_eq!((page.entries.len(), page.notes.len()), (4, 0));
}

#[tokio::test]
async fn git_history_without_git_says_why() {
    let project = Project::new();
    project.write(EPIC, "text\n");
    let check = async |store: FsStore, note| {
        let page = history(&store, &epic()).await;
        assert_eq!((versions(&page.entries), page.notes), (vec![version("text\n")], vec![note]));
        assert_eq!(text_at(&store, &epic(), "text\n").await.as_deref(), Some("text\n"));
        assert_eq!(text_at(&store, &epic(), "x").await, None);
        assert!(history(&store, &DocumentId::entity("x")).await.entries.is_empty());
    };
    check(project.store(), HistoryNote::NoGit).await;
    check(store_of(&project.root), HistoryNote::NoRepository).await;
    // Configured as the repository of another folder.
    run_git(&project.root, 0, &["init", "--quiet"]);
    run_git(&project.root, 0, &["config", "core.worktree", "/usr"]);
    check(store_of(&project.root), HistoryNote::NoRepository).await;
    fs::write(project.path(".git/config"), "[broken").unwrap();
    check(store_of(&project.root), HistoryNote::Unreadable).await;
    let purge = project.store().purge_history(&PROJECT(), &epic(), None, test_context()).await;
    check_refused(purge, "EP-001", "in Git");
}

#[tokio::test]
async fn git_history_of_an_incomplete_clone_says_so() {
    let git = GitProject::with_versions();
    let folder = git.project.outside.path();
    let url = format!("file://{}", git.root.display());
    run_git(folder, 0, &["clone", "--quiet", "--depth=2", &url, "shallow"]);
    let page = history(&store_of(&folder.join("shallow")), &epic()).await;
    assert_eq!(page.notes, [HistoryNote::ShallowClone]);
    assert_eq!(versions(&page.entries), ["text 3\n", "text 2\n"].map(version));
    // Texts that were not downloaded are neither fetched nor reported as deletions.
    git.run(&["config", "uploadpack.allowFilter", "true"]);
    run_git(folder, 0, &["clone", "--quiet", "--filter=blob:none", &url, "partial"]);
    let page = history(&store_of(&folder.join("partial")), &epic()).await;
    assert_eq!(page.notes, [HistoryNote::ShallowClone]);
    assert_eq!(versions(&page.entries), [version("text 3\n")]);
}

#[tokio::test]
async fn git_history_with_conversion_says_so() {
    let mut git = GitProject::with_versions();
    git.write(".gitattributes", "*.md text eol=crlf\n");
    git.commit("attributes");
    git.write(EPIC, "text 3\r\n");
    let page = git.history().await;
    assert_eq!(page.notes, [HistoryNote::FiltersChangeBytes]);
    assert_eq!(versions(&page.entries)[0], version("text 3\n"));
    // The version of the file is not in the list, but still names its text.
    let text = text_at(&git.store(), &epic(), "text 3\r\n").await;
    assert_eq!(text.as_deref(), Some("text 3\r\n"));
    git.write(".gitattributes", "*.md filter=lfs -text\n");
    git.write(EPIC, "converted\n");
    let page = git.history().await;
    assert_eq!(page.notes, [HistoryNote::FiltersChangeBytes]);
    assert_eq!(versions(&page.entries)[..2], ["converted\n", "text 3\n"].map(version));
}

#[tokio::test]
async fn git_history_of_a_foreign_repository_says_so() {
    let git = GitProject::with_versions();
    let chown = Command::new("chown").args(["-R", "65534"]).arg(git.root.join(".git")).output();
    if !chown.unwrap().status.success() {
        // Only root can give files away.
        return;
    }
    let chown = Command::new("chown").arg("65534").arg(&git.root).status();
    assert!(chown.unwrap().success());
    let page = git.history().await;
    assert_eq!(page.notes, [HistoryNote::ForeignOwner]);
    assert_eq!(versions(&page.entries), [version("text 3\n")]);
}

#[tokio::test]
async fn git_history_is_of_exactly_one_path() {
    let mut git = GitProject::new();
    // A larger repository, with links as the project's folders.
    git.root = git.project.path("deep/project");
    let names =
        ["*", "a b", ":(top)x", "-x", "\"q\"", "[a]", "a", "n\u{f6}te", "\\", "a:b missing"];
    for name in names {
        git.write(&format!(".ixchel/{name}.md"), format!("{name} 1\n"));
    }
    git.write("docs/real/AGENTS.md", "agents\n");
    fs::create_dir_all(git.root.join("docs/development")).unwrap();
    std::os::unix::fs::symlink("../real", git.root.join(DIRECTORY)).unwrap();
    git.write("docs/real/general.md", "section\n");
    git.commit("first");
    for name in names {
        git.write(&format!(".ixchel/{name}.md"), format!("{name} 2\n"));
        git.commit("next");
    }
    let store = git.store();
    for name in names {
        let page = history(&store, &DocumentId::entity(name)).await;
        let expected = [format!("{name} 2\n"), format!("{name} 1\n")].map(|text| version(&text));
        assert_eq!((versions(&page.entries), page.notes), (expected.to_vec(), vec![]), "{name}");
    }
    for (id, text) in
        [(DocumentId::instructions(), "agents\n"), (DocumentId::section("general"), "section\n")]
    {
        let page = history(&store, &id).await;
        assert_eq!((versions(&page.entries), page.notes), (vec![version(text)], vec![]));
    }
    // A line break would add a query.
    let line_break = "x\nHEAD:deep/project/.ixchel/a.md";
    git.write(&format!(".ixchel/{line_break}"), "text\n");
    let id = DocumentId::entity(line_break.strip_suffix(".md").unwrap());
    let page = history(&store, &id).await;
    assert_eq!(page.notes, [HistoryNote::Unreadable]);
    assert!(page.entries.len() < 2);
}

#[tokio::test]
async fn git_history_follows_an_item_into_a_subfolder() {
    let mut git = GitProject::with_versions();
    let moved = ".reqlore/backlog/epics/shop/EP-001-abcdef.md";
    git.write(moved, "text 3\n");
    fs::remove_file(git.root.join(EPIC)).unwrap();
    git.commit("move");
    git.write(moved, "text 4\n");
    git.commit("subject 4");
    let page = history(&git.store(), &item(ItemKind::Epic, "shop/EP-001-abcdef")).await;
    let expected = ["text 4\n", "text 3\n", "text 2\n", "text 1\n"].map(version);
    assert_eq!((versions(&page.entries), page.notes), (expected.to_vec(), vec![]));
}

#[tokio::test]
async fn git_history_leaves_out_what_is_no_document() {
    let mut git = GitProject::with_versions();
    git.write(EPIC, vec![b'x'; reqlore_domain::document::MAX_DOCUMENT_BYTES + 1]);
    git.commit("too large");
    fs::remove_file(git.root.join(EPIC)).unwrap();
    git.write(&format!("{EPIC}/x"), "a folder");
    git.commit("a folder");
    fs::remove_dir_all(git.root.join(EPIC)).unwrap();
    git.write(EPIC, "text 4\n");
    git.commit("subject 4");
    let page = git.history().await;
    assert_eq!(page.notes, [HistoryNote::Truncated]);
    let expected = ["text 3\n", "text 2\n", "text 1\n"].map(version);
    assert_eq!(versions(&page.entries)[..2], [version("text 4\n"), None]);
    assert_eq!(versions(&page.entries)[2..], expected);
}

/// Names a program in every setting that can have one.
fn name_everywhere(git: &GitProject, evil: &str) {
    for key in [
        "core.pager",
        "core.editor",
        "core.askPass",
        "core.sshCommand",
        "core.gitProxy",
        "core.fsmonitor",
        "core.alternateRefsCommand",
        "pager.rev-list",
        "pager.cat-file",
        "diff.external",
        "diff.evil.command",
        "diff.evil.textconv",
        "merge.evil.driver",
        "filter.evil.clean",
        "filter.evil.smudge",
        "filter.evil.process",
        "gpg.program",
        "gpg.ssh.program",
        "gpg.ssh.defaultKeyCommand",
        "credential.helper",
        "sequence.editor",
        "uploadpack.packObjectsHook",
        "receive.procReceiveRefs",
        "trailer.x.command",
        "interactive.diffFilter",
        "difftool.evil.cmd",
        "browser.evil.cmd",
        "man.evil.cmd",
        "sendemail.toCmd",
        "remote.origin.uploadpack",
        "web.browser",
        "init.templateDir",
    ] {
        git.run(&["config", key, evil]);
    }
    for command in ["rev-parse", "rev-list", "cat-file", "check-attr", "config"] {
        git.run(&["config", &format!("alias.{command}"), &format!("!{evil}")]);
    }
    git.run(&["config", "core.hooksPath", git.root.join(".git/hooks").to_str().unwrap()]);
    git.run(&["config", "log.showSignature", "true"]);
    // A partial clone with a remote that is a program, and a missing object to fetch from it.
    git.run(&["config", "core.repositoryFormatVersion", "1"]);
    git.run(&["config", "extensions.partialClone", "origin"]);
    git.run(&["config", "remote.origin.promisor", "true"]);
    git.run(&["config", "remote.origin.url", &format!("ext::{evil}")]);
    git.run(&["config", "protocol.allow", "always"]);
    git.run(&["config", "protocol.ext.allow", "always"]);
}

#[tokio::test]
async fn git_configuration_starts_no_program() {
    let mut git = GitProject::with_versions();
    let marks = git.project.outside.path().join("marks");
    fs::create_dir(&marks).unwrap();
    let evil = git.project.outside.path().join("evil");
    let script = format!("#!/bin/sh\necho \"$0 $*\" >> '{}/started'\nexit 1\n", marks.display());
    fs::write(&evil, &script).unwrap();
    fs::set_permissions(&evil, PermissionsExt::from_mode(0o755)).unwrap();
    for hook in ["post-checkout", "post-index-change", "reference-transaction", "pre-commit"] {
        fs::copy(&evil, git.root.join(".git/hooks").join(hook)).unwrap();
    }
    git.write(".gitattributes", "* filter=evil diff=evil merge=evil\n");
    git.write(EPIC, "text 4\n");
    let evil = evil.to_str().unwrap();
    name_everywhere(&git, evil);
    let blob = run_git(&git.root, 0, &["rev-parse", &format!("HEAD~1:{EPIC}")]);
    let (folder, file) = blob.trim().split_at(2);
    fs::remove_file(git.root.join(format!(".git/objects/{folder}/{file}"))).unwrap();
    assert!(!marks.join("started").is_file());

    let page = git.history().await;
    assert_eq!(versions(&page.entries)[..2], ["text 4\n", "text 3\n"].map(version));
    assert_eq!(page.notes, [HistoryNote::ShallowClone, HistoryNote::FiltersChangeBytes]);
    assert_eq!(text_at(&git.store(), &epic(), "text 1\n").await.as_deref(), Some("text 1\n"));
    assert_eq!(text_at(&git.store(), &epic(), "text 2\n").await, None);
    assert!(!marks.join("started").is_file(), "{:?}", fs::read_to_string(marks.join("started")));

    // The settings work: other commands start the program.
    let plain = |arguments: &[&str]| {
        let _ = fs::remove_file(marks.join("started"));
        let mut command = Command::new("git");
        command.args(arguments).current_dir(&git.root).envs(environment().variables);
        command.output().unwrap();
        fs::read_to_string(marks.join("started")).unwrap_or_default()
    };
    assert_ne!(plain(&["status"]), "", "fsmonitor or filter");
    assert_ne!(plain(&["diff"]), "", "diff");
    assert_ne!(plain(&["cat-file", "-p", blob.trim()]), "", "fetch");
    git.commits += 1;
}

#[tokio::test]
async fn edits_by_hand_and_pulls_are_changed_documents() {
    let path = |number| format!(".reqlore/backlog/epics/EP-00{number}-abcdef.md");
    let id = |number| item(ItemKind::Epic, &format!("EP-00{number}-abcdef"));
    let mut origin = GitProject::new();
    for number in 1..=5 {
        origin.write(&path(number), "old\n");
    }
    origin.commit("first");
    let folder = tempfile::tempdir().unwrap();
    let clone = folder.path().canonicalize().unwrap().join("clone");
    origin.run(&["clone", "--quiet", ".", clone.to_str().unwrap()]);
    let old = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1_700_000_000);
    for number in 1..=5 {
        fs::File::open(clone.join(path(number))).unwrap().set_modified(old).unwrap();
    }
    let store = store_of(&clone);
    let since = reqlore_local_state::current_time();
    let list = async |ids| {
        let mut changed = store.changed_documents(&PROJECT(), since, ids).await.unwrap();
        changed.sort_by(|a, b| a.id.cmp(&b.id));
        assert!(changed.iter().all(|one| one.entry.origin.tool.is_none()), "{changed:?}");
        changed
    };
    assert_eq!(list(None).await, []);
    // The commits are older than the pull.
    origin.write(&path(2), "new\n");
    fs::remove_file(origin.root.join(path(3))).unwrap();
    origin.write(&path(6), "new\n");
    origin.commit("second");
    let mut pull = Command::new("git");
    pull.args(["pull", "--quiet"]).current_dir(&clone).envs(environment().variables);
    assert!(pull.status().unwrap().success());
    fs::write(clone.join(path(1)), "by hand\n").unwrap();
    fs::remove_file(clone.join(path(4))).unwrap();
    let changed = list(None).await;
    let shown: Vec<_> =
        changed.iter().map(|one| (&one.id, one.entry.version, one.is_new)).collect();
    let new = version("new\n");
    let expected = [
        (&id(1), version("by hand\n"), false),
        (&id(2), new, false),
        (&id(3), None, false),
        (&id(4), None, false),
        (&id(6), new, true),
    ];
    assert_eq!(shown, expected);
    assert_eq!(list(Some(vec![id(3), id(6)])).await, [changed[2].clone(), changed[4].clone()]);
}
