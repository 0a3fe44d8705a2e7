//! The lines of a text, and their ends.

/// A line without its line end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SourceLine<'a> {
    pub(crate) start: usize,
    pub(crate) text: &'a str,
    /// Start of the next line.
    pub(crate) next: usize,
}

impl SourceLine<'_> {
    pub(crate) fn end(&self) -> usize {
        self.start + self.text.len()
    }
}

/// The lines of a text without its BOM. LF, CRLF and a lone CR end a line.
pub(crate) fn source_lines(source: &str) -> impl Iterator<Item = SourceLine<'_>> {
    let bytes = source.as_bytes();
    // The BOM is not part of the first line.
    let mut at = if source.starts_with('\u{feff}') { '\u{feff}'.len_utf8() } else { 0 };
    std::iter::from_fn(move || {
        if at >= bytes.len() {
            return None;
        }
        let start = at;
        let end = memchr::memchr2(b'\n', b'\r', &bytes[start..]).map_or(bytes.len(), |i| start + i);
        at = match bytes.get(end..) {
            // CRLF is one line end.
            Some([b'\r', b'\n', ..]) => end + 2,
            Some([_, ..]) => end + 1,
            _ => end,
        };
        Some(SourceLine { start, text: &source[start..end], next: at })
    })
}

/// The most frequent line end; LF by default.
pub(crate) fn line_end(source: &str) -> &'static str {
    let (mut lf, mut crlf, mut cr) = (0_usize, 0_usize, 0_usize);
    for line in source_lines(source) {
        match &source[line.end()..line.next] {
            "\n" => lf += 1,
            "\r\n" => crlf += 1,
            "\r" => cr += 1,
            _ => {}
        }
    }
    if crlf > lf && crlf >= cr {
        "\r\n"
    } else if cr > lf {
        "\r"
    } else {
        "\n"
    }
}

/// The 1-based numbers of the lines at ascending byte offsets.
pub(crate) fn line_numbers(
    source: &str,
    offsets: impl Iterator<Item = usize>,
) -> impl Iterator<Item = usize> {
    let mut lines = source_lines(source).zip(1..).peekable();
    offsets.map(move |offset| {
        while lines.next_if(|(line, _)| line.next <= offset).is_some() {}
        lines.peek().map_or(1, |(_, number)| *number)
    })
}
