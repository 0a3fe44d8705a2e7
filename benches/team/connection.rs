//! A minimal HTTP connection that sends prepared bytes and parses only status and length.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpStream};
use std::time::Duration;

use rustix::net::{AddressFamily, SocketType, bind, connect, socket};

/// Maximum time without bytes from the server.
const TIMEOUT: Duration = Duration::from_secs(20);

pub(crate) fn request(address: SocketAddr, token: &str, body: &str) -> Vec<u8> {
    format!("{}{body}", head(address, token, body.len())).into_bytes()
}

/// The request line and headers for a body of `length` bytes.
pub(crate) fn head(address: SocketAddr, token: &str, length: usize) -> String {
    format!(
        "POST /api/v1/mcp HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {token}\r\n\
         Accept: application/json, text/event-stream\r\nContent-Type: application/json\r\n\
         Content-Length: {length}\r\n\r\n"
    )
}

#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) stream: TcpStream,
    /// The received bytes of the current answer.
    buffer: Vec<u8>,
    filled: usize,
}

#[derive(Debug)]
pub(crate) struct Answer<'a> {
    pub(crate) status: u16,
    head: &'a [u8],
    pub(crate) body: &'a [u8],
}

impl Answer<'_> {
    /// The value of a header, by its name in lower case.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let lines = str::from_utf8(self.head).ok()?.lines();
        let mut headers = lines.filter_map(|line| line.split_once(": "));
        headers.find(|(found, _)| found.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }
}

impl Connection {
    pub(crate) fn open(address: SocketAddr) -> io::Result<Self> {
        Self::over(TcpStream::connect(address)?)
    }

    /// Connects from this loopback address.
    pub(crate) fn open_from(from: Ipv4Addr, address: SocketAddr) -> io::Result<Self> {
        let SocketAddr::V4(address) = address else {
            return Err(io::Error::other("not an IPv4 address"));
        };
        let socket = socket(AddressFamily::INET, SocketType::STREAM, None)?;
        bind(&socket, &SocketAddrV4::new(from, 0))?;
        connect(&socket, &address)?;
        Self::over(socket.into())
    }

    fn over(stream: TcpStream) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(TIMEOUT))?;
        Ok(Self { stream, buffer: vec![0; 64 * 1024], filled: 0 })
    }

    /// Sends a request and reads the answer.
    pub(crate) fn ask(&mut self, request: &[u8]) -> io::Result<Answer<'_>> {
        self.stream.write_all(request)?;
        self.filled = 0;
        loop {
            if self.filled == self.buffer.len() {
                self.buffer.resize(self.filled * 2, 0);
            }
            let read = self.stream.read(&mut self.buffer[self.filled..])?;
            if read == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            self.filled += read;
            if let Some((status, begin, end)) = parse_frame(&self.buffer[..self.filled])?
                && end <= self.filled
            {
                let (head, body) = (&self.buffer[..begin], &self.buffer[begin..end]);
                return Ok(Answer { status, head, body });
            }
        }
    }
}

/// The status and the range of the body; `None` until all headers have arrived.
fn parse_frame(bytes: &[u8]) -> io::Result<Option<(u16, usize, usize)>> {
    let Some(end) = bytes.windows(4).position(|part| part == b"\r\n\r\n") else { return Ok(None) };
    let wrong = || io::Error::other("an answer without a status or a length");
    let head = str::from_utf8(&bytes[..end]).map_err(|_| wrong())?;
    let status = head.get(9..12).and_then(|status| status.parse().ok()).ok_or_else(wrong)?;
    let named = head.lines().filter_map(|line| line.split_once(':'));
    let mut lengths = named.filter(|(name, _)| name.eq_ignore_ascii_case("content-length"));
    let length = lengths.next().and_then(|(_, length)| length.trim().parse::<usize>().ok());
    let begin = end + 4;
    Ok(Some((status, begin, begin + length.ok_or_else(wrong)?)))
}
