//! Settings and commands on a PostgreSQL database: secrets, migrations, copies.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use reqlore_test_postgres::{PostgresCluster, TestDatabase};

use crate::client::{project, reqlore};
use crate::init::output;
use crate::repository;

/// Exit code and both outputs of a command line.
fn run(folder: &Path, line: &str, variables: &[(&str, &str)]) -> (i32, String) {
    let mut command = reqlore();
    command.current_dir(folder).args(line.split(' ')).envs(variables.iter().copied());
    let (code, stdout, stderr) = output(&mut command);
    (code, stdout + &stderr)
}

#[track_caller]
fn run_ok(folder: &Path, line: &str, variables: &[(&str, &str)]) -> String {
    let (code, text) = run(folder, line, variables);
    assert_eq!(code, 0, "{line}: {text}");
    text
}

/// The URL without and with another password.
fn split_password(database: &TestDatabase, other: &str) -> (String, String) {
    let url = database.url();
    let (account, rest) = url.split_once('@').unwrap();
    let (user, _) = account.rsplit_once(':').unwrap();
    (format!("{user}@{rest}"), format!("{user}:{other}@{rest}"))
}

#[test]
fn postgres_password_is_in_no_output() {
    let (folder, database) = (project(), TestDatabase::new());
    let (bare, wrong) = split_password(&database, "wr0ngs3cret");
    let password = database.url().split('@').next().unwrap().rsplit(':').next().unwrap().to_owned();
    let right = [("REQLORE_STORAGE", database.url())];
    let sources = [
        right.to_vec(),
        vec![("REQLORE_STORAGE", bare.clone()), ("PGPASSWORD", password.clone())],
        vec![("REQLORE_STORAGE", wrong)],
        vec![("REQLORE_STORAGE", bare), ("PGPASSWORD", "wr0ngs3cret".to_owned())],
    ];
    for variables in &sources {
        let mut pairs = Vec::new();
        pairs.extend(variables.iter().map(|(name, value)| (*name, value.as_str())));
        for line in [
            "--print-config",
            "--log trace migrate up",
            "--log trace migrate status",
            "--log trace list",
            "doctor",
            "doctor --json",
            "--log trace check",
        ] {
            let (_, text) = run(folder.path(), line, &pairs);
            assert!(!text.is_empty());
            for secret in [password.as_str(), "wr0ngs3cret"] {
                assert!(!text.contains(secret), "{line}: {text}");
            }
        }
    }
    let (code, text) = run(folder.path(), "list", &[("REQLORE_STORAGE", sources[2][0].1.as_str())]);
    assert_eq!(code, 1);
    assert!(text.contains("rejected the login"), "{text}");
}

#[test]
fn postgres_password_on_the_command_line_is_refused() {
    let folder = project();
    let url = "postgres://u:s3cret@127.0.0.1:1/n";
    for line in [
        format!("list --storage {url}"),
        format!("--print-config --storage {url}"),
        format!("copy --from {url} --to sqlite"),
        format!("copy --from fs --to {url}"),
        format!("init --yes --client claude-code --storage {url}"),
    ] {
        let (code, text) = run(folder.path(), &line, &[]);
        assert_eq!(code, 2, "{line}: {text}");
        assert!(text.contains("set PGPASSWORD, or PGPASSFILE"), "{line}: {text}");
        assert!(!text.contains("s3cret"), "{text}");
    }
}

#[test]
fn postgres_password_in_a_settings_file_needs_privacy() {
    let (folder, database) = (project(), TestDatabase::new());
    let file = folder.path().join("named.toml");
    fs::write(&file, format!("storage = \"{}\"\n", database.url())).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
    let line = "migrate status --config named.toml";
    let (code, text) = run(folder.path(), line, &[]);
    assert_eq!(code, 2, "{text}");
    assert!(text.contains("run `chmod 600`"), "{text}");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    run_ok(folder.path(), line, &[]);
    // A repository must not send its readers to a server.
    fs::rename(&file, folder.path().join("reqlore.toml")).unwrap();
    let (code, text) = run(folder.path(), "migrate status", &[]);
    assert_eq!(code, 2, "{text}");
    assert!(text.contains("must be inside the project"), "{text}");
}

#[test]
fn postgres_files_that_cannot_be_used_are_named() {
    let folder = project();
    fs::write(folder.path().join("pgpass"), "*:*:*:*:s3cret\n").unwrap();
    let public = fs::Permissions::from_mode(0o644);
    fs::set_permissions(folder.path().join("pgpass"), public).unwrap();
    let url = "postgres://u@127.0.0.1:1/n";
    for (parameters, reason) in [
        ("sslmode=verify-full&sslrootcert=missing.pem", "missing.pem: it can't be read"),
        ("passfile=pgpass", "pgpass: other users can read it; run `chmod 600` on it"),
    ] {
        let (code, text) = run(folder.path(), &format!("list --storage {url}?{parameters}"), &[]);
        assert_eq!(code, 1, "{text}");
        assert!(text.starts_with("reqlore: the database") && text.contains(reason), "{text}");
        assert!(!text.contains("s3cret"), "{text}");
    }
}

#[test]
fn postgres_roles_can_be_separated() {
    let (folder, database) = (project(), TestDatabase::new());
    let role = format!("role_{}", database.name());
    database.query(&format!("CREATE ROLE {role} LOGIN PASSWORD 'r0le'")).unwrap();
    database.query("REVOKE CREATE ON SCHEMA public FROM public").unwrap();
    let (_, rest) =
        database.url().split_once('@').map(|(a, b)| (a.to_owned(), b.to_owned())).unwrap();
    let url = format!("postgres://{role}@{rest}");
    let server = [("REQLORE_STORAGE", url.as_str()), ("PGPASSWORD", "r0le")];
    let owner_url = database.command_url();
    let owner = [("REQLORE_STORAGE", owner_url.as_str())];

    let (code, text) = run(folder.path(), "list", &server);
    assert_eq!(code, 1);
    assert!(
        text.contains("has no tables of Reqlore that this role may use; correct the URL"),
        "{text}"
    );
    let (code, text) = run(folder.path(), "migrate up", &server);
    assert_eq!(code, 1);
    assert!(text.contains("run `reqlore migrate up` with a role that may"), "{text}");

    let script = run_ok(folder.path(), "migrate up --dry-run", &owner);
    assert!(script.starts_with("-- version 4, step 1\nCREATE TABLE IF NOT EXISTS"), "{script}");
    let status = run_ok(folder.path(), "migrate status", &owner);
    assert!(status.contains("schema version 0 of 4; pending statements: "), "{status}");
    let (_, report) = run(folder.path(), "doctor", &owner);
    assert!(report.contains("schema version 0 of 4: "), "{report}");
    assert_eq!(run_ok(folder.path(), "migrate status", &owner), status, "doctor changes nothing");
    let (code, text) = run(folder.path(), "migrate up --read-only", &owner);
    assert_eq!(code, 1, "{text}");
    let done = run_ok(folder.path(), "--log off migrate up", &owner);
    assert!(done.starts_with("Schema version 4; ran "), "{done}");
    assert_eq!(
        run_ok(folder.path(), "--log off migrate up", &owner),
        "Schema version 4; ran 0 statements.\n"
    );
    let script = run_ok(folder.path(), "migrate up --dry-run", &owner);
    assert_eq!(script, "-- Nothing is pending.\n");

    let rights = "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO";
    database.query(&format!("{rights} {role}")).unwrap();
    run_ok(folder.path(), "add epic One", &server);
    assert!(run_ok(folder.path(), "list", &server).contains("EP-001"));
    let (_, report) = run(folder.path(), "doctor", &server);
    assert!(report.contains(&format!("as the role {role}, on this machine")), "{report}");
    assert!(report.contains(&format!("the role {role} may not create tables")), "{report}");
    assert!(report.contains("backlog items: 1"), "{report}");
    database.query(&format!("DROP OWNED BY {role}")).unwrap();
    database.query(&format!("DROP ROLE {role}")).unwrap();
}

#[test]
fn postgres_roles_of_the_documentation_suffice() {
    let read = |path| fs::read_to_string(repository().join(path)).unwrap();
    let (page, script) = (read("docs/postgresql.md"), read("deploy/postgres/roles.sh"));
    let (_, block) = page.split_once("```text\nCREATE ROLE").unwrap();
    let block = format!("CREATE ROLE{}", block.split_once("```").unwrap().0);
    let (cluster, mut database) = (PostgresCluster::start(), "postgres");
    let mut statement = String::new();
    for line in block.lines() {
        if let Some(command) = line.strip_prefix('\\') {
            database = command.strip_prefix("connect ").unwrap_or(database);
            continue;
        }
        let part = line.strip_suffix(';').unwrap_or(line);
        assert!(script.contains(part), "deploy/postgres/roles.sh: {line}");
        statement.push_str(line);
        statement.push('\n');
        if line.ends_with(';') {
            cluster.query_in(database, &std::mem::take(&mut statement)).unwrap();
        }
    }
    let folder = project();
    let url = |role| format!("postgres://{role}@127.0.0.1:{}/reqlore", cluster.port());
    let [owner, server] = ["reqlore_owner", "reqlore_server"].map(|role| {
        cluster.execute(&format!("ALTER ROLE {role} PASSWORD 's3cret'"));
        [("REQLORE_STORAGE", url(role)), ("PGPASSWORD", "s3cret".to_owned())]
    });
    let [owner, server] = [&owner, &server].map(|pairs| pairs.each_ref().map(|(n, v)| (*n, &**v)));
    let (code, text) = run(folder.path(), "migrate up", &server);
    assert_eq!(code, 1);
    assert!(text.contains("this role may not change it; run `reqlore migrate up`"), "{text}");
    run_ok(folder.path(), "migrate up", &owner);
    run_ok(folder.path(), "migrate status", &server);
    run_ok(folder.path(), "add epic Checkout", &server);
    run_ok(folder.path(), "delete EP-001 --yes", &server);
    run_ok(folder.path(), "user add ann --role administrator", &server);
    run_ok(folder.path(), "check", &server);
}

#[test]
fn postgres_copies_come_back_unchanged() {
    let (folder, database, other) = (project(), TestDatabase::new(), TestDatabase::new());
    let (url, other) = (database.command_url(), other.command_url());
    run_ok(folder.path(), "add epic One --storage sqlite", &[]);
    let third = TestDatabase::new();
    run_ok(
        folder.path(),
        &format!("--log off add epic One --storage {}", third.command_url()),
        &[],
    );
    for line in [
        format!("--log off copy --from sqlite --to {url} --verify"),
        format!("--log off backup all.dump --storage {url}"),
        format!("--log off restore all.dump --storage {other}"),
        format!("--log off copy --from {other} --to sqlite:back.db --verify"),
    ] {
        let text = run_ok(folder.path(), &line, &[]);
        assert!(text.contains("1 document") && text.contains("verified"), "{line}: {text}");
        assert!(!text.contains("passfile"), "{text}");
    }
    database.query("DELETE FROM item_counts").unwrap();
    let command = format!("--log off backup damaged.dump --storage {url}");
    let (code, text) = run(folder.path(), &command, &[]);
    assert_eq!(code, 1);
    assert!(text.contains("the list item_counts differs from the documents"), "{text}");
    assert!(!text.contains("verified"), "{text}");
    let (code, text) = run(folder.path(), &format!("copy --from {url} --to {url}"), &[]);
    assert_eq!(code, 1);
    assert!(text.contains("name two storages"), "{text}");
    let (code, text) = run(folder.path(), &format!("check --accept-loss --storage {url}"), &[]);
    assert_eq!(code, 2);
    assert!(text.contains("restore a backup"), "{text}");
}
