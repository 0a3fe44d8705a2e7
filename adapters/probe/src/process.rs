//! A process that somebody else wrote: its end is waited for so long and no longer, and what it
//! started ends with it.
//!
//! The trap: a number of a process may be another one's as soon as it was waited for. So its end is
//! looked at without taking it, the group is killed while its leader still has the number, and only
//! then it is taken.

use std::collections::VecDeque;
use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, channel, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions};

use crate::{MOST, NoAnswer, shortened};

/// So many lines may wait to be read.
const LINES: usize = 16;
/// So many of the first and of the last lines of standard error are kept.
const KEPT: usize = 3;
/// What is kept of a line of standard error, in bytes.
const LINE: usize = 4096;
/// When all that could write is dead, its last words are there or will not come.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// A process and its pipes. Dropping it kills it.
#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
    input: Option<ChildStdin>,
    lines: Receiver<io::Result<Vec<u8>>>,
    /// Says when it has ended.
    ended: Receiver<()>,
    /// What it wrote to standard error, when it has ended.
    words: Receiver<String>,
    deadline: Instant,
    is_over: bool,
}

/// What was read next.
pub(crate) enum Next {
    Line(Vec<u8>),
    /// There is nothing more.
    End,
    Late,
    Broken(io::Error),
}

impl Process {
    pub(crate) fn start(mut command: Command, timeout: Duration) -> Result<Self, NoAnswer> {
        let deadline = Instant::now() + timeout;
        command.process_group(0);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(|error| {
            NoAnswer::new(
                format!("could not be started: {error}"),
                "look whether the program is there and may be run",
            )
        })?;
        let pid = Pid::from_child(&child);
        let input = child.stdin.take();
        let (tell_line, lines) = sync_channel(LINES);
        let (tell_end, ended) = channel();
        let (tell_words, words) = channel();
        if let (Some(output), Some(errors)) = (child.stdout.take(), child.stderr.take()) {
            thread::spawn(move || read_lines(output, &tell_line));
            // Nobody may be listening any more, here and below.
            thread::spawn(move || drop(tell_words.send(last_words(errors))));
        }
        thread::spawn(move || {
            let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
            let _ =
                rustix::io::retry_on_intr(|| rustix::process::waitid(WaitId::Pid(pid), options));
            let _ = tell_end.send(());
        });
        Ok(Self { child, input, lines, ended, words, deadline, is_over: false })
    }

    pub(crate) fn input(&mut self) -> Option<&mut ChildStdin> {
        self.input.as_mut()
    }

    pub(crate) fn close_input(&mut self) {
        self.input = None;
    }

    pub(crate) fn read(&self) -> Next {
        match self.lines.recv_timeout(self.left()) {
            Ok(Ok(line)) => Next::Line(line),
            Ok(Err(error)) => Next::Broken(error),
            Err(RecvTimeoutError::Disconnected) => Next::End,
            Err(RecvTimeoutError::Timeout) => Next::Late,
        }
    }

    /// Begins the time limit anew.
    pub(crate) fn extend(&mut self, timeout: Duration) {
        self.deadline = Instant::now() + timeout;
    }

    /// Closes its input and waits for its end; `None` where it had to be killed.
    pub(crate) fn end(&mut self) -> Option<ExitStatus> {
        self.close_input();
        let in_time = self.ended.recv_timeout(self.left()).is_ok();
        self.kill().filter(|_| in_time)
    }

    /// What it wrote to standard error, after its end.
    pub(crate) fn words(&self) -> String {
        self.words.recv_timeout(LAST_WORDS).unwrap_or_default()
    }

    fn left(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now())
    }

    fn kill(&mut self) -> Option<ExitStatus> {
        if self.is_over {
            return None;
        }
        self.is_over = true;
        // It may be the last of its group and over.
        let _ = rustix::process::kill_process_group(Pid::from_child(&self.child), Signal::KILL);
        self.child.wait().ok()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A line that is too long is told as far as it goes, and nothing after it.
fn read_lines(output: ChildStdout, tell: &SyncSender<io::Result<Vec<u8>>>) {
    let mut output = BufReader::new(output);
    loop {
        let mut line = Vec::new();
        let read = output.by_ref().take(MOST as u64).read_until(b'\n', &mut line);
        let is_last = match read {
            Ok(0) => return,
            Ok(_) => !line.ends_with(b"\n"),
            Err(_) => true,
        };
        if tell.send(read.map(|_| line)).is_err() || is_last {
            return;
        }
    }
}

/// The first lines and the last, in one; all of it is read, so that nobody waits to write.
fn last_words(errors: ChildStderr) -> String {
    let mut errors = BufReader::new(errors);
    let (mut first, mut last) = (Vec::new(), VecDeque::new());
    let mut skipped = false;
    let mut line = Vec::new();
    while errors.by_ref().take(LINE as u64).read_until(b'\n', &mut line).is_ok_and(|read| read > 0)
    {
        let text = shortened(&String::from_utf8_lossy(&line));
        line.clear();
        if text.is_empty() {
            continue;
        }
        if first.len() < KEPT {
            first.push(text);
            continue;
        }
        last.push_back(text);
        if last.len() > KEPT {
            last.pop_front();
            skipped = true;
        }
    }
    first.extend(skipped.then(|| "…".to_owned()));
    first.extend(last);
    first.join(" | ")
}
