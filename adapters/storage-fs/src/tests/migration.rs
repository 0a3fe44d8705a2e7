//! Team data of 0.1.0 (`data_0_1`): reading it, migrating it, and killed migrations.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use reqlore_contract::run as block_on;
use reqlore_domain::ports::documents::StoreError;
use reqlore_domain::ports::idempotency::IdempotencyStore;
use reqlore_domain::ports::identity::IdentityRepository;
use reqlore_local_state::team_file::CreationStep;
use tempfile::TempDir;

use super::crash::{audited_changes, chain};
use super::team::put_audited;
use super::{LOCAL, PROJECT, check_refused, child_argument, config, files, run_child};
use crate::failpoint::FailPoint;
use crate::failpoint::under_test::{Act, plan};
use crate::{FsStore, local};

const KEY: &str = "fa5ad3a4f95a472a2ad859cb6a29a5ed";
const NOTE: &str = "pending/37a8eec1ce19687d";
const SECOND_EPIC: &str = ".reqlore/backlog/epics/EP-002-a02518.md";
const ROWS: usize = 6;

/// A project with data of 0.1.0.
fn fixture() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/tests/data_0_1");
    copy(&data, &folder.path().join(".reqlore"));
    folder
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    fs::set_permissions(to, fs::Permissions::from_mode(0o700)).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), &target).unwrap();
            seal(&target, |text| text);
        }
    }
}

/// Writes the identity of the file into its first line.
fn seal(file: &Path, change: impl FnOnce(String) -> String) {
    fs::set_permissions(file, fs::Permissions::from_mode(0o600)).unwrap();
    let text = change(fs::read_to_string(file).unwrap());
    let field = "\"file\":\"";
    let Some(start) = text.find(field).map(|index| index + field.len()) else { return };
    let own = local::file_identity(&fs::metadata(file).unwrap());
    fs::write(file, [&text[..start], &own, &text[start + own.len()..]].concat()).unwrap();
}

#[track_caller]
fn check_data(store: &FsStore, rows: usize, case: &str) {
    block_on(async {
        let users = store.list_users().await.unwrap();
        assert_eq!(users.len(), 1, "{case}");
        let [token] = &store.list_tokens().await.unwrap()[..] else { panic!("{case}") };
        assert!(token.last_used_at.is_some(), "{case}");
        let owner = store.token_owner(&token.id).await.unwrap().unwrap();
        assert_eq!(owner.user, users[0], "{case}");
        let record = store.find_record(KEY).await.unwrap().unwrap();
        assert!(record.answer.is_some_and(|answer| answer.contains("EP-001")), "{case}");
    });
    let chain = chain(store);
    assert_eq!((chain.len(), audited_changes(&chain)), (rows, (3, 0)), "{case}: {chain:?}");
}

#[test]
fn data_of_0_1_0_is_read_without_changes() {
    let folder = fixture();
    let contents = || -> Vec<(PathBuf, Vec<u8>)> {
        let files = files(folder.path()).into_iter();
        files.map(|path| (path.clone(), fs::read(path).unwrap())).collect()
    };
    let before = contents();
    check_data(&FsStore::new(&config(folder.path())), ROWS, "new");
    check_data(&FsStore::open(&config(folder.path())).unwrap(), ROWS, "open");
    assert_eq!(contents(), before);
}

#[test]
fn first_write_migrates_and_blocks_0_1_0() {
    let folder = fixture();
    let root = folder.path();
    let other = FsStore::new(&config(root));
    check_data(&other, ROWS, "before");
    let store = FsStore::open(&config(root)).unwrap();
    block_on(put_audited(&store, &PROJECT(), "a")).unwrap();
    assert_eq!(chain(&store).len(), ROWS + 1);
    assert_eq!(chain(&other).len(), ROWS + 1);
    block_on(put_audited(&other, &PROJECT(), "b")).unwrap();
    assert_eq!(chain(&store).len(), ROWS + 2);
    let local = root.join(LOCAL);
    for name in ["identity.json", "uses.json", "once", "pending"] {
        assert!(local.join(format!("{name}.migrated-0.1")).symlink_metadata().is_ok(), "{name}");
    }
    // 0.1.0 reports such a file as one of a later version, and refuses to start.
    for (kind, name) in
        [("identity", "identity.json"), ("audit", "audit/18446744073709551615.jsonl")]
    {
        let file = local.join(name);
        let own = local::file_identity(&fs::metadata(&file).unwrap());
        let begin = format!("{{\"format\":\"reqlore {kind} 2\",\"file\":\"{own}\",");
        assert!(fs::read_to_string(file).unwrap().starts_with(&begin), "{name}");
    }
    let segments = fs::read_dir(local.join("audit")).unwrap();
    assert_eq!(segments.count(), 2, "the old segment is renamed");
}

#[test]
fn new_database_blocks_0_1_0() {
    let folder = tempfile::tempdir().unwrap();
    let store = FsStore::open(&config(folder.path())).unwrap();
    block_on(put_audited(&store, &PROJECT(), "a")).unwrap();
    let barrier = fs::read_to_string(folder.path().join(LOCAL).join("identity.json")).unwrap();
    assert!(barrier.contains("reqlore identity 2"), "{barrier}");
}

#[test]
fn interrupted_commit_of_0_1_0_is_decided_by_documents() {
    let states = [("open", true), ("open", false), ("withdrawn", true), ("settled", false)];
    for (state, exists) in states {
        let folder = fixture();
        let root = folder.path();
        seal(&root.join(LOCAL).join(NOTE), |text| {
            text.replace("settled\",\"row", &format!("{state}\",\"row"))
        });
        if !exists {
            fs::remove_file(root.join(SECOND_EPIC)).unwrap();
        }
        let store = FsStore::open(&config(root)).unwrap();
        store.migrate_team().unwrap();
        let is_rolled_back = state == "withdrawn" || (state == "open" && !exists);
        let expected = if is_rolled_back { (2, 1) } else { (3, 0) };
        assert_eq!(audited_changes(&chain(&store)), expected, "{state} {exists}");
    }
}

#[test]
fn damaged_or_copied_old_files_are_rejected_and_kept() {
    let folder = fixture();
    let root = folder.path();
    let segment = root.join(LOCAL).join("audit/00000000000000000001.jsonl");
    seal(&segment, |text| text.replace("\"number\":2", "\"number\":x"));
    let store = FsStore::open(&config(root)).unwrap();
    let Err(StoreError::Unreadable { place, reason }) = store.migrate_team() else { panic!() };
    assert!(place.ends_with("1.jsonl") && reason.contains("line 3 "), "{place}: {reason}");
    let users = root.join(LOCAL).join("identity.json");
    let text = fs::read_to_string(&users).unwrap();
    fs::write(&users, text.replacen("\"file\":\"0", "\"file\":\"1", 1)).unwrap();
    check_refused(block_on(store.list_users()), LOCAL, "came with a clone or a copy");
    check_refused(store.migrate_team(), LOCAL, "came with a clone or a copy");
    assert!(root.join(LOCAL).join("team.id").symlink_metadata().is_err());
}

const STEPS: [CreationStep; 5] = [
    CreationStep::DatabaseWritten,
    CreationStep::OldVersionBlocked,
    CreationStep::IdentitiesWritten,
    CreationStep::DatabaseNamed,
    CreationStep::OldFileRenamed,
];

/// The child process of the migration test; does nothing in an ordinary test run.
#[test]
fn killed_child_process() {
    let Some(argument) = child_argument() else { return };
    let [root, step, times] = argument.split('|').collect::<Vec<_>>()[..] else { return };
    plan(
        FailPoint::Team(STEPS[step.parse::<usize>().unwrap()]),
        times.parse().unwrap(),
        Act::Abort,
    );
    FsStore::new(&config(Path::new(root))).migrate_team().unwrap();
}

#[test]
fn migration_killed_at_any_step_starts_again() {
    // The last step occurs once for each renamed file.
    let cases = (0..STEPS.len()).map(|step| (step, 0)).chain((1..4).map(|times| (4, times)));
    for (step, times) in cases {
        for is_killed in [true, false] {
            let folder = fixture();
            let root = folder.path();
            let case = format!("{:?} x{times}", STEPS[step]);
            if is_killed {
                let argument = format!("{}|{step}|{times}", root.display());
                let child = run_child("", "migration::killed_child_process", &argument);
                assert!(!child.status.success(), "{case}");
            } else {
                plan(FailPoint::Team(STEPS[step]), times, Act::Fail);
                assert!(FsStore::new(&config(root)).migrate_team().is_err(), "{case}");
            }
            check_data(&FsStore::new(&config(root)), ROWS, &case);
            let store = FsStore::open(&config(root)).unwrap();
            block_on(put_audited(&store, &PROJECT(), "a")).unwrap();
            assert_eq!(chain(&FsStore::new(&config(root))).len(), ROWS + 1, "{case}");
            let old = root.join(LOCAL).join("identity.json.migrated-0.1");
            assert!(old.symlink_metadata().is_ok(), "{case}");
        }
    }
}
