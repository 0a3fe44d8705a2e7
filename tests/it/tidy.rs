//! Rules of the repository that neither Cargo nor clippy can check.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::repository;

/// Workspace crates that each crate may use. Adapters do not depend on each other, with exceptions:
/// transports use the protocol, databases the group commit, and file writers durable-fs.
const ALLOWED_DEPENDENCIES: &[(&str, &[&str])] = &[
    ("reqlore-domain", &["reqlore-observed-ports"]),
    ("reqlore-observed-ports", &[]),
    ("reqlore-application", &["reqlore-domain"]),
    ("reqlore-storage-memory", &["reqlore-domain", "reqlore-row-store"]),
    (
        "reqlore-storage-fs",
        &[
            "reqlore-domain",
            "reqlore-durable-fs",
            "reqlore-git-runner",
            "reqlore-local-state",
            "reqlore-row-store",
            "reqlore-storage-sqlite",
        ],
    ),
    ("reqlore-local-state", &["reqlore-domain", "reqlore-durable-fs", "reqlore-storage-sqlite"]),
    (
        "reqlore-storage-sqlite",
        &["reqlore-domain", "reqlore-durable-fs", "reqlore-group-commit", "reqlore-row-store"],
    ),
    (
        "reqlore-storage-sled",
        &["reqlore-domain", "reqlore-durable-fs", "reqlore-ordered-rows", "reqlore-row-store"],
    ),
    ("reqlore-ordered-rows", &["reqlore-domain", "reqlore-row-store"]),
    ("reqlore-row-store", &["reqlore-domain", "reqlore-group-commit"]),
    ("reqlore-storage-postgres", &["reqlore-domain", "reqlore-row-store"]),
    ("reqlore-group-commit", &["reqlore-domain"]),
    ("reqlore-durable-fs", &[]),
    ("reqlore-git-runner", &[]),
    ("reqlore-dump", &["reqlore-domain", "reqlore-durable-fs"]),
    ("reqlore-exchange", &["reqlore-domain"]),
    ("reqlore-search", &["reqlore-domain", "reqlore-durable-fs"]),
    ("reqlore-embed-static", &["reqlore-domain"]),
    ("reqlore-embed-minilm", &["reqlore-domain"]),
    ("reqlore-models", &["reqlore-durable-fs"]),
    ("reqlore-mcp", &["reqlore-domain"]),
    ("reqlore-metrics", &["reqlore-domain"]),
    ("reqlore-transport-stdio", &["reqlore-domain", "reqlore-mcp"]),
    ("reqlore-transport-http", &["reqlore-domain", "reqlore-mcp"]),
    ("reqlore-web", &["reqlore-domain"]),
    ("reqlore-client-config", &[]),
    ("reqlore-probe", &[]),
    (
        "reqlore",
        &[
            "reqlore-application",
            "reqlore-client-config",
            "reqlore-domain",
            "reqlore-dump",
            "reqlore-durable-fs",
            "reqlore-embed-minilm",
            "reqlore-embed-static",
            "reqlore-exchange",
            "reqlore-git-runner",
            "reqlore-local-state",
            "reqlore-metrics",
            "reqlore-models",
            "reqlore-probe",
            "reqlore-search",
            "reqlore-storage-fs",
            "reqlore-storage-postgres",
            "reqlore-storage-sled",
            "reqlore-storage-sqlite",
            "reqlore-transport-http",
            "reqlore-transport-stdio",
            "reqlore-web",
        ],
    ),
    ("reqlore-contract", &["reqlore-domain", "reqlore-row-store", "reqlore-storage-memory"]),
    ("reqlore-conformance", &[]),
    ("reqlore-test-postgres", &[]),
];

/// Dependencies that only the named crates may use. Tests may use them anywhere.
const TECHNOLOGY_OWNERS: &[(&str, &[&str])] = &[
    ("rusqlite", &["reqlore-storage-sqlite"]),
    ("sled", &["reqlore-storage-sled"]),
    ("tokio-postgres", &["reqlore-storage-postgres", "reqlore-test-postgres"]),
    ("rmcp", &["reqlore-mcp", "reqlore-transport-http", "reqlore-transport-stdio"]),
    ("axum", &["reqlore-transport-http", "reqlore-web"]),
    ("askama", &["reqlore-web"]),
    ("ammonia", &["reqlore-web"]),
    ("hyper", &["reqlore-transport-http"]),
    ("ipnet", &["reqlore-transport-http"]),
    ("governor", &["reqlore-transport-http"]),
    ("cap-std", &["reqlore-durable-fs", "reqlore-local-state", "reqlore-storage-fs"]),
    ("winapi-util", &["reqlore-durable-fs"]),
    (
        "rustix",
        &[
            "reqlore",
            "reqlore-durable-fs",
            "reqlore-local-state",
            "reqlore-search",
            "reqlore-storage-fs",
            "reqlore-transport-stdio",
        ],
    ),
    ("tantivy", &["reqlore-search"]),
    ("pulp", &["reqlore-search"]),
    ("serde-saphyr", &["reqlore-domain"]),
    ("ndarray", &["reqlore-embed-minilm"]),
    ("tokenizers", &["reqlore-embed-minilm"]),
    ("ureq", &["reqlore-models", "reqlore-probe"]),
    ("zip", &["reqlore-exchange", "reqlore-models"]),
    ("quick-xml", &["reqlore-exchange"]),
    ("jsonc-parser", &["reqlore-client-config"]),
    ("toml_edit", &["reqlore-client-config", "reqlore-web"]),
    ("clap", &["reqlore"]),
    ("clap_complete", &["reqlore"]),
    ("similar", &["reqlore", "reqlore-domain"]),
    ("indicatif", &["reqlore"]),
    ("toml", &["reqlore", "reqlore-domain"]),
    ("tracing-subscriber", &["reqlore"]),
    ("tracing-opentelemetry", &["reqlore"]),
    ("prometheus-client", &["reqlore-metrics"]),
    ("mockall", &["reqlore-domain"]),
];

/// Maximum lines of a file.
const MAX_LINES: usize = 600;
/// Maximum characters of a line. rustfmt does not wrap strings and comments. Tests are exempt.
const MAX_COLUMNS: usize = 100;

/// The path and text of every Rust file of the workspace.
pub(crate) fn rust_sources() -> Vec<(String, String)> {
    let mut files = Vec::new();
    for folder in ["domain", "application", "adapters", "app", "tests", "benches"] {
        collect_sources(&repository().join(folder), &mut files);
    }
    assert!(files.len() > 40, "only {} files found", files.len());
    files
}

fn collect_sources(folder: &Path, files: &mut Vec<(String, String)>) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    for entry in entries {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect_sources(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = std::fs::read_to_string(&path).unwrap();
            files.push((path.display().to_string(), text));
        }
    }
}

fn read_file(path: &str) -> String {
    std::fs::read_to_string(repository().join(path)).unwrap()
}

#[test]
fn crates_depend_inwards_only() {
    let cargo = Command::new(env!("CARGO"))
        .args(["metadata", "--no-deps", "--offline", "--format-version", "1"])
        .current_dir(repository())
        .output()
        .unwrap();
    let metadata: Value = serde_json::from_slice(&cargo.stdout).unwrap();
    let allowed = ALLOWED_DEPENDENCIES.iter().copied().collect::<BTreeMap<_, _>>();
    let mut names = BTreeSet::new();
    for package in metadata["packages"].as_array().unwrap() {
        let name = package["name"].as_str().unwrap();
        let edges =
            allowed.get(name).unwrap_or_else(|| panic!("add {name} to ALLOWED_DEPENDENCIES"));
        names.insert(name);
        for dependency in package["dependencies"].as_array().unwrap() {
            let dependency_name = dependency["name"].as_str().unwrap();
            if dependency["kind"] == "dev" {
                continue;
            }
            if dependency_name.starts_with("reqlore") {
                assert!(edges.contains(&dependency_name), "{name} must not use {dependency_name}");
            }
            if let Some((_, owners)) =
                TECHNOLOGY_OWNERS.iter().find(|(technology, _)| *technology == dependency_name)
            {
                assert!(
                    owners.contains(&name),
                    "{dependency_name} belongs to {owners:?}, not to {name}"
                );
            }
        }
    }
    assert_eq!(
        names,
        allowed.keys().copied().collect(),
        "ALLOWED_DEPENDENCIES lists a crate that does not exist"
    );
}

#[test]
fn files_are_short_and_have_a_module_comment() {
    let mut problems = Vec::new();
    for (path, text) in rust_sources() {
        let lines = text.lines().count();
        if lines > MAX_LINES {
            problems.push(format!("{path} has {lines} lines; the limit is {MAX_LINES}"));
        }
        if !text.starts_with("//! ") {
            problems.push(format!("{path} does not begin with a //! sentence"));
        }
        let product = text.split("#[cfg(test)]").next().unwrap_or_default();
        for line in product.lines().filter(|_| !path.contains("tests")) {
            if line.chars().count() > MAX_COLUMNS {
                problems.push(format!("{path} has a long line: {line}"));
            }
        }
    }
    assert!(problems.is_empty(), "{problems:#?}");
}

#[test]
fn sources_have_no_todo_or_debug_macros() {
    let words = ["todo", "unimplemented", "dbg"].map(|word| format!("{word}!("));
    let markers =
        ["FIX", "XX"].map(|word| format!("{word}{}", if word == "FIX" { "ME" } else { "X" }));
    let ignored = format!("#[{}", "ignore");
    for (path, text) in rust_sources() {
        for word in words.iter().chain(&markers).chain([&ignored]) {
            assert!(!text.contains(word.as_str()), "{path} contains {word}");
        }
    }
}

#[test]
fn programs_are_started_in_listed_files() {
    // Git is started by its runner, servers by the program itself, editors and pagers for their
    // user.
    let allowed = [
        "adapters/git-runner/src/lib.rs",
        "app/src/client_environment.rs",
        "app/src/commands/output.rs",
        "app/src/system/unix.rs",
        "app/src/system/windows.rs",
    ];
    let start = concat!("Command::", "new(");
    for (path, text) in rust_sources() {
        let product = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
        let is_product = !path.contains("tests") && !path.contains("benches");
        if is_product && product.contains(start) {
            assert!(allowed.iter().any(|file| path.ends_with(file)), "{path} starts a program");
        }
    }
}

#[test]
fn calls_of_one_system_are_in_system_modules() {
    let words = ["rustix", "std::os::", "MetadataExt"];
    let mut found = Vec::new();
    for (path, text) in rust_sources() {
        let is_exempt = path.contains("/system/")
            || path.ends_with("/system.rs")
            // The watcher of Linux, with all of its calls.
            || path.ends_with("/storage-fs/src/inotify.rs");
        let is_product = !path.contains("/tests") && !path.contains("/benches/");
        let product = text.split("#[cfg(test)]").next().unwrap_or_default();
        if is_product && !is_exempt && words.iter().any(|word| product.contains(word)) {
            found.push(path);
        }
    }
    assert!(found.is_empty(), "move these calls to a module `system`: {found:#?}");
}

#[test]
fn messages_are_printed_by_the_console_module() {
    for (path, text) in rust_sources() {
        // A line end alone needs no encoding.
        let text = text.replace("println!()", "");
        let is_printing = path.contains("app/src/") && text.contains("println!(");
        assert!(!is_printing || path.ends_with("/console.rs"), "{path}: call eprint_line or print");
    }
}

#[test]
fn test_files_are_all_compiled() {
    let main = read_file("tests/it/main.rs");
    for entry in std::fs::read_dir(repository().join("tests/it")).unwrap() {
        let name = entry.unwrap().path().file_stem().unwrap().to_string_lossy().into_owned();
        let listed = main.contains(&format!("mod {name};"));
        assert!(name == "main" || listed, "tests/it/{name}.rs is not compiled");
    }
}

#[test]
fn storage_port_rules_name_existing_contract_cases() {
    let suite = read_file("tests/contract/src/lib.rs");
    let mut listed = BTreeSet::new();
    for list in suite.split("cases! {").skip(1) {
        listed.extend(list.split("};").next().unwrap().split([' ', '\n', ';', ':']));
    }
    let mut ports = String::new();
    for (path, text) in rust_sources() {
        if path.contains("/domain/src/ports/") {
            ports += &text;
        }
    }
    let rules = ports.split("(`").skip(1).filter_map(|rest| rest.split_once("`)"));
    let rules: Vec<&str> = rules.map(|(name, _)| name).filter(|name| name.contains('_')).collect();
    assert!(rules.len() > 10, "{rules:?}");
    for rule in rules {
        assert!(listed.contains(rule), "the contract suite has no case {rule}");
    }
}

#[test]
fn every_storage_passes_the_contract_suite() {
    let sources = rust_sources();
    for entry in std::fs::read_dir(repository().join("adapters")).unwrap() {
        let folder = entry.unwrap().path();
        if folder.file_name().unwrap().to_string_lossy().starts_with("storage-") {
            let folder = format!("{}/", folder.display());
            let has_suite = sources.iter().any(|(path, text)| {
                path.starts_with(&folder) && text.contains("reqlore_contract::suite!(")
            });
            assert!(has_suite, "{folder} does not run the contract suite");
        }
    }
}

#[test]
fn environment_and_clock_are_read_in_listed_files() {
    // ARCHITECTURE.md names the crates.
    let allowed = [
        "adapters/local-state/src/lib.rs",
        "adapters/storage-fs/src/file_stamp.rs",
        "app/src/config/paths.rs",
        "app/src/system.rs",
        "app/src/telemetry/otel.rs",
    ];
    let exception = concat!("clippy::", "disallowed_methods");
    let mut found = Vec::new();
    for (path, text) in rust_sources() {
        let is_product = !path.contains("/tests") && !path.contains("/benches/");
        if is_product && text.contains(exception) {
            found.extend(
                path.strip_prefix(&format!("{}/", repository().display())).map(String::from),
            );
        }
    }
    found.sort();
    assert_eq!(found, allowed);
}

/// Pages that name files and folders of the repository in code spans.
const PAGES_WITH_PATHS: [&str; 4] =
    ["ARCHITECTURE.md", "CONTRIBUTING.md", "docs/promises.md", "docs/request-walk.md"];

#[test]
fn pages_about_the_code_name_existing_paths() {
    const FOLDERS: [&str; 9] = [
        ".ci/",
        "adapters/",
        "app/",
        "application/",
        "benches/",
        "docs/",
        "domain/",
        "fuzz/",
        "tests/",
    ];
    let mut missing = Vec::new();
    for page in PAGES_WITH_PATHS {
        let text = read_file(page);
        for span in text.split('`').skip(1).step_by(2) {
            let is_path = FOLDERS.iter().any(|folder| span.starts_with(folder))
                && !span.contains(char::is_whitespace);
            if is_path && repository().join(span).symlink_metadata().is_err() {
                missing.push(format!("{page}: {span}"));
            }
        }
    }
    assert!(missing.is_empty(), "these paths do not exist:\n{}", missing.join("\n"));
}

#[test]
fn decisions_are_listed_and_short() {
    const MAX_WORDS: usize = 250;
    let index = read_file("docs/decisions/README.md");
    for entry in std::fs::read_dir(repository().join("docs/decisions")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        if name == "README.md" {
            continue;
        }
        assert!(index.contains(&format!("]({name})")), "docs/decisions/README.md omits {name}");
        let text = read_file(&format!("docs/decisions/{name}"));
        let words = text.split_whitespace().count();
        assert!(words <= MAX_WORDS, "{name} has {words} words; the limit is {MAX_WORDS}");
        for heading in ["\n## Context\n", "\n## Decision\n", "\n## Consequences\n"] {
            assert!(text.contains(heading), "{name} has no section {}", heading.trim());
        }
    }
}

#[test]
fn dependencies_have_a_reason() {
    let manifest = read_file("Cargo.toml");
    let table =
        manifest.split("[workspace.dependencies]").nth(1).unwrap().split("\n[").next().unwrap();
    for line in table.lines().filter(|line| line.contains(" = ") && !line.contains("path = ")) {
        assert!(line.contains(" # "), "no reason for {line}");
    }
}

#[test]
fn sources_do_not_mention_the_build_environment() {
    let tracked =
        Command::new("git").args(["ls-files"]).current_dir(repository()).output().unwrap();
    let tracked = String::from_utf8(tracked.stdout).unwrap();
    let registries =
        [["crates", "io"], ["npmjs", "org"], ["pypi", "org"]].map(|host| host.join("."));
    for path in tracked.lines() {
        // Skip files that are not UTF-8.
        let Ok(text) = std::fs::read_to_string(repository().join(path)) else { continue };
        for host in &registries {
            let is_lock = path.ends_with("Cargo.lock");
            assert!(is_lock || !text.contains(host.as_str()), "{path} names {host}");
        }
        assert!(!text.contains(concat!("/wo", "rk/")), "{path} contains a path of one machine");
    }
}
