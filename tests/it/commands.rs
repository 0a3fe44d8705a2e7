//! Commands other than `serve`: check, demo, completions, configuration and exit codes.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use expect_test::expect_file;
use serde_json::{Value, json};

use crate::client::{DIRECTORY, Server, call, project, reqlore, set};
use crate::init::output;
use crate::repository;

/// Sends one request to a server in `root`, and returns its answer and its log.
fn serve_once(root: &Path, request: &Value, variables: &[(&str, &str)]) -> (String, String) {
    std::fs::write(root.join("call"), format!("{request}\n")).unwrap();
    let mut command = reqlore();
    command.arg("--root").arg(root).env_remove("GIT_AUTHOR_NAME");
    command.envs(variables.iter().copied());
    command.stdin(std::fs::File::open(root.join("call")).unwrap());
    let (code, answer, log) = output(&mut command);
    assert_eq!(code, 0, "{log}");
    (answer, log)
}

fn write(root: &Path, name: &str, body: impl AsRef<[u8]>) {
    std::fs::create_dir_all(root.join(DIRECTORY)).unwrap();
    std::fs::write(root.join(DIRECTORY).join(name), body).unwrap();
}

#[test]
fn check_problem_names_document_line_fix_and_exits_1() {
    let project = project();
    let root = project.path();
    write(root, "AGENTS.md", "## Sections\n\n- Old (key: old)\n");
    write(root, "good.md", "# Good\n\n**1.** fine\n");
    write(root, "order.md", "**2.** b\n\n**1.** a\n\n**12345678901.** too long\n\n```\n");
    write(root, "bytes.md", b"one\ntwo \xff\n");
    let (code, findings, _) = output(reqlore().arg("check").arg("--root").arg(root));
    assert_eq!(code, 1, "{findings}");
    for line in [
        "section bytes: line 2 is not UTF-8 text; save the file as UTF-8",
        "section order:3: index 1 comes after 2",
        "section order:5: `**12345678901.**` is not a rule",
        "section order:7: this code fence, comment or HTML is not closed",
        "AGENTS.md: the list under \"## Sections\" is outdated",
    ] {
        assert!(findings.contains(line), "{line} is missing in:\n{findings}");
    }
    assert!(!findings.contains("good"), "{findings}");
    let (code, json, _) = output(reqlore().args(["check", "--json", "--root"]).arg(root));
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!((code, json["findings"].as_array().unwrap().len()), (1, findings.lines().count()));

    let valid_project = crate::client::project();
    for _ in 0..2 {
        let (code, findings, _) =
            output(reqlore().arg("check").arg("--root").arg(valid_project.path()));
        assert_eq!((code, findings.as_str()), (0, "Nothing to fix.\n"));
        Server::start(valid_project.path()).call("reqlix_set_requirements", set(1, "fine"));
    }
}

#[test]
fn startup_unselected_database_is_reported() {
    let project = project();
    let run = |arguments: &[&str]| {
        output(reqlore().args(arguments).current_dir(project.path()).env_remove("REQLORE_STORAGE"))
    };
    let files = ["user", "list"];
    assert_eq!(run(&files).2, "");
    assert_eq!(run(&["--storage", "sqlite", "user", "add", "ann", "--role", "user"]).0, 0);
    for command in [&files[..], &["audit", "verify"], &["backup", "x.dump"], &["check"]] {
        let errors = run(command).2;
        assert!(errors.contains("REQLORE_STORAGE=sqlite to use it"), "{command:?}: {errors}");
    }
    for storage in ["sqlite", "fs"] {
        assert_eq!(run(&["--storage", storage, "user", "list"]).2, "", "{storage}");
    }
}

#[test]
fn write_operation_description_is_logged() {
    let project = project();
    let arguments = json!({
        "operation_description": "the customer asked for it",
        "section": "general", "index": "1", "text": "x"
    });
    let request = call(1, "reqlix_set_requirements", project.path(), arguments);
    let (answer, log) = serve_once(project.path(), &request, &[]);
    assert!(answer.contains("**1.** x"), "{answer}");
    assert!(log.contains("the customer asked for it") && log.contains("section general"), "{log}");
}

#[test]
#[expect(clippy::disallowed_methods, reason = "finds git")]
fn local_user_name_comes_from_git_then_login() {
    let project = project();
    let root = project.path();
    let git = Command::new("git").args(["init", "--quiet"]).current_dir(root).status().unwrap();
    assert!(git.success());
    std::fs::write(root.join(".git/config"), "[include]\npath = included\n").unwrap();
    std::fs::write(root.join(".git/included"), "[user]\nname = Included\n").unwrap();
    let path = std::env::var("PATH").unwrap();
    let git = ("PATH", path.as_str());
    let cases: [(&[(&str, &str)], &str); 5] = [
        (&[("GIT_AUTHOR_NAME", "Author"), git], "Author"),
        (&[("GIT_AUTHOR_NAME", "two\nlines"), git], "Included"),
        (&[("USER", "login"), git], "Included"),
        (&[("USER", "login")], "login"),
        (&[], "local"),
    ];
    for (index, (variables, expected)) in cases.into_iter().enumerate() {
        let request = call(1, "reqlix_set_requirements", root, set(index + 1, "x"));
        let (_, log) = serve_once(root, &request, variables);
        assert!(log.contains(&format!("caller={expected} ")), "{variables:?}: {log}");
    }
}

#[test]
fn demo_shows_one_session_and_keeps_its_files() {
    let scratch = project();
    let (code, output_text, errors) = output(reqlore().arg("demo").env("TMPDIR", scratch.path()));
    assert_eq!((code, errors.as_str()), (0, ""), "{output_text}");
    for part in [
        "← Created epic EP-001: Checkout",
        "dec-4f1a20 (decision, accepted)",
        "← **1.** No step requires an account.",
        "\"mcpServers\"",
    ] {
        assert!(output_text.contains(part), "{part} is missing in:\n{output_text}");
    }
    assert!(!output_text.contains('✗') && output_text.lines().count() <= 45, "{output_text}");
    let folder = std::fs::read_dir(scratch.path()).unwrap().next().unwrap().unwrap().path();
    assert!(folder.join(DIRECTORY).join("checkout.md").is_file());
}

#[test]
fn config_sources_flag_environment_file_default_in_order() {
    let project = project();
    let file = "storage = \"fs\"\nroots = [\"/tmp\", \"/usr\"]\n\n[sections]\nwrap_columns = 80\n";
    std::fs::write(project.path().join("reqlore.toml"), file).unwrap();
    let mut command = reqlore();
    command.current_dir(project.path()).args(["--print-config", "--log", "error"]);
    command.args(["--config", "reqlore.toml"]);
    command.env("REQLORE_LOG", "debug").env("REQLORE_SECTIONS_WRAP_COLUMNS", "0");
    command.env("REQLIX_REQ_REL_PATH", "");
    let (code, settings, _) = output(&mut command);
    assert_eq!(code, 0);
    for (setting, source) in [
        ("log = \"error\"", "flag --log"),
        ("sections.wrap_columns = 0", "environment REQLORE_SECTIONS_WRAP_COLUMNS"),
        ("storage = \"fs\"", "reqlore.toml"),
        ("roots = [\"/tmp\", \"/usr\"]", "reqlore.toml"),
        ("transport = \"stdio\"", "default"),
        ("sections.directory = \"\"", "default"),
    ] {
        let line = settings.lines().find(|line| line.starts_with(setting));
        assert!(line.is_some_and(|line| line.contains(source)), "{setting} in:\n{settings}");
    }
}

/// Arguments, an environment variable, the exit code and a part of the message.
type Case = (&'static [&'static str], Option<(&'static str, &'static str)>, i32, &'static str);

const CASES: [Case; 21] = [
    (&["--config", "empty.toml"], None, 2, "roots: \"\" (file"),
    (&["--config", "roots.toml"], None, 2, "roots: \"1\" (file"),
    (&[], Some(("REQLORE_ROOTS", "/tmp:")), 2, "roots: \"\" (environment"),
    (&[], Some(("REQLORE_ROOTS", "tmp")), 2, "roots: \"tmp\" (environment"),
    (&["--storage", "redis:x"], None, 2, "\"redis\" is not built into this version; use fs[:DIR]"),
    (&["--transport", "websocket"], None, 2, "(flag --transport) must be stdio or http"),
    // A cloned repository must not open a port.
    (&["--root", "open"], None, 2, "reqlore.toml) may not be set by a project's own file"),
    (&["--listen", "localhost"], None, 2, "http.listen: \"localhost\" (flag --listen) must be"),
    (&["--behind-proxy=proxy"], None, 2, "a list of addresses: \"proxy\" is not an address"),
    (&[], Some(("REQLORE_AUDIT", "yes")), 2, "must be on or off or auto"),
    (&[], Some(("REQLORE_AUDIT_KEEP_DAYS", "0")), 2, "must be a number of at least 1"),
    (&["--config", "limit.toml"], None, 2, "http.limits.queue: \"0\" (file"),
    (&["--config", "misspelt.toml"], None, 2, "unknown setting \"http.limits.que\""),
    (&["--log", "loud"], None, 2, "log: \"loud\" is not a level"),
    (&["--root", "/no/such/folder"], None, 1, "root: /no/such/folder can't be used"),
    (
        &["--config", "typo.toml"],
        None,
        2,
        "typo.toml: unknown setting \"wrap\"; the settings are root,",
    ),
    (&["--config", "broken.toml"], None, 2, "broken.toml: "),
    // `reqlore.toml` in the root of a cloned repository.
    (&["--root", "cloned"], None, 2, "reqlore.toml) must be inside the project"),
    (&["--config", "none.toml"], None, 1, "none.toml can't be read"),
    (&[], Some(("REQLIX_REQ_REL_PATH", "../x")), 2, "REQLIX_REQ_REL_PATH: \"../x\" must be"),
    (
        &[],
        Some(("REQLORE_SECTIONS_WRAP_COLUMNS", "wide")),
        2,
        "sections.wrap_columns: \"wide\" (environment",
    ),
];

// Catalogue 23
#[test]
fn config_invalid_setting_is_named_in_the_error() {
    let project = project();
    let root = project.path();
    for (path, text) in [
        ("typo.toml", "wrap = 80\n"),
        ("broken.toml", "log = \n"),
        ("roots.toml", "roots = [1]\n"),
        ("empty.toml", "roots = [\"\"]\n"),
        ("limit.toml", "[http.limits]\nqueue = 0\n"),
        ("misspelt.toml", "[http.limits]\nque = 1\n"),
        ("open/reqlore.toml", "transport = \"http\"\n"),
        ("cloned/reqlore.toml", "storage = \"sled:/tmp/x\"\n"),
    ] {
        std::fs::create_dir_all(root.join(path).parent().unwrap()).unwrap();
        std::fs::write(root.join(path), text).unwrap();
    }
    for (arguments, variable, expected, message) in CASES {
        let mut command = reqlore();
        command.current_dir(root).args(arguments).envs(variable);
        let (code, stdout, errors) = output(&mut command);
        assert_eq!((code, stdout.as_str()), (expected, ""), "{arguments:?} {errors}");
        assert!(errors.contains(message), "{message} is missing in: {errors}");
    }
    let (code, _, errors) = output(reqlore().arg("--no-such-flag"));
    assert_eq!(code, 2, "{errors}");
}

/// A cloned repository must not extend the access to a server.
#[test]
fn http_project_config_cannot_set_access_or_audit() {
    let project = project();
    let root = project.path();
    std::fs::create_dir(root.join("sub")).unwrap();
    for (setting, message) in [
        ("audit = \"off\"", "audit: \"off\" (file"),
        ("audit_keep_days = 1", "audit_keep_days: \"1\" (file"),
        ("log = \"off\"", "log: \"off\" (file"),
        ("log_format = \"json\"", "log_format: \"json\" (file"),
        ("root = \"sub\"", "root: \"sub\" (file"),
        ("http.listen = \"127.0.0.1:0\"", "use --listen or REQLORE_LISTEN, or pass the file with"),
        ("http.behind_proxy = true", "http.behind_proxy: \"true\" (file"),
        ("http.hosts = [\"example.org\"]", "http.hosts: "),
        ("http.origins = [\"https://example.org\"]", "http.origins: "),
        ("http.forwarded_by = \"forwarded\"", "http.forwarded_by: "),
        ("http.limits.requests_per_second = 0", "over http; pass the file with --config"),
        ("[projects.sub]\nroot = \"sub\"", "projects.sub.root: \"sub\" (file"),
    ] {
        std::fs::write(root.join("reqlore.toml"), format!("{setting}\n")).unwrap();
        let print_config = |arguments: &[&str]| {
            let mut command = reqlore();
            output(command.current_dir(root).args(arguments).args(["--print-config"]))
        };
        let (code, _, errors) = print_config(&["--transport", "http"]);
        assert_eq!(code, 2, "{setting}: {errors}");
        assert!(errors.contains("by a project's own file over http"), "{setting}: {errors}");
        assert!(errors.contains(message), "{message} is missing in: {errors}");
        let (code, _, errors) = print_config(&["--transport", "http", "--config", "reqlore.toml"]);
        assert_eq!(code, 0, "{setting} is the operator's: {errors}");
        let (code, _, errors) = print_config(&[]);
        assert_eq!(code, 0, "{setting} is harmless on stdio: {errors}");
    }
    let allowed = "read_only = true\ntoolsets = \"backlog\"\n";
    std::fs::write(root.join("reqlore.toml"), allowed).unwrap();
    let mut command = reqlore();
    command.current_dir(root).args(["--transport", "http", "--print-config"]);
    assert_eq!(output(&mut command).0, 0, "a project may restrict itself");
}

/// Generates docs/configuration.md (`UPDATE_EXPECT=1`).
#[test]
fn configuration_page_is_the_output_of_print_config() {
    let mut command = reqlore();
    command.current_dir("/").arg("--print-config").env_remove("REQLORE_CACHE");
    let (_, settings, _) = output(&mut command);
    let file = expect_file![repository().join("docs/configuration.md")];
    let introduction = "\
# Configuration

A value is taken from the first of these that sets it: flags, environment variables, the configuration file, defaults. The
file is `reqlore.toml` in the root, or the file that `--config` or `REQLORE_CONFIG` names. `reqlore --print-config` shows
each value and its source.

Additional projects each have a key and a folder relative to the file. Tools accept either:

```toml
[projects.shop]
root = \"shop\"
```

## A found settings file

Anyone who can commit to a repository can change its `reqlore.toml`. So a file that was found in the root and not named by
you may contain only paths inside the project, after all links are resolved, and no URLs. This applies to both transports and
all commands.
Below, `found file` states the limit of each setting. Settings without it name no path and grant nothing.
`[projects.KEY]` are accepted inside the project, on stdio. A found file must not be a link out of the project.

The error names the setting, its value and the flag to use instead. If you trust the file, name it:
`reqlore --config reqlore.toml`. `reqlore init --config reqlore.toml` writes this into the entries of your clients. If an earlier
`init` wrote an entry that needs it now, `reqlore init` adds it and says so.

## All settings

This is the output of `--print-config` with the defaults:

```toml
";
    file.assert_eq(&format!("{introduction}{}\n```\n", settings.trim_end()));
}

#[test]
fn completions_script_of_every_shell_calls_the_program() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let (code, script, errors) = output(reqlore().args(["completions", shell]));
        assert_eq!((code, errors.as_str()), (0, ""), "{shell}");
        assert!(script.contains("REQLORE_COMPLETE") && script.contains("reqlore"), "{script}");
        if shell == "bash" {
            let mut bash = Command::new("bash").arg("-n").stdin(Stdio::piped()).spawn().unwrap();
            bash.stdin.take().unwrap().write_all(script.as_bytes()).unwrap();
            assert!(bash.wait().unwrap().success());
        }
        let mut command = reqlore();
        command.env("REQLORE_COMPLETE", shell).env("_CLAP_COMPLETE_INDEX", "1");
        let (code, words, errors) = output(command.args(["--", "reqlore", ""]));
        assert_eq!((code, errors.as_str()), (0, ""), "{shell}");
        for word in ["init", "doctor", "serve", "token", "completions", "list"] {
            assert!(words.contains(word), "{shell}: {word}: {words}");
        }
    }
    let (code, _, errors) = output(reqlore().args(["completions", "tcsh"]));
    assert!(code == 2 && errors.contains("bash") && errors.contains("zsh"), "{errors}");
}
