//! Checks a configured server: storage, search index, permissions and, over HTTP, users.

use std::fs::Metadata;
use std::io;
use std::path::Path;
use std::sync::Arc;

use indicatif::BinaryBytes;
use reqlore_application::check;
use reqlore_domain::document::DocumentKind;
use reqlore_domain::identity::{Token, User, UserRole};
use reqlore_domain::ports::Store;
use reqlore_domain::ports::clock::Clock;
use reqlore_domain::ports::documents::{StoreError, count_documents};
use reqlore_domain::project_key::ProjectKey;
use reqlore_domain::timestamp::Timestamp;
use reqlore_durable_fs::{check_writable, is_private};
use reqlore_search::inspect::{self, CacheStatus};
use reqlore_storage_postgres::{PostgresConfig, SchemaStatus, ServerReport};
use reqlore_storage_sled::DatabaseState;

use super::report::{AreaReport, DoctorReport, ReportArea};
use crate::commands::board_pages::SESSIONS_FILE;
use crate::commands::nested_projects::{NESTED_NEXT, NESTED_PROBLEM, find_nested_projects};
use crate::composition::{self, StorageState};
use crate::config::AppConfig;
use crate::exit::{CommandError, Result};
use crate::storage_spec::{LOCAL, StorageSpec};
use crate::system::SystemClock;

const COUNTED_KINDS: [(&str, &[DocumentKind]); 6] = [
    ("sections", &[DocumentKind::Section]),
    ("backlog items", &DocumentKind::ITEMS),
    ("entities", &[DocumentKind::Entity]),
    ("docset configurations", &[DocumentKind::Docsets]),
    ("record schemas", &[DocumentKind::Schema]),
    ("templates", &[DocumentKind::Template]),
];
const ADD_FIRST_USER: &str = "add one with `reqlore user add NAME --role administrator`";
/// Entries of [`LOCAL`] that other users must not read.
const PRIVATE_FILES: [&str; 10] = [
    SESSIONS_FILE,
    "history",
    "history.old",
    "team.db",
    "team.db-wal",
    "team.id",
    "reqlore.db",
    "reqlore.db-wal",
    "reqlore.db-commits",
    "sled",
];

pub(super) fn check_all(mut config: AppConfig, report: &mut DoctorReport) {
    check_permissions(&config, report.area(ReportArea::Permissions));
    check_model(&config, report.area(ReportArea::Search));
    check_index(&config, report.area(ReportArea::Search));
    // The checks that follow must not write a cache.
    config.cache = None;
    "off".clone_into(&mut config.model);
    let mut area = report.area(ReportArea::Storage);
    let store = check_storage(&config, &mut area);
    for folder in find_nested_projects(&config) {
        area.warning(format!("{folder}: {NESTED_PROBLEM}"), NESTED_NEXT);
    }
    if let Some(other) = config.unselected_database() {
        area.note(
            format!("{other} also exists, but is not used by default"),
            format!("`reqlore doctor --storage {}` checks it", other.name()),
        );
    }
    check_http(&config, store.as_ref(), report.area(ReportArea::Http));
}

/// Returns the storage if it can be read without being changed.
fn check_storage(config: &AppConfig, report: &mut AreaReport<'_>) -> Option<Arc<dyn Store>> {
    let storage = &config.storage;
    if let StorageSpec::Postgres(database) = storage
        && !check_server(database, report)
    {
        return None;
    }
    match composition::inspect_storage(config) {
        Err(failure) => {
            // The message may begin with the path, which the name of the storage contains too.
            let prefix = storage.path().map(|path| format!("{}: ", path.display()));
            let message = failure.message.strip_prefix(&*prefix.unwrap_or_default());
            let message = message.unwrap_or(&failure.message);
            let next = "fix this, or select another storage with --storage";
            report.problem(format!("{storage}: {message}"), next);
        }
        Ok(StorageState::Absent) => report.note(
            format!("{storage} does not exist yet"),
            "nothing to do; the server creates it when it starts",
        ),
        Ok(StorageState::Pending(status)) => note_pending(&status, report),
        Ok(StorageState::NeedsRecovery) => report.note(
            format!("{storage} was not checked: a change is in progress or was interrupted"),
            "nothing to do; the next server or command recovers it",
        ),
        Ok(StorageState::Closed(DatabaseState::InUse)) => report.note(
            format!("{storage} is served by another process; its content was not checked"),
            "sled allows one process at a time; for several clients use --storage sqlite",
        ),
        Ok(StorageState::Closed(DatabaseState::Closed)) => {
            report.ok(format!("{storage} exists, and no process has it open"));
            let message = "its content was not checked, because opening it changes its files";
            report.note(message, "run `reqlore check`");
        }
        Ok(StorageState::Closed(DatabaseState::Unfinished)) => report.note(
            format!("the creation of {storage} was not finished"),
            "nothing to do; the server finishes it when it starts",
        ),
        Ok(StorageState::Open { store, schema }) => {
            if let Err(failure) = check_content(config, &store, schema, report) {
                let next = "fix this, then run `reqlore doctor` again";
                report.problem(format!("{storage}: {}", failure.message), next);
            }
            // Users are checked even if documents have problems.
            return Some(store);
        }
    }
    None
}

fn note_pending(status: &SchemaStatus, report: &mut AreaReport<'_>) {
    let SchemaStatus { version, latest, pending } = status;
    report.note(
        format!("schema version {version} of {latest}: {} pending statements", pending.len()),
        "run `reqlore migrate up`; a server whose role owns the tables also does it at its start",
    );
}

/// Returns false if the server of a database can't be used.
fn check_server(database: &PostgresConfig, report: &mut AreaReport<'_>) -> bool {
    let server = match composition::database_server(database) {
        Ok(server) => server,
        Err(failure) => {
            let next = "start it, or correct the URL, the password or the server's pg_hba.conf";
            report.problem(failure.message, next);
            return false;
        }
    };
    let ServerReport { version, role, protection, .. } = &server;
    report.ok(format!("{version}, as the role {role}, {protection}"));
    if !server.is_verified {
        report.warning(
            "the database server is not verified, so another machine could take its place",
            "use sslmode=verify-full, and sslrootcert=FILE for an authority of your own",
        );
    }
    if server.can_create == Some(false) {
        let next = "run `reqlore migrate up` with a role that may, after each update of Reqlore";
        report.note(format!("the role {role} may not create tables"), next);
    }
    true
}

fn counts_text(totals: [usize; COUNTED_KINDS.len()]) -> String {
    let labels = COUNTED_KINDS.iter().map(|(label, _)| label);
    let counts: Vec<String> =
        labels.zip(totals).map(|(label, total)| format!("{label}: {total}")).collect();
    counts.join(", ")
}

fn check_content(
    config: &AppConfig,
    store: &Arc<dyn Store>,
    schema: Option<usize>,
    report: &mut AreaReport<'_>,
) -> Result<()> {
    let damage = composition::block_on(check::find_damage(&**store, ""))??;
    if let Some(first) = damage.first() {
        let message = format!("{} is damaged: {}", config.storage, first.message);
        let next = "run `reqlore check` to list all damage; a server that finds it refuses writes";
        report.problem(message, next);
        return Ok(());
    }
    let counts = composition::block_on(async {
        let mut totals = COUNTED_KINDS.map(|_| 0);
        for (total, (_, kinds)) in totals.iter_mut().zip(COUNTED_KINDS) {
            for kind in kinds {
                *total += count_documents(&**store, &ProjectKey::default(), *kind).await?;
            }
        }
        Ok::<_, StoreError>(counts_text(totals))
    })?;
    let counts = counts.map_err(CommandError::failure)?;
    let schema = schema.map_or_else(String::new, |schema| format!(", schema {schema}"));
    report.ok(format!("{}{schema}; {counts}", config.storage));
    let ports = composition::ports_over(config, store, false)?;
    match composition::block_on(check::check_documents(&ports))??.len() {
        0 => report.ok("`reqlore check` finds no problems"),
        count => report.warning(
            format!("`reqlore check` finds problems: {count}"),
            "run `reqlore check` to see them",
        ),
    }
    Ok(())
}

fn check_http(config: &AppConfig, store: Option<&Arc<dyn Store>>, mut report: AreaReport<'_>) {
    let Some(http) = &config.http else { return };
    let proxy = match http.behind_proxy {
        Some(_) => "behind a proxy that terminates TLS",
        None => "without TLS, for this machine only",
    };
    report.ok(format!("listens at {}, {proxy}", http.listen));
    // sled can be closed, and the storage may not exist.
    let Some(store) = store else {
        let next = format!("run `reqlore user list`; if it lists no user, {ADD_FIRST_USER}");
        return report.note("users were not checked", next);
    };
    let loaded = composition::block_on(async {
        Ok::<_, StoreError>((store.list_users().await?, store.list_tokens().await?))
    });
    match loaded {
        Ok(Ok((users, tokens))) => check_users(&users, &tokens, SystemClock.now(), &mut report),
        Ok(Err(error)) => report.problem(format!("users can't be read: {error}"), "fix this"),
        Err(failure) => report.problem(failure.message, "try again"),
    }
}

fn check_users(users: &[User], tokens: &[Token], now: Timestamp, report: &mut AreaReport<'_>) {
    let active: Vec<&User> = users.iter().filter(|user| user.disabled_at.is_none()).collect();
    if active.is_empty() {
        return report.problem("clients can't log in: there is no active user", ADD_FIRST_USER);
    }
    let mut valid_tokens = 0;
    for token in tokens {
        let is_valid = token.revoked_at.is_none() && token.expires_at > now;
        if is_valid && active.iter().any(|user| user.name.key() == token.user.key()) {
            valid_tokens += 1;
        }
    }
    if valid_tokens == 0 {
        let next = "create one with `reqlore token create --user NAME`";
        return report.problem("clients can't log in: there is no valid token", next);
    }
    report.ok(format!("active users: {}, valid tokens: {valid_tokens}", active.len()));
    if active.iter().all(|user| user.role != UserRole::Administrator) {
        let next = "to appoint one, run `reqlore user set-role NAME --role administrator`";
        report.note("no active user is an administrator", next);
    }
}

fn check_model(config: &AppConfig, mut report: AreaReport<'_>) {
    const BUILT_IN: &str = "semantic ranking with the built-in table";
    match config.model.as_str() {
        "off" => {
            let next = "for semantic ranking, set search.model = \"best\"";
            return report.note("lexical ranking only", next);
        }
        "static" => return report.ok(BUILT_IN),
        _ => {}
    }
    match composition::open_model(config) {
        Ok(Some(model)) => {
            report.ok(format!("semantic ranking with the model {}", model.profile().name));
        }
        Ok(None) if cfg!(feature = "semantic") => {
            report.note(BUILT_IN, "optional: `reqlore model install` installs a better model");
        }
        Ok(None) => report.ok(BUILT_IN),
        Err(failure) => {
            report.problem(failure.message, "install the model, or set search.model to best");
        }
    }
}

fn check_index(config: &AppConfig, mut report: AreaReport<'_>) {
    let Some(cache) = &config.cache else {
        return report.note(
            "there is no cache folder, so each start builds the index in memory",
            "set HOME, or set REQLORE_CACHE to a folder",
        );
    };
    let store = composition::index_name(&config.storage);
    match inspect::inspect_cache(&cache.join("search"), &store, &ProjectKey::default()) {
        Ok(None) => {
            report.note("there is no index yet", "nothing to do; the first search builds it");
        }
        Ok(Some(CacheStatus { folder, index_bytes: None, .. })) => report.note(
            format!(
                "no complete index in {}: a server is building it, or it is outdated or damaged",
                folder.display()
            ),
            "nothing to do; a running build continues, otherwise the next search rebuilds it",
        ),
        Ok(Some(CacheStatus { folder, index_bytes: Some(bytes), models })) => {
            let models = match &*models {
                [] => "without embeddings".to_owned(),
                models => format!("with embeddings of {}", models.join(", ")),
            };
            let (folder, size) = (folder.display(), BinaryBytes(bytes));
            report.ok(format!("the index is in {folder} ({size}), {models}"));
        }
        Err(error) => report.warning(
            format!("the cache in {} can't be read: {error}", cache.display()),
            "give your user access to it, or remove it; it is rebuilt",
        ),
    }
}

fn check_permissions(config: &AppConfig, mut report: AreaReport<'_>) {
    let folder = match &config.storage {
        StorageSpec::Sqlite(file) => Some(file.parent().unwrap_or(file)),
        StorageSpec::Fs(folder) | StorageSpec::Sled(folder) => Some(folder.as_path()),
        StorageSpec::Postgres(_) => None,
    };
    if !config.read_only
        && let Some(folder) = folder
        && let Err(error) = check_folder(folder)
    {
        report.problem(
            format!("{} can't be written: {error}", folder.display()),
            "give your user write access, or serve with --read-only",
        );
    }
    check_private(&config.root, &mut report);
    if let Some(cache) = &config.cache
        && let Err(error) = check_folder(cache)
    {
        report.warning(
            format!("the cache {} can't be written: {error}", cache.display()),
            "each start builds the index in memory; set REQLORE_CACHE to a writable folder",
        );
    }
    if report.is_empty() {
        report.ok("folders are writable, and secrets are private");
    }
}

/// Returns an error if the folder can't be written to or created.
fn check_folder(folder: &Path) -> io::Result<()> {
    match folder.ancestors().find(|folder| folder.symlink_metadata().is_ok()) {
        // `check_writable` tests a folder, and this is a file in its place.
        Some(existing) if !existing.is_dir() => Err(io::ErrorKind::NotADirectory.into()),
        Some(existing) => check_writable(existing),
        None => Ok(()),
    }
}

fn check_private(root: &Path, report: &mut AreaReport<'_>) {
    let local = root.join(LOCAL);
    let metadata = match local.symlink_metadata() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return,
        Err(error) => {
            let message = format!("{LOCAL} can't be inspected: {error}");
            return report.problem(message, "give your user access to it");
        }
        Ok(metadata) => metadata,
    };
    if !metadata.is_dir() {
        return report.problem(
            format!("{LOCAL} is a symbolic link or a file instead of a folder"),
            "remove it; the server creates a folder",
        );
    }
    check_mode(LOCAL, &metadata, report);
    for name in PRIVATE_FILES {
        // Entries of storages that are not in use do not exist.
        if let Ok(metadata) = local.join(name).symlink_metadata() {
            check_mode(&format!("{LOCAL}/{name}"), &metadata, report);
        }
    }
}

fn check_mode(name: &str, metadata: &Metadata, report: &mut AreaReport<'_>) {
    if !metadata.is_symlink() && !is_private(metadata) {
        let mode = if metadata.is_dir() { 700 } else { 600 };
        report.warning(
            format!("{name} is accessible to other users"),
            format!(
                "run `chmod {mode} {name}` in the project; rotate tokens if another user read it"
            ),
        );
    }
}
