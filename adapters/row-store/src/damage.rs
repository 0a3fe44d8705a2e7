//! The first sign of damage of an open database. After it, nothing is written.

use std::sync::OnceLock;

use reqlore_domain::ports::documents::{StoreError, StoreResult};

use crate::error::{DATABASE_LABEL, damaged_object};

const SERVER_HINT: &str = "restore a backup into a new database with `reqlore restore`";

/// Shared by a driver, the readers and the writer of a database.
#[derive(Debug)]
pub struct KnownDamage {
    /// Name of the database in messages, without an address or a folder.
    subject: String,
    /// The next step of an operator.
    restore_hint: &'static str,
    first: OnceLock<String>,
}

impl Default for KnownDamage {
    fn default() -> Self {
        Self::new(DATABASE_LABEL.to_owned(), SERVER_HINT)
    }
}

impl KnownDamage {
    pub fn new(subject: String, restore_hint: &'static str) -> Self {
        Self { subject, restore_hint, first: OnceLock::new() }
    }

    pub fn subject(&self) -> &str {
        &self.subject
    }

    /// Records damage; only the first report is kept.
    pub fn report(&self, object: &str) {
        if self.first.set(object.to_owned()).is_ok() {
            let hint = self.restore_hint;
            tracing::error!(object, "the database is damaged, so writes are refused; {hint}");
        }
    }

    /// Records the damage that an error reports, and names the database in the error.
    pub fn note(&self, error: StoreError) -> StoreError {
        let Some(object) = damaged_object(&error) else { return error };
        self.report(object);
        let reason = format!("is damaged ({object}); {}", self.restore_hint);
        StoreError::Unreadable { subject: self.subject.clone(), reason }
    }

    /// The error of each write after the first sign of damage.
    pub fn refusal(&self) -> Option<StoreError> {
        let object = self.first.get()?;
        let reason = format!(
            "is damaged ({object}), so writes and answers that may be incomplete are refused; \
             `reqlore check` lists the damage; {}",
            self.restore_hint
        );
        Some(StoreError::Unreadable { subject: self.subject.clone(), reason })
    }

    pub(crate) fn check(&self) -> StoreResult<()> {
        self.refusal().map_or(Ok(()), Err)
    }
}
