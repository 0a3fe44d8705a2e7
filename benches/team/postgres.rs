//! pgbench on a durable PostgreSQL of its own, and servers on the same one.

use std::path::Path;
use std::process::Command;

use reqlore_test_postgres::PostgresCluster;

use crate::harness::Result;
use crate::harness::report::Row;

const CLIENTS: &str = "64";
const SECONDS: &str = "10";

pub(crate) fn measure() -> Result<()> {
    println!("\nPostgreSQL with fsync and its default settings, {CLIENTS} in flight");
    let cluster = PostgresCluster::start();
    let pgbench = Pgbench { cluster: &cluster };
    pgbench.measure_simple_update()?;
    pgbench.measure_rows_of_commit()?;
    Ok(())
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
        let load = ["--protocol=prepared", "--client", CLIENTS, "--jobs=2", "--time", SECONDS];
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
