//! Databases of version 0.1.0: killed upgrades, several processes, and commands that only read.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::client::{project, reqlore};
use crate::compatibility::{check_answers, recorded_answers, run, unpack};

fn start(root: &Path, storage: &str, arguments: &[&str]) -> Child {
    let mut command: Command = reqlore();
    command.arg("--root").arg(root).args(["--storage", storage]).args(arguments);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

#[test]
fn killed_upgrade_of_0_1_0_returns_the_same_answers() {
    for storage in ["sqlite", "sled"] {
        let project = unpack(storage);
        let expected = recorded_answers(storage);
        // Each process lives a little longer, so that kills meet all steps.
        for round in 1..=12_u32 {
            let mut child = start(project.path(), storage, &["user", "list"]);
            let end = Instant::now() + Duration::from_millis(4) * round;
            while Instant::now() < end && child.try_wait().unwrap().is_none() {}
            child.kill().unwrap();
            child.wait().unwrap();
        }
        check_answers(project.path(), storage, &expected);
    }
}

#[test]
fn processes_that_start_together_upgrade_once() {
    let project = unpack("sqlite");
    let children: Vec<Child> =
        (0..4).map(|_| start(project.path(), "sqlite", &["user", "list"])).collect();
    for child in children {
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{output:?}");
    }
    let names = fs::read_dir(project.path().join(".reqlore/local")).unwrap();
    let backups = names
        .filter(|name| name.as_ref().unwrap().file_name().to_string_lossy().contains("schema-"));
    assert_eq!(backups.count(), 1);
    check_answers(project.path(), "sqlite", &recorded_answers("sqlite"));
}

#[test]
fn backup_copy_and_doctor_upgrade_no_database() {
    for storage in ["sqlite", "sled"] {
        let old = unpack(storage);
        let file = old.path().join(".reqlore/local/reqlore.db");
        let before = fs::read(&file).ok();
        let (target, restored) = (project(), project());
        let dump = target.path().join("old.dump");
        run(old.path(), storage, &["backup", dump.to_str().unwrap()]);
        let copied = format!("sqlite:{}", target.path().join("copy.db").display());
        run(old.path(), storage, &["copy", "--from", storage, "--to", &copied, "--verify"]);
        let report = start(old.path(), storage, &["doctor"]).wait_with_output().unwrap();
        let report = String::from_utf8(report.stdout).unwrap();
        if storage == "sqlite" {
            assert!(report.contains("schema 2; sections: 1, backlog items: 4"), "{report}");
            assert!(report.contains("was written by an older version"), "{report}");
        }
        assert!(fs::read(&file).ok() == before, "{storage} was changed");
        run(restored.path(), storage, &["restore", dump.to_str().unwrap()]);
        let expected = recorded_answers(storage);
        check_answers(restored.path(), storage, &expected);
        check_answers(target.path(), &copied, &expected);
        check_answers(old.path(), storage, &expected);
    }
}
