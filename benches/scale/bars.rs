//! Measurements of each size, and how much each may grow.

use std::time::Duration;

use crate::harness::report::{Row, Times, verdict};

/// Maximum growth of a call, and the time within which it may grow without a limit.
struct GrowthBar {
    label: &'static str,
    ratio: f64,
    milliseconds: f64,
}

const fn bar(label: &'static str, ratio: f64, milliseconds: f64) -> GrowthBar {
    GrowthBar { label, ratio, milliseconds }
}

const GROWTH_BARS: [GrowthBar; 13] = [
    bar("get_item", 3.0, 1.0),
    bar("create_requirement", 3.0, 1.0),
    bar("first page of epics", 3.0, 1.0),
    bar("middle page of epics", 3.0, 1.0),
    bar("common filter", 3.0, 1.0),
    bar("common filter, middle page", 3.0, 1.0),
    bar("rare filter", 3.0, 1.0),
    bar("empty filter", 3.0, 1.0),
    bar("first ixchel_tags", 3.0, 1.0),
    bar("ixchel_tags", 3.0, 1.0),
    bar("search_global, six words", 6.0, 8.0),
    bar("search_global after a create", 7.0, 30.0),
    bar("spawn to the first search", 3.0, 150.0),
];

/// The number of items from which the bars of memory hold.
const MEMORY_ITEMS: usize = 100_000;
/// Maximum memory in MiB, by label.
const MEMORY_BARS: [(&str, f64); 3] = [
    ("memory after all calls", 256.0),
    ("peak memory of a first index", 400.0),
    ("peak memory of all calls", 400.0),
];
/// The same on files.
const FILES_MEMORY_BARS: [(&str, f64); 2] =
    [("memory after all calls", 200.0), ("peak memory of a first index", 400.0)];

/// The measurements of one size.
pub(crate) struct Measurements {
    total: usize,
    /// Label and median.
    times: Vec<(&'static str, Duration)>,
    /// Label and MiB.
    memory: Vec<(&'static str, f64)>,
}

impl Measurements {
    pub(crate) fn new(total: usize) -> Self {
        Self { total, times: Vec::new(), memory: Vec::new() }
    }

    #[expect(clippy::print_stdout, reason = "the bench prints a table")]
    pub(crate) fn add_times(&mut self, label: &'static str, times: &Times) {
        println!("{}", Row::new(label).times(times));
        self.times.push((label, times.p50()));
    }

    #[expect(clippy::print_stdout, reason = "the bench prints a table")]
    pub(crate) fn add_time(&mut self, label: &'static str, time: Duration) {
        println!("{}", Row::new(label).single_time(time));
        self.times.push((label, time));
    }

    #[expect(clippy::print_stdout, reason = "the bench prints a table")]
    pub(crate) fn add_mebibytes(&mut self, label: &'static str, mebibytes: f64) {
        println!("{}", Row::new(label).note(format!("{mebibytes:.1} MiB")));
        self.memory.push((label, mebibytes));
    }

    pub(crate) fn milliseconds(&self, label: &str) -> Option<f64> {
        let (_, time) = self.times.iter().find(|(found, _)| *found == label)?;
        Some(time.as_secs_f64() * 1_000.0)
    }
}

/// Prints all bars. Returns the number of missed ones. Growth has bars on SQLite only.
#[expect(clippy::print_stdout, reason = "the bench prints a table")]
pub(crate) fn report(all: &[Measurements], storage: &str) -> usize {
    let (Some(first), Some(last)) = (all.first(), all.last()) else { return 0 };
    let mut missed = 0;
    println!("\nfrom {} to {} items", first.total, last.total);
    for bar in &GROWTH_BARS {
        let GrowthBar { label, ratio: limit, milliseconds } = bar;
        // A small project has no middle page.
        let (Some(small), Some(large)) = (first.milliseconds(label), last.milliseconds(label))
        else {
            println!("{label:<44} not measured at both sizes");
            continue;
        };
        let ratio = large / small;
        if storage != "sqlite" {
            println!("{label:<44} {ratio:>7.1} times, {large:>9.3} ms");
            continue;
        }
        let is_met = ratio <= *limit || large <= *milliseconds;
        missed += usize::from(!is_met);
        let verdict = verdict(is_met);
        println!(
            "{label:<44} {ratio:>7.1} times, {large:>9.3} ms; bar {limit} times or \
             {milliseconds} ms: {verdict}"
        );
    }
    let memory_bars: &[(&str, f64)] =
        if storage == "fs" { &FILES_MEMORY_BARS } else { &MEMORY_BARS };
    for (label, limit) in memory_bars {
        for (found, mebibytes) in &last.memory {
            if last.total >= MEMORY_ITEMS && found == label {
                let is_met = mebibytes <= limit;
                missed += usize::from(!is_met);
                println!("{label:<44} {mebibytes:>7.1} MiB; bar {limit} MiB: {}", verdict(is_met));
            }
        }
    }
    missed
}
