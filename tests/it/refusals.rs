//! Refused calls in the audit log: durable before their answer, and harmless in a flood.

use serde_json::{Value, json};

use crate::http::{Answer, Client, STORAGES, Server, TestTeam};

/// A call that the server refuses, and the result in its audit row.
type Refusal = (&'static str, fn(&mut Client) -> Answer);

const REFUSALS: [Refusal; 7] = [
    ("forbidden", |client| client.call("create_epic", json!({ "title": "no", "priority": 1 }))),
    ("invalid_argument", |client| client.call("get_item", json!({}))),
    ("not_found", |client| client.call("get_item", json!({ "reference": "EP-404" }))),
    ("unknown_tool", |client| client.call("drop_everything", json!({}))),
    ("not_found", |client| client.request("resources/read", json!({ "uri": "epic://EP-404" }))),
    ("invalid_argument", |client| client.request("tools/frobnicate", json!({}))),
    ("not_found", |client| {
        client.headers.push(("Reqlore-Project".to_owned(), "secret".to_owned()));
        let answer = client.call("list_epics", json!({}));
        client.headers.pop();
        answer
    }),
];

fn results(team: &TestTeam) -> Vec<String> {
    let rows = team.rows();
    let results = rows.iter().map(|row| row["result"].as_str().unwrap().to_owned());
    results.filter(|result| result != "ok").collect()
}

#[test]
fn refused_call_killed_after_its_answer_has_a_row() {
    for storage in STORAGES {
        let team = TestTeam::new(storage);
        team.user("eve", "commenter");
        let token = team.token("eve", "");
        let mut expected = Vec::new();
        // One server for each, because the row of a later call would take the earlier ones along.
        for (result, refused) in REFUSALS {
            let server = team.serve();
            let answer = refused(&mut server.client(&token));
            server.kill();
            assert!(answer.code().is_some(), "{storage} {result}: {answer:?}");
            expected.push(result.to_owned());
            assert_eq!(results(&team), expected, "{storage}");
        }
        team.run("audit verify");
    }
}

/// Peak memory in KiB.
fn peak_memory(server: &Server) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.id())).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[test]
fn flood_of_refused_calls_delays_no_good_call() {
    const FLOODERS: usize = 4;
    const CONNECTIONS: usize = 10;
    const CALLS: usize = 125;
    const GOOD_CALLS: usize = 40;
    const MAX_GROWTH_KIB: u64 = 64 * 1024;
    for storage in STORAGES {
        let team = TestTeam::new(storage);
        let good = team.administrator();
        let mut tokens = Vec::new();
        for number in 0..FLOODERS {
            team.user(&format!("eve{number}"), "commenter");
            tokens.push(team.token(&format!("eve{number}"), ""));
        }
        let server = team.serve();
        server.client(&good).data("list_epics", json!({}));
        let before = peak_memory(&server);
        std::thread::scope(|scope| {
            for token in tokens.iter().flat_map(|token| [token; CONNECTIONS]) {
                let server = &server;
                scope.spawn(move || {
                    let mut client = server.client(token);
                    for _ in 0..CALLS {
                        let refused = REFUSALS[0].1(&mut client);
                        assert_eq!(refused.status, 403, "{refused:?}");
                    }
                });
            }
            let mut client = server.client(&good);
            for number in 0..GOOD_CALLS {
                let title = format!("epic {number}");
                let created: Value =
                    client.data("create_epic", json!({ "title": title, "priority": 1 }));
                assert_eq!(created["title"], title);
                client.data("list_epics", json!({}));
            }
        });
        let growth = peak_memory(&server) - before;
        server.kill();
        assert!(growth < MAX_GROWTH_KIB, "{storage}: {growth} KiB");
        let forbidden = results(&team).iter().filter(|result| *result == "forbidden").count();
        assert_eq!(forbidden, FLOODERS * CONNECTIONS * CALLS, "{storage}");
    }
}
