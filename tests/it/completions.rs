//! `reqlore completions SHELL`: what shells can read.

use std::io::Write;
use std::process::{Command, Stdio};

use crate::client::reqlore;

fn script(shell: &str) -> String {
    let output = reqlore().args(["completions", shell]).output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{shell}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn completions_name_each_command_and_flag_in_each_shell() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = script(shell);
        for word in ["init", "doctor", "serve", "token", "completions", "storage", "read-only"] {
            assert!(script.contains(word), "{shell}: {word}");
        }
    }
}

#[test]
fn bash_reads_its_completions() {
    let mut bash = Command::new("bash").arg("-n").stdin(Stdio::piped()).spawn().unwrap();
    bash.stdin.take().unwrap().write_all(script("bash").as_bytes()).unwrap();
    assert!(bash.wait().unwrap().success());
}

#[test]
fn an_unknown_shell_is_refused_with_those_there_are() {
    let output = reqlore().args(["completions", "tcsh"]).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(said.contains("bash") && said.contains("zsh"), "{said}");
}
