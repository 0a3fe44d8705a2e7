//! Reads bounded lines from a stream; of longer ones only the start is kept.

use std::io;

use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};

/// Maximum bytes of one read.
const READ_BUFFER_BYTES: usize = 64 * 1024;
/// Memory above this many bytes is released after a long line.
const MAX_KEPT_BYTES: usize = 256 * 1024;

#[derive(Debug)]
pub(crate) struct LineReader<R> {
    input: BufReader<R>,
    line: Vec<u8>,
    max_bytes: usize,
    is_too_long: bool,
    /// True if the caller has the line; the next read replaces it.
    is_returned: bool,
}

/// Result of one read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ReadStep {
    /// A part of a line arrived.
    Part,
    /// [`LineReader::trimmed_line`] has a complete line.
    Line,
    /// A line beyond the limit was skipped; [`LineReader::trimmed_line`] has its start.
    TooLong,
    /// The input ended.
    End,
}

impl<R: AsyncRead + Unpin> LineReader<R> {
    pub(crate) fn new(input: R, max_bytes: usize) -> Self {
        let input = BufReader::with_capacity(READ_BUFFER_BYTES, input);
        Self { input, line: Vec::new(), max_bytes, is_too_long: false, is_returned: false }
    }

    /// Returns the line that was just read, without surrounding white space and BOM.
    pub(crate) fn trimmed_line(&self) -> &[u8] {
        // Tolerates CRLF and a BOM.
        let line = self.line.trim_ascii();
        line.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(line).trim_ascii_start()
    }

    /// Reads available input. Cancel safe: input is kept in `self`.
    pub(crate) async fn read_step(&mut self) -> io::Result<ReadStep> {
        if std::mem::take(&mut self.is_returned) {
            self.line.clear();
            self.line.shrink_to(MAX_KEPT_BYTES);
        }
        // `fill_buf` consumes nothing, so dropping this future loses no input.
        let available = self.input.fill_buf().await?;
        if available.is_empty() {
            // A last line without its end is still a line.
            return Ok(if self.line.is_empty() { ReadStep::End } else { self.complete_line() });
        }
        // Only new input is searched, so a long line takes linear time.
        let end = memchr::memchr(b'\n', available);
        let part = &available[..end.unwrap_or(available.len())];
        let room = self.max_bytes - self.line.len();
        self.is_too_long |= part.len() > room;
        self.line.extend_from_slice(&part[..part.len().min(room)]);
        let used = end.map_or(available.len(), |end| end + 1);
        self.input.consume(used);
        if end.is_none() {
            return Ok(ReadStep::Part);
        }
        Ok(self.complete_line())
    }

    fn complete_line(&mut self) -> ReadStep {
        self.is_returned = true;
        if std::mem::take(&mut self.is_too_long) { ReadStep::TooLong } else { ReadStep::Line }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn all(input: &[u8], max: usize) -> Vec<Result<Vec<u8>, ReadStep>> {
        let mut lines = LineReader::new(input, max);
        let mut found = Vec::new();
        loop {
            match lines.read_step().await.unwrap() {
                ReadStep::Part => {}
                ReadStep::Line => found.push(Ok(lines.trimmed_line().to_vec())),
                ReadStep::End => return found,
                other @ ReadStep::TooLong => found.push(Err(other)),
            }
        }
    }

    // limit - 1, limit, limit + 1
    #[tokio::test]
    async fn line_beyond_limit_is_skipped() {
        for (length, fits) in [(9, true), (10, true), (11, false), (1_000_000, false)] {
            let mut input = vec![b'x'; length];
            input.extend_from_slice(b"\n\xEF\xBB\xBF ok \r\n\n last");
            let lines = all(&input, 10).await;
            assert_eq!(lines[0].is_ok(), fits, "{length}");
            assert_eq!(lines[1], Ok(b"ok".to_vec()), "{length}");
            assert_eq!(lines[2..], [Ok(vec![]), Ok(b"last".to_vec())]);
        }
    }

    #[tokio::test]
    async fn line_beyond_limit_at_end_of_input_keeps_its_start() {
        let mut lines = LineReader::new(&b" 0123456789abcdef"[..], 10);
        assert_eq!(lines.read_step().await.unwrap(), ReadStep::Part);
        assert_eq!(lines.read_step().await.unwrap(), ReadStep::TooLong);
        assert_eq!(lines.trimmed_line(), b"012345678");
        assert_eq!(lines.read_step().await.unwrap(), ReadStep::End);
    }

    #[tokio::test]
    async fn endless_line_takes_bounded_memory() {
        let mut lines = LineReader::new(tokio::io::repeat(b'x'), 10);
        for _ in 0..100 {
            assert_eq!(lines.read_step().await.unwrap(), ReadStep::Part);
        }
        assert!(lines.line.capacity() < 1024);
    }
}
