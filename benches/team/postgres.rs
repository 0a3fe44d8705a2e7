//! Commits of servers on a durable PostgreSQL against pgbench on the same one, and reads against
//! SQLite.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use reqlore_test_postgres::PostgresCluster;

use crate::harness::Result;
use crate::harness::report::{Row, Times, per_second, quietest, verdict};
use crate::items::Size;
use crate::load::call_all;
use crate::server::{Limits, Project, Server};

const CLIENTS: usize = 64;
const RUN_TIME: Duration = Duration::from_secs(10);
/// Number of servers and the minimum rate of their commits as a part of pgbench's.
const COMMIT_BARS: [(usize, f64); 2] = [(1, 0.5), (3, 0.4)];
/// Different creations that each server is sent.
const CREATIONS: usize = 5_000;
const COMMIT_SIZE: Size = Size { requirements: 10_000 };
const READ_SIZE: Size = Size { requirements: 91_000 };
/// Maximum median of a read as a multiple of the one on SQLite.
const READ_BAR: f64 = 2.5;
/// Bars of a new server: its first answer, which finds what is indexed so far, its complete index,
/// and its memory in MiB.
const FIRST_ANSWER_BAR: Duration = Duration::from_secs(1);
const READY_BAR: Duration = Duration::from_secs(60);
const MEMORY_BAR: f64 = 600.0;

pub(crate) fn measure(folder: &Path) -> Result<()> {
    println!("\nPostgreSQL with fsync and its default settings, {CLIENTS} in flight");
    let cluster = PostgresCluster::start();
    let pgbench = Pgbench { cluster: &cluster };
    let simple_rate = pgbench.measure_simple_update()?;
    let rows_rate = pgbench.measure_rows_of_commit()?;

    let project = create_project(&cluster, &folder.join("commits"), COMMIT_SIZE)?;
    for (count, bar) in COMMIT_BARS {
        cluster.execute("CHECKPOINT");
        let groups_before = group_count(&cluster)?;
        let rate = measure_commits(&project, &cluster, count)?;
        let groups = (group_count(&cluster)? - groups_before) / RUN_TIME.as_secs_f64();
        let (simple, rows) = (rate / simple_rate, rate / rows_rate);
        let note = format!(
            "{simple:.2} of pgbench; bar {bar}: {}; {rows:.2} of its run with the same rows; \
             {groups:.0} groups/s",
            verdict(simple >= bar)
        );
        println!("{}", Row::new(format!("commits, servers: {count}")).per_second(rate).note(note));
    }

    let project = create_project(&cluster, &folder.join("reads"), READ_SIZE)?;
    let items = project.size().items();
    println!("\nget_user_story_requirements over HTTP, one after another, {items} items");
    let sqlite = measure_reads(&project, "sqlite")?;
    println!("{}", Row::new("sqlite").times(&sqlite).rate(&sqlite));
    let postgres = measure_reads(&project, &cluster.command_url(DATABASE))?;
    let ratio = postgres.p50().as_secs_f64() / sqlite.p50().as_secs_f64();
    let note = format!("{ratio:.2} times; bar {READ_BAR}: {}", verdict(ratio <= READ_BAR));
    println!("{}", Row::new("postgres").times(&postgres).rate(&postgres).note(note));
    measure_new_server(&project, &cluster)
}

/// A server without a search index.
fn measure_new_server(project: &Project, cluster: &PostgresCluster) -> Result<()> {
    project.delete_cache()?;
    let clock = Instant::now();
    let server = project.start(&cluster.command_url(DATABASE), Limits::Off)?;
    let first_pending = server.pending_texts()?;
    let first_answer = clock.elapsed();
    while server.pending_texts()? > 0 {
        thread::sleep(Duration::from_millis(100));
    }
    let ready = clock.elapsed();
    let peak = server.mebibytes("VmHWM")?;
    let (is_first, is_ready) =
        (verdict(first_answer <= FIRST_ANSWER_BAR), verdict(ready <= READY_BAR));
    println!(
        "\nnew server: first answer after {first_answer:.2?}, {first_pending} pending: {is_first}"
    );
    println!("search ready after {ready:.1?}: {is_ready}");
    println!("memory {peak:.0} MiB: {}", verdict(peak <= MEMORY_BAR));
    Ok(())
}

const DATABASE: &str = "servers";

/// The same project in a new database and in SQLite.
fn create_project(cluster: &PostgresCluster, folder: &Path, size: Size) -> Result<Project> {
    fs::create_dir_all(folder)?;
    cluster.execute(&format!("DROP DATABASE IF EXISTS {DATABASE}"));
    cluster.execute(&format!("CREATE DATABASE {DATABASE}"));
    Project::create(folder, size, &["sqlite", &cluster.command_url(DATABASE)])
}

/// Returns the commits per second of several servers together.
fn measure_commits(project: &Project, cluster: &PostgresCluster, count: usize) -> Result<f64> {
    let url = cluster.command_url(DATABASE);
    let mut servers = Vec::new();
    for _ in 0..count {
        let server = project.start(&url, Limits::Off)?;
        let creations = server.creations(CREATIONS)?;
        servers.push((server, creations));
    }
    let clock = Instant::now();
    let connections = CLIENTS.div_ceil(count);
    let commits = thread::scope(|scope| {
        let mut runs = Vec::new();
        for (server, creations) in &servers {
            let is_over = |_| clock.elapsed() > RUN_TIME;
            let address = server.address;
            runs.push(
                scope.spawn(move || call_all(address, creations, connections, false, is_over)),
            );
        }
        let mut commits = 0;
        for run in runs {
            commits += run.join().unwrap_or_else(|_| Err("panic".into()))?.len();
        }
        Result::Ok(commits)
    })?;
    Ok(per_second(commits, clock.elapsed()))
}

/// The number of transactions of writers so far.
fn group_count(cluster: &PostgresCluster) -> Result<f64> {
    let turns = cluster.query_in(DATABASE, "SELECT turn FROM group_lock")?;
    Ok(turns.concat().parse()?)
}

fn measure_reads(project: &Project, storage: &str) -> Result<Times> {
    let server: Server = project.start(storage, Limits::Off)?;
    let calls = server.record_calls("get_user_story_requirements")?;
    let count = calls.len();
    quietest(|| call_all(server.address, &calls, 1, true, |asked| asked == count))
}

struct Pgbench<'a> {
    cluster: &'a PostgresCluster,
}

impl Pgbench<'_> {
    /// The built-in transaction of three statements.
    fn measure_simple_update(&self) -> Result<f64> {
        self.run(&["--initialize", "--quiet", "--scale", "10"])?;
        let rate = self.rate(&["--skip-some-updates"])?;
        println!("{}", Row::new("pgbench -N -M prepared -c 64 -j 2 -s 10").per_second(rate));
        Ok(rate)
    }

    /// A transaction that writes as many rows as one of our commits.
    fn measure_rows_of_commit(&self) -> Result<f64> {
        self.cluster.execute(include_str!("../postgres/tables.sql"));
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../benches/postgres/commit.sql");
        let rate = self.rate(&["--no-vacuum", &format!("--file={}", script.display())])?;
        println!("{}", Row::new("pgbench with the rows of a commit").per_second(rate));
        Ok(rate)
    }

    fn rate(&self, arguments: &[&str]) -> Result<f64> {
        // A checkpoint that an earlier part has caused would slow this one down.
        self.cluster.execute("CHECKPOINT");
        let clients = format!("--client={CLIENTS}");
        let time = format!("--time={}", RUN_TIME.as_secs());
        let load = ["--protocol=prepared", "--jobs=2", &clients, &time];
        let output = self.run(&[arguments, &load].concat())?;
        let rate = output.split("tps = ").nth(1).and_then(|rest| rest.split(' ').next());
        rate.and_then(|rate| rate.parse().ok()).ok_or_else(|| output.into())
    }

    fn run(&self, arguments: &[&str]) -> Result<String> {
        let output = Command::new("pgbench")
            .args(["--host=127.0.0.1", "--username", self.cluster.user()])
            .arg(format!("--port={}", self.cluster.port()))
            .args(arguments)
            .arg("postgres")
            .env("PGPASSWORD", self.cluster.password())
            .output()?;
        if output.status.success() {
            return Ok(String::from_utf8(output.stdout)?);
        }
        Err(format!("pgbench: {}", String::from_utf8_lossy(&output.stderr)).into())
    }
}
