//! Sentence models through the real binary: installed from everywhere, refused, removed, and what
//! ranks with one.
//!
//! What needs the real all-minilm-l6-v2 (91 MB) runs where `REQLORE_TEST_MODEL` names a folder with
//! its files, as `.ci/check` does; in CI a missing one is a failure.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Output;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::client::{Server, project, reqlore};

const MODEL: &str = "all-minilm-l6-v2";
const TOKENIZER: &str = "tokenizer.json";
const WEIGHTS: &str = "model.safetensors";
/// What a tokenizer of the right length that is not the right one is made of.
const TOKENIZER_BYTES: usize = 466_247;
/// Three texts are read in much less, also by a debug build on a machine that is busy.
const PATIENCE: Duration = Duration::from_secs(120);

/// A folder for caches, and the command with it.
struct Cache(TempDir);

impl Cache {
    fn new() -> Self {
        Self(project())
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    /// Exit code, and all that was said.
    fn model(&self, arguments: &[&str]) -> (i32, String) {
        let mut command = reqlore();
        command.env("REQLORE_CACHE", self.path()).arg("model").args(arguments);
        let Output { status, stdout, stderr } = command.output().unwrap();
        let said = [stdout, stderr].concat();
        (status.code().unwrap(), String::from_utf8(said).unwrap())
    }

    fn install(&self, from: &str) -> (i32, String) {
        self.model(&["install", MODEL, "--from", from])
    }

    fn check_state(&self, expected: &str) {
        let (code, listed) = self.model(&["list", "--json"]);
        let listed: Value = serde_json::from_str(&listed).unwrap();
        let models = listed["models"].as_array().unwrap();
        let model = models.iter().find(|model| model["name"] == MODEL).unwrap();
        assert_eq!((code, &model["state"]), (0, &json!(expected)), "{listed}");
        let installed = self.path().join("models").join(MODEL);
        let path = if expected == "installed" { json!(installed) } else { Value::Null };
        assert_eq!(model["path"], path);
    }
}

/// The folder with the real model.
#[expect(clippy::disallowed_methods, reason = "the gate says where the model is")]
fn real() -> Option<PathBuf> {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    let folder = set("REQLORE_TEST_MODEL").map(PathBuf::from);
    if folder.is_none() {
        assert!(set("CI").is_none(), "CI needs REQLORE_TEST_MODEL, a folder with {MODEL}");
        println!("skipped: REQLORE_TEST_MODEL names no folder with {MODEL}");
    }
    folder
}

/// What a loopback server says to one request.
enum Answer {
    /// From where the range asks for it.
    File(Vec<u8>),
    /// So many bytes of all that it promised.
    Cut(Vec<u8>, usize),
}

/// Serves these answers, one after the other; gives its address, and in the end what was asked.
fn serve(answers: Vec<Answer>) -> (String, JoinHandle<Vec<String>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let serve = move || {
        let reply = |answer| answer_one(&listener.accept().unwrap().0, answer);
        answers.iter().map(reply).collect()
    };
    (address, std::thread::spawn(serve))
}

fn answer_one(mut stream: &TcpStream, answer: &Answer) -> String {
    let lines = BufReader::new(stream).lines().map(Result::unwrap);
    let lines: Vec<String> = lines.take_while(|line| !line.is_empty()).collect();
    let range = lines.iter().find_map(|line| {
        let (name, value) = line.split_once(": ")?;
        name.eq_ignore_ascii_case("range").then_some(value)
    });
    let from = range.and_then(|range| range.strip_prefix("bytes=")?.strip_suffix('-'));
    let from = from.map_or(0, |from| from.parse::<usize>().unwrap());
    let (file, end) = match answer {
        Answer::File(file) => (file, file.len()),
        Answer::Cut(file, end) => (file, *end),
    };
    let (length, last) = (file.len() - from, file.len() - 1);
    let status = match from {
        0 => "200 OK".to_owned(),
        _ => format!("206 Partial Content\r\ncontent-range: bytes {from}-{last}/{}", file.len()),
    };
    let head =
        format!("HTTP/1.1 {status}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n");
    stream.write_all(head.as_bytes()).unwrap();
    // Who asked may have seen enough.
    stream.write_all(&file[from..end]).ok();
    let path = lines[0].split(' ').nth(1).unwrap();
    range.map_or_else(|| path.to_owned(), |range| format!("{path} {range}"))
}

#[test]
fn without_a_model_the_list_says_so_and_nothing_is_removed() {
    let cache = Cache::new();
    cache.check_state("absent");
    let (code, listed) = cache.model(&["list"]);
    assert_eq!((code, listed.matches("not installed").count()), (0, 2), "{listed}");
    let (code, said) = cache.model(&["remove", MODEL]);
    assert_eq!(code, 1);
    assert!(said.contains("all-minilm-l6-v2 is not installed; nothing was removed"), "{said}");
    let (code, said) = cache.model(&["install", "minilm", "--from", "."]);
    assert_eq!(code, 1);
    assert!(said.contains("known are all-minilm-l6-v2, multilingual-e5-small"), "{said}");
}

#[test]
fn a_wrong_file_is_refused_with_both_hashes() {
    let (cache, given) = (Cache::new(), project());
    fs::write(given.path().join(TOKENIZER), "{}").unwrap();
    let (code, said) = cache.install(given.path().to_str().unwrap());
    assert_eq!(code, 1);
    for part in [
        "tokenizer.json is not the file that is known",
        "its SHA-256 is 44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a",
        "expected was be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
        "nothing was installed; try another source",
    ] {
        assert!(said.contains(part), "{part} is missing in: {said}");
    }
    cache.check_state("absent");
    fs::write(given.path().join("some.zip"), "{}").unwrap();
    let (code, said) = cache.install(given.path().join("some.zip").to_str().unwrap());
    assert_eq!(code, 1);
    assert!(said.contains("some.zip can't be read as a zip or a wheel"), "{said}");
}

#[test]
fn a_cut_download_is_resumed_and_judged_as_a_whole() {
    let cache = Cache::new();
    let wrong = vec![b' '; TOKENIZER_BYTES];
    let (address, asked) = serve(vec![Answer::Cut(wrong.clone(), 1_000), Answer::File(wrong)]);
    let (code, said) = cache.install(&address);
    assert_eq!(code, 1);
    assert!(said.contains("cut after 1000 bytes of tokenizer.json"), "{said}");
    assert!(said.contains("run it again to resume"), "{said}");
    cache.check_state("partial");
    let (_, listed) = cache.model(&["list"]);
    assert!(listed.contains("partly installed"), "{listed}");
    let (code, said) = cache.install(&address);
    assert_eq!(code, 1);
    assert!(said.contains("its SHA-256 is ") && said.contains("expected was be50c3"), "{said}");
    assert_eq!(asked.join().unwrap(), ["/tokenizer.json", "/tokenizer.json bytes=1000-"]);
    cache.check_state("absent");
}

#[test]
fn a_model_that_is_not_installed_is_refused_at_the_start() {
    let (cache, root) = (Cache::new(), project());
    for name in [MODEL, "word2vec"] {
        let mut command = reqlore();
        command.env("REQLORE_CACHE", cache.path()).env("REQLORE_SEARCH_MODEL", name);
        let output = command.arg("--root").arg(root.path()).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0), "{said}");
        assert!(said.contains(&format!("search.model: \"{name}\" is not installed")), "{said}");
        assert!(said.contains(&format!("`reqlore model install {name}`")), "{said}");
    }
}

#[test]
fn the_real_model_is_installed_from_everywhere() {
    let Some(real) = real() else { return };
    let cache = Cache::new();
    let install = |from: &str| {
        let (code, said) = cache.install(from);
        assert_eq!(code, 0, "{said}");
        assert!(said.contains("Servers use it after a restart"), "{said}");
        cache.check_state("installed");
        let (code, said) = cache.model(&["remove", MODEL]);
        assert_eq!((code, said.as_str()), (0, "all-minilm-l6-v2 is removed.\n"));
        cache.check_state("absent");
    };
    install(real.to_str().unwrap());

    let files = [TOKENIZER, WEIGHTS].map(|name| fs::read(real.join(name)).unwrap());
    let archive = cache.path().join("given.zip");
    let mut zip = zip::ZipWriter::new(fs::File::create(&archive).unwrap());
    let stored =
        zip::write::SimpleFileOptions::default().compression_method(zip::CompressionMethod::Stored);
    for (name, content) in [TOKENIZER, WEIGHTS].iter().zip(&files) {
        zip.start_file(format!("some/folder/{name}"), stored).unwrap();
        zip.write_all(content).unwrap();
    }
    zip.finish().unwrap();
    install(archive.to_str().unwrap());

    let [tokenizer, weights] = files;
    let cut = Answer::Cut(weights.clone(), 12_345_678);
    let (address, asked) = serve(vec![Answer::File(tokenizer), cut, Answer::File(weights)]);
    let (code, said) = cache.install(&address);
    assert_eq!(code, 1);
    assert!(said.contains("cut after 12345678 bytes of model.safetensors"), "{said}");
    cache.check_state("partial");
    install(&address);
    let expected = ["/tokenizer.json", "/model.safetensors", "/model.safetensors bytes=12345678-"];
    assert_eq!(asked.join().unwrap(), expected);
}

/// A text that shares no word with what is asked.
#[test]
fn an_installed_model_ranks_once_it_has_read_everything() {
    let Some(real) = real() else { return };
    let (cache, root) = (Cache::new(), project());
    assert_eq!(cache.install(real.to_str().unwrap()).0, 0);
    let folder = root.path().join(".ixchel/decisions");
    fs::create_dir_all(&folder).unwrap();
    let texts = [
        ("dec-000001", "Rows live in a relational database", "PostgreSQL, since joins are needed."),
        ("dec-000002", "Colours of buttons", "Blue for what is safe, red for what deletes."),
        ("dec-000003", "Holidays", "The office is closed in the last week of the year."),
    ];
    for (id, title, text) in texts {
        let text = format!("---\nid: {id}\ntitle: {title}\n---\n\n{text}\n");
        fs::write(folder.join(format!("{id}.md")), text).unwrap();
    }
    let mut server = Server::start_in(root.path(), &[("REQLORE_CACHE", cache.path())]);
    let query = json!({ "query": "where do we keep our data?" });
    let mut ask = || {
        let answer = server.call("ixchel_search", query.clone());
        answer["result"]["structuredContent"].clone()
    };
    let clock = Instant::now();
    let mut found = ask();
    while found["pending"] != 0 {
        assert!(clock.elapsed() < PATIENCE, "not read: {found}");
        // A call takes its turn from the reading.
        std::thread::sleep(Duration::from_millis(20));
        found = ask();
    }
    // It may have read the last text while this query was answered.
    let found = if found["signals"][1] == "meaning:all-minilm-l6-v2" { found } else { ask() };
    assert_eq!(found["signals"], json!(["words", "meaning:all-minilm-l6-v2"]), "{found}");
    assert_eq!(found["hits"][0]["id"], "dec-000001", "{found}");
    let (_, status) = server.end();
    assert!(status.success());
}
