//! What is refused at the start, and that nothing is lost by it.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use reqlore_contract::run;
use reqlore_domain::document::{DocumentId, DocumentMeta, Kind};
use reqlore_domain::ports::documents::{BacklinkQuery, DocumentRepository};
use reqlore_domain::project::ProjectKey;
use tempfile::tempdir;

use super::{base, config, get, put, refused, told};
use crate::SledStore;
use crate::base::{DOCUMENTS, LINKS, META, REFERENCES};
use crate::folder::MARK;
use crate::heads::FORMAT;
use crate::keys;
use crate::open::SCHEMA_KEY;
use crate::values::{Row, SCHEMA, decode, encode};

/// A closed database with so many sections of a kilobyte.
async fn filled(folder: &Path, sections: usize) {
    let store = SledStore::open(&config(folder)).unwrap();
    for number in 0..sections {
        put(&store, &DocumentId::section(number.to_string()), &text(number)).await.unwrap();
    }
    store.close().unwrap();
}

fn text(number: usize) -> String {
    format!("{number} ").repeat(500)
}

fn copied(from: &Path, to: &Path) {
    fs::create_dir_all(to.join("blobs")).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        if entry.file_type().unwrap().is_file() {
            fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
        }
    }
}

#[test]
fn a_second_open_is_refused_at_once() {
    let folder = tempdir().unwrap();
    let first = SledStore::open(&config(folder.path())).unwrap();
    let text = refused(folder.path());
    assert!(text.contains("already served by another process"), "{text}");
    // The other one may just be making a snapshot.
    let snapshot = folder.path().join("sled/snap.00000000000000FF.generating");
    fs::write(&snapshot, "half").unwrap();
    let text = refused(folder.path());
    assert!(text.contains("already served by another process"), "{text}");
    fs::remove_file(&snapshot).unwrap();
    first.close().unwrap();
    SledStore::open(&config(folder.path())).unwrap();
    assert!(told(first.opened()).contains("closed"));
}

#[test]
fn a_newer_schema_is_refused() {
    let folder = tempdir().unwrap();
    let store = SledStore::open(&config(folder.path())).unwrap();
    base(&store).tree(META).insert(SCHEMA_KEY, &[SCHEMA + 1]).unwrap();
    store.close().unwrap();
    let text = refused(folder.path());
    assert!(text.contains("newer version"), "{text}");
}

#[test]
fn a_folder_of_others_is_refused_and_left_alone() {
    let folder = tempdir().unwrap();
    let sled = folder.path().join("sled");
    fs::create_dir(&sled).unwrap();
    fs::write(sled.join("thesis.txt"), "mine").unwrap();
    assert!(refused(folder.path()).contains("other files"));
    assert_eq!(fs::read_dir(&sled).unwrap().count(), 1);
    fs::remove_dir_all(&sled).unwrap();
    fs::write(&sled, "a file").unwrap();
    assert!(refused(folder.path()).contains("instead of a file"));
}

#[test]
fn a_new_folder_is_private() {
    let folder = tempdir().unwrap();
    let config = crate::Config { folder: folder.path().join("a/b") };
    SledStore::open(&config).unwrap();
    let mode = fs::metadata(&config.folder).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
}

#[test]
fn a_snapshot_that_was_left_behind_is_set_aside() {
    let folder = tempdir().unwrap();
    run(filled(folder.path(), 1));
    let sled = folder.path().join("sled");
    let left = "snap.00000000000000FF.generating";
    fs::write(sled.join(left), "half").unwrap();
    for _ in 0..3 {
        run(filled(folder.path(), 2));
    }
    let aside = sled.join("left-behind.snap.00000000000000FF");
    assert_eq!(fs::read(aside).unwrap(), b"half");
    assert!(fs::metadata(sled.join(left)).is_err());
}

#[test]
fn a_start_that_was_killed_while_making_it_goes_on() {
    let folder = tempdir().unwrap();
    let sled = folder.path().join("sled");
    fs::create_dir_all(sled.join("blobs")).unwrap();
    fs::write(sled.join(MARK), "").unwrap();
    SledStore::open(&config(folder.path())).unwrap().close().unwrap();
    fs::remove_dir_all(&sled).unwrap();
    let db = sled::Config::new().path(&sled).open().unwrap();
    db.open_tree("meta").unwrap();
    drop(db);
    fs::write(sled.join("acknowledged"), "").unwrap();
    fs::write(sled.join(MARK), "").unwrap();
    crate::open::wait_until_free(&sled).unwrap();
    SledStore::open(&config(folder.path())).unwrap();
}

#[test]
fn a_database_that_was_cut_off_is_refused() {
    let folder = tempdir().unwrap();
    run(filled(folder.path(), 400));
    let whole = folder.path().join("sled");
    let length = fs::metadata(whole.join("db")).unwrap().len();
    for part in 0..8 {
        let cut = tempdir().unwrap();
        let sled = cut.path().join("sled");
        copied(&whole, &sled);
        fs::File::options()
            .write(true)
            .open(sled.join("db"))
            .unwrap()
            .set_len(length * part / 8)
            .unwrap();
        let text = refused(cut.path());
        assert!(text.contains("`reqlore restore`"), "{part}: {text}");
        assert!(sled.join("db").metadata().is_ok(), "nothing is deleted");
    }
    fs::remove_file(whole.join("db")).unwrap();
    assert!(refused(folder.path()).contains("lacks its file db"));
    assert!(whole.join("db").metadata().is_err(), "no empty one takes its place");
}

/// Wherever bytes of the file were changed: refused, told, or harmless; never another text.
#[test]
fn a_database_with_changed_bytes_never_lies() {
    let folder = tempdir().unwrap();
    run(filled(folder.path(), 200));
    let whole = folder.path().join("sled");
    let length = fs::metadata(whole.join("db")).unwrap().len();
    let mut refusals = 0;
    for part in 0..24 {
        let harmed = tempdir().unwrap();
        let sled = harmed.path().join("sled");
        copied(&whole, &sled);
        let mut bytes = fs::read(sled.join("db")).unwrap();
        let at = usize::try_from(length * part / 24).unwrap() + 77;
        bytes[at..at + 64].fill(0xa5);
        fs::write(sled.join("db"), bytes).unwrap();
        let Ok(store) = SledStore::open(&config(harmed.path())) else {
            assert!(refused(harmed.path()).contains("`reqlore restore`"));
            refusals += 1;
            continue;
        };
        run(async {
            for number in 0..200 {
                match get(&store, &DocumentId::section(number.to_string())).await {
                    Ok(Some(document)) => assert_eq!(document.body, text(number)),
                    Ok(None) => panic!("{part}: {number} is lost and nobody says so"),
                    Err(error) => assert!(error.to_string().contains("reqlore restore")),
                }
            }
        });
    }
    assert!(refusals > 0);
}

#[test]
fn heads_are_made_anew_for_another_format() {
    let folder = tempdir().unwrap();
    let id = DocumentId::entity("decisions/first");
    run(async {
        let store = SledStore::open(&config(folder.path())).unwrap();
        put(&store, &id, "---\nid: dec-1d2c8f\ntitle: T\nof: EP-1\n---\n").await.unwrap();
        let base = base(&store);
        let (key, value) = base.tree(DOCUMENTS).first().unwrap().unwrap();
        let mut row: Row = decode(&key, &value).unwrap();
        row.head = b"of another format".to_vec();
        row.reference = None;
        base.tree(DOCUMENTS).insert(&key, encode(&key, &row)).unwrap();
        base.tree(REFERENCES).clear().unwrap();
        base.tree(LINKS).clear().unwrap();
        let stale = [keys::link(1, Kind::Entity, "EP-002"), id.name.clone().into()].concat();
        base.tree(LINKS).insert(stale, &[][..]).unwrap();
        base.tree(META).insert(FORMAT, encode(FORMAT, &(DocumentMeta::FORMAT + 1))).unwrap();
        drop(base);
        store.close().unwrap();
        let store = SledStore::open(&config(folder.path())).unwrap();
        let words = ["dec-1d2c8f".to_owned()];
        let named = store.lookup(&ProjectKey::default(), Kind::Entity, &words).await.unwrap();
        assert_eq!(named[0][0].entity.as_ref().map(|entity| entity.title.as_str()), Some("T"));
        let links = BacklinkQuery { kinds: Kind::ALL.to_vec(), targets: vec!["EP-001".to_owned()] };
        let linking = store.backlinks(&ProjectKey::default(), &links).await.unwrap();
        assert_eq!(linking[0][0].id, id, "links are made anew too");
        assert_eq!(self::base(&store).tree(LINKS).len(), 1);
    });
}
