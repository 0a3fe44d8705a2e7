//! After kill -9, every acknowledged undo is stored once, as the change that it is.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::json;

use crate::backlog::{create_epic, create_story, data};
use crate::client::{Server, call, project, storage_argument};
use crate::crash::{
    ItemState, SeededRandom, item_state, kill_server, run_rounds, run_writers, start_server,
};

macro_rules! tests {
    ($($name:ident: $storage:literal;)+) => {$(
        #[test]
        fn $name() {
            check_undos($storage);
        }
    )+};
}

tests! {
    undos_survive_kill_9_on_files: "fs";
    undos_survive_kill_9_on_sqlite: "sqlite";
    undos_survive_kill_9_on_sled: "sled";
    undos_survive_kill_9_on_postgres: "postgres";
}

/// The title of an epic, `None` if it is deleted.
type Title = Option<String>;

/// An epic with a story, which is deleted and restored with it.
struct ChangedEpic {
    story: String,
    /// The present title, and the one that an undo restores.
    titles: [Title; 2],
    /// The titles after the write that was not acknowledged.
    pending: Option<[Title; 2]>,
    changes: usize,
}

/// Several servers change, delete and undo. Each writer has its own epic.
fn check_undos(storage: &str) {
    let storage = &*storage_argument(storage);
    let project = project();
    let root = project.path();
    let mut epics: BTreeMap<String, ChangedEpic> = BTreeMap::new();
    let (mut unapplied, mut undone) = (0, 0);
    let rounds = run_rounds(|_, random| {
        for (epic, undos, changed) in run_writers(storage, root, random, |_, server, random| {
            change_until_killed(server, root, random)
        }) {
            undone += undos;
            epics.insert(epic, changed);
        }
        let mut server = start_server(storage, root);
        for (epic, changed) in &mut epics {
            unapplied += check_epic(&mut server, epic, changed);
        }
        assert!(server.end().1.success());
    });
    println!("{storage}: {rounds} rounds, {undone} undos, {unapplied} writes not applied");
    assert!(undone > 0, "too few writes for a meaningful test");
}

/// Kills the server during a change. Returns the epic and the number of acknowledged undos.
fn change_until_killed(
    mut server: Server,
    root: &Path,
    mut random: SeededRandom,
) -> (String, usize, ChangedEpic) {
    let epic = create_epic(&mut server, "T0");
    let story = create_story(&mut server, &epic, "Story");
    let titles = [Some("T0".to_owned()), None];
    let mut changed = ChangedEpic { story, titles, pending: None, changes: 1 };
    let (last, mut undos) = (1 + random.below(8), 0);
    for number in 1..=last {
        let present = changed.titles[0].clone();
        let title = format!("T{number}");
        // An undo of the creation is refused because of the story.
        let is_undo = number > 1 && (present.is_none() || random.below(2) == 0);
        let (tool, arguments, titles) = if is_undo {
            let [present, before] = changed.titles.clone();
            ("undo", json!({ "reference": epic }), [before, present])
        } else if number > 1 && random.below(3) == 0 {
            let arguments = json!({ "reference": epic, "cascade": true });
            ("delete_item", arguments, [None, present])
        } else {
            let arguments = json!({ "epic": epic, "title": title });
            ("update_epic", arguments, [Some(title), present])
        };
        server.send(call(number, tool, root, arguments).to_string());
        if number == last {
            changed.pending = Some(titles);
            for _ in 0..random.below(20_000) {
                std::hint::black_box(root.symlink_metadata().is_ok());
            }
        } else {
            data(&server.answer());
            undos += usize::from(is_undo);
            changed.titles = titles;
            changed.changes += 1;
        }
    }
    kill_server(server);
    (epic, undos, changed)
}

/// Compares an epic with the acknowledged writes. Returns 1 if the last write was not applied.
fn check_epic(server: &mut Server, epic: &str, changed: &mut ChangedEpic) -> usize {
    let found = match item_state(server, epic) {
        ItemState::Live(title) => Some(title),
        ItemState::Deleted => None,
        ItemState::Missing => panic!("{epic} was lost"),
    };
    let mut unapplied = 0;
    if let Some(pending) = changed.pending.take() {
        if found == pending[0] {
            changed.titles = pending;
            changed.changes += 1;
        } else {
            unapplied = 1;
        }
    }
    assert_eq!(found, changed.titles[0], "{epic}");
    let story = item_state(server, &changed.story);
    assert_eq!(matches!(story, ItemState::Live(_)), found.is_some(), "{epic}: {story:?}");
    let history = server.call("get_history", json!({ "reference": epic, "limit": 100 }));
    let versions = data(&history)["versions"].as_array().unwrap().len();
    assert_eq!(versions, changed.changes, "a change is lost or stored twice: {history}");
    unapplied
}
