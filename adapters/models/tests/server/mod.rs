//! A loopback server that answers as it is told, once for each answer, and ends.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::thread::JoinHandle;

/// What to say to the next request.
pub(crate) enum Answer {
    /// The file, from where the range asks for it.
    File(Vec<u8>),
    /// The same without heed of a range.
    Whole(Vec<u8>),
    /// So many bytes of the file, whose full length is told, and then nothing.
    Cut(Vec<u8>, usize),
    /// A file with no length told.
    Endless(Vec<u8>),
    Status(u16),
    Redirect(String),
}

/// What was asked for.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Request {
    pub(crate) path: String,
    pub(crate) range: Option<String>,
}

pub(crate) struct Server {
    pub(crate) address: String,
    thread: JoinHandle<Vec<Request>>,
}

impl Server {
    pub(crate) fn start(answers: Vec<Answer>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let thread = std::thread::spawn(move || {
            answers.into_iter().map(|answer| reply(&listener.accept().unwrap().0, answer)).collect()
        });
        Self { address, thread }
    }

    /// All requests, after the last answer was given.
    pub(crate) fn requests(self) -> Vec<Request> {
        self.thread.join().unwrap()
    }
}

fn reply(mut stream: &TcpStream, answer: Answer) -> Request {
    let request = read(stream);
    let from = request.range.as_deref().and_then(|range| range.strip_prefix("bytes="));
    let from = from.and_then(|range| range.strip_suffix('-')?.parse::<usize>().ok());
    let (head, body) = match (answer, from) {
        (Answer::File(file), Some(from)) if from >= file.len() => {
            ("416 Range Not Satisfiable\r\ncontent-length: 0".to_owned(), Vec::new())
        }
        (Answer::File(file), Some(from)) => {
            let head = format!(
                "206 Partial Content\r\ncontent-length: {}\r\ncontent-range: bytes {from}-{}/{}",
                file.len() - from,
                file.len() - 1,
                file.len()
            );
            (head, file[from..].to_vec())
        }
        (Answer::File(file) | Answer::Whole(file), _) => {
            (format!("200 OK\r\ncontent-length: {}", file.len()), file)
        }
        (Answer::Cut(file, end), _) => {
            (format!("200 OK\r\ncontent-length: {}", file.len()), file[..end].to_vec())
        }
        (Answer::Endless(file), _) => ("200 OK".to_owned(), file),
        (Answer::Status(status), _) => {
            (format!("{status} As Told\r\ncontent-length: 0"), Vec::new())
        }
        (Answer::Redirect(to), _) => {
            (format!("302 Found\r\nlocation: {to}\r\ncontent-length: 0"), Vec::new())
        }
    };
    write!(stream, "HTTP/1.1 {head}\r\nconnection: close\r\n\r\n").unwrap();
    // Who asked may have seen enough.
    stream.write_all(&body).ok();
    request
}

fn read(stream: &TcpStream) -> Request {
    let mut lines = BufReader::new(stream).lines().map(Result::unwrap);
    let first = lines.next().unwrap();
    let path = first.split(' ').nth(1).unwrap().to_owned();
    let mut range = None;
    for line in lines.take_while(|line| !line.is_empty()) {
        match line.split_once(": ") {
            Some((name, value)) if name.eq_ignore_ascii_case("range") => {
                range = Some(value.to_owned());
            }
            _ => {}
        }
    }
    Request { path, range }
}
