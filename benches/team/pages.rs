//! Processor time of the server for each view of a page.

use std::time::{Duration, Instant};

use reqlore_domain::backlog::ItemKind;

use crate::connection::Connection;
use crate::harness::Result;
use crate::harness::report::{Row, Times};
use crate::items::reference;
use crate::server::{Limits, Project};

const REQUESTS: usize = 1_000;
/// Unmeasured views of a page before the measurement.
const WARM_UP: usize = 50;

/// A page with the text that it must contain, and its bar in milliseconds of processor time.
const PAGES: [(&str, &str, &str, f64); 4] = [
    ("table by time", "table?kind=requirement&sort=-updated", "REQ-", 5.0),
    ("tree", "tree", "EP-", 4.0),
    ("board", "board?kind=requirement", "REQ-", 4.0),
    ("item", "item/", "REQ-", 0.5),
];

pub(crate) fn measure(project: &Project, storage: &str) -> Result<()> {
    println!("\npages of a session, {storage}");
    let server = project.start(storage, Limits::Off)?;
    let address = server.address;
    let mut connection = Connection::open(address)?;
    let form = format!("token={}&next=/", server.token);
    let sign_in = format!(
        "POST /signin HTTP/1.1\r\nHost: {address}\r\nOrigin: http://{address}\r\n\
         Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {}\r\n\r\n{form}",
        form.len()
    );
    let answer = connection.ask(sign_in.as_bytes())?;
    let cookie = answer.header("set-cookie").and_then(|cookie| cookie.split(';').next());
    let cookie = cookie.ok_or_else(|| format!("signed in with status {}", answer.status))?;
    let cookie = cookie.to_owned();
    for (label, page, content, bar) in PAGES {
        let mut view = |number: usize| -> Result<Duration> {
            let number = number * 31 % project.size().requirements + 1;
            let item = reference(ItemKind::Requirement, number)?.to_string();
            let item = if page.ends_with('/') { &*item } else { "" };
            let request = format!(
                "GET /p/default/{page}{item} HTTP/1.1\r\nHost: {address}\r\n\
                 Cookie: {cookie}\r\n\r\n"
            );
            let clock = Instant::now();
            let answer = connection.ask(request.as_bytes())?;
            let elapsed = clock.elapsed();
            let body = String::from_utf8_lossy(answer.body);
            if answer.status != 200 || !body.contains(content) {
                return Err(format!("{page}: answered with {} {body}", answer.status).into());
            }
            Ok(elapsed)
        };
        for number in 0..WARM_UP {
            view(number)?;
        }
        let before = server.processor_time()?;
        let times = (0..REQUESTS).map(&mut view).collect::<Result<Vec<_>>>()?;
        let processor = server.processor_time()?.saturating_sub(before);
        let processor = processor / u32::try_from(REQUESTS)?;
        let row = Row::new(label).times(&Times::from_unsorted(times)).processor(processor);
        println!("{}", row.at_most(bar, processor.as_secs_f64() * 1_000.0, "ms CPU"));
    }
    Ok(())
}
