//! Compares this program with an earlier one: restore, start, first sync and durable writes.

use std::ffi::OsStr;
use std::fs;
use std::time::Duration;

use crate::bars::Measurements;
use crate::harness::client::server_program;
use crate::harness::language::SyntheticLanguage;
use crate::harness::report::{header, verdict};
use crate::harness::{Arguments, Result};
use crate::items::ProjectSize;
use crate::{
    BenchProject, FIRST_SYNC, FIRST_SYNC_CPU, RESTORE, WARM_START, calls, create_dump,
    fail_if_missed,
};

const WRITES: u32 = 1_000;
/// Rounds of writes. The one with the least processor time counts.
const ROUNDS: usize = 3;
const WRITE_CPU: &str = "CPU of a durable create";

/// Maximum ratios of this program to the earlier one.
const DATABASE_BARS: [(&str, f64); 2] = [(RESTORE, 1.25), (WRITE_CPU, 1.15)];
const FILES_BARS: [(&str, f64); 5] = [
    (RESTORE, 1.25),
    (WRITE_CPU, 1.2),
    (WARM_START, 0.5),
    (FIRST_SYNC, 2.0 / 3.0),
    (FIRST_SYNC_CPU, 0.75),
];

/// Measures both programs on projects of their own with the same documents.
#[expect(clippy::print_stdout, reason = "the bench prints a table")]
pub(crate) fn measure(
    arguments: &Arguments,
    language: &SyntheticLanguage,
    storage: &str,
    total: usize,
    old: &OsStr,
) -> Result<()> {
    let (folder, size) = (arguments.folder()?, ProjectSize { total });
    let dump = create_dump(folder.path(), language, size)?;
    let mut both = Vec::new();
    for (name, program) in [("old", old.to_owned()), ("new", server_program())] {
        println!("\n{total} items in {storage}, {name} program\n{}", header());
        let place = folder.path().join(name);
        fs::create_dir(&place)?;
        let mut project = BenchProject::restore(&place, &dump, storage, size, program)?;
        project.first_sync(language)?;
        project.warm_starts(language)?;
        project.durable_creates(language)?;
        both.push(project.measurements);
        // The second program must find as much free memory for its files as the first.
        fs::remove_dir_all(&place)?;
    }
    let [old, new] = &both[..] else { return Err("two programs are measured".into()) };
    let bars: &[(&str, f64)] = if storage == "fs" { &FILES_BARS } else { &DATABASE_BARS };
    println!("\nnew program divided by old program");
    let mut missed = 0;
    for (label, limit) in bars {
        let ratio = ratio(new, old, label).ok_or("a measurement is missing")?;
        missed += usize::from(ratio > *limit);
        println!("{label:<44} {ratio:>7.2}; bar {limit:.2}: {}", verdict(ratio <= *limit));
    }
    fail_if_missed(missed)
}

fn ratio(new: &Measurements, old: &Measurements, label: &str) -> Option<f64> {
    Some(new.milliseconds(label)? / old.milliseconds(label)?)
}

impl BenchProject {
    fn durable_creates(&mut self, language: &SyntheticLanguage) -> Result<()> {
        let mut client = self.start()?;
        // The first write of a process checks the storage.
        calls::create(&mut client, language, self.size, 0, "first")?;
        let mut best = Duration::MAX;
        for _ in 0..ROUNDS {
            let before = client.processor_time()?;
            for number in 0..WRITES as usize {
                calls::create(&mut client, language, self.size, number, "written")?;
            }
            best = best.min(client.processor_time()?.saturating_sub(before));
        }
        self.measurements.add_time(WRITE_CPU, best / WRITES);
        Ok(client.end()?)
    }
}
