//! `reqlore copy`, `backup` and `restore` through every storage and back.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, UNIX_EPOCH};

use serde_json::Value;

use crate::administration::create_token;
use crate::client::{DIRECTORY, project, reqlore};
use crate::init::output;

/// The exit code and output of a command. Asserts that one of the two output streams is empty.
pub(crate) fn run(folder: &Path, command: &str) -> (i32, String) {
    let (code, stdout, stderr) = run_split(folder, command);
    assert!(stdout.is_empty() || stderr.is_empty(), "{command}: {stdout}{stderr}");
    (code, stdout + &stderr)
}

/// The exit code, standard output and standard error.
pub(crate) fn run_split(folder: &Path, command: &str) -> (i32, String, String) {
    output(reqlore().current_dir(folder).args(command.split(' ')))
}

pub(crate) fn run_ok(folder: &Path, command: &str) -> String {
    let (code, output) = run(folder, command);
    assert_eq!(code, 0, "{command}: {output}");
    output
}

/// Writes a project whose bytes, names and times a copy could lose.
fn write_project(root: &Path) {
    let bodies: [(&str, &[u8]); 6] = [
        ("docs/development/requirements/AGENTS.md", b"\xef\xbb\xbf# A\r\n\r\nno end"),
        ("docs/development/requirements/empty.md", b""),
        ("docs/development/requirements/latin.md", b"**1.** \xff\xfe is not text\n"),
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

/// Bytes and modification time of every file in the document folders, by relative path.
pub(crate) fn files_with_times(root: &Path) -> BTreeMap<String, (Vec<u8>, i64, i64)> {
    let mut files = BTreeMap::new();
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
            files.insert(name, file);
        }
    }
    files
}

// Catalogue 148
#[test]
fn copy_through_every_storage_preserves_everything() {
    let (project, scratch) = (project(), project());
    let (root, folder) = (project.path(), scratch.path());
    write_project(root);
    run_ok(root, "user add ann --role user");
    let token = create_token(root, "token create --user ann");
    let source = format!("fs:{}", root.display());
    let output = run_ok(folder, &format!("copy --from {source} --to sqlite:a.db --verify"));
    let route = format!("from {source} to sqlite:{}", folder.canonicalize().unwrap().display());
    assert!(output.starts_with("Copied 156 documents (") && output.contains(&route), "{output}");
    assert!(output.contains(", 1 user, 1 token, 2 rows of the audit from fs:"), "{output}");
    assert!(output.ends_with("/a.db; verified: both sides are the same.\n"), "{output}");
    let output = run_ok(folder, "copy --from sqlite:a.db --to sled:b --verify --json");
    let report: Value = serde_json::from_str(&output).unwrap();
    assert_eq!((&report["documents"], &report["verified"]["same"]), (&156.into(), &156.into()));
    for name in ["c", "d"] {
        fs::create_dir(folder.join(name)).unwrap();
    }
    assert!(!run_ok(folder, "copy --from sled:b --to fs:c").contains("verified"));
    assert_eq!(files_with_times(&folder.join("c")), files_with_times(root));

    let output = run_ok(folder, "backup --storage fs:c c.jsonl");
    assert!(
        output.ends_with(" to c.jsonl; verified: it was read back and its checksum matches.\n"),
        "{output}"
    );
    let output = run_ok(folder, "restore --root d --storage fs c.jsonl");
    assert!(output.starts_with("Restored 156 documents"), "{output}");
    assert_eq!(files_with_times(&folder.join("d")), files_with_times(root));
    assert!(run_ok(folder, "--root d token list").contains(token.id.as_str()));
    let verified = run_ok(folder, "--root d audit verify");
    assert!(verified.starts_with("The audit log is intact: 2 rows."), "{verified}");
    for (storage, dump) in [("sqlite:a.db", "a.jsonl"), ("sled:b", "b.jsonl")] {
        run_ok(folder, &format!("backup --storage {storage} {dump}"));
        assert_eq!(fs::read(folder.join(dump)).unwrap(), fs::read(folder.join("c.jsonl")).unwrap());
    }
}

#[test]
fn copy_impossible_request_names_the_fix() {
    let scratch = project();
    let folder = scratch.path();
    let documents = folder.join("fs").join(DIRECTORY);
    fs::create_dir_all(&documents).unwrap();
    fs::create_dir(folder.join("new")).unwrap();
    fs::write(documents.join("a.md"), "**1.** x").unwrap();
    run_ok(folder, "backup --storage fs:fs whole.jsonl");
    let dump = fs::read_to_string(folder.join("whole.jsonl")).unwrap();
    fs::write(folder.join("cut.jsonl"), &dump[..dump.len() - 10]).unwrap();
    fs::write(folder.join("later.jsonl"), dump.replace("\"version\":2", "\"version\":3")).unwrap();
    for (command, expected, message) in [
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
        (
            "restore --storage fs:new cut.jsonl",
            1,
            "line 3: it has no line break at its end; the file was cut off",
        ),
        ("restore --storage fs:new later.jsonl", 1, "update Reqlore"),
    ] {
        let (code, output) = run(folder, command);
        assert_eq!(code, expected, "{command}: {output}");
        assert!(output.contains(message), "{command}: {message} in {output}");
    }
    assert!(fs::read_dir(folder.join("new")).unwrap().next().is_none(), "nothing was restored");
    assert!(!folder.join("typo.db").is_file(), "a misspelt name creates no file");
}

// Opening a database creates it, so the source is validated first.
#[test]
fn copy_refused_source_creates_no_target() {
    let scratch = project();
    let folder = scratch.path();
    fs::create_dir_all(folder.join("fs/.ixchel")).unwrap();
    std::os::unix::fs::symlink("x", folder.join("fs/.ixchel/a.md")).unwrap();
    fs::write(folder.join("cut.jsonl"), "{\"format\":\"reqlore-dump\",").unwrap();
    fs::write(folder.join("empty.db"), "").unwrap();
    for (command, message) in [
        ("restore --storage sqlite:new.db cut.jsonl", "cut off; nothing was changed"),
        ("restore --storage sled:new cut.jsonl", "cut off; nothing was changed"),
        ("restore --storage sqlite:new.db none.jsonl", "cannot be read"),
        ("copy --from fs:fs --to sqlite:new.db", "is a symbolic link"),
        ("copy --from sqlite:empty.db --to sqlite:new.db", "empty.db is an empty file"),
        ("backup --storage sqlite:empty.db new.jsonl", "empty.db is an empty file"),
    ] {
        let (code, output) = run(folder, command);
        assert!(code == 1 && output.contains(message), "{command}: {message} in {output}");
        let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
        let mut names: Vec<_> = entries.collect();
        names.sort();
        assert_eq!(names, ["cut.jsonl", "empty.db", "fs"], "{command}");
        assert_eq!(fs::metadata(folder.join("empty.db")).unwrap().len(), 0, "{command}");
    }
}

#[test]
fn copy_project_onto_its_own_folder_is_refused() {
    let scratch = project();
    let folder = scratch.path();
    for name in ["root/.ixchel", "other/.ixchel", "new"] {
        fs::create_dir_all(folder.join(name)).unwrap();
    }
    fs::write(folder.join("other/.ixchel/a.md"), "x").unwrap();
    fs::write(folder.join("root/reqlore.toml"), "[projects.second]\nroot = \"../other\"\n")
        .unwrap();
    let copy = "copy --root root --config root/reqlore.toml --from";
    let (code, output) = run(folder, &format!("{copy} fs --to fs:new"));
    assert!(code == 1 && output.contains("--config") && output.contains("second"), "{output}");
    let output = run_ok(folder, &format!("{copy} fs --to sqlite:a.db"));
    assert!(output.starts_with("Copied 1 document"), "{output}");
    let (code, output) = run(folder, &format!("{copy} sqlite:a.db --to fs:new"));
    let message = "the folder of the project second: is not empty: it holds .ixchel/a.md.";
    assert!(code == 1 && output.contains(message), "{output}");
}

/// The binary without root's capability to read every file and folder.
fn unprivileged_command(folder: &Path) -> Command {
    let command = reqlore();
    if fs::read_dir(folder).is_err() {
        return command;
    }
    let mut restricted = Command::new("setpriv");
    restricted.arg("--bounding-set=-dac_override,-dac_read_search").arg(command.get_program());
    restricted.env_clear().env("HOME", "/nonexistent").env("REQLORE_CACHE", "off");
    restricted
}

// Verification cannot detect a document that neither side could read.
#[test]
fn copy_unreadable_document_stops_the_copy() {
    let scratch = project();
    let folder = scratch.path();
    let mode = |path: &str, mode| {
        fs::set_permissions(folder.join(path), fs::Permissions::from_mode(mode)).unwrap();
    };
    let paths =
        ["closed/a.md", "listed/b.md", "c.md", "d.md"].map(|name| format!("fs/.ixchel/{name}"));
    for path in &paths {
        fs::create_dir_all(folder.join(path).parent().unwrap()).unwrap();
        fs::write(folder.join(path), "x").unwrap();
    }
    mode("fs/.ixchel/closed", 0o000);
    mode("fs/.ixchel/listed", 0o400);
    mode("fs/.ixchel/c.md", 0o000);
    for command in ["backup --storage fs:fs a.jsonl", "copy --from fs:fs --to sqlite:a.db"] {
        let mut command_to_refuse = unprivileged_command(&folder.join("fs/.ixchel/closed"));
        let (code, _, errors) =
            output(command_to_refuse.current_dir(folder).args(command.split(' ')));
        assert_eq!(code, 1, "{command}: {errors}");
        for expected in [
            "3 entries can't be copied, so nothing is:",
            "- .ixchel/closed/: can't be opened (Permission denied",
            "- .ixchel/listed/: can't be opened (Permission denied",
            "- .ixchel/c.md: can't be read (Permission denied",
        ] {
            assert!(errors.contains(expected), "{command}: {expected} in {errors}");
        }
    }
    let names: Vec<_> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    mode("fs/.ixchel/closed", 0o700);
    assert_eq!(names, ["fs"], "no target was created");
}

/// The total size in bytes of all files below a folder.
fn folder_size(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok);
    let size = |entry: fs::DirEntry| match entry.metadata() {
        Ok(metadata) if metadata.is_dir() => folder_size(&entry.path()),
        metadata => metadata.map_or(0, |metadata| metadata.len()),
    };
    entries.map(size).sum()
}

#[test]
fn copy_interrupted_target_is_never_served() {
    let scratch = project();
    let scratch_folder = scratch.path();
    let folder = scratch_folder.join("from/.ixchel/notes");
    fs::create_dir_all(&folder).unwrap();
    for number in 0..6_000 {
        fs::write(folder.join(format!("{number}.md")), "some words \n".repeat(100)).unwrap();
    }
    for (storage, name) in [("sqlite:to/x.db", "sqlite"), ("sled:to/x", "sled"), ("fs:to", "fs")] {
        let target = scratch_folder.join("to");
        fs::create_dir(&target).unwrap();
        let arguments = ["copy", "--from", "fs:from", "--to", storage];
        let mut copying = reqlore().current_dir(scratch_folder).args(arguments).spawn().unwrap();
        while folder_size(&target) < 1_000_000 && copying.try_wait().unwrap().is_none() {
            std::thread::yield_now();
        }
        copying.kill().unwrap();
        let finished = copying.wait().unwrap().success();
        assert!(!finished, "{storage}: the copy was faster than the kill");
        let (code, output) =
            run(scratch_folder, &format!("backup --storage {storage} {name}.jsonl"));
        assert_eq!(code, 1, "{output}");
        for word in ["incomplete", "copy again"] {
            assert!(output.contains(word), "{storage}: {output}");
        }
        let (code, output) = run(scratch_folder, &format!("copy --from fs:from --to {storage}"));
        assert!(code == 1 && output.contains("incomplete"), "{storage}: {output}");
        fs::remove_dir_all(&target).unwrap();
    }
}
