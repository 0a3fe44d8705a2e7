//! The backlog items and entities that a section mentions.

use serde::{Deserialize, Serialize};

use super::Section;
use crate::backlog::scan_mentions;
use crate::bounded_types::{one_line, truncate_title};

/// Bounds the metadata of generated sections.
const MAX_MENTIONS: usize = 2_000;

/// A requirement that mentions items or entities, or the text of a section outside of its
/// requirements.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MentionSource {
    /// As spelled in the file; `None` for text outside of requirements.
    pub index: Option<String>,
    /// The beginning of the requirement's text, on one line; empty for text outside.
    pub title: String,
    /// Entity ids and normalized references such as `REQ-007`, without duplicates.
    pub targets: Vec<String>,
}

/// Finds the mentions in a section, in the order of its text.
pub fn find_mention_sources(source: &str) -> Vec<MentionSource> {
    let mut sources: Vec<MentionSource> = Vec::new();
    let mentions: Vec<_> = scan_mentions(source).take(MAX_MENTIONS).collect();
    // Most sections mention nothing, so their requirements are not parsed.
    if mentions.is_empty() {
        return sources;
    }
    let section = Section::parse(source);
    for (range, target) in mentions {
        let requirement = section.requirement_at(range.start);
        let index = requirement.map(|requirement| requirement.index);
        // Text outside of requirements may be above and below them.
        let known = sources.iter().rposition(|source| source.index.as_deref() == index);
        let at = known.unwrap_or_else(|| {
            let title = requirement.map(|found| requirement_title(&section.text(found)));
            let index = index.map(str::to_owned);
            let title = title.unwrap_or_default();
            sources.push(MentionSource { index, title, targets: Vec::new() });
            sources.len() - 1
        });
        if !sources[at].targets.contains(&target) {
            sources[at].targets.push(target);
        }
    }
    sources
}

/// The title of a requirement: its first line, shortened.
pub fn requirement_title(text: &str) -> String {
    let line = text.lines().find(|line| !line.trim().is_empty());
    truncate_title(&one_line(line.unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mentions_name_the_requirement_that_contains_them() {
        let source = "# Checkout\n\nSee dec-4f1a20.\n\n**1.** No account.\n\n**2.1.** As REQ-7 says\nand \
                      REQ-007, not pre-REQ-8.\n\n## Later\nEP-1, dec-4f1a20\n";
        let source_of = |index: Option<&str>, title: &str, targets: &[&str]| MentionSource {
            index: index.map(str::to_owned),
            title: title.to_owned(),
            targets: targets.iter().map(|target| (*target).to_owned()).collect(),
        };
        assert_eq!(
            find_mention_sources(source),
            [
                source_of(None, "", &["dec-4f1a20", "EP-001"]),
                source_of(Some("2.1"), "As REQ-7 says", &["REQ-007"]),
            ]
        );
        assert_eq!(find_mention_sources("**1.** well-known e-mail - no\n"), []);
    }
}
