//! A server that is started, and asked over its standard input and output.
//!
//! The trap: whoever builds the [`Command`] says what is started with which environment and where;
//! nothing here asks whether that is wise.

use std::io::Write;
use std::process::{Command, ExitStatus};
use std::time::Duration;

use serde_json::Value;

use crate::process::{Next, Process};
use crate::{Hello, MOST, NoAnswer, introduction, request, shortened};

/// Starts a command as a client would, asks who it is, and ends it, all within the time limit.
pub fn hello(command: Command, timeout: Duration) -> Result<Hello, NoAnswer> {
    let mut client = Client::start(command, timeout)?;
    let answer = client.request("initialize", &introduction())?;
    let hello = Hello::of(&answer)?;
    client.process.end();
    Ok(hello)
}

/// What a command wrote to standard output, and how it ended; it gets no input.
pub fn output(command: Command, timeout: Duration) -> Result<Output, NoAnswer> {
    let mut process = Process::start(command, timeout)?;
    process.close_input();
    let mut text = Vec::new();
    while text.len() < MOST
        && let Next::Line(line) = process.read()
    {
        text.extend(line);
    }
    let status = process.end();
    let code = status.and_then(|status| status.code());
    Ok(Output { code, text: String::from_utf8_lossy(&text).into_owned(), errors: process.words() })
}

/// What a command had to say.
#[derive(Debug)]
pub struct Output {
    /// `None` where it did not end by itself in time.
    pub code: Option<i32>,
    pub text: String,
    /// The first and the last lines of standard error.
    pub errors: String,
}

/// A client as small as it can be: one request, one answer.
#[derive(Debug)]
pub struct Client {
    process: Process,
    timeout: Duration,
    id: u64,
}

impl Client {
    /// Each answer, and the end, may take so long.
    pub fn start(command: Command, timeout: Duration) -> Result<Self, NoAnswer> {
        Ok(Self { process: Process::start(command, timeout)?, timeout, id: 0 })
    }

    /// Introduces itself, as a client has to.
    pub fn initialize(&mut self) -> Result<Hello, NoAnswer> {
        Hello::of(&self.request("initialize", &introduction())?)
    }

    /// The whole answer. What the server tells before it without being asked is passed over.
    pub fn request(&mut self, method: &str, params: &Value) -> Result<Value, NoAnswer> {
        self.id += 1;
        let line = format!("{}\n", request(self.id, method, params));
        if let Some(input) = self.process.input() {
            // Who is gone already may have said why.
            let _ = input.write_all(line.as_bytes());
        }
        loop {
            let line = match self.process.read() {
                Next::Line(line) => line,
                Next::End => return Err(self.gone()),
                Next::Late => return Err(self.late()),
                Next::Broken(error) => {
                    let message = format!("its standard output can't be read: {error}");
                    return Err(NoAnswer::new(message, "try again"));
                }
            };
            let message: Value = serde_json::from_slice(&line).unwrap_or_default();
            if message["jsonrpc"] != "2.0" {
                return Err(no_message(&line));
            }
            if message["id"] == self.id && message.get("method").is_none() {
                self.process.extend(self.timeout);
                return Ok(message);
            }
        }
    }

    /// Ends the input; a server answers what it accepted and goes.
    pub fn end(mut self) -> Result<ExitStatus, NoAnswer> {
        self.process.end().ok_or_else(|| {
            let message = format!("did not end within {:?} of the end of its input", self.timeout);
            NoAnswer::new(message, "end it yourself")
        })
    }

    fn gone(&mut self) -> NoAnswer {
        let how = match self.process.end() {
            Some(status) => format!("ended ({status}) before it answered"),
            None => "closed its standard output before it answered".to_owned(),
        };
        self.with_words(how, "run the command by hand and mend what it says")
    }

    fn late(&mut self) -> NoAnswer {
        self.process.extend(Duration::ZERO);
        self.process.end();
        let how = format!("did not answer within {:?}", self.timeout);
        self.with_words(how, "run the command by hand and look what it waits for")
    }

    fn with_words(&self, how: String, next: &str) -> NoAnswer {
        match self.process.words() {
            words if words.is_empty() => NoAnswer::new(how, next),
            words => NoAnswer::new(format!("{how}; it wrote: {words}"), next),
        }
    }
}

fn no_message(line: &[u8]) -> NoAnswer {
    let line = shortened(&String::from_utf8_lossy(line));
    NoAnswer::new(
        format!("wrote {line:?} to standard output before its answer"),
        "only the protocol belongs there: whatever else the command prints must go to standard \
         error",
    )
}
