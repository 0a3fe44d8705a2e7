//! The tables with the columns that their checksums cover.

use reqlore_sqlite_team::checksum::TableLayout;

pub const ITEMS: TableLayout = TableLayout {
    name: "items",
    columns: &["document", "project", "kind", "position", "status", "type", "parent"],
};

pub const DIAGNOSTICS: TableLayout =
    TableLayout { name: "diagnostics", columns: &["name", "project", "kind", "document"] };

pub const ITEM_COUNTS: TableLayout = TableLayout {
    name: "item_counts",
    columns: &["kind", "project", "status", "type", "priority", "number"],
};

pub const ENTITY_COUNTS: TableLayout =
    TableLayout { name: "entity_counts", columns: &["tag", "project", "kind", "number"] };

pub const UNTAGGED: TableLayout =
    TableLayout { name: "untagged", columns: &["name", "project", "kind", "document"] };

pub const ENTITY_WORDS: TableLayout =
    TableLayout { name: "entity_words", columns: &["word", "project", "name", "document"] };

/// All tables of this crate.
pub const LAYOUTS: [TableLayout; 6] =
    [ITEMS, ITEM_COUNTS, DIAGNOSTICS, ENTITY_COUNTS, UNTAGGED, ENTITY_WORDS];
