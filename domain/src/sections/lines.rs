//! Lines: where they begin and end, whatever ends them, and what one line alone tells.

/// One line: where it starts, its text without the line end, and where the next one starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Line<'a> {
    pub(crate) start: usize,
    pub(crate) text: &'a str,
    pub(crate) next: usize,
}

impl Line<'_> {
    pub(crate) fn end(&self) -> usize {
        self.start + self.text.len()
    }
}

/// The lines of `source`; LF, CRLF and a lone CR end a line, a BOM belongs to none.
pub(crate) fn lines(source: &str) -> impl Iterator<Item = Line<'_>> {
    let bytes = source.as_bytes();
    let mut at = if source.starts_with('\u{feff}') { '\u{feff}'.len_utf8() } else { 0 };
    std::iter::from_fn(move || {
        if at >= bytes.len() {
            return None;
        }
        let start = at;
        let end = memchr::memchr2(b'\n', b'\r', &bytes[start..]).map_or(bytes.len(), |i| start + i);
        at = match bytes.get(end..) {
            Some([b'\r', b'\n', ..]) => end + 2,
            Some([_, ..]) => end + 1,
            _ => end,
        };
        Some(Line { start, text: &source[start..end], next: at })
    })
}

/// The line end that most lines of `source` have; LF where there is none.
pub(crate) fn line_end(source: &str) -> &'static str {
    let (mut lf, mut crlf, mut cr) = (0_usize, 0_usize, 0_usize);
    for line in lines(source) {
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

/// The numbers of the lines at rising offsets, counted from 1.
pub(crate) fn line_numbers(
    source: &str,
    offsets: impl Iterator<Item = usize>,
) -> impl Iterator<Item = usize> {
    let mut lines = lines(source).zip(1..).peekable();
    offsets.map(move |offset| {
        while lines.next_if(|(line, _)| line.next <= offset).is_some() {}
        lines.peek().map_or(1, |(_, number)| *number)
    })
}

pub(crate) fn is_blank(text: &str) -> bool {
    text.bytes().all(|b| b == b' ' || b == b'\t')
}

/// Up to three spaces may stand before a block's first character.
pub(crate) fn strip_indent(text: &str) -> Option<&str> {
    let stripped = text.trim_start_matches(' ');
    (text.len() - stripped.len() <= 3 && !stripped.starts_with('\t')).then_some(stripped)
}

/// How wide the marker of a list item is, the space behind it included.
pub(crate) fn list_item(text: &str) -> Option<usize> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let mark = match (digits, text.as_bytes().get(digits)?) {
        (0, b'-' | b'*' | b'+') => 1,
        (1..=9, b'.' | b')') => digits + 1,
        _ => return None,
    };
    let rest = &text[mark..];
    let space = rest.len() - rest.trim_start_matches([' ', '\t']).len();
    match (rest.is_empty(), space) {
        (true, _) => Some(mark),
        (_, 0) => None,
        (_, 1..=4) => Some(mark + space),
        _ => Some(mark + 1),
    }
}
