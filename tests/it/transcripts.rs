//! Transcripts: client requests and their exact answers, on every transport and storage.
//!
//! Each line of a file in tests/transcripts is one of:
//! - `{"note": …}`;
//! - `{"file": path, "text": …}`, an edit on disk;
//! - `{"call": tool, "with": arguments}` or `{"send": message}`, followed by `{"expect": answer}`;
//! - `{"http": answer}`, an answer that differs over HTTP (`transcripts_http.rs`).
//!
//! `{root}` is the project's folder, `{entity1}` the id of the first entity that a tool created. In
//! transcripts of changes `{uid}`, `{time}`, `{version}`, `{plan}` and `{mark}` replace values that
//! differ in each run. `UPDATE_EXPECT=1` writes the current answers.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use reqlore_domain::document::{BACKLOG_FOLDER, DocumentId, DocumentKind, backlog_folder_of};
use reqlore_domain::ports::Store;
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
use reqlore_domain::ports::service::{AnswerFormat, NoProgress};
use reqlore_embed_static::StaticEmbedder;
use reqlore_search::{LocalSearchIndex, SearchConfig};
use reqlore_storage_fs::{FsProjects, FsStore};
use reqlore_storage_memory::{NamedProjects, memory_store};
use reqlore_storage_postgres::{PasswordSources, PostgresConfig};
use reqlore_storage_sled::SledConfig;
use reqlore_storage_sqlite::SqliteConfig;
use reqlore_test_postgres::FaultyProxy;
use reqlore_transport_stdio::{StdioLimits, StdioTransport};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};

use crate::client::{Server, storage_argument, take_folder_note};
use crate::repository;

macro_rules! transcripts {
    ($($name:ident)+) => {$(
        mod $name {
            #[test]
            fn transcripts_over_pipes_on_files() {
                super::check(stringify!($name), true, super::transcripts_over_pipes_on_files);
            }

            #[test]
            fn transcripts_over_pipes_on_sqlite() {
                super::check(stringify!($name), false, super::transcripts_over_pipes_on_sqlite);
            }

            #[test]
            fn transcripts_over_pipes_on_postgres() {
                super::check(stringify!($name), false, super::transcripts_over_pipes_on_postgres);
            }

            #[test]
            fn transcripts_over_pipes_on_postgres_with_faults() {
                let play = super::transcripts_over_pipes_on_postgres_with_faults;
                super::check(stringify!($name), false, play);
            }

            #[test]
            fn transcripts_in_process_on_sled() {
                super::check(stringify!($name), false, super::transcripts_in_process_on_sled);
            }

            #[test]
            fn transcripts_in_process_in_memory() {
                super::check(stringify!($name), false, super::transcripts_in_process_in_memory);
            }
        }
    )+
        pub(crate) const NAMES: &[&str] = &[$(stringify!($name)),+];
    };
}

transcripts! {
    protocol instructions get set set_policies set_order set_groups delete arguments conflicts
    docsets docsets_errors knowledge knowledge_apply_changes knowledge_changes
    superseding_changes
    backlog backlog_addresses backlog_apply backlog_changes backlog_errors backlog_files
    backlog_history backlog_import backlog_lenient backlog_resources backlog_prompts backlog_search
}

#[test]
fn transcripts_are_all_played() {
    let entries = std::fs::read_dir(transcripts_folder()).unwrap();
    let mut files: Vec<String> = entries
        .map(|entry| entry.unwrap().path().file_stem().unwrap().to_string_lossy().into_owned())
        .collect();
    files.sort();
    let mut names: Vec<&str> = NAMES.to_vec();
    names.sort_unstable();
    assert_eq!(files, names);
}

pub(crate) fn transcripts_folder() -> PathBuf {
    repository().join("tests/transcripts")
}

pub(crate) enum Step {
    Send(Value),
    Write { path: String, text: String },
}

impl Step {
    pub(crate) fn parse(line: &Value) -> Option<Self> {
        if ["note", "http", "files"].iter().any(|key| line.get(key).is_some()) {
            return None;
        }
        let field = |key: &str| line[key].as_str().unwrap().to_owned();
        Some(match line.get("file") {
            Some(_) => Self::Write { path: field("file"), text: field("text") },
            None => Self::Send(step_request(line)),
        })
    }
}

/// Runs a transcript and compares every answer.
fn check(name: &str, is_on_files: bool, play: fn(&[Step]) -> Vec<Value>) {
    let path = transcripts_folder().join(format!("{name}.jsonl"));
    let source = std::fs::read_to_string(&path).unwrap();
    let lines: Vec<Value> =
        source.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let is_answer = |line: &Value| line.get("expect").is_some() || line.get("files").is_some();
    let steps: Vec<Step> =
        lines.iter().filter(|line| !is_answer(line)).filter_map(Step::parse).collect();
    let mut answers = play(&steps).into_iter();
    let mut recorded = Vec::new();
    for (index, line) in lines.iter().enumerate().filter(|(_, line)| !is_answer(line)) {
        recorded.push(line.to_string());
        let Some(Step::Send(_)) = Step::parse(line) else { continue };
        let answer = mask_variable_parts(name, answers.next().unwrap());
        let expected = lines.get(index + 1).and_then(|line| line.get("expect"));
        let on_files = lines.get(index + 2).and_then(|line| line.get("files"));
        // A run on files keeps the answer of the other storages, and they keep its answer.
        let (expected, on_files) = match expected {
            Some(expected) if is_on_files => {
                (expected.clone(), (answer != *expected).then_some(answer))
            }
            _ => (answer, on_files.cloned()),
        };
        recorded.push(json!({ "expect": expected }).to_string());
        recorded.extend(on_files.map(|answer| json!({ "files": answer }).to_string()));
    }
    expect_test::expect_file![path].assert_eq(&(recorded.join("\n") + "\n"));
}

/// Replaces values that differ in each run, in transcripts that change items or entities.
pub(crate) fn mask_variable_parts(name: &str, answer: Value) -> Value {
    if !name.starts_with("backlog") && !name.ends_with("changes") {
        return answer;
    }
    let mut text = mask_text(&answer.to_string());
    if name.ends_with("changes") {
        text = mask_scores(&text);
    }
    serde_json::from_str(&text).unwrap()
}

fn mask_text(text: &str) -> String {
    let mut masked = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find(|c: char| c.is_ascii_alphanumeric()) {
        let (before, word) = rest.split_at(start);
        masked.push_str(before);
        let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | ':');
        let end = word.find(|c| !is_part(c)).unwrap_or(word.len());
        let (word, remaining) = word.split_at(end);
        let is_hex = word.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
        let dashes = |at: &[usize]| at.iter().all(|at| word.as_bytes().get(*at) == Some(&b'-'));
        masked.push_str(match word.len() {
            36 if dashes(&[8, 13, 18, 23]) => "{uid}",
            20 if dashes(&[4, 7]) && word.ends_with('Z') => "{time}",
            16 if is_hex => "{version}",
            8 if is_hex && masked.ends_with(' ') => "{version}",
            5 if masked.ends_with("nplan: ") || masked.ends_with("\"plan\":\"") => "{plan}",
            6 if is_hex && follows_linked_key(&masked) => "{mark}",
            _ => word,
        });
        rest = remaining;
    }
    // YAML quotes values that look like a number.
    let masked = masked + rest;
    let masked = masked.replace("uid: \\\"{uid}\\\"", "uid: {uid}");
    masked.replace("\\\"{mark}\\\"", "{mark}")
}

/// Replaces the scores. They depend on the lengths of texts, and a random id has a varying number
/// of parts.
fn mask_scores(text: &str) -> String {
    let mut masked = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find("\"score") {
        let (before, score) = rest.split_at(start);
        masked.push_str(before);
        let is_key = |c: char| !c.is_ascii_digit() && c != ',';
        let value = score.find(|c| !is_key(c)).unwrap_or(score.len());
        let (key, value) = score.split_at(value);
        let end = value.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(value.len());
        masked.push_str(key);
        masked.push_str(if end > 0 { "0.5" } else { "" });
        rest = &value[end..];
    }
    masked + rest
}

/// True if the text ends inside a `linked` map, before a value.
fn follows_linked_key(before: &str) -> bool {
    let begins = before.ends_with(": ") || before.ends_with(": \\\"");
    begins && before.rfind("linked: {") > before.rfind('}')
}

#[test]
fn transcripts_variable_parts_are_masked() {
    for suffix in ["3f9a1c", "123456", "55e555"] {
        let quoted = if suffix == "3f9a1c" { suffix.to_owned() } else { format!("\"{suffix}\"") };
        let text = json!({ "text": format!("linked: {{US-001: {quoted}}}\nuid: x") }).to_string();
        assert_eq!(mask_text(&text), r#"{"text":"linked: {US-001: {mark}}\nuid: x"}"#);
    }
}

fn step_request(line: &Value) -> Value {
    let Some(tool) = line.get("call") else { return line["send"].clone() };
    let mut arguments = line["with"].clone();
    if tool.as_str().unwrap().starts_with("reqlix_") {
        let fields = arguments.as_object_mut().unwrap();
        fields.entry("project_root").or_insert_with(|| json!("{root}"));
        fields.entry("operation_description").or_insert_with(|| json!("a transcript"));
    }
    json!({
        "jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": { "name": tool, "arguments": arguments }
    })
}

fn transcripts_over_pipes_on_files(steps: &[Step]) -> Vec<Value> {
    play_over_pipes("fs", steps, write_file)
}

/// The server and this process, as the editor, use one database.
fn transcripts_over_pipes_on_sqlite(steps: &[Step]) -> Vec<Value> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    play_over_pipes("sqlite", steps, |root, path, text| {
        let file = root.join(".reqlore/local/reqlore.db");
        let store = reqlore_storage_sqlite::open(&SqliteConfig { file }).unwrap();
        runtime.block_on(commit_document(&store, path, text));
    })
}

/// The same with a database server.
fn transcripts_over_pipes_on_postgres(steps: &[Step]) -> Vec<Value> {
    let storage = storage_argument("postgres");
    play_over_pipes(&storage, steps, |_, path, text| commit_to_postgres(&storage, path, text))
}

/// Lost connections, conflicts and delays change no answer.
fn transcripts_over_pipes_on_postgres_with_faults(steps: &[Step]) -> Vec<Value> {
    let storage = storage_argument("postgres");
    let seed = crate::crash::env_number("REQLORE_CRASH_SEED").unwrap_or(0x5EED);
    let proxy = FaultyProxy::start(&storage, seed);
    let write = |_: &Path, path: &str, text: &str| commit_to_postgres(&storage, path, text);
    let answers = play_over_pipes(&proxy.url(&storage), steps, write);
    println!("seed {seed}: {} faults", proxy.injected());
    assert!(steps.len() < 30 || proxy.injected() > 0, "no faults");
    answers
}

/// Writes the document with this path into a database, as another server would.
pub(crate) fn commit_to_postgres(url: &str, path: &str, text: &str) {
    let store = open_postgres(url);
    crate::schemas::block_on(commit_document(&*store, path, text));
}

pub(crate) fn open_postgres(url: &str) -> Arc<dyn Store> {
    let config = PostgresConfig::parse(url, &PasswordSources::default()).unwrap();
    Arc::new(crate::schemas::block_on(reqlore_storage_postgres::open(config)).unwrap())
}

fn play_over_pipes(storage: &str, steps: &[Step], write: impl Fn(&Path, &str, &str)) -> Vec<Value> {
    let project = crate::client::project();
    let mut placeholders = Placeholders::new(project.path());
    let mut server = Server::start_with(project.path(), &["--storage", storage]);
    let mut answers = Vec::new();
    for step in steps {
        match step {
            Step::Send(request) => {
                let answer = request_answer(&mut server, &placeholders.insert(request));
                answers.push(placeholders.mask(&answer));
            }
            Step::Write { path, text } => write(project.path(), path, text),
        }
    }
    answers
}

fn transcripts_in_process_on_sled(steps: &[Step]) -> Vec<Value> {
    let project = crate::client::project();
    let files = fs_config(project.path());
    let folder = project.path().join("sled");
    let store = reqlore_storage_sled::open(&SledConfig { folder }).unwrap();
    let store = Arc::new(store);
    let ports = ApplicationPorts {
        documents: store.clone(),
        read_scope: reqlore_storage_postgres::in_read_scope,
        history: store,
        root_files: Some(Arc::new(FsStore::new(&files))),
        projects: Arc::new(FsProjects::of_database(&files)),
        ..memory_ports(search_index())
    };
    play_in_process(steps, ports, project.path())
}

fn transcripts_in_process_in_memory(steps: &[Step]) -> Vec<Value> {
    play_in_process(steps, memory_ports(search_index()), Path::new("/project"))
}

pub(crate) fn fs_config(root: &Path) -> reqlore_storage_fs::Config {
    reqlore_storage_fs::Config {
        root: root.to_owned(),
        documents: root.to_owned(),
        requirements_directory: None,
        projects: std::collections::BTreeMap::new(),
        roots: Vec::new(),
        home: None,
        cache: None,
        git: reqlore_git_runner::GitEnvironment::default(),
    }
}

pub(crate) fn memory_ports(search: Arc<dyn SearchIndex>) -> ApplicationPorts {
    let store = Arc::new(memory_store());
    ApplicationPorts {
        documents: store.clone(),
        read_scope: reqlore_storage_postgres::in_read_scope,
        history: store.clone(),
        root_files: None,
        projects: Arc::new(NamedProjects::default()),
        search,
        clock: Arc::new(Timestamp::default()),
        ids: Arc::new(CountedIds::default()),
        idempotency: store.clone(),
        claims: store,
        audit: None,
        users: None,
        progress: Arc::new(NoProgress),
        settings: ApplicationSettings::default(),
        schemas: Arc::default(),
        exchange_formats: &reqlore_exchange::FORMATS,
    }
}

pub(crate) fn write_file(root: &Path, path: &str, text: &str) {
    let path = root.join(path);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

/// Writes the document with this path into a storage.
pub(crate) async fn commit_document(store: &dyn DocumentRepository, path: &str, text: &str) {
    commit_document_to(store, &ProjectKey::default(), path, text).await;
}

pub(crate) async fn commit_document_to(
    store: &dyn DocumentRepository,
    project: &ProjectKey,
    path: &str,
    text: &str,
) {
    let entity = path.strip_prefix(".ixchel/").and_then(|path| path.strip_suffix(".md"));
    let id = match entity {
        Some(name) => DocumentId::entity(name),
        None if path == ".knowledge/config.yaml" => DocumentId::docsets(),
        None if path == ".reqlore/project.toml" => DocumentId::schema(),
        None => {
            let name_below = |kind: DocumentKind| {
                let folder = format!("{BACKLOG_FOLDER}/{}/", backlog_folder_of(kind));
                path.strip_prefix(&folder)?.strip_suffix(".md")
            };
            let mut kinds = DocumentKind::ALL.into_iter();
            let found = kinds.find_map(|kind| Some((kind, name_below(kind)?.to_owned())));
            let (kind, name) = found.unwrap_or_else(|| panic!("{path} is not a document's path"));
            DocumentId { kind, name }
        }
    };
    let put = DocumentChange::put(id.clone(), text.to_owned());
    let context = WriteContext {
        caller: Arc::new(Caller::local("editor", Access::Write)),
        tool: "editor",
        reason: String::new(),
        correlation_id: String::new(),
        at: Timestamp::default(),
        audited: None,
        idempotency_key: None,
    };
    let reads = ReadSet::of_documents(vec![id]);
    let commit = CommitRequest {
        read_set: reads,
        decide: Box::new(move |_| Ok(vec![put.clone()])),
        context,
    };
    store.commit(project, commit).await.unwrap();
}

/// Sends a request and returns the answer. Skips notifications.
fn request_answer(server: &mut Server, request: &Value) -> Value {
    let mut answer = server.ask(request);
    while answer.get("id").is_none() {
        answer = server.answer();
    }
    answer
}

/// The product's search index in memory, with the built-in embedding table.
fn search_index() -> Arc<dyn SearchIndex> {
    let embedders: Vec<Arc<dyn Embedder>> = vec![Arc::new(StaticEmbedder::new())];
    Arc::new(LocalSearchIndex::new(SearchConfig { embedders, ..SearchConfig::default() }))
}

fn play_in_process(steps: &[Step], ports: ApplicationPorts, folder: &Path) -> Vec<Value> {
    let mut placeholders = Placeholders::new(folder);
    let store = Arc::clone(&ports.documents);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let (client_end, server_end) = tokio::io::duplex(64 * 1024);
        let caller = Caller::local("tester", Access::Write);
        let mut stdio = StdioTransport::new(caller, StdioLimits::default());
        stdio.answers = AnswerFormat::Both;
        let (read, write) = tokio::io::split(server_end);
        let endpoint = Arc::new(Application::new(ports));
        let serving = tokio::spawn(stdio.serve_on(read, write, endpoint));
        let (read, mut write) = tokio::io::split(client_end);
        let mut lines = BufReader::new(read).lines();
        let mut answers = Vec::new();
        for step in steps {
            let request = match step {
                Step::Send(request) => request,
                Step::Write { path, text } => {
                    commit_document(&*store, path, text).await;
                    continue;
                }
            };
            let line = format!("{}\n", placeholders.insert(request));
            write.write_all(line.as_bytes()).await.unwrap();
            let mut answer = Value::Null;
            while answer.get("id").is_none() {
                let line = lines.next_line().await.unwrap().unwrap();
                answer = serde_json::from_str(&line).unwrap();
            }
            take_folder_note(&mut answer);
            answers.push(placeholders.mask(&answer));
        }
        write.shutdown().await.unwrap();
        serving.await.unwrap().unwrap();
        answers
    })
}

/// The values of one run that a transcript names with placeholders.
pub(crate) struct Placeholders {
    root: String,
    /// Ids of created entities, in order.
    entities: Vec<String>,
}

impl Placeholders {
    pub(crate) fn new(root: &Path) -> Self {
        Self { root: root.to_str().unwrap().to_owned(), entities: Vec::new() }
    }

    pub(crate) fn insert(&self, request: &Value) -> Value {
        let mut text = request.to_string().replace("{root}", &self.root);
        for (index, id) in self.entities.iter().enumerate() {
            text = text.replace(&format!("{{entity{}}}", index + 1), id);
        }
        serde_json::from_str(&text).unwrap()
    }

    pub(crate) fn mask(&mut self, answer: &Value) -> Value {
        let result = &answer["result"];
        let sentence = result["content"][0]["text"].as_str().unwrap_or_default();
        if let Some(id) = result["structuredContent"]["id"].as_str()
            && sentence.starts_with("Created ")
        {
            self.entities.push(id.to_owned());
        }
        for entry in result["structuredContent"]["results"].as_array().into_iter().flatten() {
            if let Some(id) = entry["id"].as_str()
                && entry["action"] == "create"
                && id.starts_with(char::is_lowercase)
            {
                self.entities.push(id.to_owned());
            }
        }
        let mut text = answer.to_string().replace(&self.root, "{root}");
        for (index, id) in self.entities.iter().enumerate() {
            text = text.replace(id, &format!("{{entity{}}}", index + 1));
        }
        serde_json::from_str(&text).unwrap()
    }
}
