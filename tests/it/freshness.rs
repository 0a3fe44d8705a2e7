//! After any edits on disk, a long-running application returns the same answers as a new one.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use proptest::prelude::*;
use proptest::test_runner::TestCaseResult;
use reqlore_application::{Application, ApplicationPorts};
use reqlore_domain::identity::{Access, Caller};
use reqlore_domain::ports::service::{AnswerFormat, NoProgress, ToolCall, ToolService};
use reqlore_search::{LocalSearchIndex, SearchConfig};
use reqlore_storage_fs::{FsProjects, FsStore};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::transcripts::{fs_config, memory_ports};

const FILES: [&str; 6] = ["p.md", "a/p.md", "a/b/p.md", "c/x.md", "x.md", "x.md/p.md"];
const FOLDERS: [&str; 4] = ["a", "a/b", "c", "x.md"];
/// The first two have the same length.
const TEXTS: [&str; 5] = [
    "---\nid: dec-0001\ntags: [red]\nblocks: dec-0002\n---\n# One apple\n",
    "---\nid: dec-0002\ntags: [sea]\nblocks: dec-0001\n---\n# Two pears\n",
    "---\nid: dec-0003\nlabels: [red, dry]\n---\n# An apple and a plum\n",
    "---\nid: [\n---\nA broken plum\n",
    "A pear without front matter\n",
];

#[derive(Debug, Clone)]
enum EditStep {
    Write(usize, usize),
    /// Overwrites in place, keeps the modification time and, if the texts allow it, the length.
    OverwriteInPlace(usize, usize),
    Replace(usize, usize),
    Move(usize, usize),
    Remove(usize),
    MoveFolder(usize, usize),
    RemoveFolder(usize),
    Link(usize),
    MoveTreeAway,
    MoveTreeBack,
    Sync,
    Ask,
}

fn steps() -> impl Strategy<Value = Vec<EditStep>> {
    let (file, folder, text) = (0..FILES.len(), 0..FOLDERS.len(), 0..TEXTS.len());
    let text = (file.clone(), text);
    let step = prop_oneof![
        6 => text.clone().prop_map(|(f, t)| EditStep::Write(f, t)),
        3 => text.clone().prop_map(|(f, t)| EditStep::OverwriteInPlace(f, t % 2)),
        2 => text.prop_map(|(f, t)| EditStep::Replace(f, t)),
        2 => (file.clone(), file.clone()).prop_map(|(a, b)| EditStep::Move(a, b)),
        2 => file.clone().prop_map(EditStep::Remove),
        1 => (folder.clone(), folder.clone()).prop_map(|(a, b)| EditStep::MoveFolder(a, b)),
        2 => folder.prop_map(EditStep::RemoveFolder),
        1 => file.prop_map(EditStep::Link),
        1 => Just(EditStep::MoveTreeAway),
        2 => Just(EditStep::MoveTreeBack),
        1 => Just(EditStep::Sync),
        7 => Just(EditStep::Ask),
    ];
    prop::collection::vec(step, 1..30)
}

/// Applies a step. Callers ignore the error of a step that is impossible now.
fn apply_step(root: &Path, step: &EditStep) -> std::io::Result<()> {
    let ixchel = root.join(".ixchel");
    let file = |file: usize| ixchel.join(FILES[file]);
    let folder = |folder: usize| ixchel.join(FOLDERS[folder]);
    match *step {
        EditStep::Write(f, t) => {
            fs::create_dir_all(file(f).parent().unwrap())?;
            fs::write(file(f), TEXTS[t])
        }
        EditStep::OverwriteInPlace(f, t) => {
            let mut file = OpenOptions::new().write(true).open(file(f))?;
            let modified = file.metadata()?.modified()?;
            file.write_all(TEXTS[t].as_bytes())?;
            file.set_modified(modified)
        }
        EditStep::Replace(f, t) => {
            fs::write(root.join("temp"), TEXTS[t])?;
            fs::rename(root.join("temp"), file(f))
        }
        EditStep::Move(from, to) => fs::rename(file(from), file(to)),
        EditStep::Remove(f) => fs::remove_file(file(f)),
        EditStep::MoveFolder(from, to) => fs::rename(folder(from), folder(to)),
        EditStep::RemoveFolder(d) => fs::remove_dir_all(folder(d)),
        EditStep::Link(f) => {
            fs::remove_file(file(f))?;
            symlink("p.md", file(f))
        }
        EditStep::MoveTreeAway => fs::rename(ixchel, root.join("away")),
        EditStep::MoveTreeBack => fs::rename(root.join("away"), ixchel),
        EditStep::Sync | EditStep::Ask => Ok(()),
    }
}

fn application(root: &Path, cache: Option<PathBuf>) -> Application {
    let config = reqlore_storage_fs::Config { cache, ..fs_config(root) };
    let store = Arc::new(FsStore::new(&config));
    Application::new(ApplicationPorts {
        idempotency: store.clone(),
        documents: store.clone(),
        history: store,
        projects: Arc::new(FsProjects::new(&config)),
        ..memory_ports(Arc::new(LocalSearchIndex::new(SearchConfig::default())))
    })
}

async fn call_tool(
    application: &Application,
    tool: &str,
    arguments: Value,
) -> Result<Value, String> {
    let call = ToolCall {
        caller: Arc::new(Caller::local("tester", Access::Write)),
        client_name: None,
        correlation_id: "test".to_owned(),
        name: tool.to_owned(),
        arguments: arguments.as_object().unwrap().clone(),
        progress_sink: Arc::new(NoProgress),
        idempotency_key: None,
        answer_format: AnswerFormat::Both,
        is_audited: false,
    };
    let answer = application.call(call).await.map_err(|error| error.message)?;
    Ok(Value::clone(&answer.data))
}

/// Removes scores and sorts hits, because hits of equal score have no defined order.
fn without_scores(answer: Result<Value, String>) -> Result<Value, String> {
    let mut answer = answer?;
    if let Some(hits) = answer["hits"].as_array_mut() {
        for hit in &mut *hits {
            hit.as_object_mut().unwrap().remove("score");
        }
        hits.sort_by_key(Value::to_string);
    }
    Ok(answer)
}

async fn compare_with_new(long_running_app: &Application, root: &Path) -> TestCaseResult {
    let new_app = application(root, None);
    let mut calls = vec![("ixchel_tags", json!({})), ("ixchel_tags", json!({ "untagged": true }))];
    for id in ["dec-0001", "dec-0002", "dec-0003", "p", "a/p", "x", "x.md/p", "nothing"] {
        calls.push(("ixchel_show", json!({ "id": id })));
        calls.push(("ixchel_graph", json!({ "id": id })));
    }
    for query in ["apple", "pear plum", "dec-0002", "red"] {
        calls.push(("ixchel_search", json!({ "query": query, "limit": 100 })));
    }
    for (tool, arguments) in calls {
        let long_running =
            without_scores(call_tool(long_running_app, tool, arguments.clone()).await);
        let fresh = without_scores(call_tool(&new_app, tool, arguments.clone()).await);
        prop_assert_eq!(long_running, fresh, "{} {}", tool, arguments);
    }
    Ok(())
}

fn play_steps(steps: &[EditStep]) -> TestCaseResult {
    let folder = TempDir::new().unwrap();
    let (root, cache) = (folder.path().join("repo"), folder.path().join("cache"));
    fs::create_dir_all(root.join(".ixchel")).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let long_running_app = application(&root, Some(cache));
        for step in steps {
            match step {
                EditStep::Ask => compare_with_new(&long_running_app, &root).await?,
                EditStep::Sync => {
                    let sync = |application| call_tool(application, "ixchel_sync", json!({}));
                    let new_app = application(&root, None);
                    let (long_running, fresh) =
                        (sync(&long_running_app).await, sync(&new_app).await);
                    let scanned = |answer: Result<Value, String>| {
                        answer.map(|answer| (answer["scanned"].clone(), answer["warnings"].clone()))
                    };
                    prop_assert_eq!(scanned(long_running), scanned(fresh));
                }
                edit => drop(apply_step(&root, edit)),
            }
        }
        compare_with_new(&long_running_app, &root).await
    })
}

#[test]
fn search_does_not_name_a_folder_as_a_document() {
    use EditStep::{MoveTreeAway, Sync, Write};
    play_steps(&[Write(4, 0), Sync, MoveTreeAway, Write(5, 0)]).unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(32)
    })]

    #[test]
    fn caches_long_running_application_answers_like_a_new_one(steps in steps()) {
        play_steps(&steps)?;
    }
}
