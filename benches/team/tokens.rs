//! Cost of authentication with many stored tokens, without the read from the storage.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use reqlore_application::identity::token_authenticator::TokenAuthenticator;
use reqlore_domain::identity::{Access, PresentedToken, Token, User, UserName, UserRole};
use reqlore_domain::ports::Store;
use reqlore_domain::ports::authenticator::{Authenticator, Credentials};
use reqlore_domain::ports::identity::{IdentityChange, IdentityCommit};
use reqlore_domain::timestamp::Timestamp;

use crate::STORAGES;
use crate::harness::Result;
use crate::harness::ports::{application, open_store, write_context};
use crate::harness::report::{Row, verdict};

const TOKENS: usize = 100_000;
/// Number of tokens presented in turn.
const PRESENTED_TOKENS: usize = 5_000;
/// Number of tokens per commit.
const BATCH: usize = 5_000;
const NOW: Timestamp = Timestamp(1_760_000_000_000_000_000);
const BAR: Duration = Duration::from_micros(10);

pub(crate) fn measure(folder: &Path) -> Result<()> {
    println!("\nauthenticating one of {TOKENS} tokens, without the read from the storage");
    // The server's kind of runtime. Only this thread works, so the time is that of one login.
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    for storage in STORAGES {
        let folder = folder.join("tokens").join(storage);
        std::fs::create_dir_all(&folder)?;
        let store = open_store(&folder, storage)?;
        runtime.block_on(write_tokens(&*store))?;
        runtime.block_on(measure_on(&store, storage))?;
    }
    Ok(())
}

async fn measure_on(store: &Arc<dyn Store>, storage: &str) -> Result<()> {
    let authenticator = authenticator(store);
    let presented_tokens = (0..PRESENTED_TOKENS)
        .map(|number| token_number(number * 19))
        .collect::<Result<Vec<_>>>()?;
    let texts: Vec<String> = presented_tokens.iter().map(PresentedToken::reveal).collect();
    let clock = Instant::now();
    for _ in 0..PRESENTED_TOKENS {
        store.identity_epoch().await?;
    }
    let epoch = clock.elapsed() / u32::try_from(PRESENTED_TOKENS)?;
    let clock = Instant::now();
    for presented in &presented_tokens {
        store.token_owner(&presented.id).await?.ok_or("a token is missing")?;
    }
    let owner = clock.elapsed() / u32::try_from(PRESENTED_TOKENS)?;
    for (what, read) in [("not cached", epoch + owner), ("cached", epoch)] {
        let clock = Instant::now();
        for token in &texts {
            let token = Some(token.as_str());
            let (address, correlation_id) = ("127.0.0.1", "bench");
            let presented_tokens = Credentials { token, project: None, address, correlation_id };
            authenticator
                .authenticate(presented_tokens)
                .await
                .map_err(|denied| format!("{denied:?}"))?;
        }
        let per_login = clock.elapsed() / u32::try_from(PRESENTED_TOKENS)?;
        let own_time = per_login.saturating_sub(read);
        let micros = |time: Duration| time.as_secs_f64() * 1_000_000.0;
        let mut note =
            format!("{:.1} us, {:.1} of them in the storage", micros(per_login), micros(read));
        if storage == STORAGES[0] {
            note = format!("{note}; bar {:.0} us: {}", micros(BAR), verdict(own_time <= BAR));
        }
        println!("{}", Row::new(format!("{what}, {storage}")).processor(own_time).note(note));
    }
    Ok(())
}

fn authenticator(store: &Arc<dyn Store>) -> TokenAuthenticator {
    let application = application(NOW, Arc::clone(store) as _, Arc::clone(store) as _);
    application.authenticator(Arc::clone(store) as _, Access::Write)
}

async fn write_tokens(store: &dyn Store) -> Result<()> {
    let name = UserName::parse("bench")?;
    let user = User { name, role: UserRole::User, created_at: NOW, disabled_at: None };
    let mut changes = vec![IdentityChange::User(user.clone())];
    for number in 0..TOKENS {
        let presented = token_number(number)?;
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
            parent: None,
        }));
    }
    for changes in changes.chunks(BATCH) {
        let changes = changes.to_vec();
        let commit = IdentityCommit {
            users: Vec::new(),
            tokens: Vec::new(),
            decide: Box::new(move |_, _| Ok(changes.clone())),
            context: write_context(NOW),
        };
        store.commit_identities(commit).await?;
    }
    Ok(())
}

fn token_number(number: usize) -> Result<PresentedToken> {
    let id = format!("bench{number:07}");
    Ok(PresentedToken::new(&id, &format!("{number:032}")).ok_or("no token")?)
}
