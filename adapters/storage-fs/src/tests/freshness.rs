//! After any edits on disk, a store that kept everything in mind says what a new one sees.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;

use proptest::prelude::*;
use proptest::test_runner::TestCaseResult;
use reqlore_contract::act;
use reqlore_domain::document::{Document, DocumentId, Head, Kind};
use reqlore_domain::ports::documents::{
    Change, Changes, Commit, DocumentRepository, Filter, Look, Reads, Revision, StoreResult,
};
use reqlore_domain::project::ProjectKey;
use tempfile::TempDir;

use super::config;
use crate::{Config, FsStore};

/// Folders and files below `.ixchel`; `x.md` is both.
const FOLDERS: [&str; 5] = ["", "a", "a/b", "c", "x.md"];
const FILES: [&str; 4] = ["p.md", "q.md", "x.md", ".hidden.md"];
/// The first three are of one length.
const TEXTS: [&str; 5] = [
    "---\nid: dec-0001\n---\n# One\n",
    "---\nid: dec-0002\n---\n# Two\n",
    "---\nid: dec-0003\n---\n# Six\n",
    "---\nid: [\n---\nbroken",
    "no front matter, and longer than the others are",
];

/// What happens on the disk.
#[derive(Debug, Clone)]
pub(super) enum Edit {
    Write(usize, usize, usize),
    /// In place, of the same length, with the time of before.
    Poke(usize, usize, usize),
    Replace(usize, usize, usize),
    MoveIn(usize, usize, usize),
    MoveFile(usize, usize, usize, usize),
    MoveFolder(usize, usize),
    RemoveFile(usize, usize),
    RemoveFolder(usize),
    FileForFolder(usize, usize),
    FolderForFile(usize, usize),
    LinkFile(usize, usize),
    LinkFolder(usize),
    /// A second name of a file outside, which is then written by that name.
    HardLink(usize, usize),
    WriteOutside(usize),
    Mode(usize, usize, u32),
    MoveAway,
    MoveBack,
    LinkAll,
    RemoveAll,
    MoveRoot,
}

/// What is asked.
#[derive(Debug, Clone)]
enum Ask {
    Changes,
    Everything,
    Find,
    Get,
    Versions,
    Put(usize, usize, usize),
    Delete(usize, usize),
    Reopen,
}

#[derive(Debug, Clone)]
enum Step {
    Edit(Edit),
    /// By which of the two stores.
    Ask(usize, Ask),
}

fn edits() -> impl Strategy<Value = Edit> {
    let (d, f, t) = (0..FOLDERS.len(), 0..FILES.len(), 0..TEXTS.len());
    let file = (d.clone(), f.clone());
    let text = (d.clone(), f.clone(), t.clone());
    prop_oneof![
        6 => text.clone().prop_map(|(d, f, t)| Edit::Write(d, f, t)),
        4 => text.clone().prop_map(|(d, f, t)| Edit::Poke(d, f, t % 3)),
        2 => text.clone().prop_map(|(d, f, t)| Edit::Replace(d, f, t)),
        1 => text.prop_map(|(d, f, t)| Edit::MoveIn(d, f, t)),
        2 => (file.clone(), file.clone()).prop_map(|(a, b)| Edit::MoveFile(a.0, a.1, b.0, b.1)),
        2 => (d.clone(), d.clone()).prop_map(|(a, b)| Edit::MoveFolder(a, b)),
        1 => file.clone().prop_map(|(d, f)| Edit::RemoveFile(d, f)),
        1 => d.clone().prop_map(Edit::RemoveFolder),
        1 => (d.clone(), t.clone()).prop_map(|(d, t)| Edit::FileForFolder(d, t)),
        1 => file.clone().prop_map(|(d, f)| Edit::FolderForFile(d, f)),
        1 => file.clone().prop_map(|(d, f)| Edit::LinkFile(d, f)),
        1 => d.clone().prop_map(Edit::LinkFolder),
        1 => file.clone().prop_map(|(d, f)| Edit::HardLink(d, f)),
        1 => t.prop_map(|t| Edit::WriteOutside(t % 3)),
        1 => (file, prop_oneof![Just(0o600), Just(0o444)]).prop_map(|((d, f), m)| Edit::Mode(d, f, m)),
        1 => Just(Edit::MoveAway),
        2 => Just(Edit::MoveBack),
        1 => Just(Edit::LinkAll),
        1 => Just(Edit::RemoveAll),
        1 => Just(Edit::MoveRoot),
    ]
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let (d, f, t) = (0..FOLDERS.len(), 0..FILES.len(), 0..TEXTS.len());
    let ask = prop_oneof![
        6 => Just(Ask::Changes),
        1 => Just(Ask::Everything),
        3 => Just(Ask::Find),
        2 => Just(Ask::Get),
        1 => Just(Ask::Versions),
        1 => (d.clone(), f.clone(), t).prop_map(|(d, f, t)| Ask::Put(d, f, t)),
        1 => (d, f).prop_map(|(d, f)| Ask::Delete(d, f)),
        1 => Just(Ask::Reopen),
    ];
    let step = prop_oneof![
        edits().prop_map(Step::Edit),
        (0..2_usize, ask).prop_map(|(store, ask)| Step::Ask(store, ask)),
    ];
    prop::collection::vec(step, 1..40)
}

/// A project's folder, and what lies beside it.
pub(super) struct Disk {
    top: TempDir,
}

impl Disk {
    pub(super) fn new() -> Self {
        let top = tempfile::tempdir().unwrap();
        for folder in ["repo/.ixchel", "repo/inside", "outside", "cache"] {
            fs::create_dir_all(top.path().join(folder)).unwrap();
        }
        Self { top }
    }

    pub(super) fn root(&self) -> PathBuf {
        self.top.path().join("repo")
    }

    fn outside(&self) -> PathBuf {
        self.top.path().join("outside")
    }

    fn config(&self, cached: bool) -> Config {
        let cache = cached.then(|| self.top.path().join("cache"));
        Config { cache, ..config(&self.root()) }
    }

    fn folder(&self, folder: usize) -> PathBuf {
        self.root().join(".ixchel").join(FOLDERS[folder])
    }

    pub(super) fn file(&self, folder: usize, file: usize) -> PathBuf {
        self.folder(folder).join(FILES[file])
    }

    /// What can't be done now is not done.
    pub(super) fn apply(&self, edit: &Edit) {
        let _ = self.attempt(edit);
    }

    fn attempt(&self, edit: &Edit) -> std::io::Result<()> {
        let ixchel = self.root().join(".ixchel");
        let away = self.root().join("away");
        let spare = self.outside().join("spare");
        match *edit {
            Edit::Write(d, f, t) => {
                let _ = fs::create_dir_all(self.folder(d));
                fs::write(self.file(d, f), TEXTS[t])
            }
            Edit::Poke(d, f, t) => {
                let mut file = OpenOptions::new().write(true).open(self.file(d, f))?;
                let before = file.metadata()?.modified()?;
                file.write_all(TEXTS[t].as_bytes())?;
                file.set_modified(before)
            }
            Edit::Replace(d, f, t) => {
                let temp = self.folder(d).join(".temp");
                fs::write(&temp, TEXTS[t])?;
                fs::rename(temp, self.file(d, f))
            }
            Edit::MoveIn(d, f, t) => {
                fs::write(&spare, TEXTS[t])?;
                fs::rename(spare, self.file(d, f))
            }
            Edit::MoveFile(d, f, to, name) => fs::rename(self.file(d, f), self.file(to, name)),
            Edit::MoveFolder(from, to) => fs::rename(self.folder(from), self.folder(to)),
            Edit::RemoveFile(d, f) => fs::remove_file(self.file(d, f)),
            Edit::RemoveFolder(d) => fs::remove_dir_all(self.folder(d)),
            Edit::FileForFolder(d, t) => {
                fs::remove_dir_all(self.folder(d))?;
                fs::write(self.folder(d), TEXTS[t])
            }
            Edit::FolderForFile(d, f) => {
                fs::remove_file(self.file(d, f))?;
                fs::create_dir(self.file(d, f))?;
                fs::write(self.file(d, f).join("p.md"), TEXTS[0])
            }
            Edit::LinkFile(d, f) => {
                let _ = fs::remove_file(self.file(d, f));
                symlink("p.md", self.file(d, f))
            }
            Edit::LinkFolder(d) => {
                fs::rename(self.folder(d), self.root().join("inside/moved"))?;
                symlink(self.root().join("inside/moved"), self.folder(d))
            }
            Edit::HardLink(d, f) => {
                let _ = fs::remove_file(self.file(d, f));
                fs::hard_link(self.twin()?, self.file(d, f))
            }
            Edit::WriteOutside(t) => {
                let mut file = OpenOptions::new().write(true).open(self.twin()?)?;
                file.write_all(TEXTS[t].as_bytes())
            }
            Edit::Mode(d, f, mode) => {
                fs::set_permissions(self.file(d, f), fs::Permissions::from_mode(mode))
            }
            Edit::MoveAway => fs::rename(ixchel, away),
            Edit::MoveBack => fs::rename(away, ixchel),
            Edit::LinkAll => {
                fs::rename(&ixchel, self.root().join("inside/all"))?;
                symlink("inside/all", ixchel)
            }
            Edit::RemoveAll => fs::remove_dir_all(&ixchel).or_else(|_| fs::remove_file(ixchel)),
            Edit::MoveRoot => {
                let aside = self.top.path().join("aside");
                fs::rename(self.root(), &aside)?;
                fs::create_dir_all(self.root().join(".ixchel"))?;
                fs::write(self.file(0, 0), TEXTS[1])?;
                fs::remove_dir_all(aside)?;
                fs::create_dir_all(self.root().join("inside"))
            }
        }
    }

    /// A file outside that may have second names inside.
    fn twin(&self) -> std::io::Result<PathBuf> {
        let twin = self.outside().join("twin");
        if !twin.exists() {
            fs::write(&twin, TEXTS[0])?;
        }
        Ok(twin)
    }
}

/// All ids that any step may make.
fn ids() -> Vec<DocumentId> {
    let files = FILES.iter().filter(|file| !file.starts_with('.'));
    let files = files.map(|file| file.trim_end_matches(".md"));
    let folders = FOLDERS.iter().chain(&["a/b/b", "c/b"]);
    let all = folders.flat_map(|folder| files.clone().map(move |file| (folder, file)));
    all.map(|(folder, file)| DocumentId::entity(format!("{folder}/{file}").trim_matches('/')))
        .collect()
}

const PROJECT: fn() -> ProjectKey = ProjectKey::default;

/// What a new store without a cache sees.
async fn fresh(disk: &Disk) -> StoreResult<Vec<Head>> {
    find(&FsStore::new(&disk.config(false))).await
}

async fn find(store: &FsStore) -> StoreResult<Vec<Head>> {
    Ok(store.find(&PROJECT(), &Filter::all(Kind::Entity)).await?.heads)
}

fn by_name(heads: Vec<Head>) -> BTreeMap<String, Head> {
    heads.into_iter().map(|head| (head.id.name.clone(), head)).collect()
}

/// A store, and what somebody made of what it told.
struct Reader {
    store: FsStore,
    since: Revision,
    mirror: BTreeMap<String, Head>,
}

impl Reader {
    fn new(disk: &Disk) -> Self {
        let store = FsStore::new(&disk.config(true));
        Self { store, since: Revision::default(), mirror: BTreeMap::new() }
    }

    async fn ask(&mut self, disk: &Disk, ask: &Ask) -> TestCaseResult {
        match ask {
            Ask::Changes => self.changes(disk, Look::Changed).await?,
            Ask::Everything => self.changes(disk, Look::Everything).await?,
            Ask::Find => match (find(&self.store).await, fresh(disk).await) {
                (Ok(found), Ok(fresh)) => prop_assert_eq!(found, fresh),
                (found, fresh) => prop_assert_eq!(found.is_err(), fresh.is_err()),
            },
            Ask::Get => {
                let new = FsStore::new(&disk.config(false));
                for id in ids() {
                    let (ours, theirs) = (get(&self.store, &id).await, get(&new, &id).await);
                    prop_assert_eq!(ours, theirs, "{}", id);
                }
            }
            Ask::Versions => {
                let new = FsStore::new(&disk.config(false));
                for id in ids() {
                    let asked = std::slice::from_ref(&id);
                    let ours = self.store.versions(&PROJECT(), asked).await;
                    let theirs = get(&new, &id).await.map(|found| found.map(|d| d.version));
                    prop_assert_eq!(ours.ok(), theirs.map(|one| vec![one]), "{}", id);
                }
            }
            Ask::Put(d, f, t) => {
                let id = DocumentId::entity(entity(*d, *f));
                commit(&self.store, Change::put(id, TEXTS[*t].as_bytes())).await?;
            }
            Ask::Delete(d, f) => {
                let id = DocumentId::entity(entity(*d, *f));
                commit(&self.store, Change::Delete { id }).await?;
            }
            Ask::Reopen => *self = Self::new(disk),
        }
        Ok(())
    }

    async fn changes(&mut self, disk: &Disk, look: Look) -> TestCaseResult {
        let changes = self.store.changes(&PROJECT(), Kind::Entity, self.since, look).await;
        let (changes, mut now) = match (changes, fresh(disk).await) {
            (Ok(changes), Ok(now)) => (changes, by_name(now)),
            (changes, fresh) => {
                prop_assert_eq!(changes.is_err(), fresh.is_err());
                return Ok(());
            }
        };
        match changes {
            Changes::Reset { revision } => {
                self.mirror = now;
                self.since = revision;
            }
            Changes::Since { revision, ids } => {
                for id in &ids {
                    match now.get(&id.name) {
                        Some(head) => self.mirror.insert(id.name.clone(), head.clone()),
                        None => self.mirror.remove(&id.name),
                    };
                }
                prop_assert_eq!(&mut self.mirror, &mut now);
                self.since = revision;
            }
        }
        Ok(())
    }
}

fn entity(folder: usize, file: usize) -> String {
    let path = format!("{}/{}", FOLDERS[folder], FILES[file]);
    path.trim_matches('/').trim_end_matches(".md").to_owned()
}

async fn get(store: &FsStore, id: &DocumentId) -> Option<Option<Document>> {
    let found = store.get(&PROJECT(), std::slice::from_ref(id)).await;
    found.ok().map(|found| found.into_iter().next().flatten())
}

/// A commit that was answered is on the disk.
async fn commit(store: &FsStore, change: Change) -> TestCaseResult {
    let reads = Reads { documents: vec![change.id().clone()], heads: None };
    let (id, version) = (change.id().clone(), change.version());
    let decide = Box::new(move |_: &_| Ok(vec![change.clone()]));
    if store.commit(&PROJECT(), Commit { reads, decide, act: act() }).await.is_ok() {
        let found = get(store, &id).await.flatten();
        prop_assert_eq!(found.map(|document| document.version), version, "{}", id);
    }
    Ok(())
}

fn play(steps: &[Step]) -> TestCaseResult {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let disk = Disk::new();
        let mut readers = [Reader::new(&disk), Reader::new(&disk)];
        for step in steps {
            match step {
                Step::Edit(edit) => disk.apply(edit),
                Step::Ask(store, ask) => readers[*store].ask(&disk, ask).await?,
            }
        }
        for reader in &mut readers {
            reader.ask(&disk, &Ask::Changes).await?;
            reader.ask(&disk, &Ask::Find).await?;
        }
        Ok(())
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(96) })]

    #[test]
    fn whatever_happens_on_disk_is_seen_by_the_next_call(steps in steps()) {
        play(&steps)?;
    }
}
