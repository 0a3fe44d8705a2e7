//! After any edits on disk, an application that ran all the time answers as a new one does.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use proptest::prelude::*;
use proptest::test_runner::TestCaseResult;
use reqlore_application::{Application, ApplicationPorts};
use reqlore_domain::identity::{Access, Caller};
use reqlore_domain::ports::service::{ApplicationService, NoProgress, ToolCall};
use reqlore_search::{Config, Index};
use reqlore_storage_fs::{FsProjects, FsStore};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::transcripts::{files, in_memory};

const FILES: [&str; 6] = ["p.md", "a/p.md", "a/b/p.md", "c/x.md", "x.md", "x.md/p.md"];
const FOLDERS: [&str; 4] = ["a", "a/b", "c", "x.md"];
/// The first two are of one length.
const TEXTS: [&str; 5] = [
    "---\nid: dec-0001\ntags: [red]\nblocks: dec-0002\n---\n# One apple\n",
    "---\nid: dec-0002\ntags: [sea]\nblocks: dec-0001\n---\n# Two pears\n",
    "---\nid: dec-0003\nlabels: [red, dry]\n---\n# An apple and a plum\n",
    "---\nid: [\n---\nA broken plum\n",
    "A pear without front matter\n",
];

#[derive(Debug, Clone)]
enum Step {
    Write(usize, usize),
    /// In place, of the same length where the text allows it, with the time of before.
    Poke(usize, usize),
    Replace(usize, usize),
    Move(usize, usize),
    Remove(usize),
    MoveFolder(usize, usize),
    RemoveFolder(usize),
    Link(usize),
    Away,
    Back,
    Sync,
    Ask,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let (file, folder, text) = (0..FILES.len(), 0..FOLDERS.len(), 0..TEXTS.len());
    let text = (file.clone(), text);
    let step = prop_oneof![
        6 => text.clone().prop_map(|(f, t)| Step::Write(f, t)),
        3 => text.clone().prop_map(|(f, t)| Step::Poke(f, t % 2)),
        2 => text.prop_map(|(f, t)| Step::Replace(f, t)),
        2 => (file.clone(), file.clone()).prop_map(|(a, b)| Step::Move(a, b)),
        2 => file.clone().prop_map(Step::Remove),
        1 => (folder.clone(), folder.clone()).prop_map(|(a, b)| Step::MoveFolder(a, b)),
        2 => folder.prop_map(Step::RemoveFolder),
        1 => file.prop_map(Step::Link),
        1 => Just(Step::Away),
        2 => Just(Step::Back),
        1 => Just(Step::Sync),
        7 => Just(Step::Ask),
    ];
    prop::collection::vec(step, 1..30)
}

/// A step that is impossible now is an error, which callers ignore.
fn apply(root: &Path, step: &Step) -> std::io::Result<()> {
    let ixchel = root.join(".ixchel");
    let file = |file: usize| ixchel.join(FILES[file]);
    let folder = |folder: usize| ixchel.join(FOLDERS[folder]);
    match *step {
        Step::Write(f, t) => {
            fs::create_dir_all(file(f).parent().unwrap())?;
            fs::write(file(f), TEXTS[t])
        }
        Step::Poke(f, t) => {
            let mut file = OpenOptions::new().write(true).open(file(f))?;
            let before = file.metadata()?.modified()?;
            file.write_all(TEXTS[t].as_bytes())?;
            file.set_modified(before)
        }
        Step::Replace(f, t) => {
            fs::write(root.join("temp"), TEXTS[t])?;
            fs::rename(root.join("temp"), file(f))
        }
        Step::Move(from, to) => fs::rename(file(from), file(to)),
        Step::Remove(f) => fs::remove_file(file(f)),
        Step::MoveFolder(from, to) => fs::rename(folder(from), folder(to)),
        Step::RemoveFolder(d) => fs::remove_dir_all(folder(d)),
        Step::Link(f) => {
            fs::remove_file(file(f))?;
            symlink("p.md", file(f))
        }
        Step::Away => fs::rename(ixchel, root.join("away")),
        Step::Back => fs::rename(root.join("away"), ixchel),
        Step::Sync | Step::Ask => Ok(()),
    }
}

fn application(root: &Path, cache: Option<PathBuf>) -> Application {
    let config = reqlore_storage_fs::Config { cache, ..files(root) };
    let store = Arc::new(FsStore::new(&config));
    Application::new(ApplicationPorts {
        answers: store.clone(),
        documents: store,
        projects: Arc::new(FsProjects::new(&config)),
        ..in_memory(Arc::new(Index::new(Config::default())))
    })
}

async fn call(application: &Application, tool: &str, arguments: Value) -> Result<Value, String> {
    let call = ToolCall {
        caller: Arc::new(Caller::local("tester", Access::Write)),
        correlation_id: "test".to_owned(),
        name: tool.to_owned(),
        arguments: arguments.as_object().unwrap().clone(),
        observer: Arc::new(NoProgress),
        idempotency_key: None,
    };
    let reply = application.call(call).await.map_err(|error| error.message)?;
    Ok(Value::clone(&reply.data))
}

/// The part of an answer that is compared: hits of equal score have no order.
fn essence(answer: Result<Value, String>) -> Result<Value, String> {
    let mut answer = answer?;
    if let Some(hits) = answer["hits"].as_array_mut() {
        for hit in &mut *hits {
            hit.as_object_mut().unwrap().remove("score");
        }
        hits.sort_by_key(Value::to_string);
    }
    Ok(answer)
}

async fn compare(old: &Application, root: &Path) -> TestCaseResult {
    let new = application(root, None);
    let mut calls = vec![("ixchel_tags", json!({})), ("ixchel_tags", json!({ "untagged": true }))];
    for id in ["dec-0001", "dec-0002", "dec-0003", "p", "a/p", "x", "x.md/p", "nothing"] {
        calls.push(("ixchel_show", json!({ "id": id })));
        calls.push(("ixchel_graph", json!({ "id": id })));
    }
    for query in ["apple", "pear plum", "dec-0002", "red"] {
        calls.push(("ixchel_search", json!({ "query": query, "limit": 100 })));
    }
    for (tool, arguments) in calls {
        let ours = essence(call(old, tool, arguments.clone()).await);
        let theirs = essence(call(&new, tool, arguments.clone()).await);
        prop_assert_eq!(ours, theirs, "{} {}", tool, arguments);
    }
    Ok(())
}

fn play(steps: &[Step]) -> TestCaseResult {
    let folder = TempDir::new().unwrap();
    let (root, cache) = (folder.path().join("repo"), folder.path().join("cache"));
    fs::create_dir_all(root.join(".ixchel")).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let old = application(&root, Some(cache));
        for step in steps {
            match step {
                Step::Ask => compare(&old, &root).await?,
                Step::Sync => {
                    let sync = |application| call(application, "ixchel_sync", json!({}));
                    let new = application(&root, None);
                    let (ours, theirs) = (sync(&old).await, sync(&new).await);
                    let scanned = |answer: Result<Value, String>| {
                        answer.map(|answer| (answer["scanned"].clone(), answer["warnings"].clone()))
                    };
                    prop_assert_eq!(scanned(ours), scanned(theirs));
                }
                edit => drop(apply(&root, edit)),
            }
        }
        compare(&old, &root).await
    })
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(32)
    })]

    #[test]
    fn caches_long_running_application_answers_like_a_new_one(steps in steps()) {
        play(&steps)?;
    }
}
