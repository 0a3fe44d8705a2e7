//! `reqlore copy`, `backup` and `restore`.
//!
//! Opening a database creates it, so a misspelt source would be an empty one: a source must exist,
//! and a target is opened only after its source was found readable.

use std::path::PathBuf;
use std::sync::Arc;

use indicatif::{DecimalBytes, HumanCount};
use reqlore_application::transfer::{self, CopyReport, VerifyReport};
use reqlore_domain::error::Error;
use reqlore_domain::ports::Store;
use reqlore_domain::ports::archive::{Archive, RecordReader};
use reqlore_dump::DumpFile;
use serde::Serialize;

use crate::commands::output::{print, print_json};
use crate::composition;
use crate::config::AppConfig;
use crate::exit::{CommandError, EXIT_FAILED, Result};
use crate::progress::ProgressDisplay;
use crate::storage_spec::StorageSpec;

#[derive(Debug, clap::Args)]
pub(crate) struct CopyOptions {
    #[arg(
        long,
        value_name = "STORAGE",
        help = "The source: fs[:DIR], sqlite[:FILE], sled[:DIR] or postgres://HOST/NAME"
    )]
    from: String,

    /// The target, written like the source; it must be empty
    #[arg(long, value_name = "STORAGE")]
    to: String,

    /// Compare both sides afterwards; no server may write to the source meanwhile
    #[arg(long)]
    verify: bool,

    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct BackupOptions {
    /// The file to write; it must not exist
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct RestoreOptions {
    /// A file written by `reqlore backup`
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

pub(crate) async fn run_copy(config: &AppConfig, options: &CopyOptions) -> Result<u8> {
    let from = StorageSpec::parse(&options.from, &config.root, &config.working_directory)?;
    let to = StorageSpec::parse(&options.to, &config.root, &config.working_directory)?;
    if from == to {
        let message = format!("--from and --to are both {from}; name two storages");
        return Err(CommandError::failure(message));
    }
    if let (StorageSpec::Fs(_), StorageSpec::Fs(_), Some(project)) =
        (&from, &to, config.projects.keys().next())
    {
        return Err(CommandError::failure(format!(
            "project {project} has the same folder on both sides; use --config with a file without \
             [projects]"
        )));
    }
    let source = existing_source(config, &from)?;
    let reader = open_reader(&*source).await?;
    // After the source: if that can't be read, no target is created.
    let target = composition::open_store(config, &to)?;
    let copied = copy_into(reader, &*target).await?;
    let mut report = TransferReport::new(from.to_string(), to.to_string(), copied);
    if options.verify {
        report.verified = Some(compare_storages(&*source, &*target).await?);
        report.add_damage(&to, &*target).await?;
    }
    report.print("Copied", "both sides are the same", options.json)
}

/// Reads the file back and compares its checksum, then searches the storage for damage. Does not
/// compare the file with the storage, which may have changed since.
pub(crate) async fn run_backup(config: &AppConfig, options: &BackupOptions) -> Result<u8> {
    let (dump, file) = (DumpFile::new(&options.file), options.file.display());
    let source = existing_source(config, &config.storage)?;
    let copied = copy_into(open_reader(&*source).await?, &dump).await?;
    let written = dump.export().await.map_err(|error| {
        CommandError::failure(format!("the backup can't be read back: {error}; write another one"))
    })?;
    let same = written.total_documents().unwrap_or_default() as u64;
    if same != copied.documents {
        let message = format!("{file} was changed by another process; write another backup");
        return Err(CommandError::failure(message));
    }
    let mut report = TransferReport::new(config.storage.to_string(), file.to_string(), copied);
    report.verified = Some(VerifyReport { same, ..VerifyReport::default() });
    report.add_damage(&config.storage, &*source).await?;
    report.print("Backed up", "it was read back and its checksum matches", options.json)
}

/// Checks the whole file before it opens the storage.
pub(crate) async fn run_restore(config: &AppConfig, options: &RestoreOptions) -> Result<u8> {
    let dump = DumpFile::new(&options.file);
    let reader = open_reader(&dump).await?;
    let target = composition::open_store(config, &config.storage)?;
    let copied = copy_into(reader, &*target).await?;
    let (from, to) = (options.file.display().to_string(), config.storage.to_string());
    let mut report = TransferReport::new(from, to, copied);
    report.verified = Some(compare_storages(&dump, &*target).await?);
    report.add_damage(&config.storage, &*target).await?;
    report.print("Restored", "both sides are the same", options.json)
}

fn existing_source(config: &AppConfig, storage: &StorageSpec) -> Result<Arc<dyn Store>> {
    if let Some(path) = storage.path() {
        // Opening a missing database would create it.
        let found = std::fs::metadata(path)
            .map_err(|error| CommandError::failure(format!("{storage} can't be read: {error}")))?;
        if found.is_file() && found.len() == 0 {
            let message = format!("{storage} is an empty file, not a database; name another one");
            return Err(CommandError::failure(message));
        }
    }
    composition::open_existing(config, storage, "correct the storage")
}

async fn open_reader(from: &dyn Archive) -> Result<Box<dyn RecordReader>> {
    from.export().await.map_err(|error| CommandError::failure(Error::from(error)))
}

async fn copy_into(source: Box<dyn RecordReader>, to: &dyn Archive) -> Result<CopyReport> {
    let progress = ProgressDisplay::on_terminal();
    transfer::copy_archive(source, to, &progress).await.map_err(CommandError::failure)
}

async fn compare_storages(from: &dyn Archive, to: &dyn Archive) -> Result<VerifyReport> {
    let progress = ProgressDisplay::on_terminal();
    transfer::verify_archives(from, to, &progress).await.map_err(CommandError::failure)
}

#[derive(Serialize)]
struct TransferReport {
    from: String,
    to: String,
    #[serde(flatten)]
    copied: CopyReport,
    verified: Option<VerifyReport>,
    /// Damage of a verified storage, including its lists, which the records do not contain.
    damage: Vec<String>,
}

impl TransferReport {
    fn new(from: String, to: String, copied: CopyReport) -> Self {
        Self { from, to, copied, verified: None, damage: Vec::new() }
    }

    async fn add_damage(&mut self, storage: &StorageSpec, store: &dyn Store) -> Result<()> {
        let found = store.find_damage().await;
        for object in found.map_err(|error| CommandError::failure(Error::from(error)))? {
            self.damage.push(format!("{storage}: {object}"));
        }
        Ok(())
    }

    fn print(&self, verb: &str, verdict: &str, as_json: bool) -> Result<u8> {
        let sentence = self.sentence(verb, verdict);
        let printed = if as_json { print_json(self)? } else { print(&sentence)? };
        let differs = self.verified.as_ref().is_some_and(|verified| verified.different > 0);
        Ok(if differs || !self.damage.is_empty() { EXIT_FAILED } else { printed })
    }

    fn sentence(&self, verb: &str, verdict: &str) -> String {
        let Self { from, to, copied, verified, damage } = self;
        let CopyReport { documents, bytes, users, tokens, rows, history, history_left_behind } =
            *copied;
        let mut text =
            format!("{verb} {} ({})", count_noun(documents, "document"), DecimalBytes(bytes));
        if history > 0 {
            text += &format!(", {}", count_noun(history, "earlier version"));
        }
        if users + tokens + rows > 0 {
            let (users, tokens) = (count_noun(users, "user"), count_noun(tokens, "token"));
            text += &format!(", {users}, {tokens}, {} of the audit", count_noun(rows, "row"));
        }
        text += &format!(" from {from} to {to}");
        if history_left_behind > 0 {
            let versions = count_noun(history_left_behind, "earlier version");
            text += &format!("; {versions} left behind, because files have the history of Git");
        }
        let Some(VerifyReport { different, differences, .. }) = verified else {
            return text + ".\n";
        };
        if !damage.is_empty() {
            let count = HumanCount(damage.len() as u64);
            text += &format!("; damaged objects: {count}\n- {}\n", damage.join("\n- "));
            return text
                + "Documents may be missing: compare with an earlier backup, and restore one into \
                   a new storage with `reqlore restore`.\n";
        }
        if *different == 0 {
            return text + &format!("; verified: {verdict}.\n");
        }
        text += &format!("; differences: {}\n", HumanCount(*different));
        for difference in differences {
            text += &format!("- {difference}\n");
        }
        let more = different.saturating_sub(differences.len() as u64);
        if more > 0 {
            text += &format!("and {} more.\n", HumanCount(more));
        }
        text += "If the source was changed meanwhile, stop its servers and use a new target.\n";
        text
    }
}

fn count_noun(count: u64, noun: &str) -> String {
    let end = if count == 1 { "" } else { "s" };
    format!("{} {noun}{end}", HumanCount(count))
}

#[cfg(test)]
mod tests {
    use reqlore_application::transfer::{DifferenceKind, TransferDifference};

    use super::*;

    #[test]
    fn sentence_counts_and_lists_differences() {
        let mut report = TransferReport {
            from: "fs:/a".to_owned(),
            to: "sled:/b".to_owned(),
            copied: CopyReport { documents: 1, bytes: 1500, ..CopyReport::default() },
            verified: None,
            damage: Vec::new(),
        };
        let sentence = report.sentence("Copied", "");
        assert_eq!(sentence, "Copied 1 document (1.50 kB) from fs:/a to sled:/b.\n");
        report.copied.users = 1;
        report.copied.rows = 2_000;
        let what = vec![DifferenceKind::OtherTime, DifferenceKind::OtherPath];
        let differences = vec![TransferDifference { document: "section a".to_owned(), what }];
        report.verified = Some(VerifyReport { same: 0, different: 1234, differences });
        assert_eq!(
            report.sentence("Copied", ""),
            "Copied 1 document (1.50 kB), 1 user, 0 tokens, 2,000 rows of the audit from fs:/a to \
             sled:/b; differences: 1,234\n- section a: different time, different path\nand 1,233 more.\n\
             If the source was changed meanwhile, stop its servers and use a new target.\n"
        );
    }
}
