//! The tables whose rows have a checksum, with the columns that it covers.

use reqlore_sqlite_team::checksum::TableLayout;

pub(crate) const STORE: TableLayout =
    TableLayout { name: "store", columns: &["one", "state", "commits"] };

pub(crate) const PROJECTS: TableLayout =
    TableLayout { name: "projects", columns: &["key", "id", "revision", "history", "removed"] };

/// Without the row id, which only joins use: the version of a document covers its body.
pub(crate) const DOCUMENTS: TableLayout = TableLayout {
    name: "documents",
    columns: &[
        "name",
        "kind",
        "project",
        "version",
        "revision",
        "modified",
        "place",
        "reference",
        "head",
        "number",
        "user",
        "tool",
        "reason",
    ],
};

pub(crate) const LINKS: TableLayout =
    TableLayout { name: "links", columns: &["target", "document", "relation", "project", "kind"] };

pub(crate) const REMOVED: TableLayout =
    TableLayout { name: "removed", columns: &["name", "kind", "project", "revision"] };

pub(crate) const WRITERS: TableLayout =
    TableLayout { name: "writers", columns: &["first", "project", "writer", "number"] };

pub(crate) const MARKS: TableLayout =
    TableLayout { name: "marks", columns: &["kind", "project", "number"] };

pub(crate) const HISTORY: TableLayout = TableLayout {
    name: "history",
    columns: &[
        "name", "kind", "project", "number", "hash", "at", "ended", "user", "tool", "reason",
        "purged",
    ],
};
