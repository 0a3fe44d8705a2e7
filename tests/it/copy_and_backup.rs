//! `reqlore copy`, `backup` and `restore`, through every storage and back.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, UNIX_EPOCH};

use serde_json::Value;

use crate::administration::token;
use crate::client::{DIRECTORY, project, reqlore};
use crate::init::output;

/// The exit code of a command in a folder, and its output, which is on one side only.
pub(crate) fn run(folder: &Path, command: &str) -> (i32, String) {
    let (code, shown, told) = both(folder, command);
    assert!(shown.is_empty() || told.is_empty(), "{command}: {shown}{told}");
    (code, shown + &told)
}

/// The exit code, standard output and standard error.
pub(crate) fn both(folder: &Path, command: &str) -> (i32, String, String) {
    output(reqlore().current_dir(folder).args(command.split(' ')))
}

pub(crate) fn moved(folder: &Path, command: &str) -> String {
    let (code, said) = run(folder, command);
    assert_eq!(code, 0, "{command}: {said}");
    said
}

/// A project whose bytes, names and times are easily lost.
fn write_project(root: &Path) {
    let bodies: [(&str, &[u8]); 6] = [
        ("docs/development/requirements/AGENTS.md", b"\xef\xbb\xbf# A\r\n\r\nno end"),
        ("docs/development/requirements/empty.md", b""),
        ("docs/development/requirements/latin.md", b"**1.** \xff\xfe is no text\n"),
        (".knowledge/config.yaml", b"docsets:\n  react:\n    version: 18.2\n"),
        (".ixchel/decisions/deep/dec-1d2c8f.md", b"---\nid: dec-1d2c8f\n---\n"),
        (".ixchel/n\u{f6}te \u{1f600}.md", b"\n\n"),
    ];
    let write = |path: &str, body: &[u8]| {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, body).unwrap();
    };
    for (path, body) in bodies {
        write(path, body);
    }
    for number in 0..150 {
        write(&format!(".ixchel/many/iss-{number}.md"), format!("---\nid: {number}").as_bytes());
    }
    let latin = fs::File::options().append(true).open(root.join(DIRECTORY).join("latin.md"));
    latin.unwrap().set_modified(UNIX_EPOCH - Duration::new(9, 123_456_789)).unwrap();
}

/// Every file with its bytes and its time, below the folders that are documents.
pub(crate) fn files(root: &Path) -> BTreeMap<String, (Vec<u8>, i64, i64)> {
    let mut found = BTreeMap::new();
    let mut folders: Vec<_> =
        ["docs", ".knowledge", ".ixchel", ".reqlore/backlog"].map(|name| root.join(name)).to_vec();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let metadata = fs::metadata(&path).unwrap();
            let name = path.strip_prefix(root).unwrap().to_string_lossy().into_owned();
            let file = (fs::read(&path).unwrap(), metadata.mtime(), metadata.mtime_nsec());
            found.insert(name, file);
        }
    }
    found
}

// Catalogue 148
// Rulings 1: users, tokens and the audit are copied too
#[test]
fn copy_through_every_storage_preserves_everything() {
    let (project, scratch) = (project(), project());
    let (root, place) = (project.path(), scratch.path());
    write_project(root);
    moved(root, "user add ann --role user");
    let token = token(root, "token create --user ann");
    let from = format!("fs:{}", root.display());
    let said = moved(place, &format!("copy --from {from} --to sqlite:a.db --verify"));
    let told = format!("from {from} to sqlite:{}", place.canonicalize().unwrap().display());
    assert!(said.starts_with("Copied 156 documents (") && said.contains(&told), "{said}");
    assert!(said.contains(", 1 user, 1 token, 2 rows of the audit from fs:"), "{said}");
    assert!(said.ends_with("/a.db; verified: both sides are the same.\n"), "{said}");
    let said = moved(place, "copy --from sqlite:a.db --to sled:b --verify --json");
    let said: Value = serde_json::from_str(&said).unwrap();
    assert_eq!((&said["documents"], &said["verified"]["same"]), (&156.into(), &156.into()));
    for folder in ["c", "d"] {
        fs::create_dir(place.join(folder)).unwrap();
    }
    assert!(!moved(place, "copy --from sled:b --to fs:c").contains("verified"));
    assert_eq!(files(&place.join("c")), files(root));

    let said = moved(place, "backup --storage fs:c c.jsonl");
    assert!(
        said.ends_with(" to c.jsonl; verified: it was read back and its checksum matches.\n"),
        "{said}"
    );
    let said = moved(place, "restore --root d --storage fs c.jsonl");
    assert!(said.starts_with("Restored 156 documents"), "{said}");
    assert_eq!(files(&place.join("d")), files(root));
    assert!(moved(place, "--root d token list").contains(token.id.as_str()));
    let whole = moved(place, "--root d audit verify");
    assert!(whole.starts_with("The audit log is intact: 2 rows."), "{whole}");
    for (storage, dump) in [("sqlite:a.db", "a.jsonl"), ("sled:b", "b.jsonl")] {
        moved(place, &format!("backup --storage {storage} {dump}"));
        assert_eq!(fs::read(place.join(dump)).unwrap(), fs::read(place.join("c.jsonl")).unwrap());
    }
}

#[test]
fn copy_impossible_request_names_the_fix() {
    let scratch = project();
    let place = scratch.path();
    let documents = place.join("fs").join(DIRECTORY);
    fs::create_dir_all(&documents).unwrap();
    fs::create_dir(place.join("new")).unwrap();
    fs::write(documents.join("a.md"), "**1.** x").unwrap();
    moved(place, "backup --storage fs:fs whole.jsonl");
    let whole = fs::read_to_string(place.join("whole.jsonl")).unwrap();
    fs::write(place.join("cut.jsonl"), &whole[..whole.len() - 10]).unwrap();
    fs::write(place.join("later.jsonl"), whole.replace("\"version\":1", "\"version\":2")).unwrap();
    for (command, expected, told) in [
        ("copy --from fs:fs --to fs:./fs", 1, "name two storages"),
        ("copy --from fs:fs --to redis:x", 2, "redis"),
        ("copy --from fs:fs", 2, "--to"),
        ("copy --from sqlite:typo.db --to fs:new", 1, "typo.db can't be read"),
        ("copy --from fs:fs --to fs:.", 0, "Copied 1 document (8 B)"),
        ("copy --from fs:fs --to fs:.", 1, "not empty"),
        ("backup --storage fs:fs whole.jsonl", 1, "name another file or remove it"),
        ("backup --storage fs:fs no/where.jsonl", 1, "no/where.jsonl: cannot be written"),
        ("restore --storage fs:fs whole.jsonl", 1, "not empty"),
        ("restore --storage fs:new none.jsonl", 1, "none.jsonl: cannot be read"),
        ("restore --storage fs:new cut.jsonl", 1, "line 3: it does not end; the file was cut off"),
        ("restore --storage fs:new later.jsonl", 1, "update Reqlore"),
    ] {
        let (code, said) = run(place, command);
        assert_eq!(code, expected, "{command}: {said}");
        assert!(said.contains(told), "{command}: {told} in {said}");
    }
    assert!(fs::read_dir(place.join("new")).unwrap().next().is_none(), "nothing was restored");
    assert!(!place.join("typo.db").is_file(), "nothing was made of a misspelt name");
}

// A target is opened when the source was found sound, for opening a database makes one
#[test]
fn copy_refused_source_creates_no_target() {
    let scratch = project();
    let place = scratch.path();
    fs::create_dir_all(place.join("fs/.ixchel")).unwrap();
    std::os::unix::fs::symlink("x", place.join("fs/.ixchel/a.md")).unwrap();
    fs::write(place.join("cut.jsonl"), "{\"format\":\"reqlore-dump\",").unwrap();
    fs::write(place.join("empty.db"), "").unwrap();
    for (command, told) in [
        ("restore --storage sqlite:new.db cut.jsonl", "cut off; nothing was changed"),
        ("restore --storage sled:new cut.jsonl", "cut off; nothing was changed"),
        ("restore --storage sqlite:new.db none.jsonl", "cannot be read"),
        ("copy --from fs:fs --to sqlite:new.db", "is a symbolic link"),
        ("copy --from sqlite:empty.db --to sqlite:new.db", "empty.db is an empty file"),
        ("backup --storage sqlite:empty.db new.jsonl", "empty.db is an empty file"),
    ] {
        let (code, said) = run(place, command);
        assert!(code == 1 && said.contains(told), "{command}: {told} in {said}");
        let entries = fs::read_dir(place).unwrap().map(|entry| entry.unwrap().file_name());
        let mut left: Vec<_> = entries.collect();
        left.sort();
        assert_eq!(left, ["cut.jsonl", "empty.db", "fs"], "{command}");
        assert_eq!(fs::metadata(place.join("empty.db")).unwrap().len(), 0, "{command}");
    }
}

#[test]
fn copy_project_onto_its_own_folder_is_refused() {
    let scratch = project();
    let place = scratch.path();
    for folder in ["root/.ixchel", "other/.ixchel", "new"] {
        fs::create_dir_all(place.join(folder)).unwrap();
    }
    fs::write(place.join("other/.ixchel/a.md"), "x").unwrap();
    fs::write(place.join("root/reqlore.toml"), "[projects.second]\nroot = \"../other\"\n").unwrap();
    let (code, said) = run(place, "copy --root root --from fs --to fs:new");
    assert!(code == 1 && said.contains("--config") && said.contains("second"), "{said}");
    let said = moved(place, "copy --root root --from fs --to sqlite:a.db");
    assert!(said.starts_with("Copied 1 document"), "{said}");
    let (code, said) = run(place, "copy --root root --from sqlite:a.db --to fs:new");
    let told = "the folder of the project second: is not empty: it holds .ixchel/a.md.";
    assert!(code == 1 && said.contains(told), "{said}");
}

/// The binary without root's right to enter and read everything.
fn without_rights(folder: &Path) -> Command {
    let command = reqlore();
    if fs::read_dir(folder).is_err() {
        return command;
    }
    let mut without = Command::new("setpriv");
    without.arg("--bounding-set=-dac_override,-dac_read_search").arg(command.get_program());
    without.env_clear().env("HOME", "/nonexistent").env("REQLORE_CACHE", "off");
    without
}

// A copy that leaves something out would be called verified all the same
#[test]
fn copy_unreadable_document_stops_the_copy() {
    let scratch = project();
    let place = scratch.path();
    let mode = |path: &str, mode| {
        fs::set_permissions(place.join(path), fs::Permissions::from_mode(mode)).unwrap();
    };
    let paths =
        ["closed/a.md", "listed/b.md", "c.md", "d.md"].map(|name| format!("fs/.ixchel/{name}"));
    for path in &paths {
        fs::create_dir_all(place.join(path).parent().unwrap()).unwrap();
        fs::write(place.join(path), "x").unwrap();
    }
    mode("fs/.ixchel/closed", 0o000);
    mode("fs/.ixchel/listed", 0o400);
    mode("fs/.ixchel/c.md", 0o000);
    for command in ["backup --storage fs:fs a.jsonl", "copy --from fs:fs --to sqlite:a.db"] {
        let mut run = without_rights(&place.join("fs/.ixchel/closed"));
        let (code, _, told) = output(run.current_dir(place).args(command.split(' ')));
        assert_eq!(code, 1, "{command}: {told}");
        for expected in [
            "3 entries can't be copied, so nothing is:",
            "- .ixchel/closed/: can't be opened (Permission denied",
            "- .ixchel/listed/: can't be opened (Permission denied",
            "- .ixchel/c.md: can't be read (Permission denied",
        ] {
            assert!(told.contains(expected), "{command}: {expected} in {told}");
        }
    }
    let left: Vec<_> =
        fs::read_dir(place).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    mode("fs/.ixchel/closed", 0o700);
    assert_eq!(left, ["fs"], "nothing was begun");
}

/// The bytes of all files below a folder.
fn size_of(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok);
    let size = |entry: fs::DirEntry| match entry.metadata() {
        Ok(found) if found.is_dir() => size_of(&entry.path()),
        found => found.map_or(0, |found| found.len()),
    };
    entries.map(size).sum()
}

// The target of a copy that was killed is not used
#[test]
fn copy_interrupted_target_is_never_served() {
    let scratch = project();
    let place = scratch.path();
    let folder = place.join("from/.ixchel/notes");
    fs::create_dir_all(&folder).unwrap();
    for number in 0..6_000 {
        fs::write(folder.join(format!("{number}.md")), "some words \n".repeat(100)).unwrap();
    }
    for (storage, name) in [("sqlite:to/x.db", "sqlite"), ("sled:to/x", "sled"), ("fs:to", "fs")] {
        let target = place.join("to");
        fs::create_dir(&target).unwrap();
        let arguments = ["copy", "--from", "fs:from", "--to", storage];
        let mut copying = reqlore().current_dir(place).args(arguments).spawn().unwrap();
        while size_of(&target) < 1_000_000 && copying.try_wait().unwrap().is_none() {
            std::thread::yield_now();
        }
        copying.kill().unwrap();
        let finished = copying.wait().unwrap().success();
        assert!(!finished, "{storage}: the copy was faster than the kill");
        let (code, said) = run(place, &format!("backup --storage {storage} {name}.jsonl"));
        assert_eq!(code, 1, "{said}");
        for word in ["incomplete", "copy again"] {
            assert!(said.contains(word), "{storage}: {said}");
        }
        let (code, said) = run(place, &format!("copy --from fs:from --to {storage}"));
        assert!(code == 1 && said.contains("incomplete"), "{storage}: {said}");
        fs::remove_dir_all(&target).unwrap();
    }
}
