//! Users and tokens.
//!
//! The trap: the epoch is read without the gate. It changes before anybody can look again at what
//! changed it, so whoever sees the new one waits for what is durable.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use async_trait::async_trait;
use reqlore_domain::identity::{Token, TokenId, TokenOwner, User, UserName};
use reqlore_domain::ports::documents::StoreResult;
use reqlore_domain::ports::identity::{IdentityChange, IdentityCommit, IdentityRepository};
use reqlore_domain::time::Timestamp;
use reqlore_group_commit::catch_panic;

use crate::SledStore;
use crate::base::{Base, Batch, EPOCH, META, TOKENS, USERS};
use crate::values::encode;
use crate::write::Group;

#[async_trait]
impl IdentityRepository for SledStore {
    async fn users(&self) -> StoreResult<Vec<User>> {
        self.look(false, Base::users).await
    }

    async fn tokens(&self) -> StoreResult<Vec<Token>> {
        self.look(false, Base::tokens).await
    }

    async fn holder(&self, id: &TokenId) -> StoreResult<Option<TokenOwner>> {
        let id = id.clone();
        self.look(true, move |base| base.holder(&id)).await
    }

    async fn epoch(&self) -> StoreResult<u64> {
        Ok(self.opened()?.base.epoch())
    }

    async fn commit_identities(&self, commit: IdentityCommit) -> StoreResult<()> {
        self.write(|group| group.commit_identities(commit)).await
    }

    async fn used(&self, uses: Vec<(TokenId, Timestamp)>) -> StoreResult<()> {
        self.write(|group| group.used(uses)).await
    }
}

impl Base {
    pub(crate) fn users(&self) -> StoreResult<Vec<User>> {
        self.all_json(USERS)
    }

    pub(crate) fn tokens(&self) -> StoreResult<Vec<Token>> {
        let mut tokens: Vec<Token> = self.all_json(TOKENS)?;
        tokens.sort_by_key(|token| token.created_at);
        Ok(tokens)
    }

    fn user(&self, name: &UserName) -> StoreResult<Option<User>> {
        self.json(USERS, name.key().as_bytes())
    }

    fn token(&self, id: &TokenId) -> StoreResult<Option<Token>> {
        self.json(TOKENS, id.as_str().as_bytes())
    }

    fn holder(&self, id: &TokenId) -> StoreResult<Option<TokenOwner>> {
        let Some(token) = self.token(id)? else { return Ok(None) };
        let user = self.user(&token.user)?;
        Ok(user.map(|user| TokenOwner { token, user }))
    }

    fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::Acquire)
    }

    pub(crate) fn put_user(&self, batch: &mut Batch, user: &User) -> StoreResult<()> {
        self.put_json(batch, USERS, user.name.key().as_bytes(), user)
    }

    pub(crate) fn put_token(&self, batch: &mut Batch, token: &Token) -> StoreResult<()> {
        self.put_json(batch, TOKENS, token.id.as_str().as_bytes(), token)
    }
}

/// What is changed here is written at once, so that the next one finds it in the trees: it is rare.
impl Group {
    fn commit_identities(&mut self, mut commit: IdentityCommit) -> StoreResult<()> {
        let users = commit.users.iter().map(|name| self.base.user(name));
        let users: Vec<_> = users.collect::<StoreResult<_>>()?;
        let tokens = commit.tokens.iter().map(|id| self.base.token(id));
        let tokens: Vec<_> = tokens.collect::<StoreResult<_>>()?;
        let (changes, audit) = catch_panic(|| commit.decide(&users, &tokens))?;
        if changes.is_empty() {
            return Ok(());
        }
        let mut batch = Batch::default();
        for change in &changes {
            match change {
                IdentityChange::User(user) => self.base.put_user(&mut batch, user)?,
                IdentityChange::Token(token) => self.base.put_token(&mut batch, token)?,
            }
        }
        let epoch = self.base.epoch() + 1;
        batch.put(META, EPOCH, encode(EPOCH, &epoch));
        let newest = self.chained(&mut batch, audit)?;
        self.take(batch, newest);
        self.write()?;
        self.base.epoch.store(epoch, Ordering::Release);
        Ok(())
    }

    fn used(&mut self, uses: Vec<(TokenId, Timestamp)>) -> StoreResult<()> {
        let mut last = BTreeMap::new();
        for (id, at) in uses {
            let known = last.entry(id).or_insert(at);
            *known = at.max(*known);
        }
        let mut batch = Batch::default();
        for (id, at) in last {
            let older = |token: &Token| token.last_used_at.is_none_or(|known| known < at);
            if let Some(token) = self.base.token(&id)?.filter(older) {
                let token = Token { last_used_at: Some(at), ..token };
                self.base.put_token(&mut batch, &token)?;
            }
        }
        self.take(batch, None);
        self.write()
    }
}
