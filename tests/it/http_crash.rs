//! kill -9 of a server over HTTP under concurrent writers, on each storage: nothing that was
//! acknowledged is lost, nothing is there twice, and the audit tells of each change exactly once.
//!
//! Each write carries a name of its own (X-Request-Id), by which its row is found again; so the
//! audit is held against what the writers know and against the documents, row by row. Two seconds
//! each, or `REQLORE_CRASH_SECONDS`; the seed is printed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use reqlore_domain::audit::UNCONFIRMED;
use serde_json::{Value, json};

use crate::crash::{Random, variable};
use crate::http::{Client, POST, Place, Server};

const WRITERS: usize = 4;

/// What the writers know: by the name of each write the title that it gave, and which of them were
/// acknowledged, with the reference.
#[derive(Default)]
struct Book {
    sent: BTreeMap<String, String>,
    acknowledged: BTreeMap<String, String>,
}

// Catalogue 113; reliability P1, P2, P12
#[test]
fn every_write_over_http_survives_kill_9_with_its_row_on_files() {
    survive("fs");
}

#[test]
fn every_write_over_http_survives_kill_9_with_its_row_on_sqlite() {
    survive("sqlite");
}

#[test]
fn every_write_over_http_survives_kill_9_with_its_row_on_sled() {
    survive("sled");
}

fn survive(storage: &'static str) {
    let seconds = variable("REQLORE_CRASH_SECONDS").unwrap_or(2);
    let mut random = Random(variable("REQLORE_CRASH_SEED").unwrap_or(0xAD17) | 1);
    println!("seed {}", random.0);
    let place = Place::new(storage);
    let token = place.administrator();
    let mut book = Book::default();
    let until = Instant::now() + Duration::from_secs(seconds);
    let mut rounds = 0;
    while rounds < 3 || Instant::now() < until {
        rounds += 1;
        let server = place.serve();
        write_and_die(server, &token, rounds, 1 + random.next() % 60, &mut book);
        check(&place, &token, &mut book);
    }
    let (sent, acknowledged) = (book.sent.len(), book.acknowledged.len());
    println!("{storage}: {rounds} rounds, {acknowledged} of {sent} writes acknowledged, none lost");
    assert!(acknowledged > rounds, "the writers hardly wrote");
}

/// What a writer tells whoever keeps the book.
enum Told {
    Sent { name: String, title: String },
    Acknowledged { name: String, reference: String },
}

/// Writes with several clients until so many were answered, and kills the server then.
fn write_and_die(server: Server, token: &str, round: usize, lifetime: u64, book: &mut Book) {
    let (tell, told) = mpsc::channel();
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            let (client, tell) = (server.client(token), tell.clone());
            scope.spawn(move || write(client, &format!("{round}-{writer}"), &tell));
        }
        drop(tell);
        let (mut server, mut answered) = (Some(server), 0);
        for told in told {
            match told {
                Told::Sent { name, title } => drop(book.sent.insert(name, title)),
                Told::Acknowledged { name, reference } => {
                    book.acknowledged.insert(name, reference);
                    answered += 1;
                }
            }
            if answered == lifetime {
                server.take().into_iter().for_each(Server::kill);
            }
        }
    });
}

/// Makes epics until the server is gone.
fn write(mut client: Client, writer: &str, tell: &mpsc::Sender<Told>) {
    for number in 0.. {
        let name = format!("{writer}-{number}");
        let title = format!("epic {name}");
        let arguments = json!({ "title": title, "priority": 1 });
        let call = json!({
            "jsonrpc": "2.0", "id": 1, "method": "tools/call",
            "params": { "name": "create_epic", "arguments": arguments },
        });
        tell.send(Told::Sent { name: name.clone(), title }).unwrap();
        let named = [("X-Request-Id", name.clone())];
        let sent = client.send_with(POST, &named, &call.to_string());
        let Ok(answer) = sent.and_then(|()| client.receive()) else { return };
        let json = answer.json();
        let reference = json["result"]["structuredContent"]["reference_id"].as_str();
        let reference = reference.unwrap_or_else(|| panic!("{answer:?}")).to_owned();
        tell.send(Told::Acknowledged { name, reference }).unwrap();
    }
}

/// A new server and the audit are held against the book. What may have been written and was not is
/// never going to be.
fn check(place: &Place, token: &str, book: &mut Book) {
    let server = place.serve();
    let stored = stored(&mut server.client(token));
    server.end();
    for (name, reference) in &book.acknowledged {
        let title = stored.get(reference);
        assert_eq!(title, book.sent.get(name), "{name} was acknowledged as {reference}");
    }
    let titles: BTreeSet<&String> = stored.values().collect();
    assert_eq!(titles.len(), stored.len(), "something is there twice: {stored:?}");
    let there: BTreeSet<&str> =
        book.sent.iter().filter(|(_, title)| titles.contains(title)).map(|(n, _)| &**n).collect();
    assert_eq!(there.len(), titles.len(), "nobody wrote some of {titles:?}");
    let verified = place.json("audit verify --json");
    assert_eq!(verified["whole"], true, "{verified}");
    let rows = place.rows();
    let withdrawn: BTreeSet<u64> = rows
        .iter()
        .filter(|row| row["action"] == UNCONFIRMED)
        .map(|row| row["reason"].as_str().unwrap().parse().unwrap())
        .collect();
    let changes = rows.iter().filter(|row| {
        let is_change = row["action"] == "create_epic" && row["result"] == "ok";
        is_change && !withdrawn.contains(&row["number"].as_u64().unwrap())
    });
    let mut told: Vec<&str> = changes.map(|row| row["correlation_id"].as_str().unwrap()).collect();
    told.sort_unstable();
    let there: Vec<&str> = there.into_iter().collect();
    assert_eq!(told, there, "the audit tells of other changes than there are");
}

/// The titles of all epics, by reference.
fn stored(client: &mut Client) -> BTreeMap<String, String> {
    let mut stored = BTreeMap::new();
    let mut cursor = Value::Null;
    loop {
        let mut arguments = json!({ "limit": 100 });
        if !cursor.is_null() {
            arguments["cursor"] = cursor;
        }
        let mut page = client.data("list_epics", arguments);
        for epic in page["epics"].as_array().unwrap() {
            let word = |key: &str| epic[key].as_str().unwrap().to_owned();
            let twice = stored.insert(word("reference_id"), word("title"));
            assert_eq!(twice, None, "a reference was given twice");
        }
        cursor = page["next_cursor"].take();
        if cursor.is_null() {
            return stored;
        }
    }
}
