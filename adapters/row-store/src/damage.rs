//! The first sign of damage of an open database. After it, nothing is written.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use reqlore_domain::ports::documents::StoreError;

use crate::error::{DATABASE_LABEL, STRUCTURE, damaged_object};

const SERVER_HINT: &str = "restore a backup into a new database with `reqlore restore`";

/// Shared by a driver, the readers and the writer of a database.
#[derive(Debug)]
pub struct KnownDamage {
    /// Name of the database in messages, without an address or a folder.
    subject: String,
    /// The next step of an operator.
    restore_hint: &'static str,
    first: OnceLock<String>,
    /// A missing row no longer proves anything.
    may_hide_rows: AtomicBool,
}

impl Default for KnownDamage {
    fn default() -> Self {
        Self::new(DATABASE_LABEL.to_owned(), SERVER_HINT)
    }
}

impl KnownDamage {
    pub fn new(subject: String, restore_hint: &'static str) -> Self {
        let may_hide_rows = AtomicBool::new(false);
        Self { subject, restore_hint, first: OnceLock::new(), may_hide_rows }
    }

    pub fn subject(&self) -> &str {
        &self.subject
    }

    /// Records damage; only the first report is kept.
    pub fn report(&self, object: &str, may_hide_rows: bool) {
        if self.first.set(object.to_owned()).is_ok() {
            let hint = self.restore_hint;
            tracing::error!(object, "the database is damaged, so writes are refused; {hint}");
        }
        self.may_hide_rows.fetch_or(may_hide_rows, Ordering::Relaxed);
    }

    /// Records the damage that an error reports, and names the database in the error.
    pub fn record(&self, error: StoreError) -> StoreError {
        let Some(object) = damaged_object(&error) else { return error };
        self.report(object, object.starts_with(STRUCTURE));
        let reason = format!("is damaged ({object}); {}", self.restore_hint);
        StoreError::Unreadable { subject: self.subject.clone(), reason }
    }

    /// The error of each write after the first sign of damage.
    pub fn write_error(&self) -> Option<StoreError> {
        let object = self.first.get()?;
        let reason = format!(
            "is damaged ({object}), so writes and answers that may be incomplete are refused; \
             `reqlore check` lists the damage; {}",
            self.restore_hint
        );
        Some(StoreError::Unreadable { subject: self.subject.clone(), reason })
    }

    /// The error of each read that misses rows, if damage may hide them.
    pub(crate) fn missing_rows_error(&self) -> Option<StoreError> {
        self.may_hide_rows.load(Ordering::Relaxed).then(|| self.write_error())?
    }
}
