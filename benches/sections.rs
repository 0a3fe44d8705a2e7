//! In-memory operations on a section: parse, set and delete in the middle, wrap the longest text.
//!
//! `cargo bench --bench sections`. The latency of calls is in `pipe.rs`. A set parses its
//! result again, so it costs at least two parses.

#![expect(clippy::expect_used, reason = "a benchmark that can't be set up has nothing to measure")]

#[path = "harness/mod.rs"]
#[expect(dead_code, reason = "other benches use the rest")]
mod harness;

use std::hint::black_box;
use std::time::Duration;

use criterion::{BenchmarkId, Criterion, Throughput};
use reqlore_domain::sections::requirement_index::RequirementIndex;
use reqlore_domain::sections::{MAX_REQUIREMENT_CHARS, Section, text};

use harness::section_text;

const SIZES: [usize; 3] = [10, 1_000, 10_000];

fn main() {
    let mut criterion = Criterion::default()
        .sample_size(20)
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(2))
        .configure_from_args();
    by_size(&mut criterion);
    wrapping(&mut criterion);
    criterion.final_summary();
}

fn by_size(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("sections");
    for size in SIZES {
        let source = section_text(size);
        let parsed = Section::parse(&source);
        assert_eq!(parsed.requirements().len(), size);
        let middle = index((size / 2).to_string());
        let between = index(format!("{}.1", size / 2));
        group.throughput(Throughput::Bytes(source.len() as u64));
        group.bench_function(BenchmarkId::new("parse", size), |bencher| {
            bencher.iter(|| Section::parse(black_box(&source)));
        });
        for (name, index) in [("replace", &middle), ("insert", &between)] {
            group.bench_function(BenchmarkId::new(name, size), |bencher| {
                bencher.iter(|| parsed.set(index, black_box("Another text."), text::WRAP_COLUMNS));
            });
        }
        group.bench_function(BenchmarkId::new("delete", size), |bencher| {
            bencher.iter(|| parsed.delete(black_box(&middle)));
        });
    }
    group.finish();
}

fn wrapping(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("wrap");
    let empty = Section::parse("");
    let first = index("1".to_owned());
    // Unclosed links and fences require the longest look-ahead.
    for (name, unit) in [("words", "requirement "), ("links", "[x]( "), ("fences", "~~~a\n")] {
        let text: String = unit.chars().cycle().take(MAX_REQUIREMENT_CHARS).collect();
        group.throughput(Throughput::Bytes(text.len() as u64));
        group.bench_function(BenchmarkId::new("set", name), |bencher| {
            bencher.iter(|| empty.set(&first, black_box(&text), text::WRAP_COLUMNS));
        });
    }
    group.finish();
}

fn index(text: String) -> RequirementIndex {
    RequirementIndex::try_from(text).expect("a well-formed index")
}
