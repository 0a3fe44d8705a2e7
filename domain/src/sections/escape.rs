//! Keeps a requirement's text from breaking the file it stands in, reversibly.
//!
//! A line that would read as a marker, a heading, an underline or a fence that nobody closes gets a
//! backslash in front. So does a line that already has one there: that makes [`unescape`] exact.
//! Closed fences and their content stay as they are; what stands on the marker's own line can't be
//! structure and is never touched.

use super::lines::{is_blank, strip_indent};
use super::markdown::{heading, marker, underline};
use super::verbatim::{opens_verbatim, verbatim_lines};

/// `text` as it may stand in a file. `own_line` says whether it begins on a line of its own.
pub(crate) fn escape(text: &str, own_line: bool) -> String {
    edit_lines(text, own_line, |line, above| {
        let (at, backslashes, kind) = structure(line)?;
        let breaks = match kind {
            Like::Underline => !above.is_none_or(is_blank),
            Like::Other => true,
        };
        (backslashes > 0 || breaks).then(|| format!("{}\\{}", &line[..at], &line[at..]))
    })
}

/// Gives back what [`escape`] was given.
pub(crate) fn unescape(text: &str, own_line: bool) -> String {
    edit_lines(text, own_line, |line, _| {
        let (at, backslashes, _) = structure(line)?;
        (backslashes > 0).then(|| format!("{}{}", &line[..at], &line[at + 1..]))
    })
}

/// Does a text begin with a fence that it also closes? Then it needs a line of its own.
pub(crate) fn begins_with_fence(text: &str) -> bool {
    verbatim_lines(&text.split('\n').collect::<Vec<_>>(), false)[0]
}

/// Passes each line outside closed fences and comments to `edit`, with the line above it.
fn edit_lines(
    text: &str,
    own_line: bool,
    edit: impl Fn(&str, Option<&str>) -> Option<String>,
) -> String {
    let lines: Vec<&str> = text.split('\n').collect();
    let verbatim = verbatim_lines(&lines, !own_line);
    let mut edited: Vec<String> = Vec::with_capacity(lines.len());
    for (at, line) in lines.iter().enumerate() {
        let above = at.checked_sub(1).map(|above| lines[above]);
        let fixed = verbatim[at] || (at == 0 && !own_line);
        let changed = if fixed { None } else { edit(line, above) };
        edited.push(changed.unwrap_or_else(|| (*line).to_owned()));
    }
    edited.join("\n")
}

enum Like {
    /// Structure only under a paragraph.
    Underline,
    /// Structure wherever it stands.
    Other,
}

/// Where a line's backslashes begin, how many there are, and what the line is like behind them.
fn structure(line: &str) -> Option<(usize, usize, Like)> {
    let text = strip_indent(line)?;
    let core = text.trim_start_matches('\\');
    let (at, backslashes) = (line.len() - text.len(), text.len() - core.len());
    let is_other =
        heading(core).is_some() || opens_verbatim(core) || (at == 0 && marker(core).is_some());
    let kind = match underline(core) {
        Some(_) => Like::Underline,
        None if is_other && core.trim_start_matches(' ') == core => Like::Other,
        None => return None,
    };
    Some((at, backslashes, kind))
}

/// Could a line that begins with `rest` read as structure? Then no line should be broken there.
pub(crate) fn reads_as_structure(rest: &str) -> bool {
    structure(rest).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[track_caller]
    fn check(text: &str, escaped: &str) {
        assert_eq!(escape(text, false), escaped);
        assert_eq!(unescape(escaped, false), text);
    }

    // S1: C.2, S.3.2; catalogue 26
    #[test]
    fn a_forged_marker_or_heading_is_escaped_and_comes_back() {
        check("a\n**9.** forged", "a\n\\**9.** forged");
        check("a\n## Sections\n\\# b", "a\n\\## Sections\n\\\\# b");
        check("a\n  # b", "a\n  \\# b");
        check("a\n---\n\n---", "a\n\\---\n\n---");
        check("a\n```\nnever closed\n**9.** x", "a\n\\```\nnever closed\n\\**9.** x");
        check("a\n<!--\n# b", "a\n\\<!--\n\\# b");
    }

    #[test]
    fn what_breaks_nothing_stays_as_it_is() {
        for text in [
            "# on the marker's line",
            "a\n```\n# code\n**9.** x\n```\nb",
            "a\n    # indented code",
            "a\n<!-- # b\n**9.** x -->\nc",
            "a\n- ```\n  # b\n  ```\nc",
            "a\n- ```\nb",
            "a\n #hashtag \\x",
            "a\n\n***\n\n- list\n| table |\n|---|",
        ] {
            check(text, text);
        }
    }

    proptest! {
        #[test]
        fn unescape_undoes_escape(text in r"([\\#*`~=\- a1.\n]{0,8}(\*\*9\.\*\* x|# h|```|~~~|---|===|- |  |<!--|-->)?\n?){0,8}", own in any::<bool>()) {
            let own = own && begins_with_fence(&text);
            prop_assert_eq!(unescape(&escape(&text, own), own), text);
        }
    }
}
