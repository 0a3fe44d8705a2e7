//! Item numbers in the work trees of one clone, which real Git makes and removes.

use std::os::unix::fs::{PermissionsExt, symlink};

use reqlore_domain::ports::archive::Archive;

use super::backlog::{create, next_number};
use super::history::{environment, run_git, store_of};
use super::*;
use crate::lock::LOCK_TIMEOUT;

const REQUIREMENTS: &str = ".reqlore/backlog/requirements";
const TEXT: &str = "---\ntitle: T\nuser_story: US-001\n---\n";

/// A clone, and the folder for its work trees.
struct CloneFolder {
    folder: TempDir,
    main: PathBuf,
}

impl CloneFolder {
    fn new(options: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        // Git writes the path without links.
        let main = folder.path().canonicalize().unwrap().join("main");
        fs::create_dir(&main).unwrap();
        git(&main, &[&["init", "--quiet"], options].concat());
        let clone = Self { folder, main };
        if options.is_empty() {
            git(&clone.main, &["commit", "--quiet", "--allow-empty", "--message", "first"]);
        }
        clone
    }

    fn path(&self, name: &str) -> PathBuf {
        self.main.with_file_name(name)
    }

    fn add(&self, name: &str) -> PathBuf {
        let path = self.path(name);
        git(&self.main, &["worktree", "add", "--quiet", path.to_str().unwrap()]);
        path
    }

    fn remove(&self, name: &str) {
        git(&self.main, &["worktree", "remove", "--force", self.path(name).to_str().unwrap()]);
    }
}

fn git(folder: &Path, arguments: &[&str]) -> String {
    run_git(folder, 0, arguments)
}

/// Creates an item in a new process of each work tree, in this order.
async fn create_in(folders: &[&Path]) -> Vec<u32> {
    let mut numbers = Vec::new();
    for folder in folders {
        numbers.push(create(&store_of(folder)).await);
    }
    numbers
}

#[tokio::test]
async fn work_trees_of_a_clone_share_their_numbers() {
    let clone = CloneFolder::new(&[]);
    // Not committed, so the new work tree does not have them.
    assert_eq!(create_in(&[&clone.main, &clone.main]).await, [1, 2]);
    let linked = clone.add("linked");
    assert_eq!(create_in(&[&linked, &clone.main, &linked]).await, [3, 4, 5]);
    // The same in processes that run all the time.
    let (main, other) = (store_of(&clone.main), store_of(&linked));
    for number in (6..20).step_by(2) {
        assert_eq!((create(&main).await, create(&other).await), (number, number + 1));
    }
    assert_eq!(names(linked.join(REQUIREMENTS)).len(), 9);
}

#[tokio::test]
async fn numbers_of_a_removed_work_tree_stay_issued() {
    let clone = CloneFolder::new(&[]);
    let (first, second) = (clone.add("first"), clone.add("second"));
    assert_eq!(create_in(&[&first, &second]).await, [1, 2]);
    clone.remove("second");
    assert_eq!(create_in(&[&first]).await, [3]);
    clone.remove("first");
    // Without linked work trees, the shared marks remain.
    assert!(!clone.main.join(".git/worktrees").is_dir());
    assert_eq!(create_in(&[&clone.main, &clone.main]).await, [4, 5]);
    let third = clone.add("third");
    fs::remove_dir_all(&third).unwrap();
    git(&clone.main, &["worktree", "prune"]);
    assert_eq!(create_in(&[&clone.main]).await, [6]);
}

#[tokio::test]
async fn items_that_other_work_trees_got_or_lost_keep_their_numbers() {
    let clone = CloneFolder::new(&[]);
    let linked = clone.add("linked");
    let requirements = linked.join(REQUIREMENTS);
    fs::create_dir_all(requirements.join("deeper")).unwrap();
    // As a merge writes them.
    fs::write(requirements.join("deeper/REQ-040-a.md"), TEXT).unwrap();
    let main = store_of(&clone.main);
    assert_eq!(next_number(&main).await, 41);
    fs::write(requirements.join("REQ-050-a.md"), TEXT).unwrap();
    assert_eq!(next_number(&main).await, 51, "in a process that knows the folder");
    // The tombstone of a deletion, and a removal by hand.
    let deleted = linked.join(".reqlore/backlog/deleted");
    fs::create_dir_all(&deleted).unwrap();
    fs::write(deleted.join("REQ-060.md"), "---\ntitle: T\n---\n").unwrap();
    assert_eq!(create_in(&[&clone.main, &linked]).await, [61, 62]);
    fs::remove_dir_all(linked.join(".reqlore/backlog")).unwrap();
    assert_eq!(create_in(&[&clone.main]).await, [63]);
}

#[tokio::test]
async fn work_trees_of_a_bare_repository_share_their_numbers() {
    let clone = CloneFolder::new(&["--bare"]);
    let seed = CloneFolder::new(&[]);
    git(&seed.main, &["push", "--quiet", clone.main.to_str().unwrap(), "HEAD:refs/heads/a"]);
    for name in ["one", "two"] {
        let path = clone.path(name);
        git(&clone.main, &["worktree", "add", "--quiet", "-b", name, path.to_str().unwrap(), "a"]);
    }
    let (one, two) = (clone.path("one"), clone.path("two"));
    assert_eq!(create_in(&[&one, &two, &one]).await, [1, 2, 3]);
}

#[tokio::test]
async fn projects_of_one_repository_have_their_own_numbers() {
    let clone = CloneFolder::new(&[]);
    let linked = clone.add("linked");
    let [mut api, mut web] = ["api", "web"].map(|name| clone.main.join("packages").join(name));
    for project in [&api, &web] {
        fs::create_dir_all(project).unwrap();
    }
    assert_eq!(create_in(&[&api, &web, &clone.main, &api]).await, [1, 1, 1, 2]);
    [api, web] = ["api", "web"].map(|name| linked.join("packages").join(name));
    for project in [&api, &web] {
        fs::create_dir_all(project).unwrap();
    }
    assert_eq!(create_in(&[&api, &web, &linked]).await, [3, 2, 2]);
}

#[tokio::test]
async fn submodule_and_other_clones_have_their_own_numbers() {
    let (clone, library) = (CloneFolder::new(&[]), CloneFolder::new(&[]));
    let source = library.main.to_str().unwrap();
    let add = ["submodule", "--quiet", "add", "--", source, "lib"];
    git(&clone.main, &[&["-c", "protocol.file.allow=always"], &add[..]].concat());
    let inner = clone.main.join("lib");
    let other = clone.path("other");
    git(&clone.main, &["clone", "--quiet", ".", other.to_str().unwrap()]);
    clone.add("linked");
    assert_eq!(create_in(&[&clone.main, &inner, &other, &inner]).await, [1, 1, 1, 2]);
    // A work tree of the submodule shares them with it, after it was linked.
    let linked = clone.path("linked-lib");
    git(&inner, &["worktree", "add", "--quiet", linked.to_str().unwrap()]);
    assert_eq!(create_in(&[&inner, &linked, &inner]).await, [3, 4, 5]);
}

#[tokio::test]
async fn moved_clone_shares_numbers_after_its_repair() {
    let clone = CloneFolder::new(&[]);
    let linked = clone.add("linked");
    assert_eq!(create_in(&[&clone.main, &linked]).await, [1, 2]);
    let (moved, moved_linked) = (clone.path("moved"), clone.path("moved-linked"));
    fs::rename(&clone.main, &moved).unwrap();
    fs::rename(&linked, &moved_linked).unwrap();
    git(&moved, &["worktree", "repair", moved_linked.to_str().unwrap()]);
    assert_eq!(create_in(&[&moved_linked, &moved]).await, [3, 4]);
    assert!(clone.folder.path().is_dir());
}

#[tokio::test]
async fn work_trees_with_relative_paths_share_their_numbers() {
    let clone = CloneFolder::new(&[]);
    let linked = clone.add("linked");
    // As `--relative-paths` of Git 2.48 writes them.
    fs::write(linked.join(".git"), "gitdir: ../main/.git/worktrees/linked\n").unwrap();
    let gitdir = clone.main.join(".git/worktrees/linked/gitdir");
    fs::write(gitdir, "../../../../linked/.git\n").unwrap();
    assert_eq!(create_in(&[&clone.main, &linked, &clone.main]).await, [1, 2, 3]);
}

#[tokio::test]
async fn repository_without_linked_work_trees_gets_no_file() {
    let clone = CloneFolder::new(&[]);
    let before = files(&clone.main.join(".git"));
    assert_eq!(create_in(&[&clone.main, &clone.main]).await, [1, 2]);
    assert_eq!(files(&clone.main.join(".git")), before);
    let lock = fs::File::open(clone.main.join(".git")).unwrap();
    lock.lock().unwrap();
    assert_eq!(create_in(&[&clone.main]).await, [3], "waits for no lock there");
}

#[tokio::test]
async fn commit_without_the_lock_of_the_clone_writes_nothing() {
    let clone = CloneFolder::new(&[]);
    let linked = clone.add("linked");
    let (main, other) = (store_of(&clone.main), store_of(&linked));
    assert_eq!(create(&main).await, 1);
    let lock = fs::File::open(clone.main.join(".git")).unwrap();
    lock.lock().unwrap();
    let new = item(ItemKind::Requirement, "REQ-002-a");
    let reads = ReadSet { sequences: vec![ItemKind::Requirement], ..ReadSet::default() };
    let change = vec![DocumentChange::put(new.clone(), TEXT)];
    let request = CommitRequest {
        read_set: reads,
        decide: Box::new(move |_| Ok(change.clone())),
        context: test_context(),
    };
    let error = other.commit(&PROJECT(), request).await.unwrap_err().to_string();
    assert!(error.contains(&format!("{LOCK_TIMEOUT:?}")) && error.contains("try again"), "{error}");
    assert_eq!(get(&other, &new).await.unwrap(), None);
    // An edit issues no number.
    put(&main, &item(ItemKind::Requirement, "REQ-001-aaaaaa"), TEXT).await.unwrap();
    drop(lock);
    assert_eq!(create(&other).await, 2);
}

#[tokio::test]
async fn hostile_shared_marks_are_ignored() {
    let clone = CloneFolder::new(&[]);
    let linked = clone.add("linked");
    assert_eq!(create_in(&[&linked]).await, [1]);
    let common = clone.main.join(".git");
    let marks = files(&common).into_iter().find(|path| {
        path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"reqlore-marks"))
    });
    let marks = marks.unwrap();
    let text = fs::read_to_string(&marks).unwrap();
    assert!(text.ends_with("\nREQ 1\n"), "{text}");
    let outside = clone.path("outside");
    fs::write(&outside, text.replace("REQ 1", "REQ 900")).unwrap();
    // A copy, a link, a pipe, a folder, and one that is too large.
    let attacks: [&dyn Fn(); 5] = [
        &|| assert!(fs::copy(&outside, &marks).is_ok()),
        &|| symlink(&outside, &marks).unwrap(),
        &|| make_pipe(&marks),
        &|| fs::create_dir(&marks).unwrap(),
        &|| fs::write(&marks, vec![b'x'; 9 << 20]).unwrap(),
    ];
    for (number, attack) in (2..).zip(attacks) {
        if marks.is_dir() { fs::remove_dir(&marks) } else { fs::remove_file(&marks) }.unwrap();
        attack();
        assert_eq!(create_in(&[&clone.main]).await, [number]);
    }
    assert!(fs::read_to_string(&outside).unwrap().ends_with("REQ 900\n"), "written through");
    // A number at the limit uses up nothing in other work trees.
    fs::write(linked.join(REQUIREMENTS).join("REQ-1000000000-a.md"), TEXT).unwrap();
    assert_eq!(create_in(&[&clone.main]).await, [7]);
}

#[tokio::test]
async fn work_tree_that_the_clone_does_not_name_is_ordinary() {
    let clone = CloneFolder::new(&[]);
    let linked = clone.add("linked");
    assert_eq!(create_in(&[&linked, &linked]).await, [1, 2]);
    let claimed = clone.path("claimed");
    fs::create_dir(&claimed).unwrap();
    fs::copy(linked.join(".git"), claimed.join(".git")).unwrap();
    assert_eq!(create_in(&[&claimed, &linked]).await, [1, 3]);
}

#[tokio::test]
async fn read_only_common_folder_does_not_stop_writes() {
    let clone = CloneFolder::new(&[]);
    let linked = clone.add("linked");
    let common = clone.main.join(".git");
    fs::set_permissions(&common, PermissionsExt::from_mode(0o555)).unwrap();
    // The other work tree's files have the numbers.
    assert_eq!(create_in(&[&linked, &clone.main, &linked]).await, [1, 2, 3]);
    fs::set_permissions(&common, PermissionsExt::from_mode(0o755)).unwrap();
}

#[tokio::test]
async fn export_of_a_work_tree_has_the_numbers_it_issued() {
    let clone = CloneFolder::new(&[]);
    let linked = clone.add("linked");
    assert_eq!(create_in(&[&linked, &clone.main]).await, [1, 2]);
    clone.remove("linked");
    fs::remove_dir_all(clone.main.join(REQUIREMENTS)).unwrap();
    let store = store_of(&clone.main);
    let records = store.export().await.unwrap().next_batch().await.unwrap();
    assert!(format!("{records:?}").contains("number: 2"), "{records:?}");
}

const PROCESS_ITEMS: usize = 40;

#[tokio::test]
async fn processes_in_two_work_trees_issue_different_numbers() {
    if let Some(root) = child_argument() {
        let store = store_of(Path::new(&root));
        for _ in 0..PROCESS_ITEMS {
            create(&store).await;
        }
        return;
    }
    let clone = CloneFolder::new(&[]);
    let folders = [clone.main.clone(), clone.add("linked"), clone.add("third")];
    std::thread::scope(|scope| {
        for folder in &folders {
            let test = "work_trees::processes_in_two_work_trees_issue_different_numbers";
            scope.spawn(move || {
                let output = run_child(test, folder.to_str().unwrap());
                assert!(output.status.success(), "{output:?}");
            });
        }
    });
    let mut all: Vec<String> = folders.iter().flat_map(|f| names(f.join(REQUIREMENTS))).collect();
    all.sort();
    all.dedup();
    assert_eq!(all.len(), 3 * PROCESS_ITEMS);
    assert!(all.last().unwrap().starts_with("REQ-120-"), "{all:?}");
    assert!(!environment().programs.is_empty());
}
