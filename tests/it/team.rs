//! A team over HTTP: token expiry, two servers on one database, killed servers and shutdown.

use std::net::TcpStream;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::http::{Client, POST, STORAGES, Server, TestTeam, token_id, wait_until};

fn epic_arguments(title: &str) -> Value {
    json!({ "title": title, "priority": 1 })
}

fn list_status(client: &mut Client) -> u16 {
    client.call("list_epics", json!({})).status
}

// S5: 1.4, 4.2, 4.6; catalogue 82
#[test]
fn team_revoked_token_fails_at_the_next_request() {
    // A sled store cannot be changed while its server runs.
    for storage in ["fs", "sqlite", "postgres"] {
        let team = TestTeam::new(storage);
        let tokens = ["ann", "bob", "cay"].map(|name| {
            team.user(name, "user");
            team.token(name, "")
        });
        let server = team.serve();
        let [mut ann, mut bob, mut cay] = tokens.each_ref().map(|token| server.client(token));
        for client in [&mut ann, &mut bob, &mut cay] {
            assert_eq!((list_status(client), list_status(client)), (200, 200));
        }
        team.run(&format!("token revoke {}", token_id(&tokens[0])));
        let refused = ann.call("list_epics", json!({}));
        assert_eq!((refused.status, refused.code()), (401, Some(-32010)), "{storage}");
        assert!(refused.head.contains("www-authenticate: Bearer"), "{refused:?}");
        team.run("user set-role bob --role commenter");
        assert_eq!(bob.call("create_epic", epic_arguments("no")).status, 403, "{storage}");
        assert_eq!(list_status(&mut bob), 200);
        team.run("user disable cay");
        assert_eq!(list_status(&mut cay), 401, "{storage}");
        let later = server.client(&team.token("bob", "")).call("list_epics", json!({}));
        assert_eq!(later.status, 200, "a new token is valid at once");
        let log = server.end();
        assert!(log.contains("login rejected"), "{log}");
    }
}

#[test]
fn team_metrics_token_reads_metrics_and_nothing_else() {
    for storage in STORAGES {
        let team = TestTeam::new(storage);
        team.user("prometheus", "commenter");
        let token = team.token("prometheus", "--scope metrics");
        let reader = team.token("prometheus", "--scope read");
        let server = team.serve();
        let mut client = server.client(&token);
        let metrics = client.get("/metrics");
        assert_eq!(metrics.status, 200, "{storage}: {metrics:?}");
        assert!(metrics.body.contains("reqlore_http_requests_total"), "{metrics:?}");
        for method in ["tools/list", "initialize", "ping", "resources/list", "server/discover"] {
            let call = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": {} });
            client.send(POST, &call.to_string()).unwrap();
            let refused = client.receive().unwrap();
            assert_eq!((refused.status, refused.code()), (403, Some(-32011)), "{method}");
            assert!(refused.body.contains("scope metrics"), "{refused:?}");
        }
        assert_eq!(list_status(&mut client), 403);
        let mut client = server.client(&reader);
        assert_eq!((client.get("/metrics").status, list_status(&mut client)), (403, 200));
        server.end();
        let tokens = team.json("token list --json");
        assert_eq!(tokens["tokens"][0]["scope"], "metrics");
    }
}

#[test]
fn team_assignee_must_be_a_user_of_the_server() {
    for storage in STORAGES {
        let team = TestTeam::new(storage);
        team.user("Bob", "commenter");
        let token = team.administrator();
        let server = team.serve();
        let mut client = server.client(&token);
        let with = |assignee: &str| {
            let mut arguments = epic_arguments("Checkout");
            arguments["assignee"] = json!(assignee);
            arguments
        };
        let refused = client.call("create_epic", with("eve"));
        assert_eq!(refused.code(), Some(-32602), "{storage}: {refused:?}");
        assert!(refused.body.contains("is not a user of this server"), "{refused:?}");
        assert!(refused.body.contains("Bob"), "{refused:?}");
        let created = client.data("create_epic", with("bob"));
        assert_eq!(created["assignee_username"], "Bob", "spelled like the user's name");
        let update = json!({ "epic": "EP-001", "assignee": "eve" });
        assert_eq!(client.call("update_epic", update).code(), Some(-32602), "{storage}");
        let update = json!({ "epic": "EP-001", "assignee": "" });
        assert!(client.data("update_epic", update)["assignee_username"].is_null());
        assert_eq!(client.data("list_epics", json!({}))["total"], 1, "nothing else was created");
        server.end();
    }
}

// S5: 4.6; catalogue 82
#[test]
fn team_token_expires_and_rotated_token_after_overlap() {
    for storage in STORAGES {
        let team = TestTeam::new(storage);
        team.user("ann", "user");
        let [overlapping, retired] = [(); 2].map(|()| team.token("ann", ""));
        let successor = team.run(&format!("token rotate {} --overlap 1h", token_id(&overlapping)));
        team.run(&format!("token rotate {}", token_id(&retired)));
        let short_lived = team.token("ann", "--expires 2s");
        let server = team.serve();
        let mut client = server.client(&short_lived);
        assert_eq!(list_status(&mut client), 200, "{storage}");
        assert_eq!(list_status(&mut server.client(&overlapping)), 200, "{storage}");
        assert_eq!(list_status(&mut server.client(successor.trim_end())), 200, "{storage}");
        assert_eq!(list_status(&mut server.client(&retired)), 401, "{storage}");
        wait_until("the token ends", || list_status(&mut client) == 401);
        let expired = client.call("list_epics", json!({}));
        assert!(expired.body.contains("expired"), "{expired:?}");
        let log = server.end();
        assert!(log.contains("rotated token used"), "{log}");
    }
}

#[test]
fn team_two_servers_on_one_database_answer_alike() {
    let team = TestTeam::new("sqlite");
    let token = team.administrator();
    let revoked = team.token("ada", "");
    let servers = [team.serve(), team.serve()];
    let mut clients = [&servers[0], &servers[1]].map(|server| server.client(&token));
    let mut others = [&servers[0], &servers[1]].map(|server| server.client(&revoked));
    for number in 0..40 {
        let (one, other) = (number % 2, 1 - number % 2);
        let title = format!("zebra{number}");
        let created = clients[one].data("create_epic", epic_arguments(&title));
        let reference = created["reference_id"].as_str().unwrap();
        let read = &clients[other].data("get_item", json!({ "reference": reference }))["item"];
        assert_eq!((&read["title"], &read["version"]), (&created["title"], &created["version"]));
        let found = clients[other].data("search_global", json!({ "query": title }));
        let has_title = |found: &Value| found.to_string().contains(&format!("\"{title}\""));
        assert!(has_title(&found), "{title}: {found}");
        let changed = clients[other].data(
            "update_epic",
            json!({ "epic": reference, "title": "done", "if_version": created["version"] }),
        );
        let stale = json!({ "epic": reference, "title": "x", "if_version": created["version"] });
        assert_eq!(clients[one].call("update_epic", stale).code(), Some(-32012));
        let current = clients[one].data("get_item", json!({ "reference": reference }));
        assert_eq!(current["item"]["version"], changed["version"]);
        let found_later = clients[one].data("search_global", json!({ "query": title }));
        assert!(!has_title(&found_later), "{title}: {found_later}");
    }
    for other in &mut others {
        assert_eq!(list_status(other), 200);
    }
    team.run(&format!("token revoke {}", token_id(&revoked)));
    for other in &mut others {
        assert_eq!(list_status(other), 401);
    }
    for server in servers {
        server.end();
    }
    assert_eq!(team.json("audit verify --json")["whole"], true);
    let rows = team.rows();
    let count = |action: &str| rows.iter().filter(|row| row["action"] == action).count();
    assert_eq!((count("create_epic"), count("update_epic")), (40, 80));
}

// Reliability P1
#[test]
fn team_server_killed_between_calls_loses_nothing() {
    for storage in STORAGES {
        let team = TestTeam::new(storage);
        let token = team.administrator();
        let server = team.serve();
        let port = server.address.port();
        let mut client = server.client(&token);
        let first = client.data("create_epic", epic_arguments("before"));
        server.kill();
        let mut command = team.command();
        command.env("REQLORE_LISTEN", format!("127.0.0.1:{port}"));
        let server = Server::start_at(command);
        let second = client.data("create_epic", epic_arguments("after"));
        assert_eq!(
            (&first["reference_id"], &second["reference_id"]),
            (&json!("EP-001"), &json!("EP-002"))
        );
        let listed = client.data("list_epics", json!({}));
        assert_eq!(listed["total"], 2, "{storage}: {listed}");
        server.end();
        assert_eq!(team.json("audit verify --json")["whole"], true);
    }
}

// Catalogue 112
#[test]
fn team_shutdown_answers_accepted_requests() {
    for storage in STORAGES {
        let team = TestTeam::new(storage);
        let token = team.administrator();
        let server = team.serve();
        let mut probe = server.client(&token);
        assert_eq!(probe.get("/readyz").status, 200);
        let mut clients: Vec<Client> = (0..8).map(|_| server.client(&token)).collect();
        // All clients are connected, so that no request waits to be accepted.
        for client in &mut clients {
            assert_eq!(list_status(client), 200);
        }
        for (number, client) in clients.iter_mut().enumerate() {
            let params = json!({ "name": "create_epic", "arguments": epic_arguments(&format!("e{number}")) });
            let call =
                json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params });
            client.send(POST, &call.to_string()).unwrap();
        }
        server.signal(Signal::TERM);
        let answers: Vec<_> = clients.iter_mut().map(Client::receive).collect();
        let accepted = answers.iter().flatten().filter(|answer| answer.status == 200).count();
        for answer in answers.iter().flatten().filter(|answer| answer.status != 200) {
            assert_eq!((answer.status, answer.code()), (503, Some(-32015)), "{answer:?}");
        }
        let (status, log) = server.wait();
        assert!(status.success(), "{storage}: {status}: {log}");
        let server = team.serve();
        let listed = server.client(&token).data("list_epics", json!({}));
        assert_eq!(listed["total"], accepted, "{storage}: {answers:?}");
        server.end();
        let rows = team.rows();
        let is_create_row = |row: &&Value| row["action"] == "create_epic" && row["result"] == "ok";
        assert_eq!(rows.iter().filter(is_create_row).count(), accepted, "{storage}");
    }
}

// More idle clients than places: each new one replaces the longest idle.
#[test]
fn idle_connections_make_room_for_all_requests() {
    let team = TestTeam::new("fs");
    let token = team.administrator();
    let mut command = team.command();
    command.arg("--behind-proxy");
    let server = Server::start(command);
    let (mut idle, mut silent) = (Vec::new(), Vec::new());
    for _ in 0..300 {
        let mut client = server.client(&token);
        client.get("/livez");
        idle.push(client);
        silent.push(TcpStream::connect(server.address).unwrap());
    }
    for path in ["/livez", "/readyz", "/metrics", "/signin"] {
        assert_eq!(server.client(&token).get(path).status, 200, "{path}");
    }
    assert_eq!(server.client(&token).call("list_docsets", json!({})).status, 200);
    drop((idle, silent));
    server.end();
}
