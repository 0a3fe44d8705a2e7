//! What `copy`, `backup` and `restore` share: the bar, the result, where everything comes from.
//!
//! Trap: a database is made where none is, so a misspelt source would be an empty one, and a target
//! is opened only when its source was found sound.

use std::fmt::Write as _;
use std::sync::Arc;

use indicatif::{DecimalBytes, HumanCount, ProgressBar, ProgressFinish, ProgressStyle};
use reqlore_application::transfer::{self, Copied, Verified};
use reqlore_domain::error::Error;
use reqlore_domain::ports::Store;
use reqlore_domain::ports::archive::{Archive, Source};
use serde::Serialize;

use crate::composition;
use crate::config::Config;
use crate::exit::{CommandError, REFUSED};
use crate::storage::Storage;

/// What was done, and what a comparison of both sides found.
pub(super) const COPIED: [&str; 2] = ["Copied", "both sides are the same"];

/// A storage that is there.
pub(super) fn source(config: &Config, storage: &Storage) -> Result<Arc<dyn Store>, CommandError> {
    let found = std::fs::metadata(storage.place())
        .map_err(|error| CommandError::refused(format!("{storage} can't be read: {error}")))?;
    if found.is_file() && found.len() == 0 {
        let message = format!("{storage} is an empty file and no database; name another one");
        return Err(CommandError::refused(message));
    }
    composition::store(config, storage)
}

/// Begins to read everything; what can't be read whole is refused here.
pub(super) async fn read(from: &dyn Archive) -> Result<Box<dyn Source>, CommandError> {
    from.read().await.map_err(|error| CommandError::refused(Error::from(error).message))
}

/// Takes what was begun to be read into a target.
pub(super) async fn copy(
    source: Box<dyn Source>,
    to: &dyn Archive,
) -> Result<Copied, CommandError> {
    let bar = bar("Copying");
    let copied = transfer::copy(source, to, &|done, total| show(&bar, done, total)).await;
    copied.map_err(|error| CommandError::refused(error.message))
}

pub(super) async fn verify(from: &dyn Archive, to: &dyn Archive) -> Result<Verified, CommandError> {
    let bar = bar("Comparing");
    let verified = transfer::verify(from, to, &|done, total| show(&bar, done, total)).await;
    verified.map_err(|error| CommandError::refused(error.message))
}

/// On stderr, where that is a terminal; it goes when it is dropped.
fn bar(what: &'static str) -> ProgressBar {
    let bar = ProgressBar::no_length().with_message(what).with_finish(ProgressFinish::AndClear);
    match ProgressStyle::with_template("{msg} {wide_bar} {human_pos} of {human_len}, {eta}") {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}

fn show(bar: &ProgressBar, done: u64, total: Option<usize>) {
    if let Some(total) = total {
        bar.set_length(total as u64);
    }
    bar.set_position(done);
}

/// What was moved from where to where, and what a comparison found.
#[derive(Serialize)]
pub(super) struct Report {
    pub(super) from: String,
    pub(super) to: String,
    #[serde(flatten)]
    pub(super) copied: Copied,
    pub(super) verified: Option<Verified>,
}

impl Report {
    /// Prints it, in words what was done and what is the same. The exit code says whether it is,
    /// as far as that was asked.
    pub(super) fn print(&self, words: [&str; 2], as_json: bool) -> Result<u8, CommandError> {
        let text = if as_json { self.json()? } else { self.sentence(words) };
        let printed = super::print(&text)?;
        let differs = self.verified.as_ref().is_some_and(|verified| verified.different > 0);
        Ok(if differs { REFUSED } else { printed })
    }

    fn json(&self) -> Result<String, CommandError> {
        let json = serde_json::to_string_pretty(self);
        json.map(|json| json + "\n").map_err(|error| CommandError::refused(error.to_string()))
    }

    fn sentence(&self, [done, same]: [&str; 2]) -> String {
        let Self { from, to, copied, verified } = self;
        let (what, bytes) = (documents(copied.documents), DecimalBytes(copied.bytes));
        let mut text = format!("{done} {what} ({bytes}){} from {from} to {to}", team(copied));
        match verified {
            // Writing to a string does not fail.
            None => text.push_str(".\n"),
            Some(Verified { different: 0, .. }) => {
                let _ = writeln!(text, "; verified: {same}.");
            }
            Some(Verified { different, differences, .. }) => {
                let _ = writeln!(text, "; differences: {}", HumanCount(*different));
                for difference in differences {
                    let _ = writeln!(text, "- {difference}");
                }
                let more = different.saturating_sub(differences.len() as u64);
                if more > 0 {
                    let _ = writeln!(text, "and {} more.", HumanCount(more));
                }
            }
        }
        text
    }
}

fn documents(count: u64) -> String {
    counted(count, "document")
}

/// What a team has besides; nothing where there is none.
fn team(copied: &Copied) -> String {
    let Copied { users, tokens, rows, .. } = *copied;
    if users + tokens + rows == 0 {
        return String::new();
    }
    let (users, tokens) = (counted(users, "user"), counted(tokens, "token"));
    format!(", {users}, {tokens}, {} of the audit", counted(rows, "row"))
}

fn counted(count: u64, noun: &str) -> String {
    let end = if count == 1 { "" } else { "s" };
    format!("{} {noun}{end}", HumanCount(count))
}

#[cfg(test)]
mod tests {
    use reqlore_application::transfer::{Difference, What};

    use super::*;

    #[test]
    fn differences_are_told_and_counted() {
        let mut report = Report {
            from: "fs:/a".to_owned(),
            to: "sled:/b".to_owned(),
            copied: Copied { documents: 1, bytes: 1500, ..Copied::default() },
            verified: None,
        };
        let said = report.sentence(COPIED);
        assert_eq!(said, "Copied 1 document (1.50 kB) from fs:/a to sled:/b.\n");
        report.copied.users = 1;
        report.copied.rows = 2_000;
        let said = report.sentence(COPIED);
        let told = "(1.50 kB), 1 user, 0 tokens, 2,000 rows of the audit from fs:/a to sled:/b.\n";
        assert!(said.ends_with(told), "{said}");
        let what = vec![What::OtherTime, What::OtherPlace];
        let differences = vec![Difference { document: "section a".to_owned(), what }];
        report.verified = Some(Verified { same: 0, different: 1234, differences });
        let said = report.sentence(COPIED);
        let told = "; differences: 1,234\n\
            - section a: other time, other place\nand 1,233 more.\n";
        assert!(said.ends_with(told), "{said}");
    }
}
