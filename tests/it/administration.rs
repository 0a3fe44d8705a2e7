//! Users, tokens and the audit from the command line, on every storage.

use std::path::Path;

use reqlore_domain::identity::PresentedToken;
use serde_json::Value;

use crate::client::{project, reqlore};
use crate::copy_and_backup::{both, moved, run};
use crate::http::STORAGES;
use crate::init::output;

fn json(folder: &Path, command: &str) -> Value {
    serde_json::from_str(&moved(folder, command)).unwrap()
}

/// A new token from standard output.
pub(crate) fn token(folder: &Path, command: &str) -> PresentedToken {
    let (code, shown, told) = both(folder, command);
    assert_eq!(code, 0, "{command}: {told}");
    let token = PresentedToken::parse(shown.strip_suffix('\n').unwrap());
    let token = token.unwrap_or_else(|| panic!("{shown}"));
    assert!(told.contains(token.id.as_str()) && !told.contains(&token.reveal()), "{told}");
    token
}

// S5: 4.1
#[test]
fn token_create_prints_only_the_token() {
    for storage in STORAGES {
        let scratch = project();
        let place = scratch.path();
        let at = |command: &str| format!("--storage {storage} {command}");
        moved(place, &at("user add ann --role administrator"));
        let old = token(place, &at("token create --user ANN --expires 2h"));
        let new = token(place, &at(&format!("token rotate {} --overlap 1h", old.id)));
        moved(place, &at(&format!("token revoke {}", new.id)));
        let mut all = String::new();
        for command in ["token list", "token list --json", "user list --json", "audit list --json"]
        {
            all += &moved(place, &at(command));
        }
        for token in [&old, &new] {
            let secret = token.reveal();
            let secret = secret.split('_').nth(3).unwrap();
            assert!(all.contains(token.id.as_str()) && !all.contains(secret), "{storage}: {all}");
        }
        let tokens = &json(place, &at("token list --json"))["tokens"];
        assert_eq!([&tokens[0]["state"], &tokens[1]["state"]], ["active", "revoked"]);
        assert_eq!(tokens[0]["successor"], new.id.as_str());
    }
}

#[test]
fn admin_commands_invalid_arguments_name_the_fix() {
    let scratch = project();
    let place = scratch.path();
    moved(place, "user add ann --role user");
    let whole = token(place, "token create --user ann").reveal();
    for (command, expected, told) in [
        ("user add ANN --role user", 1, "user ann already exists"),
        ("user add a/b --role user", 2, "is not a user name"),
        ("user add bob --role boss", 2, "administrator, user, commenter"),
        ("user disable eve", 1, "`reqlore user list` shows all"),
        ("token create --user eve", 1, "user add eve --role"),
        ("token create --user ann --expires 367d", 2, "at most 366d"),
        ("token create --user ann --expires 0s", 2, "at least 1s"),
        ("token create --user ann --scope all", 2, "read and write"),
        ("token create --user ann --projects shop", 2, "configured: default"),
        ("token revoke aaaaaaaaaaaa", 1, "`reqlore token list` shows all"),
        ("token rotate aaaaaaaaaaaa --overlap 25h", 2, "at most 24h"),
        ("audit verify --expect 1:abc", 2, "64 digits"),
        ("--storage sqlite:typo.db user list", 1, "typo.db does not exist"),
    ] {
        let (code, said) = run(place, command);
        assert_eq!(code, expected, "{command}: {said}");
        assert!(said.contains(told), "{command}: {told} in {said}");
    }
    assert!(!place.join("typo.db").is_file(), "nothing was made of a misspelt name");
    let (code, said) = run(place, &format!("token revoke {whole}"));
    assert!(code == 2 && !said.contains(&whole), "a secret is not repeated: {said}");
}

// S5: 4.5
#[test]
fn audit_verify_admin_changes_names_user_and_chain() {
    for storage in STORAGES {
        let scratch = project();
        let place = scratch.path();
        let at = |command: &str| format!("--storage {storage} {command}");
        moved(place, &at("user add ann --role user"));
        moved(place, &at("user set-role ann --role commenter"));
        moved(place, &at("user disable ann"));
        let rows = json(place, &at("audit list --last 2 --user tester --json"));
        let actions = [0, 1].map(|at| &rows["rows"][at]["action"]);
        assert_eq!(actions, ["user/set-role", "user/disable"], "{storage}");
        let verified = json(place, &at("audit verify --json"));
        assert_eq!((&verified["whole"], &verified["rows"]), (&true.into(), &3.into()));
        let newest = &verified["newest"];
        let noted = format!("{}:{}", newest["number"], newest["hash"].as_str().unwrap());
        moved(place, &at(&format!("audit verify --expect {noted}")));
        let later = noted.replacen('3', "4", 1);
        let (code, said) = run(place, &at(&format!("audit verify --expect {later}")));
        assert!(code == 1 && said.contains("rows were removed"), "{storage}: {said}");
    }
    let scratch = project();
    let mut add = reqlore();
    add.env("REQLORE_AUDIT", "off").current_dir(scratch.path());
    assert_eq!(output(add.args("user add ann --role user".split(' '))).0, 0);
    assert_eq!(moved(scratch.path(), "audit list"), "No audit rows match.\n");
}

// Rulings 7: a running sled store belongs to its server
#[test]
fn sled_store_in_use_refuses_admin_commands() {
    let scratch = project();
    let place = scratch.path();
    moved(place, "--storage sled user add ann --role user");
    let mut server = crate::client::Server::start_with(place, &["--storage", "sled"]);
    // A server that answers has locked the folder.
    server.call("reqlix_get_instructions", serde_json::json!({}));
    let (code, said) = run(place, "--storage sled token create --user ann");
    drop(server);
    assert!(code == 1 && said.contains("already served by another process"), "{said}");
    assert!(said.contains("stop that process"), "{said}");
}

// S5: 5.1
#[test]
fn startup_report_text_and_json_have_the_same_limits() {
    let place = crate::http::Place::new("sqlite");
    let limits = place.run("--print-config");
    let limits = limits.lines().filter_map(|line| line.strip_prefix("http.limits."));
    let limits: Vec<String> = limits
        .map(|line| line.split(" #").next().unwrap().trim_end().replace(" = ", "="))
        .collect();
    assert!(limits.len() > 20, "{limits:?}");
    for format in ["text", "json"] {
        let mut command = place.command();
        command.env("REQLORE_LOG_FORMAT", format);
        let told = crate::http::Server::start(command).end();
        for limit in &limits {
            assert!(told.contains(limit), "{limit} is missing in: {told}");
        }
        assert!(told.contains("user add NAME --role administrator"), "{told}");
        if format == "json" {
            let lines: Vec<Value> =
                told.lines().map(|line| serde_json::from_str(line).expect(line)).collect();
            assert_eq!(lines[0]["severity"], "INFO");
            assert_eq!(lines[0]["fields"]["users"], 0);
        }
    }
}
