//! A proxy in front of a server that injects faults at random: lost connections before and after
//! `COMMIT` and during reads, conflicts, and delays.
//!
//! Understands messages as far as needed to find the end of a transaction:
//! <https://www.postgresql.org/docs/current/protocol-message-formats.html>.

use std::io::{self, BufReader, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use tokio_postgres::Config;
use tokio_postgres::config::Host;

const QUERY: u8 = b'Q';
const SYNC: u8 = b'S';
const READY: u8 = b'Z';

/// `ErrorResponse` of a conflict that a repetition resolves, then `ReadyForQuery`.
const CONFLICT: &[u8] = b"SERROR\0VERROR\0C40001\0Minjected conflict\0\0";
const IDLE: &[u8] = b"I";

/// How an answer of the server is treated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AnswerFault {
    Forward,
    /// The client loses its connection instead.
    Lose,
    /// The client gets [`CONFLICT`] instead.
    Conflict,
}

/// A proxy on a free port of 127.0.0.1. It ends with the process.
pub struct FaultyProxy {
    port: u16,
    server_port: u16,
    faults: Arc<Faults>,
}

struct Faults {
    random: Mutex<u64>,
    /// True after a fault: the next chance passes, so that a repetition succeeds.
    skips_next: AtomicBool,
    injected: AtomicUsize,
}

impl FaultyProxy {
    /// Starts a proxy to the server of this URL, which has no TLS. The seed repeats its choices as
    /// far as its clients repeat their messages.
    pub fn start(url: &str, seed: u64) -> Self {
        let config: Config = url.split('?').next().unwrap().parse().unwrap();
        assert!(matches!(config.get_hosts(), [Host::Tcp(_)]), "{url}");
        let server_port = config.get_ports()[0];
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let faults = Faults {
            random: Mutex::new(seed | 1),
            skips_next: AtomicBool::new(false),
            injected: AtomicUsize::new(0),
        };
        let faults = Arc::new(faults);
        thread::spawn({
            let faults = Arc::clone(&faults);
            move || {
                for client in listener.incoming().map_while(Result::ok) {
                    // Its client sees the same.
                    let Ok(server) = TcpStream::connect(("127.0.0.1", server_port)) else {
                        continue;
                    };
                    Connection::start(client, server, &faults).unwrap();
                }
            }
        });
        Self { port, server_port, faults }
    }

    /// The URL of the server with the port of this proxy.
    pub fn url(&self, url: &str) -> String {
        let (server, proxy) = (format!(":{}/", self.server_port), format!(":{}/", self.port));
        assert!(url.contains(&server), "{url}");
        url.replace(&server, &proxy)
    }

    /// The number of faults so far.
    pub fn injected(&self) -> usize {
        self.faults.injected.load(Ordering::Relaxed)
    }
}

impl Faults {
    /// A random number below the limit, or `None` if the last chance was a fault.
    fn choose(&self, limit: u64) -> Option<u64> {
        let mut random = self.random.lock().unwrap_or_else(PoisonError::into_inner);
        if self.skips_next.swap(false, Ordering::Relaxed) {
            return None;
        }
        *random ^= *random << 13;
        *random ^= *random >> 7;
        *random ^= *random << 17;
        Some(*random % limit)
    }

    fn count(&self) {
        self.skips_next.store(true, Ordering::Relaxed);
        self.injected.fetch_add(1, Ordering::Relaxed);
    }
}

/// One connection of a client, forwarded by two threads.
struct Connection {
    client: TcpStream,
    server: TcpStream,
    answer: Mutex<AnswerFault>,
}

impl Connection {
    fn start(client: TcpStream, server: TcpStream, faults: &Arc<Faults>) -> io::Result<()> {
        for stream in [&client, &server] {
            stream.set_nodelay(true)?;
        }
        let connection =
            Arc::new(Self { client, server, answer: Mutex::new(AnswerFault::Forward) });
        let (answers, faults) = (Arc::clone(&connection), Arc::clone(faults));
        thread::spawn(move || {
            // An error is the end of the connection, like the end of the stream.
            let _ = answers.forward_answers();
            answers.end();
        });
        thread::spawn(move || {
            let _ = connection.forward_requests(&faults);
            connection.end();
        });
        Ok(())
    }

    fn end(&self) {
        // The other thread may have done it.
        let _ = self.client.shutdown(Shutdown::Both);
        let _ = self.server.shutdown(Shutdown::Both);
    }

    /// Returns when the connection is to be lost.
    fn forward_requests(&self, faults: &Faults) -> io::Result<()> {
        let (mut reader, mut server) = (BufReader::new(&self.client), &self.server);
        // The first message has no type.
        let first = read_body(&mut reader)?;
        server.write_all(&with_length(&first))?;
        loop {
            let (kind, body) = read_message(&mut reader)?;
            if kind == QUERY && body == b"COMMIT\0" {
                match faults.choose(8) {
                    Some(0) => {
                        faults.count();
                        return Ok(());
                    }
                    Some(1) => {
                        faults.count();
                        self.set_answer(AnswerFault::Lose);
                    }
                    Some(2) => {
                        faults.count();
                        self.set_answer(AnswerFault::Conflict);
                        server.write_all(&message(QUERY, b"ROLLBACK\0"))?;
                        continue;
                    }
                    Some(3) => thread::sleep(Duration::from_millis(3)),
                    _ => {}
                }
            } else if kind == SYNC && faults.choose(40) == Some(0) {
                faults.count();
                return Ok(());
            }
            server.write_all(&message(kind, &body))?;
        }
    }

    fn forward_answers(&self) -> io::Result<()> {
        let (mut reader, mut client) = (BufReader::new(&self.server), &self.client);
        loop {
            let (kind, body) = read_message(&mut reader)?;
            let fault = *self.answer.lock().unwrap_or_else(PoisonError::into_inner);
            match fault {
                AnswerFault::Forward => client.write_all(&message(kind, &body))?,
                AnswerFault::Lose if kind == READY => return Ok(()),
                AnswerFault::Conflict if kind == READY => {
                    self.set_answer(AnswerFault::Forward);
                    client.write_all(&message(b'E', CONFLICT))?;
                    client.write_all(&message(READY, IDLE))?;
                }
                AnswerFault::Lose | AnswerFault::Conflict => {}
            }
        }
    }

    fn set_answer(&self, answer: AnswerFault) {
        *self.answer.lock().unwrap_or_else(PoisonError::into_inner) = answer;
    }
}

fn read_message(reader: &mut impl Read) -> io::Result<(u8, Vec<u8>)> {
    let mut kind = [0];
    reader.read_exact(&mut kind)?;
    Ok((kind[0], read_body(reader)?))
}

/// Reads a length, which includes itself, and what follows.
fn read_body(reader: &mut impl Read) -> io::Result<Vec<u8>> {
    let mut length = [0; 4];
    reader.read_exact(&mut length)?;
    let length = u32::from_be_bytes(length).saturating_sub(4);
    let mut body = vec![0; length as usize];
    reader.read_exact(&mut body)?;
    Ok(body)
}

fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    let mut message = vec![kind];
    message.extend(with_length(body));
    message
}

fn with_length(body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(body.len() + 4).unwrap();
    let mut message = length.to_be_bytes().to_vec();
    message.extend(body);
    message
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TestDatabase;
    use crate::sql::run_sql;

    /// Each fault occurs, and a commit is stored exactly if the server got it.
    #[test]
    fn faulty_proxy_injects_every_fault() {
        let database = TestDatabase::new();
        database.query("CREATE TABLE numbers (id BIGINT)").unwrap();
        let proxy = FaultyProxy::start(&database.url(), 7);
        let config: Config = proxy.url(&database.plain_url()).parse().unwrap();
        let (mut stored_and_lost, mut unstored_and_lost, mut conflicts) = (0, 0, 0);
        for number in 0..100 {
            let insert = format!("INSERT INTO numbers VALUES ({number})");
            let outcome = run_sql_in_steps(&config, &["BEGIN", &insert, "COMMIT"]);
            let select = format!("SELECT id FROM numbers WHERE id = {number}");
            let is_stored = !database.query(&select).unwrap().is_empty();
            match outcome {
                Ok(()) => assert!(is_stored, "{number}"),
                Err(error) if error.contains("injected conflict") => {
                    assert!(!is_stored, "{number}");
                    conflicts += 1;
                }
                Err(_) if is_stored => stored_and_lost += 1,
                Err(_) => unstored_and_lost += 1,
            }
        }
        let all = [stored_and_lost, unstored_and_lost, conflicts];
        assert!(all.iter().all(|count| *count > 0), "{all:?}");
        assert_eq!(proxy.injected(), all.iter().sum::<usize>());
    }

    /// Runs each statement as a query of its own on one connection.
    fn run_sql_in_steps(config: &Config, statements: &[&str]) -> Result<(), String> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let connected = config.connect(tokio_postgres::NoTls).await;
            let (client, connection) = connected.map_err(|error| error.to_string())?;
            tokio::spawn(connection);
            for statement in statements {
                let outcome = client.batch_execute(statement).await;
                outcome.map_err(|error| {
                    error
                        .as_db_error()
                        .map_or(error.to_string(), |error| error.message().to_owned())
                })?;
            }
            Ok(())
        })
    }

    #[test]
    fn faulty_proxy_forwards_results() {
        let database = TestDatabase::new();
        let proxy = FaultyProxy::start(&database.url(), 1);
        let config: Config = proxy.url(&database.plain_url()).parse().unwrap();
        assert_eq!(run_sql(&config, "SELECT 'text'").unwrap(), ["text"]);
    }
}
