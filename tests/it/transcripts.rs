//! Transcripts: requests of a client and the exact answers, on every transport and storage.
//!
//! A file of tests/transcripts holds a line each: `{"note": …}`, `{"file": path, "text": …}` for an
//! edit by hand, `{"call": tool, "with": arguments}` or `{"send": message}`, the latter two
//! followed by `{"expect": answer}`. `{root}` is the project's folder, and in the backlog's
//! transcripts `{uid}`, `{time}` and `{version}` replace values that differ at each run.
//! UPDATE_EXPECT=1 writes the present answers, for review. `{"http": answer}` after an expected
//! answer is for `over_http.rs`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use reqlore_domain::document::{BACKLOG, DocumentId, DocumentKind, folder_of};
use reqlore_domain::ports::documents::{
    CommitRequest, DocumentChange, DocumentRepository, ReadSet,
};
use reqlore_domain::ports::write_context::WriteContext;
use reqlore_domain::project_key::ProjectKey;
use reqlore_domain::timestamp::Timestamp;

use reqlore_application::{Application, ApplicationPorts, ApplicationSettings};
use reqlore_domain::identity::{Access, Caller};
use reqlore_domain::ports::embedder::Embedder;
use reqlore_domain::ports::id_generator::CountedIds;
use reqlore_domain::ports::search::SearchIndex;
use reqlore_embed_static::StaticEmbedder;
use reqlore_search::{Config, Index};
use reqlore_storage_fs::{ConfiguredProjects, FsProjects, FsStore};
use reqlore_storage_memory::{MemoryStore, NamedProjects};
use reqlore_storage_sled::SledStore;
use reqlore_storage_sqlite::SqliteStore;
use reqlore_transport_stdio::{Limits, Stdio};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};

use crate::client::Server;
use crate::repository;

macro_rules! transcripts {
    ($($name:ident)+) => {$(
        mod $name {
            #[test]
            fn transcripts_over_pipes_on_files() {
                super::check(stringify!($name), super::transcripts_over_pipes_on_files);
            }

            #[test]
            fn transcripts_in_process_on_files() {
                super::check(stringify!($name), super::transcripts_in_process_on_files);
            }

            #[test]
            fn transcripts_over_pipes_on_sqlite() {
                super::check(stringify!($name), super::transcripts_over_pipes_on_sqlite);
            }

            #[test]
            fn transcripts_in_process_on_sled() {
                super::check(stringify!($name), super::transcripts_in_process_on_sled);
            }

            #[test]
            fn transcripts_in_process_in_memory() {
                super::check(stringify!($name), super::transcripts_in_process_in_memory);
            }
        }
    )+
        pub(crate) const NAMES: &[&str] = &[$(stringify!($name)),+];
    };
}

transcripts! {
    protocol instructions get set set_policies set_order delete arguments conflicts
    docsets docsets_errors knowledge
    backlog backlog_changes backlog_errors backlog_resources backlog_prompts backlog_search
}

#[test]
fn transcripts_are_all_played() {
    let entries = std::fs::read_dir(folder()).unwrap();
    let mut files: Vec<String> = entries
        .map(|entry| entry.unwrap().path().file_stem().unwrap().to_string_lossy().into_owned())
        .collect();
    files.sort();
    let mut names: Vec<&str> = NAMES.to_vec();
    names.sort_unstable();
    assert_eq!(files, names);
}

pub(crate) fn folder() -> PathBuf {
    repository().join("tests/transcripts")
}

/// A step of a transcript.
pub(crate) enum Step {
    Send(Value),
    Write { path: String, text: String },
}

impl Step {
    pub(crate) fn of(line: &Value) -> Option<Self> {
        if line.get("note").is_some() || line.get("http").is_some() {
            return None;
        }
        let word = |key: &str| line[key].as_str().unwrap().to_owned();
        Some(match line.get("file") {
            Some(_) => Self::Write { path: word("file"), text: word("text") },
            None => Self::Send(request(line)),
        })
    }
}

/// Plays a transcript and compares every answer.
fn check(name: &str, play: fn(&[Step]) -> Vec<Value>) {
    let path = folder().join(format!("{name}.jsonl"));
    let source = std::fs::read_to_string(&path).unwrap();
    let lines: Vec<Value> =
        source.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let said: Vec<&Value> = lines.iter().filter(|line| line.get("expect").is_none()).collect();
    let steps: Vec<Step> = said.iter().filter_map(|line| Step::of(line)).collect();
    let mut answers = play(&steps).into_iter();
    let mut played = Vec::new();
    for line in said {
        played.push(line.to_string());
        if let Some(Step::Send(_)) = Step::of(line) {
            let answer = answers.next().unwrap();
            let answer = if name.starts_with("backlog") { once(&answer) } else { answer };
            played.push(json!({ "expect": answer }).to_string());
        }
    }
    expect_test::expect_file![path].assert_eq(&(played.join("\n") + "\n"));
}

/// The same without values that differ at each run.
pub(crate) fn once(answer: &Value) -> Value {
    serde_json::from_str(&mask(&answer.to_string())).unwrap()
}

fn mask(text: &str) -> String {
    let mut masked = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find(|c: char| c.is_ascii_alphanumeric()) {
        let (before, word) = rest.split_at(start);
        masked.push_str(before);
        let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | ':');
        let end = word.find(|c| !is_part(c)).unwrap_or(word.len());
        let (word, after) = word.split_at(end);
        let is_hex = word.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
        let dashes = |at: &[usize]| at.iter().all(|at| word.as_bytes().get(*at) == Some(&b'-'));
        masked.push_str(match word.len() {
            36 if dashes(&[8, 13, 18, 23]) => "{uid}",
            20 if dashes(&[4, 7]) && word.ends_with('Z') => "{time}",
            16 if is_hex => "{version}",
            8 if is_hex && masked.ends_with("(version ") => "{version}",
            6 if is_hex && is_mark(&masked) => "{mark}",
            _ => word,
        });
        rest = after;
    }
    // YAML quotes those that look like a number.
    let masked = masked + rest;
    let masked = masked.replace("uid: \\\"{uid}\\\"", "uid: {uid}");
    masked.replace("\\\"{mark}\\\"", "{mark}")
}

/// True if the next word is a value of a `linked` key.
fn is_mark(before: &str) -> bool {
    let begins = before.ends_with(": ") || before.ends_with(": \\\"");
    begins && before.rfind("linked: {") > before.rfind('}')
}

#[test]
fn transcripts_variable_parts_are_masked() {
    for mark in ["3f9a1c", "123456", "55e555"] {
        let quoted = if mark == "3f9a1c" { mark.to_owned() } else { format!("\"{mark}\"") };
        let text = json!({ "text": format!("linked: {{US-001: {quoted}}}\nuid: x") }).to_string();
        assert_eq!(mask(&text), r#"{"text":"linked: {US-001: {mark}}\nuid: x"}"#);
    }
}

fn request(line: &Value) -> Value {
    let Some(tool) = line.get("call") else { return line["send"].clone() };
    let mut arguments = line["with"].clone();
    if tool.as_str().unwrap().starts_with("reqlix_") {
        let all = arguments.as_object_mut().unwrap();
        all.entry("project_root").or_insert_with(|| json!("{root}"));
        all.entry("operation_description").or_insert_with(|| json!("a transcript"));
    }
    json!({
        "jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": { "name": tool, "arguments": arguments }
    })
}

fn transcripts_over_pipes_on_files(steps: &[Step]) -> Vec<Value> {
    over_pipes("fs", steps, save)
}

/// Two processes use one database: the server, and this one as the editor.
fn transcripts_over_pipes_on_sqlite(steps: &[Step]) -> Vec<Value> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    over_pipes("sqlite", steps, |root, path, text| {
        let file = root.join(".reqlore/local/reqlore.db");
        let store = SqliteStore::open(&reqlore_storage_sqlite::Config { file }).unwrap();
        runtime.block_on(commit(&store, path, text));
    })
}

fn over_pipes(storage: &str, steps: &[Step], write: impl Fn(&Path, &str, &str)) -> Vec<Value> {
    let project = crate::client::project();
    let root = project.path().to_str().unwrap();
    let mut server = Server::start_with(project.path(), &["--storage", storage]);
    let mut answers = Vec::new();
    for step in steps {
        match step {
            Step::Send(request) => {
                let answer = answered(&mut server, &unmasked(request, root));
                answers.push(masked(&answer, root));
            }
            Step::Write { path, text } => write(project.path(), path, text),
        }
    }
    answers
}

fn transcripts_in_process_on_sled(steps: &[Step]) -> Vec<Value> {
    let project = crate::client::project();
    let files = files(project.path());
    let folder = project.path().join("sled");
    let store = SledStore::open(&reqlore_storage_sled::Config { folder }).unwrap();
    let ports = ApplicationPorts {
        documents: Arc::new(store),
        tree: Some(Arc::new(FsStore::new(&files))),
        projects: Arc::new(ConfiguredProjects::new(&files)),
        ..in_memory(search())
    };
    in_process(steps, ports, project.path(), Writer::Storage)
}

fn transcripts_in_process_on_files(steps: &[Step]) -> Vec<Value> {
    let project = crate::client::project();
    let files = files(project.path());
    let ports = ApplicationPorts {
        documents: Arc::new(FsStore::new(&files)),
        projects: Arc::new(FsProjects::new(&files)),
        ..in_memory(search())
    };
    in_process(steps, ports, project.path(), Writer::Files)
}

fn transcripts_in_process_in_memory(steps: &[Step]) -> Vec<Value> {
    in_process(steps, in_memory(search()), Path::new("/project"), Writer::Storage)
}

pub(crate) fn files(root: &Path) -> reqlore_storage_fs::Config {
    reqlore_storage_fs::Config {
        root: root.to_owned(),
        documents: root.to_owned(),
        requirements_directory: None,
        projects: std::collections::BTreeMap::new(),
        roots: Vec::new(),
        home: None,
        cache: None,
    }
}

pub(crate) fn in_memory(search: Arc<dyn SearchIndex>) -> ApplicationPorts {
    ApplicationPorts {
        documents: Arc::new(MemoryStore::default()),
        tree: None,
        projects: Arc::new(NamedProjects::default()),
        search,
        clock: Arc::new(Timestamp::default()),
        ids: Arc::new(CountedIds::default()),
        answers: Arc::new(MemoryStore::default()),
        audit: None,
        settings: ApplicationSettings::default(),
    }
}

/// The way in which edits reach the documents.
#[derive(Clone, Copy)]
enum Writer {
    Files,
    Storage,
}

pub(crate) fn save(root: &Path, path: &str, text: &str) {
    let path = root.join(path);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

/// Writes the document that belongs to the path.
pub(crate) async fn commit(store: &dyn DocumentRepository, path: &str, text: &str) {
    let entity = path.strip_prefix(".ixchel/").and_then(|path| path.strip_suffix(".md"));
    let id = match entity {
        Some(name) => DocumentId::entity(name),
        None if path == ".knowledge/config.yaml" => DocumentId::docsets(),
        None => {
            let (folder, file) = path.rsplit_once('/').unwrap();
            let name = file.strip_suffix(".md").unwrap().to_owned();
            let is_there =
                |kind: &DocumentKind| folder == format!("{BACKLOG}/{}", folder_of(*kind));
            let kind = DocumentKind::ALL.into_iter().find(is_there);
            let kind = kind.unwrap_or_else(|| panic!("no document lies at {path}"));
            DocumentId { kind, name }
        }
    };
    let put = DocumentChange::put(id.clone(), text.to_owned());
    let act = WriteContext {
        caller: Arc::new(Caller::local("editor", Access::Write)),
        tool: "editor",
        reason: String::new(),
        correlation_id: String::new(),
        at: Timestamp::default(),
        audited: None,
        idempotency_key: None,
    };
    let reads = ReadSet::of(vec![id]);
    let commit =
        CommitRequest { reads, decide: Box::new(move |_| Ok(vec![put.clone()])), context: act };
    store.commit(&ProjectKey::default(), commit).await.unwrap();
}

/// The answer, without the notifications that come before it.
fn answered(server: &mut Server, request: &Value) -> Value {
    let mut answer = server.ask(request);
    while answer.get("id").is_none() {
        answer = server.answer();
    }
    answer
}

/// The index of the product, in memory, with the built-in table.
fn search() -> Arc<dyn SearchIndex> {
    let embedders: Vec<Arc<dyn Embedder>> = vec![Arc::new(StaticEmbedder::new())];
    Arc::new(Index::new(Config { embedders, ..Config::default() }))
}

fn in_process(
    steps: &[Step],
    ports: ApplicationPorts,
    folder: &Path,
    writer: Writer,
) -> Vec<Value> {
    let root = folder.to_str().unwrap();
    let store = Arc::clone(&ports.documents);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let (ours, theirs) = tokio::io::duplex(64 * 1024);
        let caller = Caller::local("tester", Access::Write);
        let stdio = Stdio::new(caller, Limits::default());
        let (read, write) = tokio::io::split(theirs);
        let endpoint = Arc::new(Application::new(ports));
        let served = tokio::spawn(stdio.serve_on(read, write, endpoint));
        let (read, mut write) = tokio::io::split(ours);
        let mut lines = BufReader::new(read).lines();
        let mut answers = Vec::new();
        for step in steps {
            let request = match (step, writer) {
                (Step::Send(request), _) => request,
                (Step::Write { path, text }, Writer::Files) => {
                    save(folder, path, text);
                    continue;
                }
                (Step::Write { path, text }, Writer::Storage) => {
                    commit(&*store, path, text).await;
                    continue;
                }
            };
            let line = format!("{}\n", unmasked(request, root));
            write.write_all(line.as_bytes()).await.unwrap();
            let mut answer = Value::Null;
            while answer.get("id").is_none() {
                let line = lines.next_line().await.unwrap().unwrap();
                answer = serde_json::from_str(&line).unwrap();
            }
            answers.push(masked(&answer, root));
        }
        write.shutdown().await.unwrap();
        served.await.unwrap().unwrap();
        answers
    })
}

pub(crate) fn unmasked(request: &Value, root: &str) -> Value {
    serde_json::from_str(&request.to_string().replace("{root}", root)).unwrap()
}

pub(crate) fn masked(answer: &Value, root: &str) -> Value {
    serde_json::from_str(&answer.to_string().replace(root, "{root}")).unwrap()
}
