//! Code fences and comments: what stands in them is no structure and is never wrapped or escaped.
//!
//! The trap: a fence may stand in a list item, behind its marker or indented below it, and then
//! the end of the item ends the fence too.

use std::collections::HashMap;

use super::lines::{is_blank, list_item};

fn indent(line: &str) -> usize {
    line.len() - line.trim_start_matches(' ').len()
}

/// How far the content of the current list item is indented; 0 outside of lists.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct List(usize);

impl List {
    pub(crate) fn pass(&mut self, line: &str) {
        if is_blank(line) {
            return;
        }
        let at = indent(line);
        match list_item(&line[at..]) {
            Some(width) => self.0 = at + width,
            None if at < self.0 => self.0 = 0,
            None => {}
        }
    }
}

/// A code fence or a comment: what stands in it is no structure.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Verbatim {
    /// `inside` is how far the list item's content is indented that the fence stands in: a line
    /// that is less so ends both.
    Fence {
        mark: u8,
        length: usize,
        inside: usize,
    },
    Comment,
}

/// What a line is to an open [`Verbatim`].
pub(crate) enum Step {
    Inside,
    Last,
    /// It stands behind it already.
    Past,
}

impl Verbatim {
    /// A comment that ends on its own line opens nothing.
    pub(crate) fn opened_by(line: &str, list: List) -> Option<Self> {
        let at = indent(line);
        let inside = if at >= list.0 { list.0 } else { 0 };
        let behind_item = list_item(&line[at..]).map_or(0, |width| at + width);
        let text = match behind_item {
            0 if at - inside <= 3 => &line[at..],
            0 => return None,
            behind => line.get(behind..)?.trim_start_matches(' '),
        };
        if let Some(comment) = text.strip_prefix("<!--") {
            return (!comment.contains("-->")).then_some(Self::Comment);
        }
        let mark = *text.as_bytes().first().filter(|b| matches!(b, b'`' | b'~'))?;
        let length = text.bytes().take_while(|b| *b == mark).count();
        let info = &text[length..];
        let opens = length >= 3 && !(mark == b'`' && info.contains('`'));
        opens.then_some(Self::Fence { mark, length, inside: inside.max(behind_item) })
    }

    pub(crate) fn step(self, line: &str) -> Step {
        let Self::Fence { mark, length, inside } = self else {
            return if line.contains("-->") { Step::Last } else { Step::Inside };
        };
        let at = indent(line);
        if at < inside && !is_blank(line) {
            return Step::Past;
        }
        let text = &line[at..];
        let closing = text.bytes().take_while(|b| *b == mark).count();
        let closes = closing >= length && is_blank(&text[closing..]) && at - inside.min(at) <= 3;
        if closes { Step::Last } else { Step::Inside }
    }
}

/// Which lines of a text stand in fences and comments that are closed within it. `behind_marker`
/// says that the first line stands behind something and can open nothing.
pub(crate) fn verbatim_lines(lines: &[&str], behind_marker: bool) -> Vec<bool> {
    let mut verbatim = vec![false; lines.len()];
    let mut list = List::default();
    let mut never = NeverClosed::default();
    let mut at = usize::from(behind_marker);
    while at < lines.len() {
        list.pass(lines[at]);
        let open = Verbatim::opened_by(lines[at], list).filter(|open| !never.holds(*open));
        match open.map(|open| (open, closed_at(lines, at, open))) {
            Some((_, Some(end))) => {
                verbatim[at..end].fill(true);
                at = end;
            }
            Some((open, None)) => {
                never.learn(open);
                at += 1;
            }
            None => at += 1,
        }
    }
    verbatim
}

/// What nothing further down closes; so no line is looked at for every opening above it.
#[derive(Default)]
struct NeverClosed {
    comment: bool,
    /// By mark and indentation: from this length on.
    fences: HashMap<(u8, usize), usize>,
}

impl NeverClosed {
    fn holds(&self, open: Verbatim) -> bool {
        match open {
            Verbatim::Comment => self.comment,
            Verbatim::Fence { mark, length, inside } => {
                self.fences.get(&(mark, inside)).is_some_and(|never| length >= *never)
            }
        }
    }

    fn learn(&mut self, open: Verbatim) {
        match open {
            Verbatim::Comment => self.comment = true,
            Verbatim::Fence { mark, length, inside } => {
                self.fences.insert((mark, inside), length);
            }
        }
    }
}

/// Where the lines of what was opened at `at` end; `None` while it stays open.
fn closed_at(lines: &[&str], at: usize, open: Verbatim) -> Option<usize> {
    let rest = lines.iter().enumerate().skip(at + 1);
    rest.map(|(at, line)| (at, open.step(line))).find_map(|(at, step)| match step {
        Step::Inside => None,
        Step::Last => Some(at + 1),
        Step::Past => Some(at),
    })
}

/// Would this line open a fence or a comment, wherever it stands?
pub(crate) fn opens_verbatim(line: &str) -> bool {
    Verbatim::opened_by(line, List::default()).is_some()
}
