//! Import of an archive into an empty project.
//!
//! A marker file in `.reqlore/local` says that the import is incomplete until everything is
//! durable. A record's own path never decides where its document is written.

use std::fs::{File, FileTimes};
use std::io::{self, Write};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use cap_std::fs::{Dir, OpenOptions};
use reqlore_domain::document::Kind;
use reqlore_domain::ports::archive::{
    ArchiveRecord, DocumentRecord, HighWaterMark, Identities, RecordWriter,
};
use reqlore_domain::ports::documents::StoreResult;
use reqlore_domain::project::ProjectKey;
use reqlore_domain::time::Timestamp;

use crate::FsStore;
use crate::error::{failed, not_written, refused};
use crate::layout::{Root, Tree, as_file};
use crate::local::{self, LOCAL};
use crate::lock::Lock;
use crate::marks::Marks;
use crate::shared::Shared;

/// The mark of a project that is being filled.
pub(crate) const MARK: &str = "incomplete";

/// Says that the project is being filled, durably.
pub(crate) fn mark(root: &Root) -> StoreResult<()> {
    let local = local::create(root)?;
    let write = || {
        local.write(MARK, "This folder is being filled by `reqlore copy` or `restore`.\n")?;
        local.open(MARK)?.sync_all()?;
        as_file(&local)?.sync_all()
    };
    write().map_err(|error| not_written(LOCAL, "mark the folder", error))
}

pub(crate) struct ImportWriter {
    store: FsStore,
    /// The default project's is the first.
    locks: Arc<Vec<Lock>>,
}

impl ImportWriter {
    pub(crate) fn new(store: FsStore, locks: Vec<Lock>) -> Self {
        Self { store, locks: Arc::new(locks) }
    }
}

#[async_trait]
impl RecordWriter for ImportWriter {
    async fn put(&mut self, records: Vec<ArchiveRecord>) -> StoreResult<()> {
        let (mut documents, mut marks, mut rows) = (Vec::new(), Vec::new(), Vec::new());
        let mut identities = Identities::default();
        for record in records {
            match record {
                ArchiveRecord::Document(record) => documents.push(record),
                ArchiveRecord::HighWaterMark(mark) => marks.push(mark),
                ArchiveRecord::User(user) => identities.users.push(user),
                ArchiveRecord::Token(token) => identities.tokens.push(token),
                ArchiveRecord::AuditRow(row) => rows.push(row),
            }
        }
        let locks = Arc::clone(&self.locks);
        let writing = move |shared: &Shared| {
            documents.iter().try_for_each(|record| shared.import_document(record))?;
            marks.iter().try_for_each(|mark| shared.import_mark(mark))?;
            let Some(lock) = locks.first() else { return Ok(()) };
            shared.fill_identities(&identities, lock)?;
            shared.fill_rows(&rows, lock)
        };
        self.store.blocking(writing).await
    }

    async fn finish(self: Box<Self>) -> StoreResult<()> {
        let finishing = |shared: &Shared| {
            let failed = |error| failed("the project's folder", "make it durable", error);
            for (project, _) in shared.folders.keyed() {
                let root = shared.open(project)?;
                let synced =
                    as_file(&root.dir).and_then(|dir| reqlore_durable_fs::sync_file_system(&dir));
                synced.map_err(failed)?;
            }
            for (project, _) in shared.folders.keyed() {
                unmark(&shared.open(project)?)?;
            }
            Ok(())
        };
        self.store.blocking(finishing).await
    }
}

fn unmark(root: &Root) -> StoreResult<()> {
    let local = local::create(root)?;
    let removed = local.remove_file(MARK).and_then(|()| as_file(&local)?.sync_all());
    removed.map_err(|error| failed(LOCAL, "remove the mark", error))
}

impl Shared {
    fn check_keyed(&self, project: &ProjectKey, shown: &str) -> StoreResult<()> {
        if self.folders.has(project) {
            return Ok(());
        }
        let reason = format!(
            "is of the project {project}, which has no folder; configure it as \
             [projects.{project}] in reqlore.toml, or copy into a database"
        );
        Err(refused(shown, &reason))
    }

    fn import_mark(&self, mark: &HighWaterMark) -> StoreResult<()> {
        self.check_keyed(&mark.project, &format!("the mark of {}", mark.kind.prefix()))?;
        let root = self.open(&mark.project)?;
        let mut marks = Marks::load(&root);
        marks.raise(mark.kind, mark.number);
        marks.save(&root)
    }

    fn import_document(&self, record: &DocumentRecord) -> StoreResult<()> {
        let DocumentRecord { project, document, modified, place } = record;
        let id = &document.id;
        self.check_keyed(project, &id.to_string())?;
        let no_file = |why: &str| {
            let reason = format!("can't be a file; copy it into a database instead{why}");
            refused(&id.to_string(), &reason)
        };
        id.check().map_err(|why| no_file(&format!(" ({why})")))?;
        let root = self.open(project)?;
        let mut tree = Tree::new(&root, &self.layout);
        if id.kind == Kind::Instructions {
            tree.prefer_requirements(place.as_deref());
        }
        tree.create_folder(id)?;
        let place = tree.place(id)?.ok_or_else(|| no_file(""))?;
        create(&place.dir, &place.name, &document.body, *modified)
            .map_err(|error| failed(&place.shown, "write it", error))
    }
}

fn create(dir: &Dir, name: &str, body: &[u8], modified: Timestamp) -> io::Result<()> {
    let new = OpenOptions::new().write(true).create_new(true).to_owned();
    let mut file: File = dir.open_with(name, &new)?.into_std();
    file.write_all(body)?;
    let since = Duration::new(modified.seconds().unsigned_abs(), 0);
    let seconds = match modified.seconds() {
        0.. => SystemTime::UNIX_EPOCH.checked_add(since),
        _ => SystemTime::UNIX_EPOCH.checked_sub(since),
    };
    let time =
        seconds.and_then(|s| s.checked_add(Duration::from_nanos(modified.nanoseconds().into())));
    match time {
        Some(time) => file.set_times(FileTimes::new().set_modified(time)),
        None => Ok(()),
    }
}
