//! Processor time and memory of a process, as Linux reports them.

use std::io;
use std::time::Duration;

/// Unit of processor time in `/proc` on Linux.
const TICK: Duration = Duration::from_millis(10);

/// Processor time of all threads, including ended ones.
pub(crate) fn processor_time(process: u32) -> io::Result<Duration> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat"))?;
    // The name in parentheses may contain blanks. utime and stime are fields 14 and 15.
    let after_name = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    let fields = after_name.split_whitespace().skip(11).take(2);
    Ok(TICK * fields.filter_map(|field| field.parse::<u32>().ok()).sum::<u32>())
}

/// Memory in MiB: `VmRSS` is the resident memory, `VmHWM` its peak.
pub(crate) fn mebibytes(process: u32, which: &str) -> io::Result<f64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status"))?;
    let mut lines = status.lines().filter_map(|line| line.split_once(':'));
    let number = lines.find(|(name, _)| *name == which).and_then(|(_, rest)| {
        let kibibytes: u32 = rest.split_whitespace().next()?.parse().ok()?;
        Some(f64::from(kibibytes) / 1024.0)
    });
    number.ok_or_else(|| io::Error::other(format!("no {which} in the status of a process")))
}
