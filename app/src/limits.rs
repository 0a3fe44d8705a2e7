//! The limits of a server over HTTP as settings (reliability 6): one line each, in one table.
//!
//! Trap: the defaults stand here and in the transport, which serves others too; a test holds them
//! together.

use std::time::Duration;

use reqlore_transport_http::{Limits, Rate};

use crate::setting::Setting;

/// What all of them begin with.
pub(crate) const PREFIX: &str = "http.limits.";

pub(crate) const LIMITS: [Setting; 21] = [
    limit("http.limits.connections", "256", "Connections in all; one more is closed."),
    limit(
        "http.limits.connections_per_address",
        "64",
        "Connections from one address; not counted for trusted proxies.",
    ),
    limit("http.limits.header_seconds", "10", "How long the headers of a request may take."),
    limit("http.limits.header_bytes", "16384", "A request line with its headers."),
    limit("http.limits.header_fields", "64", "How many headers a request may have."),
    limit("http.limits.idle_seconds", "60", "How long a connection may wait between requests."),
    limit("http.limits.body_bytes", "4194304", "The body of a request."),
    limit("http.limits.body_seconds", "15", "How long the body of a request may take."),
    limit("http.limits.bodies_bytes", "67108864", "All bodies that are held at once."),
    limit("http.limits.unread_seconds", "20", "How long a client may take none of its answer."),
    limit("http.limits.request_seconds", "30", "How long a request may wait and run."),
    limit("http.limits.in_flight", "64", "Requests that run at once."),
    limit("http.limits.in_flight_per_token", "8", "Of them with one token."),
    limit("http.limits.queue", "64", "Requests that wait to run; one more is refused."),
    limit("http.limits.listens_per_token", "8", "Standing subscriptions with one token."),
    limit("http.limits.requests_per_second", "100", "Requests with one token; 0 is off."),
    limit("http.limits.requests_burst", "200", "How many of them may come at once."),
    limit(
        "http.limits.failed_logins_per_minute",
        "5",
        "Failed logins from one address, also at once; 0 is off.",
    ),
    limit(
        "http.limits.look_ups_per_second",
        "100",
        "Look-ups of tokens that were not seen before, from everywhere; 0 is off.",
    ),
    limit("http.limits.look_ups_burst", "200", "How many of them may come at once."),
    limit(
        "http.limits.drain_seconds",
        "9",
        "How long accepted requests may take when the server is told to end.",
    ),
];

const fn limit(key: &'static str, default: &'static str, meaning: &'static str) -> Setting {
    Setting { key, flag: None, variable: None, default, meaning }
}

/// Reads all of them; `number` gives what one is set to, by its name without [`PREFIX`], between
/// its bounds.
pub(crate) fn read<E>(
    mut number: impl FnMut(&'static str, u32, u32) -> Result<u32, E>,
) -> Result<Limits, E> {
    const MANY: u32 = 1_000_000;
    const DAY: u32 = 24 * 60 * 60;
    const GIB: u32 = 1 << 30;
    let mut count = |name, most| number(name, 1, most).map(|count| count as usize);
    let (connections, connections_per_address) =
        (count("connections", MANY)?, count("connections_per_address", MANY)?);
    let (in_flight, in_flight_per_token) =
        (count("in_flight", MANY)?, count("in_flight_per_token", MANY)?);
    let (queue, listens_per_token) = (count("queue", MANY)?, count("listens_per_token", MANY)?);
    // hyper takes no smaller buffer.
    let header_bytes = number("header_bytes", 8 * 1024, GIB)? as usize;
    let mut count = |name, most| number(name, 1, most).map(|count| count as usize);
    let (header_fields, body) = (count("header_fields", 1_000)?, count("body_bytes", GIB)?);
    let bodies = count("bodies_bytes", GIB)?.max(body);
    let mut time =
        |name| number(name, 1, DAY).map(|seconds| Duration::from_secs(u64::from(seconds)));
    Ok(Limits {
        connections,
        connections_per_address,
        header_time: time("header_seconds")?,
        header_bytes,
        header_fields,
        idle: time("idle_seconds")?,
        body,
        body_time: time("body_seconds")?,
        bodies,
        unread: time("unread_seconds")?,
        request_time: time("request_seconds")?,
        drain: time("drain_seconds")?,
        in_flight,
        in_flight_per_token,
        queue,
        listens_per_token,
        requests: rate(
            number("requests_per_second", 0, MANY)?,
            1,
            number("requests_burst", 1, MANY)?,
        ),
        failed_logins: {
            let count = number("failed_logins_per_minute", 0, MANY)?;
            rate(count, 60, count)
        },
        look_ups: rate(
            number("look_ups_per_second", 0, MANY)?,
            1,
            number("look_ups_burst", 1, MANY)?,
        ),
    })
}

/// All of them for the operator, at the start: by their names, as they are set.
pub(crate) fn told(value: impl Fn(&str) -> String) -> Vec<String> {
    let name = |key: &'static str| key.strip_prefix(PREFIX).unwrap_or(key);
    LIMITS.iter().map(|limit| format!("{}={}", name(limit.key), value(limit.key))).collect()
}

/// So many in so many seconds; none means that nothing is limited.
fn rate(count: u32, seconds: u64, burst: u32) -> Option<Rate> {
    let every = Duration::from_secs(seconds).checked_div(count)?;
    Some(Rate { every, burst })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_says_what_the_transport_does_unasked() {
        let mut named = 0;
        let read = read(|name, least, most| {
            named += 1;
            let setting = LIMITS.iter().find(|limit| limit.key == format!("{PREFIX}{name}"));
            let number = setting.unwrap().default.parse().unwrap();
            assert!((least..=most).contains(&number), "{name}");
            Ok::<u32, ()>(number)
        });
        assert_eq!(format!("{:?}", read.unwrap()), format!("{:?}", Limits::default()));
        assert_eq!(named, LIMITS.len());
    }

    #[test]
    fn a_rate_of_nothing_limits_nothing() {
        assert_eq!(rate(0, 1, 5), None);
        let every = Duration::from_secs(12);
        assert_eq!(rate(5, 60, 5), Some(Rate { every, burst: 5 }));
    }
}
