//! Random changes and undos by two users, compared with a model: a log of commits with the bytes of
//! all documents before and after each.

use std::path::{Path, PathBuf};
use std::process::Command;

use reqlore_git_runner::GitEnvironment;
use reqlore_storage_fs::{Config, FsStore};
use reqlore_storage_sled::SledConfig;
use reqlore_storage_sqlite::SqliteConfig;

use super::*;

/// Reproducible random numbers (xorshift64).
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % limit as u64).unwrap()
    }

    fn pick<'a, T>(&mut self, list: &'a [T]) -> Option<&'a T> {
        if list.is_empty() { None } else { list.get(self.below(list.len())) }
    }
}

struct LoggedCommit {
    user: &'static str,
    /// By the ID of each changed document.
    states: BTreeMap<DocumentId, [Option<String>; 2]>,
}

#[derive(Default)]
struct Model {
    commits: Vec<LoggedCommit>,
    documents: Documents,
}

/// The outcome of an undo.
enum ExpectedUndo {
    Refused(&'static str),
    /// The states to restore, and the documents without an earlier state, which get a tombstone.
    Restored(BTreeMap<DocumentId, Option<String>>, Vec<DocumentId>),
}

impl Model {
    /// Adds the difference to the present documents as a commit.
    fn log(&mut self, user: &'static str, now: Documents) {
        let mut states = BTreeMap::new();
        for id in self.documents.keys().chain(now.keys()) {
            let pair = [self.documents.get(id).cloned(), now.get(id).cloned()];
            if pair[0] != pair[1] {
                states.insert(id.clone(), pair);
            }
        }
        if !states.is_empty() {
            self.commits.push(LoggedCommit { user, states });
        }
        self.documents = now;
    }

    fn last_commit_of(&self, id: &DocumentId) -> Option<usize> {
        self.commits.iter().rposition(|commit| commit.states.contains_key(id))
    }

    fn expect(&self, user: &str, root: Option<&DocumentId>) -> ExpectedUndo {
        let position = match root {
            Some(id) => self.last_commit_of(id),
            None => self.commits.iter().rposition(|commit| commit.user == user),
        };
        let Some(position) = position else { return ExpectedUndo::Refused("") };
        let states = &self.commits[position].states;
        let selected = match root {
            None => states.keys().cloned().collect(),
            Some(root) => self.related(position, root),
        };
        let mut restored = BTreeMap::new();
        let mut created = Vec::new();
        for id in &selected {
            if self.documents.get(id) != states[id][1].as_ref() {
                return ExpectedUndo::Refused("was changed later");
            }
            let before = states[id][0].clone();
            if before.is_none()
                && id.kind != DocumentKind::Deleted
                && !states.contains_key(&id.tombstone())
            {
                created.push(id.clone());
            }
            restored.insert(id.clone(), before);
        }
        for id in &selected {
            let [before, after] = &states[id];
            let is_alive = |parent: &str| {
                let mut alive = self.documents.keys().filter(|id| id.kind != DocumentKind::Deleted);
                alive.any(|id| reference_of(id) == parent)
                    || restored
                        .iter()
                        .any(|(id, text)| text.is_some() && reference_of(id) == parent)
            };
            let parent = before.as_ref().filter(|_| after.is_none()).and_then(|text| parent(text));
            if id.kind != DocumentKind::Deleted && parent.is_some_and(|parent| !is_alive(parent)) {
                return ExpectedUndo::Refused("which is deleted");
            }
        }
        let deleted = selected
            .iter()
            .filter(|id| id.kind != DocumentKind::Deleted && states[*id][0].is_none());
        let deleted: Vec<String> = deleted.map(reference_of).collect();
        for (id, text) in &self.documents {
            let is_item = id.kind != DocumentKind::Deleted && !selected.contains(id);
            if is_item && deleted.iter().any(|one| mentions(text, one)) {
                return ExpectedUndo::Refused("would be deleted");
            }
        }
        ExpectedUndo::Restored(restored, created)
    }

    /// The documents of a commit that belong to the change of one.
    fn related(&self, position: usize, root: &DocumentId) -> BTreeSet<DocumentId> {
        let states = &self.commits[position].states;
        let mut related = BTreeSet::from([root.clone()]);
        let existed = self.commits[..position].iter().any(|one| one.states.contains_key(root));
        let side = match &states[root] {
            [Some(_), None] => 0,
            [None, Some(_)] if existed => 1,
            _ => return related,
        };
        let mut count = 0;
        while count < related.len() {
            count = related.len();
            let gone = related.clone();
            for (id, pair) in states {
                let (Some(with), without) = (&pair[side], &pair[1 - side]) else { continue };
                let is_link = |one: &DocumentId| {
                    let one_pair = &states[one];
                    let reference = &reference_of(one);
                    one_pair[1 - side].is_none()
                        && mentions(with, reference)
                        && without.as_ref().is_none_or(|without| !mentions(without, reference))
                        && (without.is_some() || parent(with) == Some(reference))
                };
                if id.kind != DocumentKind::Deleted && gone.iter().any(is_link) {
                    related.insert(id.clone());
                }
            }
        }
        for id in related.clone() {
            related.extend(states.contains_key(&id.tombstone()).then(|| id.tombstone()));
        }
        related
    }
}

/// `EP-001` of `EP-001-title-3f9a1c`.
fn reference_of(id: &DocumentId) -> String {
    id.name.split('-').take(2).collect::<Vec<_>>().join("-")
}

/// The tests write no other text with references.
fn mentions(text: &str, reference: &str) -> bool {
    text.contains(reference)
}

fn parent(text: &str) -> Option<&str> {
    let mut lines = text.lines();
    lines.find_map(|line| line.strip_prefix("epic: ").or(line.strip_prefix("user_story: ")))
}

/// A random call of a tool. Many are refused.
fn random_call(random: &mut Random, ids: &[String]) -> (&'static str, Value) {
    let title = format!("T{}", random.below(1_000));
    let item = random.pick(ids).cloned().unwrap_or_default();
    let mut of = |prefix: &str| {
        let own: Vec<&String> = ids.iter().filter(|id| id.starts_with(prefix)).collect();
        random.pick(&own).map_or_else(String::new, |id| (*id).clone())
    };
    let (epic, story, source, target) = (of("EP"), of("US"), of("REQ"), of("REQ"));
    let update = |id: &str| json!({ "update": id, "title": title });
    match if ids.is_empty() { 0 } else { random.below(10) } {
        0 => ("create_epic", json!({ "title": title, "priority": 1 })),
        1 => ("create_user_story", json!({ "epic": epic, "title": title, "priority": 1 })),
        2 | 3 => (
            "create_requirement",
            json!({ "user_story": story, "title": title, "priority": 1, "type": "Functional" }),
        ),
        4 => (
            "create_relationship",
            json!({ "source": source, "target": target, "type": "depends_on" }),
        ),
        5 | 6 => ("delete_item", json!({ "reference": item, "cascade": random.below(3) > 0 })),
        7 => {
            let create = json!({ "create": "epic", "name": "e", "title": title, "priority": 1 });
            let story =
                json!({ "create": "user_story", "epic": "$e", "title": title, "priority": 2 });
            ("apply_changes", json!({ "changes": [create, story, update(&source)] }))
        }
        8 => {
            let delete = json!({ "delete": item, "cascade": true });
            ("apply_changes", json!({ "changes": [delete, update(&epic)] }))
        }
        _ => ("apply_changes", json!({ "changes": [update(&source), update(&story)] })),
    }
}

/// Runs random steps. Commits the files of a repository now and then.
async fn run(users: &TestUsers, seed: u64, steps: usize, repository: Option<&Path>) -> [usize; 2] {
    let mut random = Random(seed * 0x9E37_79B9);
    let mut model = Model::default();
    let mut counts = [0, 0];
    for step in 0..steps {
        if let Some(folder) = repository.filter(|_| random.below(3) == 0) {
            let now = users.clock.now().seconds();
            git(folder, now, &["add", "--all"]);
            git(folder, now, &["commit", "--quiet", "--allow-empty", "--message", "x"]);
        }
        let user = ["ann", "bob"][random.below(2)];
        let known: Vec<DocumentId> =
            model.commits.iter().flat_map(|commit| commit.states.keys().cloned()).collect();
        let known: Vec<_> =
            known.into_iter().filter(|id| id.kind != DocumentKind::Deleted).collect();
        if random.below(2) == 0 {
            let live: Vec<String> =
                model.documents.keys().filter(|id| known.contains(id)).map(reference_of).collect();
            let (tool, arguments) = random_call(&mut random, &live);
            let _ = users.call(user, tool, arguments).await;
            model.log(user, users.documents().await);
            continue;
        }
        let root = if random.below(2) == 0 { None } else { random.pick(&known) };
        let arguments = match root {
            Some(id) => reference(&reference_of(id)),
            None => json!({}),
        };
        let context = format!("seed {seed}, step {step}: {user} {arguments}");
        let answer = users.call(user, "undo", arguments).await;
        let now = users.documents().await;
        match model.expect(user, root) {
            ExpectedUndo::Refused(reason) => {
                let error = answer.expect_err(&context);
                assert!(error.message.contains(reason), "{context}: {reason:?}, {error}");
                assert_eq!(now, model.documents, "{context}");
                counts[1] += 1;
            }
            ExpectedUndo::Restored(states, created) => {
                answer.unwrap_or_else(|error| panic!("{context}: {error}"));
                let mut expected = model.documents.clone();
                for (id, text) in states {
                    match text {
                        Some(text) => drop(expected.insert(id, text)),
                        None => drop(expected.remove(&id)),
                    }
                }
                for id in created {
                    let tombstone = now.get(&id.tombstone()).unwrap_or_else(|| panic!("{context}"));
                    expected.insert(id.tombstone(), tombstone.clone());
                }
                assert_eq!(now, expected, "{context}");
                counts[0] += 1;
                model.log(user, now);
            }
        }
    }
    counts
}

fn git(folder: &Path, now: i64, arguments: &[&str]) {
    let mut git = Command::new("git");
    git.args(["-c", "user.name=Ada", "-c", "user.email=a@example.org"]).args(arguments);
    git.current_dir(folder).env("GIT_CONFIG_GLOBAL", "/dev/null");
    git.env("GIT_COMMITTER_DATE", format!("{now} +0000"));
    assert!(git.status().unwrap().success(), "git {arguments:?}");
}

#[tokio::test]
async fn random_changes_and_undos_equal_the_model() {
    let mut totals = [0, 0];
    for seed in 1..=6 {
        let counts = run(&TestUsers::new(), seed, 100, None).await;
        totals = [totals[0] + counts[0], totals[1] + counts[1]];
    }
    assert!(totals[0] > 60 && totals[1] > 30, "undone and refused: {totals:?}");
}

/// A step takes longer than in memory.
async fn check_steps(store: impl Store + 'static, repository: Option<&Path>) {
    let counts = run(&TestUsers::on(store), 9, 50, repository).await;
    assert!(counts[0] > 5 && counts[1] > 3, "undone and refused: {counts:?}");
}

#[tokio::test]
async fn random_undos_equal_the_model_on_sqlite() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("reqlore.db");
    check_steps(reqlore_storage_sqlite::open(&SqliteConfig { file }).unwrap(), None).await;
}

#[tokio::test]
async fn random_undos_equal_the_model_on_sled() {
    let folder = tempfile::tempdir().unwrap();
    let config = SledConfig { folder: folder.path().join("sled") };
    check_steps(reqlore_storage_sled::open(&config).unwrap(), None).await;
}

#[tokio::test]
async fn random_undos_equal_the_model_on_files() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    git(&root, 0, &["init", "--quiet"]);
    let path = ["/usr/local/bin", "/usr/bin", "/bin"].map(PathBuf::from).to_vec();
    let programs = path.iter().map(|folder| folder.join("git")).filter(|git| git.is_file());
    let config = Config {
        root: root.clone(),
        documents: root.clone(),
        requirements_directory: None,
        projects: BTreeMap::new(),
        roots: Vec::new(),
        home: None,
        cache: None,
        git: GitEnvironment { programs: programs.collect(), path, variables: Vec::new() },
    };
    check_steps(FsStore::open(&config).unwrap(), Some(&root)).await;
}
