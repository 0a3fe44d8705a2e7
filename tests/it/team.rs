//! A team over HTTP: tokens that end, two servers over one database, killed and ending servers.

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::http::{Client, POST, Place, STORAGES, Server, id, soon};

fn epic(title: &str) -> Value {
    json!({ "title": title, "priority": 1 })
}

fn status(client: &mut Client) -> u16 {
    client.call("list_epics", json!({})).status
}

// S5: 1.4, 4.2, 4.6; catalogue 82
#[test]
fn team_revoked_token_fails_at_the_next_request() {
    // A sled store belongs to its server.
    for storage in ["fs", "sqlite"] {
        let place = Place::new(storage);
        let tokens = ["ann", "bob", "cay"].map(|name| {
            place.user(name, "user");
            place.token(name, "")
        });
        let server = place.serve();
        let [mut anns, mut bobs, mut cays] = tokens.each_ref().map(|token| server.client(token));
        for client in [&mut anns, &mut bobs, &mut cays] {
            assert_eq!((status(client), status(client)), (200, 200));
        }
        place.run(&format!("token revoke {}", id(&tokens[0])));
        let refused = anns.call("list_epics", json!({}));
        assert_eq!((refused.status, refused.code()), (401, Some(-32010)), "{storage}");
        assert!(refused.head.contains("www-authenticate: Bearer"), "{refused:?}");
        place.run("user set-role bob --role commenter");
        assert_eq!(bobs.call("create_epic", epic("no")).status, 403, "{storage}");
        assert_eq!(status(&mut bobs), 200);
        place.run("user disable cay");
        assert_eq!(status(&mut cays), 401, "{storage}");
        let later = server.client(&place.token("bob", "")).call("list_epics", json!({}));
        assert_eq!(later.status, 200, "a token that was made meanwhile counts");
        let said = server.end();
        assert!(said.contains("login rejected"), "{said}");
    }
}

// S5: 4.6; catalogue 82
#[test]
fn team_token_expires_and_rotated_token_after_overlap() {
    for storage in STORAGES {
        let place = Place::new(storage);
        place.user("ann", "user");
        let [old, retired] = [(); 2].map(|()| place.token("ann", ""));
        let new = place.run(&format!("token rotate {} --overlap 1h", id(&old)));
        place.run(&format!("token rotate {}", id(&retired)));
        let short = place.token("ann", "--expires 2s");
        let server = place.serve();
        let mut client = server.client(&short);
        assert_eq!(status(&mut client), 200, "{storage}");
        assert_eq!(status(&mut server.client(&old)), 200, "{storage}");
        assert_eq!(status(&mut server.client(new.trim_end())), 200, "{storage}");
        assert_eq!(status(&mut server.client(&retired)), 401, "{storage}");
        soon("the token ends", || status(&mut client) == 401);
        let told = client.call("list_epics", json!({}));
        assert!(told.body.contains("expired"), "{told:?}");
        let said = server.end();
        assert!(said.contains("rotated token used"), "{said}");
    }
}

// Issue 6, 7: several servers, one store
#[test]
fn team_two_servers_on_one_database_answer_alike() {
    let place = Place::new("sqlite");
    let token = place.administrator();
    let revoked = place.token("ada", "");
    let servers = [place.serve(), place.serve()];
    let mut clients = [&servers[0], &servers[1]].map(|server| server.client(&token));
    let mut others = [&servers[0], &servers[1]].map(|server| server.client(&revoked));
    for number in 0..40 {
        let (one, other) = (number % 2, 1 - number % 2);
        let title = format!("zebra{number}");
        let made = clients[one].data("create_epic", epic(&title));
        let reference = made["reference_id"].as_str().unwrap();
        let read = &clients[other].data("get_item", json!({ "reference": reference }))["item"];
        assert_eq!((&read["title"], &read["version"]), (&made["title"], &made["version"]));
        let found = clients[other].data("search_global", json!({ "query": title }));
        let is_found = |found: &Value| found.to_string().contains(&format!("\"{title}\""));
        assert!(is_found(&found), "{title}: {found}");
        let changed = clients[other].data(
            "update_epic",
            json!({ "epic": reference, "title": "done", "if_version": made["version"] }),
        );
        let stale = json!({ "epic": reference, "title": "x", "if_version": made["version"] });
        assert_eq!(clients[one].call("update_epic", stale).code(), Some(-32012));
        let again = clients[one].data("get_item", json!({ "reference": reference }));
        assert_eq!(again["item"]["version"], changed["version"]);
        let gone = clients[one].data("search_global", json!({ "query": title }));
        assert!(!is_found(&gone), "{title}: {gone}");
    }
    for other in &mut others {
        assert_eq!(status(other), 200);
    }
    place.run(&format!("token revoke {}", id(&revoked)));
    for other in &mut others {
        assert_eq!(status(other), 401);
    }
    for server in servers {
        server.end();
    }
    assert_eq!(place.json("audit verify --json")["whole"], true);
    let rows = place.rows();
    let of = |action: &str| rows.iter().filter(|row| row["action"] == action).count();
    assert_eq!((of("create_epic"), of("update_epic")), (40, 80));
}

// Reliability P1
#[test]
fn team_server_killed_between_calls_loses_nothing() {
    for storage in STORAGES {
        let place = Place::new(storage);
        let token = place.administrator();
        let server = place.serve();
        let port = server.address.port();
        let mut client = server.client(&token);
        let first = client.data("create_epic", epic("before"));
        server.kill();
        let mut command = place.command();
        command.env("REQLORE_LISTEN", format!("127.0.0.1:{port}"));
        let server = Server::start_at(command);
        let second = client.data("create_epic", epic("after"));
        assert_eq!(
            (&first["reference_id"], &second["reference_id"]),
            (&json!("EP-001"), &json!("EP-002"))
        );
        let listed = client.data("list_epics", json!({}));
        assert_eq!(listed["total"], 2, "{storage}: {listed}");
        server.end();
        assert_eq!(place.json("audit verify --json")["whole"], true);
    }
}

// Catalogue 112
#[test]
fn team_shutdown_answers_accepted_requests() {
    for storage in STORAGES {
        let place = Place::new(storage);
        let token = place.administrator();
        let server = place.serve();
        let mut probe = server.client(&token);
        assert_eq!(probe.get("/readyz").status, 200);
        let mut clients: Vec<Client> = (0..8).map(|_| server.client(&token)).collect();
        // Each is connected, so that no request waits to be accepted.
        for client in &mut clients {
            assert_eq!(status(client), 200);
        }
        for (number, client) in clients.iter_mut().enumerate() {
            let params = json!({ "name": "create_epic", "arguments": epic(&format!("e{number}")) });
            let call =
                json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params });
            client.send(POST, &call.to_string()).unwrap();
        }
        server.signal(Signal::TERM);
        let answers: Vec<_> = clients.iter_mut().map(Client::receive).collect();
        let made = answers.iter().flatten().filter(|answer| answer.status == 200).count();
        for answer in answers.iter().flatten().filter(|answer| answer.status != 200) {
            assert_eq!((answer.status, answer.code()), (503, Some(-32015)), "{answer:?}");
        }
        let (ended, said) = server.wait();
        assert!(ended.success(), "{storage}: {ended}: {said}");
        let server = place.serve();
        let listed = server.client(&token).data("list_epics", json!({}));
        assert_eq!(listed["total"], made, "{storage}: {answers:?}");
        server.end();
        let rows = place.rows();
        let wrote = |row: &&Value| row["action"] == "create_epic" && row["result"] == "ok";
        assert_eq!(rows.iter().filter(wrote).count(), made, "{storage}");
    }
}
