//! Commands that manage users and tokens and inspect the audit log, on every storage.

use std::path::Path;

use reqlore_domain::identity::PresentedToken;
use serde_json::Value;

use crate::client::{project, reqlore, storage_argument};
use crate::copy_and_backup::{run, run_ok, run_split};
use crate::http::STORAGES;
use crate::init::output;

fn run_json(folder: &Path, command: &str) -> Value {
    serde_json::from_str(&run_ok(folder, command)).unwrap()
}

/// Runs a command that prints a new token. Its secret must not appear on standard error.
pub(crate) fn create_token(folder: &Path, command: &str) -> PresentedToken {
    let (code, stdout, stderr) = run_split(folder, command);
    assert_eq!(code, 0, "{command}: {stderr}");
    let token = PresentedToken::parse(stdout.strip_suffix('\n').unwrap());
    let token = token.unwrap_or_else(|| panic!("{stdout}"));
    assert!(stderr.contains(token.id.as_str()) && !stderr.contains(&token.reveal()), "{stderr}");
    token
}

// S5: 4.1
#[test]
fn token_create_prints_only_the_token() {
    for storage in STORAGES {
        let storage = storage_argument(storage);
        let scratch = project();
        let folder = scratch.path();
        let with_storage = |command: &str| format!("--storage {storage} {command}");
        run_ok(folder, &with_storage("user add ann --role administrator"));
        let old_token = create_token(folder, &with_storage("token create --user ANN --expires 2h"));
        let new_token = create_token(
            folder,
            &with_storage(&format!("token rotate {} --overlap 1h", old_token.id)),
        );
        run_ok(folder, &with_storage(&format!("token revoke {}", new_token.id)));
        let mut lists = String::new();
        for command in ["token list", "token list --json", "user list --json", "audit list --json"]
        {
            lists += &run_ok(folder, &with_storage(command));
        }
        for token in [&old_token, &new_token] {
            let secret = token.reveal();
            let secret = secret.split('_').nth(3).unwrap();
            assert!(
                lists.contains(token.id.as_str()) && !lists.contains(secret),
                "{storage}: {lists}"
            );
        }
        let tokens = &run_json(folder, &with_storage("token list --json"))["tokens"];
        assert_eq!([&tokens[0]["state"], &tokens[1]["state"]], ["active", "revoked"]);
        assert_eq!(tokens[0]["successor"], new_token.id.as_str());
    }
}

#[test]
fn admin_commands_invalid_arguments_name_the_fix() {
    let scratch = project();
    let folder = scratch.path();
    run_ok(folder, "user add ann --role user");
    let full_token = create_token(folder, "token create --user ann").reveal();
    for (command, expected, message) in [
        ("user add ANN --role user", 1, "user ann already exists"),
        ("user add a/b --role user", 2, "is not a user name"),
        ("user add bob --role boss", 2, "administrator, user, commenter"),
        ("user disable eve", 1, "`reqlore user list` shows all"),
        ("token create --user eve", 1, "user add eve --role"),
        ("token create --user ann --expires 367d", 2, "at most 366d"),
        ("token create --user ann --expires 0s", 2, "at least 1s"),
        ("token create --user ann --scope all", 2, "write, read and metrics"),
        ("token create --user ann --projects shop", 2, "configured: default"),
        ("token revoke aaaaaaaaaaaa", 1, "`reqlore token list` shows all"),
        ("token rotate aaaaaaaaaaaa --overlap 25h", 2, "at most 24h"),
        ("audit verify --expect 1:abc", 2, "64 digits"),
        ("--storage sqlite:typo.db user list", 1, "typo.db does not exist"),
    ] {
        let (code, output) = run(folder, command);
        assert_eq!(code, expected, "{command}: {output}");
        assert!(output.contains(message), "{command}: {message} in {output}");
    }
    assert!(!folder.join("typo.db").is_file(), "a misspelt name creates no file");
    let (code, output) = run(folder, &format!("token revoke {full_token}"));
    assert!(code == 2 && !output.contains(&full_token), "a secret is not repeated: {output}");
}

#[test]
fn admin_last_administrator_is_guarded_and_users_enabled() {
    for storage in STORAGES {
        let storage = storage_argument(storage);
        let scratch = project();
        let folder = scratch.path();
        let with_storage = |command: &str| format!("--storage {storage} {command}");
        run_ok(folder, &with_storage("user add ann --role administrator"));
        for command in ["user disable ann", "user set-role ANN --role user"] {
            let (code, output) = run(folder, &with_storage(command));
            assert_eq!(code, 1, "{storage}: {output}");
            assert!(output.contains("ann is the last enabled administrator"), "{output}");
        }
        let output = run_ok(folder, &with_storage("user disable ann --force"));
        assert!(output.contains("ann is disabled"), "{output}");
        let output = run_ok(folder, &with_storage("user enable ann"));
        assert!(output.contains("ann is enabled"), "{output}");
        let output = run_ok(folder, &with_storage("user enable ann"));
        assert_eq!(output, "ann is already enabled.\n");
        let users = run_json(folder, &with_storage("user list --json"));
        assert!(users["users"][0]["disabled_at"].is_null(), "{users}");
        run_ok(folder, &with_storage("user add bob --role administrator"));
        run_ok(folder, &with_storage("user set-role ann --role user"));
        let rows = run_json(folder, &with_storage("audit list --last 3 --json"));
        assert!(rows.to_string().contains("user/enable"), "{rows}");
    }
}

// S5: 4.5
#[test]
fn audit_verify_admin_changes_names_user_and_chain() {
    for storage in STORAGES {
        let storage = storage_argument(storage);
        let scratch = project();
        let folder = scratch.path();
        let with_storage = |command: &str| format!("--storage {storage} {command}");
        run_ok(folder, &with_storage("user add ann --role user"));
        run_ok(folder, &with_storage("user set-role ann --role commenter"));
        run_ok(folder, &with_storage("user disable ann"));
        let rows = run_json(folder, &with_storage("audit list --last 2 --user tester --json"));
        let actions = [0, 1].map(|row| &rows["rows"][row]["action"]);
        assert_eq!(actions, ["user/set-role", "user/disable"], "{storage}");
        let verified = run_json(folder, &with_storage("audit verify --json"));
        assert_eq!((&verified["whole"], &verified["rows"]), (&true.into(), &3.into()));
        let newest = &verified["newest"];
        let newest_row = format!("{}:{}", newest["number"], newest["hash"].as_str().unwrap());
        run_ok(folder, &with_storage(&format!("audit verify --expect {newest_row}")));
        let missing_row = newest_row.replacen('3', "4", 1);
        let (code, output) =
            run(folder, &with_storage(&format!("audit verify --expect {missing_row}")));
        assert!(code == 1 && output.contains("rows were removed"), "{storage}: {output}");
    }
    let scratch = project();
    let mut add = reqlore();
    add.env("REQLORE_AUDIT", "off").current_dir(scratch.path());
    assert_eq!(output(add.args("user add ann --role user".split(' '))).0, 0);
    assert_eq!(run_ok(scratch.path(), "audit list"), "No audit rows match.\n");
}

#[test]
fn sled_store_in_use_refuses_admin_commands() {
    let scratch = project();
    let folder = scratch.path();
    run_ok(folder, "--storage sled user add ann --role user");
    let mut server = crate::client::Server::start_with(folder, &["--storage", "sled"]);
    // A server that answers has locked the folder.
    server.call("reqlix_get_instructions", serde_json::json!({}));
    let (code, output) = run(folder, "--storage sled token create --user ann");
    drop(server);
    assert!(code == 1 && output.contains("already served by another process"), "{output}");
    assert!(output.contains("stop that process"), "{output}");
}

// S5: 5.1
#[test]
fn startup_report_text_and_json_have_the_same_limits() {
    let team = crate::http::TestTeam::new("sqlite");
    let limits = team.run("--print-config");
    let limits = limits.lines().filter_map(|line| line.strip_prefix("http.limits."));
    let limits: Vec<String> = limits
        .map(|line| line.split(" #").next().unwrap().trim_end().replace(" = ", "="))
        .collect();
    assert!(limits.len() > 20, "{limits:?}");
    for format in ["text", "json"] {
        let mut command = team.command();
        command.env("REQLORE_LOG_FORMAT", format);
        let log = crate::http::Server::start(command).end();
        for limit in &limits {
            assert!(log.contains(limit), "{limit} is missing in: {log}");
        }
        assert!(log.contains("user add NAME --role administrator"), "{log}");
        if format == "json" {
            let lines: Vec<Value> =
                log.lines().map(|line| serde_json::from_str(line).expect(line)).collect();
            assert_eq!(lines[0]["severity"], "INFO");
            assert_eq!(lines[0]["fields"]["users"], 0);
        }
    }
}
