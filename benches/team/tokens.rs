//! What it costs to recognise one of very many tokens, beside what the storage reads for it.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use reqlore_application::identity::authenticate::TokenAuthenticator;
use reqlore_application::{Application, Ports, Settings};
use reqlore_domain::identity::{Access, Caller, PresentedToken, Role, Token, User, UserName};
use reqlore_domain::ports::Store;
use reqlore_domain::ports::authenticator::{Authenticator, Credentials};
use reqlore_domain::ports::identity::{IdentityChange, IdentityCommit};
use reqlore_domain::ports::write_context::WriteContext;
use reqlore_domain::time::Timestamp;
use reqlore_storage_fs::FsStore;
use reqlore_storage_memory::{MemoryIndex, NamedProjects};
use reqlore_storage_sled::SledStore;
use reqlore_storage_sqlite::SqliteStore;

use crate::table::Row;
use crate::{Result, STORAGES};

const TOKENS: usize = 100_000;
/// So many are shown in turn.
const SHOWN: usize = 5_000;
/// So many are put at once.
const AT_ONCE: usize = 5_000;
const NOW: Timestamp = Timestamp(1_760_000_000_000_000_000);
const BAR: Duration = Duration::from_micros(10);

pub(crate) fn measure(folder: &Path) -> Result<()> {
    println!("\nrecognising one of {TOKENS} tokens, beside the read from the storage");
    // As the server's; only this thread works, so that the time is that of one login.
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    for storage in STORAGES {
        let folder = folder.join("tokens").join(storage);
        std::fs::create_dir_all(&folder)?;
        let store = open(&folder, storage)?;
        runtime.block_on(put(&*store))?;
        runtime.block_on(measure_on(&store, storage))?;
    }
    Ok(())
}

async fn measure_on(store: &Arc<dyn Store>, storage: &str) -> Result<()> {
    let authenticator = authenticator(store);
    let shown = (0..SHOWN).map(|number| presented(number * 19)).collect::<Result<Vec<_>>>()?;
    let texts: Vec<String> = shown.iter().map(PresentedToken::reveal).collect();
    let clock = Instant::now();
    for _ in 0..SHOWN {
        store.epoch().await?;
    }
    let epoch = clock.elapsed() / u32::try_from(SHOWN)?;
    let clock = Instant::now();
    for presented in &shown {
        store.holder(&presented.id).await?.ok_or("a token is not there")?;
    }
    let holder = clock.elapsed() / u32::try_from(SHOWN)?;
    for (what, read) in [("not seen before", epoch + holder), ("seen before", epoch)] {
        let clock = Instant::now();
        for token in &texts {
            let token = Some(token.as_str());
            let (address, correlation_id) = ("127.0.0.1", "bench");
            let shown = Credentials { token, project: None, address, correlation_id };
            authenticator.authenticate(shown).await.map_err(|denied| format!("{denied:?}"))?;
        }
        let all = clock.elapsed() / u32::try_from(SHOWN)?;
        let beside = all.saturating_sub(read);
        let micros = |time: Duration| time.as_secs_f64() * 1_000_000.0;
        let mut note = format!("{:.1} us, {:.1} of them the storage's", micros(all), micros(read));
        if storage == STORAGES[0] {
            let verdict = if beside <= BAR { "met" } else { "MISSED" };
            note = format!("{note}; bar {:.0} us: {verdict}", micros(BAR));
        }
        let row = Row::new(format!("{what}, {storage}"));
        println!("{}", Row { processor: Some(beside), ..row }.note(note));
    }
    Ok(())
}

fn open(folder: &Path, storage: &str) -> Result<Arc<dyn Store>> {
    Ok(match storage {
        "sqlite" => {
            let config = reqlore_storage_sqlite::Config { file: folder.join("reqlore.db") };
            Arc::new(SqliteStore::open(&config)?)
        }
        "sled" => {
            let config = reqlore_storage_sled::Config { folder: folder.join("sled") };
            Arc::new(SledStore::open(&config)?)
        }
        _ => Arc::new(FsStore::open(&reqlore_storage_fs::Config {
            root: folder.to_owned(),
            documents: folder.to_owned(),
            projects: std::collections::BTreeMap::default(),
            requirements_directory: None,
            roots: Vec::new(),
            home: None,
            cache: None,
        })?),
    })
}

fn authenticator(store: &Arc<dyn Store>) -> TokenAuthenticator {
    let application = Application::new(Ports {
        documents: Arc::clone(store) as _,
        tree: None,
        projects: Arc::new(NamedProjects(Vec::new())),
        search: Arc::new(MemoryIndex::default()),
        clock: Arc::new(NOW),
        ids: Arc::new(reqlore_domain::ports::id_generator::CountedIds::default()),
        answers: Arc::clone(store) as _,
        audit: None,
        settings: Settings::default(),
    });
    application.authenticator(Arc::clone(store) as _, Access::Write)
}

async fn put(store: &dyn Store) -> Result<()> {
    let name = UserName::parse("bench")?;
    let user = User { name, role: Role::User, created_at: NOW, disabled_at: None };
    let mut changes = vec![IdentityChange::User(user.clone())];
    for number in 0..TOKENS {
        let presented = presented(number)?;
        changes.push(IdentityChange::Token(Token {
            id: presented.id.clone(),
            user: user.name.clone(),
            digest: presented.digest(),
            scope: Access::Write,
            projects: Vec::new(),
            created_at: NOW,
            expires_at: Timestamp::new(NOW.seconds() + 1_000, 0),
            revoked_at: None,
            successor: None,
            last_used_at: None,
        }));
    }
    for changes in changes.chunks(AT_ONCE) {
        let changes = changes.to_vec();
        let commit = IdentityCommit {
            users: Vec::new(),
            tokens: Vec::new(),
            decide: Box::new(move |_, _| Ok(changes.clone())),
            act: WriteContext {
                caller: Arc::new(Caller::local("bench", Access::Write)),
                tool: "bench",
                reason: String::new(),
                correlation_id: String::new(),
                at: NOW,
                audited: None,
                once: None,
            },
        };
        store.commit_identities(commit).await?;
    }
    Ok(())
}

fn presented(number: usize) -> Result<PresentedToken> {
    let id = format!("bench{number:07}");
    Ok(PresentedToken::new(&id, &format!("{number:032}")).ok_or("no token")?)
}
