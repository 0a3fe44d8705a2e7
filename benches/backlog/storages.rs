//! The same backlog in each storage: moving it there, and reading it from there.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::client::program;
use crate::items::Size;
use crate::table::Row;
use crate::{Place, Result, memory, reads, start};

pub(crate) fn measure(place: &Place, size: Size) -> Result<()> {
    println!("\n{} items: {} requirements, ten to a story", size.items(), size.requirements);
    let (project, cache) = place.project("storages", size)?;
    for (from, to) in [("fs", "sqlite"), ("sqlite", "sled")] {
        let clock = Instant::now();
        let mut command = Command::new(program());
        command.args(["copy", "--from", from, "--to", to, "--root"]).arg(&project);
        let status = command.stdout(Stdio::null()).stderr(Stdio::null()).status()?;
        if !status.success() {
            return Err(format!("copy from {from} to {to} ended with {status}").into());
        }
        let row = Row::new(format!("copy from {from} to {to}"));
        println!("{}", Row { p50: Some(clock.elapsed()), ..row });
    }
    for storage in ["fs", "sqlite", "sled"] {
        println!("\nin {storage}");
        let mut client = start(&project, &cache.join(storage), storage)?;
        reads::stories(&mut client, size, Duration::from_micros(300))?;
        reads::hierarchies(&mut client, size)?;
        println!("{}", memory(&client)?);
        client.end()?;
    }
    Ok(())
}
