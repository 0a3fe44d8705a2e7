//! Pages of lists.
//!
//! A cursor is a position in one list, so it carries the fingerprint of the list's project and
//! arguments.

use reqlore_domain::bounded_types::{BoundedInt, BoundedString};
use reqlore_domain::document::Version;
use reqlore_domain::error::{Error, ErrorKind, Result};
use reqlore_domain::project_key::ProjectKey;
use serde::Serialize;

pub(crate) type PageLimit = BoundedInt<1, 100>;
/// A result of [`PageReader::next`].
pub(crate) type PageCursor = BoundedString<100>;

const DEFAULT_LIMIT: usize = 50;

pub(crate) fn limit(given: Option<PageLimit>) -> usize {
    given.map_or(DEFAULT_LIMIT, PageLimit::get)
}

pub(crate) struct PageReader {
    fingerprint: Version,
}

impl PageReader {
    /// `list` identifies the list in the project: the tool's name, the query and the filters.
    pub(crate) fn of(project: &ProjectKey, list: &impl Serialize) -> Self {
        let list = serde_json::to_vec(&(project, list)).unwrap_or_default();
        Self { fingerprint: Version::of(&list) }
    }

    /// The number of items before the page.
    pub(crate) fn offset(&self, cursor: Option<&PageCursor>) -> Result<usize> {
        let Some(cursor) = cursor.map(PageCursor::as_str) else { return Ok(0) };
        let (offset, fingerprint) = cursor.split_once('.').unwrap_or_default();
        let is_ours = Version::parse(fingerprint) == Some(self.fingerprint);
        let offset = offset.parse::<u32>().ok().filter(|_| is_ours);
        offset.and_then(|offset| usize::try_from(offset).ok()).ok_or_else(|| {
            let message = "cursor: it belongs to no answer to these arguments. Give the \
                           next_cursor of the answer before with its other arguments unchanged \
                           (limit may change), or begin without a cursor.";
            Error::new(ErrorKind::InvalidArgument, message).field("cursor")
        })
    }

    /// The cursor of the page that begins at `end`, if there is one.
    pub(crate) fn next(&self, end: usize, total: usize) -> Option<String> {
        (end < total).then(|| format!("{end}.{}", self.fingerprint))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_goes_on_in_its_own_list_only() {
        let (project, other) = (&ProjectKey::default(), &ProjectKey::new("other"));
        let (pages, others) =
            (PageReader::of(project, &("a", 1)), PageReader::of(project, &("a", 2)));
        let of_another = PageReader::of(other, &("a", 1));
        let cursor = |text: &str| PageCursor::try_from(text.to_owned()).unwrap();
        let next = cursor(&pages.next(50, 51).unwrap());
        assert_eq!(pages.offset(Some(&next)).unwrap(), 50);
        assert_eq!(pages.offset(None).unwrap(), 0);
        assert_eq!(pages.next(51, 51), None);
        assert!(others.offset(Some(&next)).is_err());
        assert!(of_another.offset(Some(&next)).is_err());
        let cut = &next.as_str()[1..];
        for wrong in ["50", ".", "x", "-1.0", &format!("-{next}"), &format!("99999999999{cut}")] {
            let error = pages.offset(Some(&cursor(wrong))).unwrap_err();
            assert_eq!(error.field.as_deref(), Some("cursor"), "{wrong}");
        }
    }
}
