//! Sentence models in the real binary: listing, installation, removal and ranking.
//!
//! Tests with the real all-minilm-l6-v2 (91 MB) need `REQLORE_TEST_MODEL`, a folder with its files.
//! `.ci/check` sets it; in CI a missing model is a failure.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::client::{Server, project, reqlore};

const MODEL: &str = "all-minilm-l6-v2";
/// A debug build on a busy machine needs far less for three texts.
const TIMEOUT: Duration = Duration::from_secs(120);

/// A temporary cache folder for models.
struct ModelCache(TempDir);

impl ModelCache {
    fn new() -> Self {
        Self(project())
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    /// Runs `reqlore model`. Returns the exit code and all output.
    fn model(&self, arguments: &[&str]) -> (i32, String) {
        let mut command = reqlore();
        command.env("REQLORE_CACHE", self.path()).arg("model").args(arguments);
        let Output { status, stdout, stderr } = command.output().unwrap();
        let output = [stdout, stderr].concat();
        (status.code().unwrap(), String::from_utf8(output).unwrap())
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

/// The folder with the real model; `None` skips the test.
#[expect(clippy::disallowed_methods, reason = "CI sets the model folder")]
fn real_model_folder() -> Option<PathBuf> {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    let folder = set("REQLORE_TEST_MODEL").map(PathBuf::from);
    if folder.is_none() {
        assert!(set("CI").is_none(), "CI needs REQLORE_TEST_MODEL, a folder with {MODEL}");
        println!("skipped: REQLORE_TEST_MODEL does not name a folder with {MODEL}");
    }
    folder
}

#[test]
fn model_none_installed_list_says_so_and_remove_does_nothing() {
    let cache = ModelCache::new();
    cache.check_state("absent");
    let (code, listed) = cache.model(&["list"]);
    assert_eq!((code, listed.matches("not installed").count()), (0, 2), "{listed}");
    let (code, output) = cache.model(&["remove", MODEL]);
    assert_eq!(code, 1);
    assert!(output.contains("all-minilm-l6-v2 is not installed; nothing was removed"), "{output}");
    let (code, output) = cache.model(&["install", "minilm", "--from", "."]);
    assert_eq!(code, 1);
    assert!(output.contains("known are all-minilm-l6-v2, multilingual-e5-small"), "{output}");
}

#[test]
fn model_install_wrong_file_is_refused() {
    let (cache, source) = (ModelCache::new(), project());
    fs::write(source.path().join("tokenizer.json"), "{}").unwrap();
    let (code, output) = cache.install(source.path().to_str().unwrap());
    assert_eq!(code, 1);
    assert!(output.contains("tokenizer.json: wrong SHA-256"), "{output}");
    assert!(output.contains("nothing was installed; try another source"), "{output}");
    cache.check_state("absent");
}

#[test]
fn model_not_installed_is_refused_at_startup() {
    let (cache, root) = (ModelCache::new(), project());
    for name in [MODEL, "word2vec"] {
        let mut command = reqlore();
        command.env("REQLORE_CACHE", cache.path()).env("REQLORE_SEARCH_MODEL", name);
        let output = command.arg("--root").arg(root.path()).output().unwrap();
        let errors = String::from_utf8(output.stderr).unwrap();
        assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0), "{errors}");
        assert!(errors.contains(&format!("search.model: \"{name}\" is not installed")), "{errors}");
        assert!(errors.contains(&format!("`reqlore model install {name}`")), "{errors}");
    }
}

/// The expected hit shares no word with the query, so only embeddings can find it.
#[test]
fn model_installed_ranks_once_all_texts_are_embedded() {
    let Some(real) = real_model_folder() else { return };
    let (cache, root) = (ModelCache::new(), project());
    let (code, output) = cache.install(real.to_str().unwrap());
    assert_eq!(code, 0, "{output}");
    assert!(output.contains("Servers use it after a restart"), "{output}");
    cache.check_state("installed");
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
    let mut hit = ask();
    while hit["pending"] != 0 {
        assert!(clock.elapsed() < TIMEOUT, "not read: {hit}");
        // Each call delays the background embedding.
        std::thread::sleep(Duration::from_millis(20));
        hit = ask();
    }
    // The last text may have been embedded after this query was ranked, so ask again.
    let hit = if hit["signals"][1] == "meaning:all-minilm-l6-v2" { hit } else { ask() };
    assert_eq!(hit["signals"], json!(["words", "meaning:all-minilm-l6-v2"]), "{hit}");
    assert_eq!(hit["hits"][0]["id"], "dec-000001", "{hit}");
    let (_, status) = server.end();
    assert!(status.success());
    let (code, output) = cache.model(&["remove", MODEL]);
    assert_eq!((code, output.as_str()), (0, "all-minilm-l6-v2 is removed.\n"));
    cache.check_state("absent");
}
