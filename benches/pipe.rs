//! Latency of the section tools: the real program over a pipe, on real files.
//!
//! `cargo bench --profile dist --bench pipe [-- --folder DIR]`; the profile is that of
//! releases. Writes are durable, so DIR (default: the temporary folder) decides their cost. The
//! bench writes the same bytes durably and reports the difference. DIR must be a valid project
//! folder, so not below `/dev`.

#![expect(clippy::print_stdout, reason = "the bench prints a table")]

#[path = "harness/mod.rs"]
#[expect(dead_code, reason = "other benches use the rest")]
mod harness;

use std::collections::HashSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use reqlore_domain::sections::Section;
use serde_json::json;

use harness::client::Client;
use harness::report::{Row, Times, header};
use harness::{Arguments, Result, durable_write, micros, millis, requirement_text, section_text};

const GET: &str = "reqlix_get_requirements";
const SET: &str = "reqlix_set_requirements";
const REQUIREMENTS: &str = "docs/development/requirements";
/// Maximum memory of an idle server.
const MEMORY_BAR_MIB: f64 = 10.0;

fn main() -> ExitCode {
    harness::run(measure)
}

fn measure(arguments: &Arguments) -> Result<()> {
    let folder = arguments.folder()?;
    let project = |name: &str| -> io::Result<PathBuf> {
        let project = folder.path().join(name);
        fs::create_dir_all(project.join(REQUIREMENTS))?;
        Ok(project)
    };
    println!("\n{}", header());
    starts(&project("starts")?)?;
    gets(&project("gets")?)?;
    sets(&project("sets")?)
}

fn starts(project: &Path) -> Result<()> {
    let mut times = Vec::new();
    let mut memory = Vec::new();
    for _ in 0..30 {
        let (client, elapsed) = Client::start(project, &[])?;
        memory.push(client.mebibytes()?);
        times.push(elapsed);
        client.end()?;
    }
    let times = Times::from_unsorted(times);
    println!("{}", Row::new("start, to the first answer").times(&times).bar(millis(5)));
    memory.sort_unstable_by(f64::total_cmp);
    let median = memory[memory.len() / 2];
    println!("{}", Row::new("resident memory when idle").at_most(MEMORY_BAR_MIB, median, "MiB"));
    Ok(())
}

fn gets(project: &Path) -> Result<()> {
    let (mut client, _) = Client::start(project, &[])?;
    let sizes = [(10, micros(100), 3_000), (1_000, micros(300), 1_000), (10_000, millis(4), 300)];
    for (size, bar, calls) in sizes {
        let key = format!("s{size}");
        fs::write(file(project, &key), section_text(size))?;
        let arguments = json!({ "section": key });
        let mut get = || -> Result<Duration> {
            let (elapsed, content) = client.call(GET, &arguments)?;
            expect_eq("requirements", &content["count"], &json!(size))?;
            Ok(elapsed)
        };
        (0..20).try_for_each(|_| get().map(|_| ()))?;
        let times = (0..300).map(|_| get()).collect::<Result<Vec<Duration>>>()?;
        // Processor time is coarse, so measure it over more calls.
        let before = client.processor_time()?;
        for _ in 0..calls {
            client.call(GET, &arguments)?;
        }
        let processor = client.processor_time()?.saturating_sub(before) / calls;
        let times = Times::from_unsorted(times);
        let row = Row::new(format!("get, {size} requirements")).times(&times).rate(&times);
        println!("{}", row.processor(processor).bar(bar));
    }
    Ok(client.end()?)
}

fn sets(project: &Path) -> Result<()> {
    let (key, size, middle) = ("large", 10_000, 5_000);
    fs::write(file(project, key), section_text(size))?;
    let (mut client, _) = Client::start(project, &[])?;
    let (mut sets, mut writes) = (Vec::new(), Vec::new());
    let mut text = String::new();
    for round in 0..55 {
        text = format!("In round {round} {}", requirement_text(middle));
        let arguments = json!({ "section": key, "index": middle.to_string(), "text": text });
        let (set, _) = client.call(SET, &arguments)?;
        let bytes = fs::read(file(project, key))?;
        let write = durable_write(&project.join(REQUIREMENTS), "baseline", &bytes)?;
        // The first rounds warm up.
        if round >= 5 {
            sets.push(set);
            writes.push(write);
        }
    }
    client.end()?;
    let (sets, writes) = (Times::from_unsorted(sets), Times::from_unsorted(writes));
    println!("{}", Row::new("set in 10,000 requirements").times(&sets).rate(&sets));
    println!("{}", Row::new("  bare durable write of the same bytes").times(&writes));
    println!("{}", Row::new("  difference").difference(&sets, &writes).bar(millis(10)));
    check_section(project, key, size, (middle, &text))
}

/// Checks that each requirement is stored once with its text; `changed` has the new text.
fn check_section(
    project: &Path,
    key: &str,
    count: usize,
    (changed, new_text): (usize, &str),
) -> Result<()> {
    let source = fs::read_to_string(file(project, key))?;
    let parsed = Section::parse(&source);
    let mut numbers = HashSet::new();
    for stored in parsed.requirements() {
        let number: usize = stored.index.parse()?;
        if !(1..=count).contains(&number) || !numbers.insert(number) {
            return Err(format!("{key}: {number} is stored twice or was never set").into());
        }
        let text = if number == changed { new_text.to_owned() } else { requirement_text(number) };
        expect_eq(key, &parsed.text(stored), &text)?;
    }
    expect_eq(key, &numbers.len(), &count)
}

fn expect_eq<T: PartialEq + std::fmt::Debug>(what: &str, found: &T, expected: &T) -> Result<()> {
    if found == expected {
        return Ok(());
    }
    Err(format!("{what}: {found:?} instead of {expected:?}").into())
}

fn file(project: &Path, key: &str) -> PathBuf {
    project.join(REQUIREMENTS).join(format!("{key}.md"))
}
