//! Calls of each command with hostile names, for the tests of its output.

use crate::hostile_names::{file_name, hostile};

/// Calls of each command that show names.
#[expect(clippy::too_many_lines, reason = "a table")]
pub(crate) fn command_calls(command: &str) -> Vec<Vec<String>> {
    let words = |line: &str| -> Vec<String> { line.split(' ').map(str::to_owned).collect() };
    let list = |lines: &[&str]| -> Vec<Vec<String>> { lines.iter().map(|l| words(l)).collect() };
    let with = |start: &str, last: &str| {
        let mut all = words(start);
        all.push(last.to_owned());
        all
    };
    match command {
        "init" => {
            list(&["init --dry-run --client claude-code", "init --yes --json", "init --check"])
        }
        "doctor" | "check" => list(&[command, &format!("{command} --json")]),
        "serve" => list(&["serve --read-only"]),
        "list" => {
            let mut all = list(&[
                "list",
                "list --json",
                "list --csv",
                "list stories",
                "list requirements --csv",
                "list entities",
                "list sections",
            ]);
            for flag in ["list --status", "list --assignee", "list --tag", "list --sort"] {
                all.push(with(flag, &hostile()));
            }
            all
        }
        "show" | "tree" | "diff" => {
            let mut all = vec![words(command), words(&format!("{command} --json"))];
            for id in ["EP-001", "US-001", "REQ-001", "dec-000001", "general", "general:1"] {
                all.push(words(&format!("{command} {id}")));
                all.push(words(&format!("{command} {id} --json")));
            }
            for id in [file_name(), hostile()] {
                all.push(with(command, &id));
            }
            all
        }
        "search" => vec![
            words("search evil FORGED"),
            words("search evil --json"),
            with("search", &hostile()),
        ],
        "context" => vec![
            words("context evil FORGED --item EP-001"),
            with("context", &hostile()),
            with("context --item", &hostile()),
            with("context --files", &file_name()),
            with("context --git", &hostile()),
        ],
        "hook" => vec![
            words("hook session --client claude-code"),
            with("hook session --client", &hostile()),
        ],
        "board" => {
            let mut all =
                list(&["board --print", "board epics --print", "board requirements --print"]);
            all.push(with("board --print --assignee", &hostile()));
            all
        }
        "add" => vec![
            with("add epic", &hostile()),
            with("add decision --tags x", &hostile()),
            with("add --in general requirement", &hostile()),
            with("add x", &hostile()),
        ],
        "set" => vec![
            with("set EP-001 status=draft", &format!("title={}", hostile())),
            with("set EP-001", &hostile()),
            words("set US-001 priority=high --json"),
        ],
        "edit" => vec![words("edit EP-001"), with("edit", &hostile())],
        "link" | "unlink" => vec![
            words(&format!("{command} REQ-001 depends_on REQ-002")),
            with(&format!("{command} REQ-001 depends_on"), &hostile()),
            with(&format!("{command} dec-000001 affects"), &file_name()),
        ],
        "delete" => vec![
            words("delete EP-001 --yes"),
            words("delete US-001 --yes --cascade"),
            with("delete --yes", &hostile()),
        ],
        "undo" => vec![
            words("undo"),
            words("undo EP-001 --dry-run"),
            with("undo", &file_name()),
            with("undo", &hostile()),
        ],
        "unclaim" => vec![words("unclaim US-001"), with("unclaim", &hostile())],
        "restore-item" => vec![
            with("restore-item EP-001 --version", &hostile()),
            with("restore-item --version 12345678", &hostile()),
        ],
        "picture" => vec![
            words("picture tree --out tree.svg"),
            words("picture graph --out graph.svg --focus EP-001"),
            with("picture graph --out graph.svg --focus", &hostile()),
        ],
        "site" => vec![words("site published"), with("site", "missing/folder")],
        "import" => vec![
            words("export json --out items.json"),
            words("import items.json --dry-run"),
            with("import", &hostile()),
            with("import items.json --from", &hostile()),
        ],
        "export" => vec![words("export csv --out items.csv"), with("export", &hostile())],
        "history" => {
            let mut all = list(&["history EP-001", "history dec-000001 --json", "history general"]);
            all.push(with("history", &file_name()));
            all.push(with("history", &hostile()));
            all.push(with("history EP-001 --cursor", &hostile()));
            all.push(with("history EP-001 --version", &hostile()));
            all.push(with("history purge EP-001 --reason", &hostile()));
            all
        }
        "copy" => {
            list(&["copy --from fs --to sqlite:copy.db --verify", "copy --from fs --to sled"])
        }
        "backup" => list(&["backup a.dump", "backup b.dump --json"]),
        "restore" => list(&["restore a.dump", "restore missing.dump"]),
        "user" => vec![
            words("user add ada --role administrator"),
            with("user add --role user", &hostile()),
            words("user list"),
            with("user disable", &hostile()),
        ],
        "token" => vec![
            words("token create --user ada"),
            with("token create --user", &hostile()),
            with("token create --user ada --projects", &hostile()),
            words("token list"),
            with("token revoke", &hostile()),
        ],
        "audit" => vec![
            words("audit list"),
            words("audit list --json"),
            words("audit verify"),
            with("audit list --user", &hostile()),
        ],
        "migrate" => vec![
            words("migrate status"),
            with("migrate up --storage", &format!("postgres://127.0.0.1:1/{}", hostile())),
            with("migrate status --storage", &format!("postgres://{}/name", hostile())),
        ],
        "docsets" => list(&["docsets import .knowledge/config.yaml"]),
        "index" => list(&["index rebuild", "index rebuild --json"]),
        "model" => vec![words("model list"), with("model install", &hostile())],
        "demo" | "completions" | "help" => list(&["completions bash", "--print-config", "help"]),
        _ => panic!("{command}: add calls that show names"),
    }
}
