//! Installation of a small fake model from every source, and its failures.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

mod server;

use std::fs;
use std::io::{Cursor, Write};
use std::path::Path;

use reqlore_models::catalog::{CatalogModel, ModelFile};
use reqlore_models::error::Error;
use reqlore_models::{InstallState, InstalledModel, ModelSource, ModelStore};
use sha2::{Digest, Sha256};
use tempfile::TempDir;
use zip::ZipWriter;
use zip::write::SimpleFileOptions;

use crate::server::{Request, Response, Server};

const NAME: &str = "tiny";
const TOKENIZER: &str = "tokenizer.json";
const WEIGHTS: &str = "model.safetensors";

fn tokenizer() -> Vec<u8> {
    br#"{"version":"1.0"}"#.to_vec()
}

fn weights() -> Vec<u8> {
    (0..300_000_u32).map(|i| (i % 251) as u8).collect()
}

fn file(name: &'static str, content: &[u8]) -> ModelFile {
    let hash: &str = hash_of(content).leak();
    ModelFile { name, bytes: content.len() as u64, sha256: vec!["00", hash].leak() }
}

fn store_at(address: &str, folder: &TempDir) -> ModelStore {
    let files = vec![file(TOKENIZER, &tokenizer()), file(WEIGHTS, &weights())];
    let address = address.to_owned().leak();
    let model = CatalogModel { name: NAME, license: "MIT", address, files: files.leak() };
    ModelStore::new(vec![model].leak(), folder.path().join("models"))
}

fn store(folder: &TempDir) -> ModelStore {
    store_at("http://127.0.0.1:1/never", folder)
}

fn install(store: &ModelStore, source: &ModelSource) -> Result<InstalledModel, Error> {
    store.install(NAME, source, &mut |_| {})
}

fn check_installed(store: &ModelStore, folder: &TempDir) {
    let path = store.open(NAME).expect("the model is installed");
    assert_eq!(path, folder.path().join("models").join(NAME));
    assert_eq!(fs::read(path.join(TOKENIZER)).unwrap(), tokenizer());
    assert_eq!(fs::read(path.join(WEIGHTS)).unwrap(), weights());
    let mut names: Vec<_> =
        fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, [WEIGHTS, TOKENIZER], "no other file");
    assert_eq!(store.list()[0].state, InstallState::Installed { path });
}

fn check_absent(store: &ModelStore, folder: &TempDir) {
    assert_eq!(store.open(NAME), None);
    assert_eq!(store.list()[0].state, InstallState::Absent);
    let left = fs::read_dir(folder.path().join("models")).map_or(0, Iterator::count);
    assert_eq!(left, 0, "no file is left");
}

fn zip(entries: &[(&str, &[u8])]) -> Vec<u8> {
    let mut writer = ZipWriter::new(Cursor::new(Vec::new()));
    for (name, content) in entries {
        writer.start_file(*name, SimpleFileOptions::default()).unwrap();
        writer.write_all(content).unwrap();
    }
    writer.finish().unwrap().into_inner()
}

fn write(path: &Path, content: &[u8]) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, content).unwrap();
}

#[test]
fn install_from_default_address_then_remove() {
    let folder = TempDir::new().unwrap();
    let server = Server::start(vec![Response::File(tokenizer()), Response::File(weights())]);
    let store = store_at(&format!("{}/hub/tiny", server.address), &folder);
    check_absent(&store, &folder);

    let mut last = (0, 0);
    let installed = store
        .install(NAME, &ModelSource::Default, &mut |progress| {
            if progress.file == WEIGHTS {
                last = (progress.done_bytes, progress.total_bytes);
            }
        })
        .unwrap();
    assert!(!installed.was_installed);
    assert_eq!(last, (300_000, 300_000));
    check_installed(&store, &folder);
    let paths: Vec<_> = server.requests().into_iter().map(|request| request.path).collect();
    assert_eq!(paths, ["/hub/tiny/tokenizer.json", "/hub/tiny/model.safetensors"]);

    // The second installation sends no request.
    assert!(install(&store, &ModelSource::Default).unwrap().was_installed);
    check_installed(&store, &folder);

    assert!(store.remove(NAME).unwrap());
    check_absent(&store, &folder);
    assert!(!store.remove(NAME).unwrap());
}

#[test]
fn install_follows_redirect() {
    let folder = TempDir::new().unwrap();
    let mirror = Server::start(vec![Response::File(weights())]);
    let server = Server::start(vec![
        Response::File(tokenizer()),
        Response::Redirect(format!("{}/cdn/w", mirror.address)),
    ]);
    let store = store(&folder);
    install(&store, &ModelSource::Url(format!("{}/", server.address))).unwrap();
    check_installed(&store, &folder);
    assert_eq!(mirror.requests()[0].path, "/cdn/w");
    assert_eq!(server.requests()[1].path, "/model.safetensors");
}

#[test]
fn wrong_file_is_reported_with_both_hashes_and_removed() {
    let folder = TempDir::new().unwrap();
    let mut wrong = weights();
    wrong[7] ^= 1;
    let server = Server::start(vec![Response::File(tokenizer()), Response::File(wrong.clone())]);
    let store = store(&folder);
    let error = install(&store, &ModelSource::Url(server.address.clone())).unwrap_err();
    let Error::WrongHash { file, expected, actual } = &error else { panic!("{error}") };
    assert_eq!(file, WEIGHTS);
    assert!(expected.contains(hash_of(&weights()).as_str()), "{expected}");
    assert_eq!(*actual, hash_of(&wrong));
    assert!(error.to_string().contains("nothing was installed"), "{error}");
    assert_eq!(store.open(NAME), None);

    // The valid file is kept; the other one is downloaded from its start.
    let server = Server::start(vec![Response::File(weights())]);
    install(&store, &ModelSource::Url(server.address.clone())).unwrap();
    check_installed(&store, &folder);
    let request = Request { path: format!("/{WEIGHTS}"), range: None };
    assert_eq!(server.requests(), [request]);
}

fn hash_of(content: &[u8]) -> String {
    hex::encode(Sha256::digest(content))
}

#[test]
fn lost_connection_is_resumed() {
    let folder = TempDir::new().unwrap();
    let store = store(&folder);
    let server =
        Server::start(vec![Response::File(tokenizer()), Response::Cut(weights(), 123_456)]);
    let error = install(&store, &ModelSource::Url(server.address.clone())).unwrap_err();
    assert!(matches!(error, Error::Cut { done: 123_456, .. }), "{error}");
    assert!(error.to_string().ends_with("run it again to resume"), "{error}");
    assert_eq!(store.open(NAME), None);
    assert_eq!(store.list()[0].state, InstallState::Partial { bytes: 123_456 + 17 });

    let server = Server::start(vec![Response::File(weights())]);
    install(&store, &ModelSource::Url(server.address.clone())).unwrap();
    check_installed(&store, &folder);
    assert_eq!(server.requests()[0].range.as_deref(), Some("bytes=123456-"));

    // Killed after the last byte and before the check: the server has nothing to send.
    assert!(store.remove(NAME).unwrap());
    let given = folder.path().join("models/tiny.partial");
    write(&given.join("archive"), &zip(&[(TOKENIZER, &tokenizer()), (WEIGHTS, &weights())]));
    let server = Server::start(vec![Response::File(fs::read(given.join("archive")).unwrap())]);
    install(&store, &ModelSource::Url(format!("{}/t.zip", server.address))).unwrap();
    check_installed(&store, &folder);
}

#[test]
fn server_without_ranges_sends_whole_file_again() {
    let folder = TempDir::new().unwrap();
    let store = store(&folder);
    let server = Server::start(vec![Response::Whole(tokenizer()), Response::Cut(weights(), 1000)]);
    install(&store, &ModelSource::Url(server.address.clone())).unwrap_err();
    let server = Server::start(vec![Response::Whole(weights())]);
    install(&store, &ModelSource::Url(server.address.clone())).unwrap();
    check_installed(&store, &folder);
}

#[test]
fn missing_or_too_large_file_leaves_nothing() {
    let folder = TempDir::new().unwrap();
    let store = store(&folder);
    let server = Server::start(vec![Response::Status(404)]);
    let error = install(&store, &ModelSource::Url(server.address.clone())).unwrap_err();
    assert!(matches!(error, Error::Status { status: 404, .. }), "{error}");
    check_absent(&store, &folder);

    for response in [Response::File, Response::Endless] {
        let server = Server::start(vec![response(vec![0; 1_000_000])]);
        let error = install(&store, &ModelSource::Url(server.address.clone())).unwrap_err();
        assert!(matches!(error, Error::TooLarge { max_bytes: 17, .. }), "{error}");
        check_absent(&store, &folder);
    }

    let error = install(&store, &ModelSource::Default).unwrap_err();
    assert!(matches!(error, Error::Unreachable { .. }), "{error}");
    check_absent(&store, &folder);
}

#[test]
fn install_from_folder_replaces_damaged_file() {
    let folder = TempDir::new().unwrap();
    let store = store(&folder);
    let given = folder.path().join("given");
    write(&given.join(TOKENIZER), &tokenizer());
    let source = ModelSource::parse(given.to_str().unwrap());
    assert_eq!(source, ModelSource::Folder(given.clone()));
    let error = install(&store, &source).unwrap_err().to_string();
    assert!(error.contains("it has no model.safetensors"), "{error}");
    assert_eq!(store.open(NAME), None);

    write(&given.join(WEIGHTS), &weights());
    install(&store, &source).unwrap();
    check_installed(&store, &folder);

    // A file that was damaged later is not opened, and is replaced.
    fs::write(store.open(NAME).unwrap().join(WEIGHTS), b"torn").unwrap();
    assert_eq!(store.open(NAME), None);
    assert!(!install(&store, &source).unwrap().was_installed);
    check_installed(&store, &folder);
}

#[test]
fn install_from_zip_and_wheel() {
    let flat = zip(&[(TOKENIZER, &tokenizer()), (WEIGHTS, &weights())]);
    let wheel = zip(&[
        ("tiny/__init__.py", b""),
        ("tiny/other/tokenizer.json", b"not this one"),
        ("tiny/model/tokenizer.json", &tokenizer()),
        ("tiny/model/model.safetensors", &weights()),
        ("tiny-0.1.dist-info/METADATA", b"Name: tiny"),
    ]);
    for (name, bytes) in [("tiny.zip", flat), ("tiny-0.1-py3-none-any.whl", wheel)] {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join(name);
        write(&path, &bytes);
        let store = store(&folder);
        install(&store, &ModelSource::parse(path.to_str().unwrap())).unwrap();
        check_installed(&store, &folder);
        assert!(store.remove(NAME).unwrap());

        // The same from an address, with one lost connection.
        let address =
            |server: &Server| ModelSource::Url(format!("{}/{name}?download=1", server.address));
        let server = Server::start(vec![Response::Cut(bytes.clone(), 500)]);
        let error = install(&store, &address(&server)).unwrap_err();
        assert!(matches!(error, Error::Cut { done: 500, .. }), "{error}");
        let server = Server::start(vec![Response::File(bytes)]);
        install(&store, &address(&server)).unwrap();
        check_installed(&store, &folder);
        assert_eq!(server.requests()[0].range.as_deref(), Some("bytes=500-"));
    }
}

#[test]
fn invalid_or_incomplete_archive_is_reported() {
    let folder = TempDir::new().unwrap();
    let store = store(&folder);
    let path = folder.path().join("given.zip");
    write(&path, b"no zip");
    let error = install(&store, &ModelSource::Archive(path.clone())).unwrap_err();
    assert!(matches!(error, Error::Archive { .. }), "{error}");
    check_absent(&store, &folder);

    write(&path, &zip(&[("a/tokenizer.json", b"another one")]));
    let error = install(&store, &ModelSource::Archive(path.clone())).unwrap_err();
    assert!(matches!(error, Error::WrongHash { .. }), "{error}");
    check_absent(&store, &folder);

    write(&path, &zip(&[(WEIGHTS, &weights())]));
    let server = Server::start(vec![Response::File(fs::read(&path).unwrap())]);
    let from = ModelSource::Url(format!("{}/given.zip", server.address));
    let error = install(&store, &from).unwrap_err().to_string();
    assert!(error.contains("/given.zip: it has no tokenizer.json"), "{error}");
    assert!(error.contains("tokenizer.json and model.safetensors"), "{error}");
    check_absent(&store, &folder);
}

#[test]
fn unknown_names_and_parallel_installs_are_rejected() {
    let folder = TempDir::new().unwrap();
    let store = store(&folder);
    for name in ["", "..", "tiny/../..", "other"] {
        let error = store.install(name, &ModelSource::Default, &mut |_| {}).unwrap_err();
        assert!(error.to_string().ends_with("known are tiny"), "{error}");
        assert!(matches!(store.remove(name), Err(Error::Unknown { .. })));
        assert_eq!(store.open(name), None);
    }

    let given = folder.path().join("given");
    write(&given.join(TOKENIZER), &tokenizer());
    write(&given.join(WEIGHTS), &weights());
    let source = ModelSource::Folder(given);
    let mut errors = Vec::new();
    store
        .install(NAME, &source, &mut |_| {
            errors.push(install(&store, &source).unwrap_err());
            errors.push(store.remove(NAME).unwrap_err());
        })
        .unwrap();
    assert!(!errors.is_empty() && errors.iter().all(|e| matches!(e, Error::Busy { .. })));
    check_installed(&store, &folder);
}

#[test]
fn catalog_pins_length_and_hash_of_each_file() {
    for model in &reqlore_models::catalog::CATALOG {
        assert_eq!(model.files.len(), 2, "{}", model.name);
        for file in model.files {
            let digits =
                |hash: &&str| hash.len() == 64 && hash.bytes().all(|b| b.is_ascii_hexdigit());
            assert!(file.sha256.iter().all(digits) && file.bytes > 0, "{}", file.name);
        }
    }
}
