//! Finds the conflict markers that an unresolved merge of Git leaves in a text.

use crate::diagnostic::Diagnostic;

/// Reports the first unresolved merge: a line of seven `<`, and after it one of `=` and one of `>`.
/// Markers that begin inside a code fence are an example.
pub fn find_unresolved_merge(text: &str) -> Option<Diagnostic> {
    // Fast path: nearly no text has a marker.
    if !text.contains("<<<<<<<") {
        return None;
    }
    let mut fence: Option<&str> = None;
    let (mut start, mut has_separator) = (None, false);
    for (line, number) in text.trim_start_matches('\u{feff}').lines().zip(1..) {
        if let Some(start) = start {
            has_separator |= is_marker(line, '=');
            if has_separator && is_marker(line, '>') {
                let message = "unresolved merge; keep the right lines and delete the \
                               `<<<<<<<`, `=======` and `>>>>>>>` lines; fence examples with ```";
                return Some(Diagnostic::new(start, message));
            }
        } else if let Some(marks) = fence {
            // A closing fence has at least the length of the opening one, and no other text.
            let rest = line.strip_prefix(marks).map(|rest| rest.trim_start_matches(&marks[..1]));
            fence = fence.filter(|_| rest.is_none_or(|rest| !rest.trim().is_empty()));
        } else if is_marker(line, '<') {
            start = Some(number);
        } else {
            // Markers have no indentation, and such a line ends the fence of a list item.
            fence = opening_marks(line);
        }
    }
    None
}

fn is_marker(line: &str, mark: char) -> bool {
    let rest = line.trim_start_matches(mark);
    line.len() - rest.len() == 7 && (rest.is_empty() || rest.starts_with([' ', '\t']))
}

fn opening_marks(line: &str) -> Option<&str> {
    let mark = line.chars().next().filter(|first| matches!(first, '`' | '~'))?;
    let info = line.trim_start_matches(mark);
    let marks = &line[..line.len() - info.len()];
    // Backticks with another one on the line are inline code.
    (marks.len() >= 3 && !(mark == '`' && info.contains('`'))).then_some(marks)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn merge_is_found_by_its_three_markers() {
        for (text, line) in [
            ("<<<<<<< HEAD\na\n=======\nb\n>>>>>>> topic\n", 1),
            ("\u{feff}<<<<<<< HEAD\na\n=======\nb\n>>>>>>> topic\n", 1),
            ("a\r\n<<<<<<< HEAD\r\na\r\n=======\r\nb\r\n>>>>>>> x\r\n", 2),
            ("a\n<<<<<<<\n=======\n>>>>>>>", 2),
            ("<<<<<<< ours\na\n||||||| base\nc\n=======\nb\n>>>>>>> theirs\n", 1),
            ("```\ncode\n```\n<<<<<<< a\n=======\n>>>>>>> b\n", 4),
            ("~~~~ rs\n~~~\n~~~~~\n<<<<<<< a\n=======\n>>>>>>> b\n", 4),
            ("<<<<<<< a\n```\n=======\n```rs\n>>>>>>> b\n", 1),
            ("``` x ` y\n<<<<<<< a\n=======\n>>>>>>> b\n", 2),
            ("- a\n  ```\n<<<<<<< a\n=======\n>>>>>>> b\n", 3),
            ("Heading\n=======\n<<<<<<< a\n=======\n>>>>>>> b\n", 3),
            ("<<<<<<< a\n<<<<<<< nested\n=======\n>>>>>>> b\n", 1),
            ("<<<<<<< Updated upstream\n=======\n>>>>>>> Stashed changes\n", 1),
        ] {
            let found = find_unresolved_merge(text).map(|found| found.line);
            assert_eq!(found, Some(Some(line)), "{text:?}");
        }
    }

    #[test]
    fn other_lines_of_marks_are_no_merge() {
        for text in [
            "",
            "<<<<<<< HEAD\n",
            "<<<<<<< HEAD\n=======\n",
            "<<<<<<< HEAD\n>>>>>>> topic\n",
            ">>>>>>> a\n=======\n<<<<<<< b\n",
            "<<<<<<<< a\n========\n>>>>>>>> b\n",
            "<<<<<<a\n=======\n>>>>>>> b\n",
            "<<<<<<<a\n=======\n>>>>>>> b\n",
            " <<<<<<< a\n =======\n >>>>>>> b\n",
            "    <<<<<<< a\n    =======\n    >>>>>>> b\n",
            "```\n<<<<<<< a\n=======\n>>>>>>> b\n```\n",
            "````diff\n```\n<<<<<<< a\n=======\n>>>>>>> b\n````\n",
            "~~~\n<<<<<<< a\n=======\n>>>>>>> b\n",
            "text <<<<<<< a\n=======\n>>>>>>> b\n",
        ] {
            assert_eq!(find_unresolved_merge(text), None, "{text:?}");
        }
    }
}
