//! A loopback HTTP server with prepared responses. It ends after the last one.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::thread::JoinHandle;

/// The response to the next request.
pub(crate) enum Response {
    /// The file, or the requested range of it.
    File(Vec<u8>),
    /// The whole file, although the request has a range.
    Whole(Vec<u8>),
    /// The content length of the file, but only this number of bytes.
    Cut(Vec<u8>, usize),
    /// A file without a content length.
    Endless(Vec<u8>),
    Status(u16),
    Redirect(String),
}

/// A received request.
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
    pub(crate) fn start(responses: Vec<Response>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let thread = std::thread::spawn(move || {
            responses
                .into_iter()
                .map(|response| respond(&listener.accept().unwrap().0, response))
                .collect()
        });
        Self { address, thread }
    }

    /// Waits for the last response and returns all requests.
    pub(crate) fn requests(self) -> Vec<Request> {
        self.thread.join().unwrap()
    }
}

fn respond(mut stream: &TcpStream, response: Response) -> Request {
    let request = read_request(stream);
    let from = request.range.as_deref().and_then(|range| range.strip_prefix("bytes="));
    let from = from.and_then(|range| range.strip_suffix('-')?.parse::<usize>().ok());
    let (head, body) = match (response, from) {
        (Response::File(file), Some(from)) if from >= file.len() => {
            ("416 Range Not Satisfiable\r\ncontent-length: 0".to_owned(), Vec::new())
        }
        (Response::File(file), Some(from)) => {
            let head = format!(
                "206 Partial Content\r\ncontent-length: {}\r\ncontent-range: bytes {from}-{}/{}",
                file.len() - from,
                file.len() - 1,
                file.len()
            );
            (head, file[from..].to_vec())
        }
        (Response::File(file) | Response::Whole(file), _) => {
            (format!("200 OK\r\ncontent-length: {}", file.len()), file)
        }
        (Response::Cut(file, end), _) => {
            (format!("200 OK\r\ncontent-length: {}", file.len()), file[..end].to_vec())
        }
        (Response::Endless(file), _) => ("200 OK".to_owned(), file),
        (Response::Status(status), _) => {
            (format!("{status} Prepared\r\ncontent-length: 0"), Vec::new())
        }
        (Response::Redirect(location), _) => {
            (format!("302 Found\r\nlocation: {location}\r\ncontent-length: 0"), Vec::new())
        }
    };
    write!(stream, "HTTP/1.1 {head}\r\nconnection: close\r\n\r\n").unwrap();
    // The client may have closed the connection early.
    stream.write_all(&body).ok();
    request
}

fn read_request(stream: &TcpStream) -> Request {
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
