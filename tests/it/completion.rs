//! Completion in real shells, in a repository whose IDs and file names are code.
//!
//! zsh drives the shells on pseudo-terminals. Without zsh and fish that test is skipped, and it
//! fails if `REQLORE_SHELLS` is set.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::client::{BINARY, project, reqlore};
use crate::init::output;

/// Each creates a file, or changes the line, if a shell evaluates it.
const HOSTILE: [&str; 24] = [
    "$(touch evil)",
    "`touch evil`",
    ";touch evil;",
    "|touch evil",
    "&touch evil",
    "&&touch evil",
    "\ntouch evil\n",
    ">evil",
    "'$(touch evil)",
    "\"$(touch evil)",
    " ;touch evil",
    "\t;touch evil",
    "${IFS:=$(touch evil)}",
    "<(touch evil)",
    "(touch evil)",
    "{a,;touch evil}",
    "\\",
    "*",
    "?",
    "[a-z]",
    "#",
    "!!",
    "~",
    "^touch evil",
];
/// Types each line, Tab, and Enter.
const DRIVER: &str = r#"
zmodload zsh/zpty
zpty shell "$1"
zpty -w shell "$2; echo REA''DY"
zpty -r shell out '*READY*'
n=0
for typed in "${@:3}"; do
    zpty -w shell "$typed"$'\t'"; echo DO''NE$n"
    zpty -r shell out "*DONE$n*"
    print -r -- "$out"
    n=$((n + 1))
done
"#;

/// A project with an entity and a file per hostile name, and with plain ones.
fn hostile_project() -> tempfile::TempDir {
    let folder = project();
    let entities = folder.path().join(".ixchel/decisions");
    fs::create_dir_all(&entities).unwrap();
    let mut ids = vec!["dec-safe".to_owned(), "dec-émile".to_owned(), "--root=evil".to_owned()];
    ids.extend(HOSTILE.iter().enumerate().map(|(n, name)| format!("dec-{n:02}{name}")));
    for (n, id) in ids.iter().enumerate() {
        let id = serde_json::to_string(id).unwrap();
        let text = format!("---\nid: {id}\ntitle: Title of {n}\n---\n");
        fs::write(entities.join(format!("{n}.md")), text).unwrap();
    }
    fs::write(folder.path().join("safe.toml"), "").unwrap();
    for (n, name) in HOSTILE.iter().enumerate() {
        fs::write(folder.path().join(format!("f{n:02}{name}")), "").unwrap();
    }
    folder
}

/// The words that the program offers a shell.
fn candidates(folder: &Path, shell: &str, words: &[&str]) -> String {
    let mut command = reqlore();
    command.current_dir(folder).env("REQLORE_COMPLETE", shell);
    command.env("_CLAP_COMPLETE_INDEX", words.len().to_string()).env("_CLAP_IFS", "\n");
    let (code, offered, errors) = output(command.args(["--", "reqlore"]).args(words));
    assert_eq!((code, errors.as_str()), (0, ""), "{shell}: {words:?}");
    offered
}

#[test]
fn hostile_ids_and_paths_are_no_candidates() {
    let folder = hostile_project();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        for command in ["show", "set", "edit", "delete", "history", "diff", "tree", "link"] {
            let offered = candidates(folder.path(), shell, &[command, "dec-"]);
            assert!(offered.contains("dec-safe"), "{shell} {command}: {offered}");
            assert!(offered.contains("dec-émile"), "{shell} {command}: {offered}");
            assert_eq!(offered.trim().lines().count(), 2, "{shell} {command}: {offered}");
        }
        assert!(!candidates(folder.path(), shell, &["show", "--"]).contains("evil"), "{shell}");
        for words in [&["--config", "f"][..], &["--root", "f"], &["list", "--config", "f"]] {
            assert_eq!(candidates(folder.path(), shell, words).trim(), "", "{shell} {words:?}");
        }
        let offered = candidates(folder.path(), shell, &["--config", "sa"]);
        assert!(offered.contains("safe.toml"), "{shell}: {offered}");
    }
}

#[test]
fn tab_and_enter_run_nothing_in_real_shells() {
    let has = |name: &str| {
        let version = Command::new(name).arg("--version").stdout(Stdio::null()).status();
        version.is_ok_and(|status| status.success())
    };
    if !(has("zsh") && has("fish")) {
        assert!(!must_have_shells(), "zsh or fish is missing");
        println!("zsh or fish is missing; nothing was tested");
        return;
    }
    for (shell, setup) in [
        ("bash --norc --noprofile -i", "source <(reqlore completions bash)"),
        ("zsh -f -i", "autoload -Uz compinit; compinit -u; source <(reqlore completions zsh)"),
        ("fish --no-config -i", "reqlore completions fish | source"),
    ] {
        let folder = hostile_project();
        let home = tempfile::tempdir().unwrap();
        let program = Path::new(BINARY).parent().unwrap().to_str().unwrap();
        let mut driver = Command::new("zsh");
        driver.args(["-f", "-c", DRIVER, "driver", shell, setup]);
        for n in 0..HOSTILE.len() {
            driver.arg(format!("reqlore show dec-{n:02}"));
            driver.arg(format!("reqlore --print-config --config f{n:02}"));
        }
        driver.arg("reqlore show dec-sa");
        driver.env("PATH", format!("{program}:/usr/bin:/bin")).env("HOME", home.path());
        driver.env("TERM", "xterm").current_dir(folder.path());
        let (code, shown, errors) = output(&mut driver);
        assert_eq!(code, 0, "{shell}: {errors}");
        assert!(!folder.path().join("evil").try_exists().unwrap(), "{shell}: {shown}");
        assert!(shown.contains("Title of 0"), "{shell}: {shown}");
    }
}

#[expect(clippy::disallowed_methods, reason = "CI requires the shells")]
fn must_have_shells() -> bool {
    std::env::var_os("REQLORE_SHELLS").is_some()
}
