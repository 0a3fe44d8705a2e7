//! A test that runs again in a child process, which ends without any cleanup.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

/// In the working directory of the child: the step at which it ends.
const STEP_FILE: &str = "abort-at";

/// The step at which this process ends; `None` outside of [`kill_child`].
pub fn killed_step() -> Option<String> {
    fs::read_to_string(STEP_FILE).ok()
}

/// Runs the test with this path in a process of its own, in `folder`. It must abort at the step.
pub fn kill_child(test: &str, folder: &Path, step: &str) {
    fs::write(folder.join(STEP_FILE), step).unwrap();
    let status = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test])
        .current_dir(folder)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    assert_eq!(status.unwrap().code(), None, "{step}: a signal ends the process");
}
