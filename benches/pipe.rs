//! What a client waits for: the real command over a real pipe, on real files.
//!
//! `cargo bench --profile dist --bench pipe [-- --folder DIR]`; the profile is the one that is
//! shipped. DIR, by default the folder for temporary files, decides what is measured: writes are
//! durable, so on a disk they cost what its `fsync` costs. Therefore the same bytes are written
//! durably beside each of them, and the difference is ours.
//!
//! A call crosses two pipes and wakes a thread at each end; what that alone costs on this machine
//! is measured too. DIR must be one that can hold a project, so not below `/dev`.
//!
//! Missed bars are told; only wrong results fail, because machines differ.

#![expect(clippy::print_stdout, reason = "the table is what it is for")]

#[path = "harness/client.rs"]
mod client;
#[path = "harness/durable.rs"]
mod durable;
#[path = "harness/table.rs"]
#[expect(dead_code, reason = "the other bench uses the rest")]
mod table;

use std::collections::HashSet;
use std::error::Error;
use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Barrier;
use std::time::{Duration, Instant};

use reqlore_domain::sections::Section;
use serde_json::{Value, json};

use client::Client;
use table::{Row, Times, header, per_second};

const GET: &str = "reqlix_get_requirements";
const SET: &str = "reqlix_set_requirements";
/// Where a project's sections are.
const REQUIREMENTS: &str = "docs/development/requirements";
/// Idle memory stays below.
const MEMORY_BAR_MIB: f64 = 10.0;

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

fn main() -> ExitCode {
    let Err(error) = run() else { return ExitCode::SUCCESS };
    eprintln!("WRONG: {error}");
    ExitCode::FAILURE
}

fn run() -> Result<()> {
    let folder = match folder() {
        Some(folder) => tempfile::tempdir_in(folder.canonicalize()?)?,
        None => tempfile::tempdir()?,
    };
    let project = |name: &str| -> io::Result<PathBuf> {
        let project = folder.path().join(name);
        fs::create_dir_all(project.join(REQUIREMENTS))?;
        Ok(project)
    };
    println!("\n{}", header());
    starts(&project("starts")?)?;
    round_trips(&project("pings")?)?;
    gets(&project("gets")?)?;
    sets(&project("sets")?)?;
    pipelined_sets(&project("pipelined")?)?;
    concurrent_sets(&project("concurrent")?)
}

/// The folder that the command line names.
fn folder() -> Option<PathBuf> {
    let mut arguments = std::env::args_os().skip_while(|argument| argument != "--folder");
    arguments.nth(1).map(PathBuf::from)
}

fn starts(project: &Path) -> Result<()> {
    let mut times = Vec::new();
    let mut memory = Vec::new();
    for _ in 0..30 {
        let (client, elapsed) = Client::start(project)?;
        memory.push(client.resident_bytes()?);
        times.push(elapsed);
        client.end()?;
    }
    let times = Times::of(times);
    println!("{}", Row::new("start, to the first answer").times(&times).bar(millis(5)));
    memory.sort_unstable();
    let kib = u32::try_from(memory[memory.len() / 2] / 1024)?;
    let mib = f64::from(kib) / 1024.0;
    let verdict = if mib <= MEMORY_BAR_MIB { "met" } else { "MISSED" };
    let note = format!("{mib:.1} MiB; bar {MEMORY_BAR_MIB} MiB: {verdict}");
    println!("{}", Row::new("resident memory when idle").note(note));
    Ok(())
}

/// What no call can be faster than.
fn round_trips(project: &Path) -> Result<()> {
    let echoes = Times::of(client::echoes(300)?);
    let row = Row::new("a line to cat and back").times(&echoes);
    println!("{}", row.per_second(echoes.per_second()));
    let (mut client, _) = Client::start(project)?;
    let pings = (0..300).map(|_| client.ping()).collect::<io::Result<Vec<Duration>>>()?;
    let pings = Times::of(pings);
    println!("{}", Row::new("ping").times(&pings).per_second(pings.per_second()));
    Ok(client.end()?)
}

fn gets(project: &Path) -> Result<()> {
    let (mut client, _) = Client::start(project)?;
    let sizes = [(10, micros(100), 3_000), (1_000, micros(300), 1_000), (10_000, millis(4), 300)];
    for (size, bar, calls) in sizes {
        let key = format!("s{size}");
        fs::write(file(project, &key), section(size))?;
        let arguments = json!({ "section": key });
        let mut get = || -> Result<Duration> {
            let (elapsed, content) = client.call(GET, &arguments)?;
            expect_eq("requirements", &content["count"], &json!(size))?;
            Ok(elapsed)
        };
        (0..20).try_for_each(|_| get().map(|_| ()))?;
        let times = (0..300).map(|_| get()).collect::<Result<Vec<Duration>>>()?;
        // The clock of processor time is coarse, so it is read around more calls.
        let before = client.processor_time()?;
        for _ in 0..calls {
            client.call(GET, &arguments)?;
        }
        let processor = client.processor_time()?.saturating_sub(before) / calls;
        let times = Times::of(times);
        let row = Row::new(format!("get, {size} requirements")).times(&times);
        let row = Row { processor: Some(processor), ..row };
        println!("{}", row.per_second(times.per_second()).bar(bar));
    }
    let calls = vec![json!({ "section": "s10" }); 2_000];
    let before = client.processor_time()?;
    let (elapsed, contents) = client.pipelined(GET, &calls)?;
    let processor = client.processor_time()?.saturating_sub(before) / 2_000;
    let is_wrong = |content: &&Value| content["count"] != 10;
    if let Some(wrong) = contents.iter().find(is_wrong) {
        return Err(format!("a pipelined get answered {wrong}").into());
    }
    let row = Row::new("2,000 gets at once, 10 requirements");
    let row = Row { processor: Some(processor), ..row };
    println!("{}", row.per_second(per_second(calls.len(), elapsed)));
    Ok(client.end()?)
}

fn sets(project: &Path) -> Result<()> {
    let (key, size, middle) = ("large", 10_000, 5_000);
    fs::write(file(project, key), section(size))?;
    let (mut client, _) = Client::start(project)?;
    let (mut sets, mut writes) = (Vec::new(), Vec::new());
    let mut text = String::new();
    for round in 0..55 {
        text = format!("In round {round} {}", text_of(middle));
        let arguments = json!({ "section": key, "index": middle.to_string(), "text": text });
        let (set, _) = client.call(SET, &arguments)?;
        let bytes = fs::read(file(project, key))?;
        let write = durable::write(&project.join(REQUIREMENTS), "baseline", &bytes)?;
        // The first rounds warm up.
        if round >= 5 {
            sets.push(set);
            writes.push(write);
        }
    }
    client.end()?;
    let (sets, writes) = (Times::of(sets), Times::of(writes));
    println!(
        "{}",
        Row::new("set in 10,000 requirements").times(&sets).per_second(sets.per_second())
    );
    println!("{}", Row::new("  a bare durable write of the same bytes").times(&writes));
    let difference = Row {
        p50: Some(sets.p50().saturating_sub(writes.p50())),
        p99: Some(sets.p99().saturating_sub(writes.p99())),
        ..Row::new("  difference")
    };
    println!("{}", difference.bar(millis(10)));
    check_section(
        project,
        key,
        size,
        |number| {
            if number == middle { text.clone() } else { text_of(number) }
        },
    )
}

fn pipelined_sets(project: &Path) -> Result<()> {
    let (mut client, _) = Client::start(project)?;
    let calls: Vec<Value> = scattered(200).map(|number| set_of("mine", number)).collect();
    let (elapsed, _) = client.pipelined(SET, &calls)?;
    client.end()?;
    check_section(project, "mine", calls.len(), text_of)?;
    let row = Row::new("200 sets at once").per_second(per_second(calls.len(), elapsed));
    println!("{}", row.note("all on disk, no index twice"));
    Ok(())
}

fn concurrent_sets(project: &Path) -> Result<()> {
    let numbers: Vec<usize> = scattered(200).collect();
    let barrier = Barrier::new(4);
    let work = &|share: &[usize]| -> Result<(Vec<Duration>, Duration)> {
        let started = Client::start(project);
        barrier.wait();
        let (mut client, _) = started?;
        let clock = Instant::now();
        let set = |number: &usize| Ok(client.call(SET, &set_of("ours", *number))?.0);
        let times = share.iter().map(set).collect::<Result<Vec<Duration>>>()?;
        let elapsed = clock.elapsed();
        client.end()?;
        Ok((times, elapsed))
    };
    let outcomes = std::thread::scope(|scope| {
        let spawn = |share| scope.spawn(move || work(share));
        let threads: Vec<_> = numbers.chunks(50).map(spawn).collect();
        let join = |thread: std::thread::ScopedJoinHandle<'_, _>| {
            thread.join().unwrap_or_else(|_| Err("a client panicked".into()))
        };
        threads.into_iter().map(join).collect::<Result<Vec<_>>>()
    })?;
    check_section(project, "ours", numbers.len(), text_of)?;
    let slowest = outcomes.iter().map(|(_, elapsed)| *elapsed).max().unwrap_or_default();
    let times = Times::of(outcomes.into_iter().flat_map(|(times, _)| times).collect());
    let row = Row::new("4 processes with 50 sets each").times(&times);
    let row = row.per_second(per_second(numbers.len(), slowest));
    println!("{}", row.note("all on disk, no index twice"));
    Ok(())
}

/// 1 to `count` in an order that inserts in the middle most of the time.
fn scattered(count: usize) -> impl Iterator<Item = usize> {
    (0..count).map(move |number| number * 73 % count + 1)
}

fn set_of(section: &str, number: usize) -> Value {
    json!({ "section": section, "index": number.to_string(), "text": text_of(number) })
}

/// A section of so many requirements with about 100 bytes each.
fn section(size: usize) -> String {
    let mut source = "# Generated\n".to_owned();
    for number in 1..=size {
        let _ = write!(source, "\n**{number}.** {}\n", text_of(number));
    }
    source
}

fn text_of(number: usize) -> String {
    format!(
        "In case {number} the server must answer every request of a known user within half a \
         second."
    )
}

/// Every requirement must be there, once, with its text.
fn check_section(
    project: &Path,
    key: &str,
    count: usize,
    text_of: impl Fn(usize) -> String,
) -> Result<()> {
    let source = fs::read_to_string(file(project, key))?;
    let section = Section::of(&source);
    let mut seen = HashSet::new();
    for requirement in section.requirements() {
        let number: usize = requirement.index.parse()?;
        if !(1..=count).contains(&number) || !seen.insert(number) {
            return Err(format!("{key}: {number} stands twice or was never set").into());
        }
        expect_eq(key, &section.text(requirement), &text_of(number))?;
    }
    expect_eq(key, &seen.len(), &count)
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

const fn millis(number: u64) -> Duration {
    Duration::from_millis(number)
}

const fn micros(number: u64) -> Duration {
    Duration::from_micros(number)
}
