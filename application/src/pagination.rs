//! Pagination: a cursor is an offset with a fingerprint of the project and arguments of its list.

use reqlore_domain::bounded_types::{BoundedInt, BoundedString};
use reqlore_domain::document::Version;
use reqlore_domain::error::{Error, ErrorKind, Result};
use reqlore_domain::project_key::ProjectKey;
use serde::Serialize;

pub(crate) type PageLimit = BoundedInt<1, 100>;
/// A cursor that [`PageReader::next_cursor`] returned.
pub(crate) type PageCursor = BoundedString<100>;

const DEFAULT_LIMIT: usize = 50;

pub(crate) fn page_limit(limit: Option<PageLimit>) -> usize {
    limit.map_or(DEFAULT_LIMIT, PageLimit::get)
}

pub(crate) struct PageReader {
    fingerprint: Version,
}

impl PageReader {
    /// `list` identifies the list in the project: the tool's name, the query and the filters.
    pub(crate) fn new(project: &ProjectKey, list: &impl Serialize) -> Self {
        // The arguments are strings and numbers, which always serialize.
        let list = serde_json::to_vec(&(project, list)).unwrap_or_default();
        Self { fingerprint: Version::of_bytes(&list) }
    }

    /// Returns the number of items before the page.
    ///
    /// A cursor of another list is rejected: it would silently skip the wrong items.
    pub(crate) fn offset(&self, cursor: Option<&PageCursor>) -> Result<usize> {
        let Some(cursor) = cursor else { return Ok(0) };
        let (offset, fingerprint) = cursor.as_str().split_once('.').unwrap_or_default();
        if Version::parse(fingerprint) == Some(self.fingerprint)
            && let Ok(offset) = offset.parse::<u32>()
            && let Ok(offset) = usize::try_from(offset)
        {
            return Ok(offset);
        }
        let message = "cursor: not from a list with these arguments; pass next_cursor with \
                       unchanged arguments (except limit), or omit it.";
        Err(Error::new(ErrorKind::InvalidArgument, message).field("cursor"))
    }

    /// Returns the cursor of the page that starts at `end`; `None` after the last item.
    pub(crate) fn next_cursor(&self, end: usize, total: usize) -> Option<String> {
        (end < total).then(|| format!("{end}.{}", self.fingerprint))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cursor_of_another_list_is_rejected() {
        let (project, other) = (&ProjectKey::default(), &ProjectKey::new("other"));
        let pages = PageReader::new(project, &("a", 1));
        let other_arguments = PageReader::new(project, &("a", 2));
        let other_project = PageReader::new(other, &("a", 1));
        let cursor = |text: &str| PageCursor::try_from(text.to_owned()).unwrap();
        let next = cursor(&pages.next_cursor(50, 51).unwrap());
        assert_eq!(pages.offset(Some(&next)).unwrap(), 50);
        assert_eq!(pages.offset(None).unwrap(), 0);
        assert_eq!(pages.next_cursor(51, 51), None);
        assert!(other_arguments.offset(Some(&next)).is_err());
        assert!(other_project.offset(Some(&next)).is_err());
        let cut = &next.as_str()[1..];
        for wrong in ["50", ".", "x", "-1.0", &format!("-{next}"), &format!("99999999999{cut}")] {
            let error = pages.offset(Some(&cursor(wrong))).unwrap_err();
            assert_eq!(error.field.as_deref(), Some("cursor"), "{wrong}");
        }
    }
}
