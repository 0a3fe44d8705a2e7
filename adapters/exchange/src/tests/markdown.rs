//! Markdown documents that are hostile.

use super::try_read;
use crate::markdown::MarkdownDocument;

#[test]
fn long_headings_are_refused_with_their_line() {
    let text = format!("# A\n\n## {}\n\n- one\n", "x".repeat(4_001));
    let error = try_read(&MarkdownDocument, &[("a.md", &text)]).unwrap_err();
    assert_eq!(error, "a.md: line 3: the heading has more than 4000 bytes; shorten it");
}
