//! Three servers on one PostgreSQL. While clients write, servers, connections and the database are
//! killed: every acknowledged write is stored once, and every read sees it.
//!
//! `REQLORE_POSTGRES_KILLS` sets the number of kills of each kind. A test prints its seed, which
//! `REQLORE_CRASH_SEED` sets.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use reqlore_test_postgres::PostgresCluster;
use serde_json::{Value, json};

use crate::crash::{SeededRandom, WriteLog, check_audit, env_number, is_first_call};
use crate::http::{Answer, Client, POST, Server, TestTeam};

const SERVERS: usize = 3;
const CLIENTS: usize = 6;
/// Items that all clients extend.
const LISTS: usize = 3;
/// Time limit for a call that servers do not answer.
const CALL_TIMEOUT: Duration = Duration::from_secs(60);

/// Servers, and the expected content of their database.
struct World {
    team: TestTeam,
    token: String,
    /// The addresses of the servers. One that was killed gets a new one.
    addresses: Mutex<Vec<SocketAddr>>,
    log: Mutex<WriteLog>,
    /// The references of the lists, and the entries that were acknowledged.
    lists: Vec<(String, Mutex<BTreeSet<String>>)>,
    acknowledged: AtomicUsize,
    is_over: AtomicBool,
}

impl World {
    /// Starts the servers on a database of the cluster and creates the lists.
    fn start(url: String) -> (Self, Vec<Server>) {
        let team = TestTeam::on_postgres(url);
        let token = team.administrator();
        let servers: Vec<Server> = (0..SERVERS).map(|_| team.serve()).collect();
        let mut client = servers[0].client(&token);
        let mut log = WriteLog::default();
        let mut lists = Vec::new();
        for number in 0..LISTS {
            let name = format!("list-{number}");
            let arguments = json!({ "title": format!("epic {name}"), "priority": 1 });
            let answer = send(&mut client, &name, "create_epic", arguments.clone()).unwrap();
            let reference = structured(&answer)["reference_id"].as_str().unwrap().to_owned();
            log.sent.insert(name.clone(), format!("epic {name}"));
            log.acknowledged.insert(name, reference.clone());
            lists.push((reference, Mutex::default()));
        }
        let addresses = Mutex::new(servers.iter().map(|server| server.address).collect());
        let world = Self {
            team,
            token,
            addresses,
            log: Mutex::new(log),
            lists,
            acknowledged: AtomicUsize::new(0),
            is_over: AtomicBool::new(false),
        };
        (world, servers)
    }

    /// Runs clients until `disturb` returns.
    fn run(&self, disturb: impl FnOnce()) {
        let seed = env_number("REQLORE_CRASH_SEED").unwrap_or(0x5EED) | 1;
        println!("seed {seed}");
        std::thread::scope(|scope| {
            for number in 0..CLIENTS {
                let random = SeededRandom(seed.wrapping_mul(2 * number as u64 + 1) | 1);
                scope.spawn(move || WorldClient::new(self, number, random).run());
            }
            // The clients end also if this fails.
            let _end = EndOnDrop(&self.is_over);
            disturb();
        });
    }

    /// Waits until this many more writes were acknowledged.
    fn wait_for_writes(&self, count: usize) {
        let target = self.acknowledged.load(Ordering::Relaxed) + count;
        let begin = Instant::now();
        while self.acknowledged.load(Ordering::Relaxed) < target {
            assert!(begin.elapsed() < CALL_TIMEOUT, "the servers acknowledge no writes");
            std::thread::yield_now();
        }
    }

    /// Kills a server and starts another one in its place.
    fn replace(&self, servers: &mut [Server], number: usize) {
        let old = std::mem::replace(&mut servers[number], self.team.serve());
        old.kill();
        self.addresses.lock().unwrap()[number] = servers[number].address;
    }

    /// Compares everything that is stored with everything that was acknowledged.
    fn check(&self) -> usize {
        let log = self.log.lock().unwrap();
        check_audit(&self.team, &self.token, &log);
        let server = self.team.serve();
        let mut client = server.client(&self.token);
        let mut entry_count = 0;
        for (reference, acknowledged) in &self.lists {
            let stored = read_list(&client.call("get_item", json!({ "reference": reference })));
            let distinct: BTreeSet<String> = stored.entries.iter().cloned().collect();
            assert_eq!(distinct.len(), stored.entries.len(), "an entry is stored twice");
            assert_eq!(distinct, *acknowledged.lock().unwrap(), "{reference}");
            entry_count += distinct.len();
        }
        let rows = self.team.rows();
        let is_update = |row: &&Value| row["action"] == "update_epic" && is_first_call(row);
        assert_eq!(rows.iter().filter(is_update).count(), entry_count);
        server.end();
        log.acknowledged.len() + entry_count
    }
}

struct EndOnDrop<'a>(&'a AtomicBool);

impl Drop for EndOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A user who works through all servers in turn and repeats what was not answered.
struct WorldClient<'a> {
    world: &'a World,
    number: usize,
    random: SeededRandom,
    connections: Vec<Client>,
    next_server: usize,
}

impl<'a> WorldClient<'a> {
    fn new(world: &'a World, number: usize, random: SeededRandom) -> Self {
        let addresses = world.addresses.lock().unwrap().clone();
        let connect = |address| Client::new(address, &world.token).into_mcp_client();
        let connections = addresses.into_iter().map(connect).collect();
        Self { world, number, random, connections, next_server: number }
    }

    fn run(mut self) {
        for number in 0.. {
            if self.world.is_over.load(Ordering::Relaxed) {
                return;
            }
            let name = format!("{}-{number}", self.number);
            if self.random.next().is_multiple_of(3) {
                self.extend_list(&name);
            } else {
                self.create(&name);
            }
            self.world.acknowledged.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn create(&mut self, name: &str) {
        let title = format!("epic {name}");
        self.world.log.lock().unwrap().sent.insert(name.to_owned(), title.clone());
        let answer = self.call(name, "create_epic", &json!({ "title": title, "priority": 1 }));
        let reference = item_of_lost_answer(&answer)
            .unwrap_or_else(|| structured(&answer)["reference_id"].as_str().unwrap().to_owned());
        self.world.log.lock().unwrap().acknowledged.insert(name.to_owned(), reference);
    }

    /// Adds an entry to a list that all clients share, if it has the version that was read.
    fn extend_list(&mut self, name: &str) {
        let number = self.random.below(LISTS);
        let (reference, acknowledged) = &self.world.lists[number];
        for attempt in 0.. {
            if self.world.is_over.load(Ordering::Relaxed) {
                return;
            }
            let expected = acknowledged.lock().unwrap().clone();
            let read = self.call("", "get_item", &json!({ "reference": reference }));
            let ListState { version, mut entries } = read_list(&read);
            let seen: BTreeSet<String> = entries.iter().cloned().collect();
            let missed: Vec<&String> = expected.difference(&seen).collect();
            assert!(missed.is_empty(), "{reference} was read without {missed:?}");
            entries.push(name.to_owned());
            let change = json!({
                "epic": reference,
                "description": entries.join(" "),
                "if_version": version,
            });
            let answer = self.call(&format!("{name}-{attempt}"), "update_epic", &change);
            let is_stored = answer.json()["result"]["isError"] != true;
            if is_stored || item_of_lost_answer(&answer).is_some() {
                acknowledged.lock().unwrap().insert(name.to_owned());
                return;
            }
            assert!(answer.body.contains("version"), "{answer:?}");
        }
    }

    /// Sends a call to the servers in turn until one answers it.
    fn call(&mut self, key: &str, tool: &str, arguments: &Value) -> Answer {
        let begin = Instant::now();
        loop {
            self.next_server = (self.next_server + 1) % SERVERS;
            let client = &mut self.connections[self.next_server];
            let address = self.world.addresses.lock().unwrap()[self.next_server];
            if client.address != address {
                *client = Client::new(address, &self.world.token).into_mcp_client();
            }
            match send(client, key, tool, arguments.clone()) {
                Ok(answer) if answer.status == 200 && !is_unavailable(&answer) => return answer,
                Ok(answer) => {
                    assert!(is_unavailable(&answer), "{answer:?}");
                    std::thread::sleep(Duration::from_millis(5));
                }
                // The server was killed.
                Err(error) => assert!(!is_timeout(&error), "{tool} was never answered"),
            }
            assert!(begin.elapsed() < CALL_TIMEOUT, "no server answers {tool}");
        }
    }
}

/// True if the server accepted a call and did not answer for a long time.
fn is_timeout(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{TimedOut, WouldBlock};
    matches!(error.kind(), TimedOut | WouldBlock)
}

/// Sends a call once. A write has an idempotency key, which is also its request ID.
fn send(client: &mut Client, key: &str, tool: &str, arguments: Value) -> std::io::Result<Answer> {
    let mut params = json!({ "name": tool });
    params["arguments"] = arguments;
    let mut headers = Vec::new();
    if !key.is_empty() {
        params["_meta"] = json!({ "reqlore/idempotency-key": key });
        headers.push(("X-Request-Id", key.to_owned()));
    }
    let mut message = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call" });
    message["params"] = params;
    client.send_with(POST, &headers, &message.to_string()).and_then(|()| client.receive())
}

/// True while the database is down, when the server ends, and while another server may be running
/// the same call.
fn is_unavailable(answer: &Answer) -> bool {
    let codes = ["\"code\":-32016", "\"code\":-32015"];
    answer.status == 503 || codes.iter().any(|code| answer.body.contains(code))
}

/// The item that an earlier attempt changed, if its server was killed before it stored the answer.
fn item_of_lost_answer(answer: &Answer) -> Option<String> {
    let (_, rest) =
        answer.body.split_once("already succeeded; its answer is no longer stored. It changed ")?;
    rest.split('.').next().map(str::to_owned)
}

fn structured(answer: &Answer) -> Value {
    let mut json = answer.json();
    assert_ne!(json["result"]["isError"], true, "{answer:?}");
    json["result"]["structuredContent"].take()
}

struct ListState {
    version: String,
    entries: Vec<String>,
}

fn read_list(answer: &Answer) -> ListState {
    let item = structured(answer)["item"].take();
    let text = item["description"].as_str().unwrap_or_default();
    let entries = text.split_whitespace().map(str::to_owned).collect();
    ListState { version: item["version"].as_str().unwrap().to_owned(), entries }
}

#[test]
fn postgres_and_servers_killed_lose_no_write() {
    let kills = env_number("REQLORE_POSTGRES_KILLS").unwrap_or(4);
    let cluster = PostgresCluster::start();
    let (world, mut servers) = World::start(cluster.command_url("postgres"));
    let mut random = SeededRandom(env_number("REQLORE_CRASH_SEED").unwrap_or(0x5EED) | 1);
    world.run(|| {
        for round in 0..3 * kills {
            world.wait_for_writes(5 + random.below(60));
            match round % 3 {
                0 => world.replace(&mut servers, random.below(SERVERS)),
                1 => {
                    while !cluster.kill_backend("postgres") {}
                    cluster.wait_until_ready();
                }
                _ => {
                    cluster.kill_server();
                    cluster.start_again();
                }
            }
        }
        world.wait_for_writes(CLIENTS);
    });
    let acknowledged = world.check();
    println!("3 x {kills} kills: {acknowledged} acknowledged writes, none lost or applied twice");
}

#[test]
fn postgres_failover_to_its_standby_loses_no_write() {
    let primary = PostgresCluster::start();
    let standby = primary.start_standby();
    let both = format!("127.0.0.1:{},127.0.0.1:{}", primary.port(), standby.port());
    let url = primary.command_url("postgres");
    let url = url.replace(&format!("127.0.0.1:{}", primary.port()), &both);
    let (world, _servers) = World::start(url);
    let mut resumed = Duration::ZERO;
    world.run(|| {
        world.wait_for_writes(100);
        primary.kill_server();
        standby.promote();
        let promoted = Instant::now();
        world.wait_for_writes(1);
        resumed = promoted.elapsed();
        world.wait_for_writes(100);
    });
    let acknowledged = world.check();
    println!("writes resumed after {resumed:?}; {acknowledged} acknowledged writes, none lost");
}
