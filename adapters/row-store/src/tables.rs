//! The tables of this storage. The primary key of each is its first columns.
//!
//! Databases with SQL add a column `checksum`, see [`Table::checksum`].

use std::cmp::Ordering;
use std::hash::{Hash, Hasher};

use ColumnType::{Binary, Integer, Text};
use reqlore_domain::ports::documents::StoreError;

use crate::error::damaged_structure;

/// A table and its columns.
#[derive(Debug)]
pub struct Table {
    pub name: &'static str,
    pub columns: &'static [Column],
    /// Number of leading columns that form the primary key.
    pub key_width: usize,
    /// Indexes besides the primary key.
    pub indexes: &'static [Index],
}

#[derive(Debug)]
pub struct Index {
    pub name: &'static str,
    pub columns: &'static [&'static str],
    /// The index has only rows in which this column is not null: each query that uses it compares
    /// the column.
    pub condition: Option<&'static str>,
}

#[derive(Debug, PartialEq, Eq)]
pub struct Column {
    pub name: &'static str,
    pub kind: ColumnType,
    pub is_nullable: bool,
    /// Only queries that want it read it, so a database does not verify it with the row: the
    /// value has its own checksum. Such columns are the last ones of a table.
    pub is_wide: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ColumnType {
    Integer,
    Text,
    Binary,
}

/// Tables have different names.
impl PartialEq for Table {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for Table {}

impl PartialOrd for Table {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Table {
    fn cmp(&self, other: &Self) -> Ordering {
        self.name.cmp(other.name)
    }
}

impl Hash for Table {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

impl ColumnType {
    pub const ALL: [Self; 3] = [Self::Integer, Self::Text, Self::Binary];
}

impl Table {
    const fn with_columns(self, columns: &'static [Column]) -> Self {
        Self { columns, ..self }
    }

    const fn with_indexes(self, indexes: &'static [Index]) -> Self {
        Self { indexes, ..self }
    }

    /// The columns without the wide ones.
    pub fn narrow_columns(&self) -> &'static [Column] {
        let wide = self.columns.iter().filter(|column| column.is_wide).count();
        &self.columns[..self.columns.len() - wide]
    }

    /// The error for values of other columns.
    pub fn mismatch(&self) -> StoreError {
        StoreError::Internal(format!("table {}: values do not fit its columns", self.name))
    }

    /// The error for an index that leads to no row, or to a wrong one.
    pub fn damaged_index(&self) -> StoreError {
        damaged_structure(&format!("an index of table {}", self.name))
    }

    /// The position of a column in a row.
    pub fn index_of(&self, column: &str) -> Option<usize> {
        self.columns.iter().position(|one| one.name == column)
    }
}

const fn table(name: &'static str, key_width: usize) -> Table {
    Table { name, columns: &[], key_width, indexes: &[] }
}

const fn column(name: &'static str, kind: ColumnType) -> Column {
    Column { name, kind, is_nullable: false, is_wide: false }
}

const fn nullable(name: &'static str, kind: ColumnType) -> Column {
    Column { name, kind, is_nullable: true, is_wide: false }
}

const fn wide(name: &'static str, kind: ColumnType) -> Column {
    Column { name, kind, is_nullable: true, is_wide: true }
}

const fn index(
    name: &'static str,
    columns: &'static [&'static str],
    condition: Option<&'static str>,
) -> Index {
    Index { name, columns, condition }
}

const PROJECT: Column = column("project", Text);
const KIND: Column = column("kind", Text);
const NAME: Column = column("name", Text);

/// One row about the database itself. `state` is `complete`, or `filling` during an import.
pub static STORE: Table = table("store", 1).with_columns(&[
    column("id", Integer),
    column("state", Text),
    column("store_id", Binary),
    // A new random number with every change of users or tokens.
    column("epoch", Integer),
    // The newest row of the audit log.
    column("audit_number", Integer),
    column("audit_hash", Binary),
    // The `DocumentMeta::FORMAT` of all metadata and lists.
    column("metadata_format", Integer),
]);

/// The last group that each server committed, and the time of its newest change, or 0.
pub static SERVER_GROUPS: Table = table("server_groups", 1).with_columns(&[
    column("server", Binary),
    column("group_id", Binary),
    column("at", Integer),
]);

pub static PROJECTS: Table = table("projects", 1).with_columns(&[
    PROJECT,
    column("revision", Integer),
    // Changes and writers before this revision may be removed.
    column("complete_from", Integer),
    // The writer of the revision.
    column("writer", Integer),
]);

/// The writer of the revisions from the first one on, up to the next row.
pub static WRITERS: Table = table("writers", 2).with_columns(&[
    PROJECT,
    column("first_revision", Integer),
    column("writer", Integer),
]);

/// The highest number that an item of a kind ever had.
pub static SEQUENCES: Table =
    table("sequences", 2).with_columns(&[PROJECT, KIND, column("highest", Integer)]);

/// Documents, also deleted ones, which have no version and no other value after it.
pub static DOCUMENTS: Table = table("documents", 3)
    .with_columns(&[
        PROJECT,
        KIND,
        NAME,
        column("revision", Integer),
        // Number of the last entry of the history.
        column("number", Integer),
        nullable("version", Text),
        nullable("modified", Integer),
        // Number of rows in `bodies`.
        nullable("parts", Integer),
        nullable("path", Text),
        nullable("reference", Text),
        // Sort key in the order of all lists, for records that lists show.
        nullable("position", Binary),
        nullable("status", Text),
        // Of an entity its kind.
        nullable("type", Text),
        // Sort text in the order of the last change, for the same records.
        nullable("updated", Text),
        nullable("author", Text),
        nullable("tool", Text),
        nullable("reason", Text),
        // The encoded metadata.
        wide("meta", Binary),
    ])
    .with_indexes(&[
        index("documents_by_revision", &["project", "revision"], None),
        index("documents_by_reference", &["project", "kind", "reference"], Some("reference")),
        index("documents_by_position", &["project", "kind", "position"], Some("position")),
        index(
            "documents_by_group",
            &["project", "kind", "status", "type", "position"],
            Some("position"),
        ),
        index("documents_by_time", &["project", "kind", "updated", "position"], Some("updated")),
    ]);

/// Texts of documents, in parts.
pub static BODIES: Table = table("bodies", 4).with_columns(&[
    PROJECT,
    KIND,
    NAME,
    column("part", Integer),
    column("bytes", Binary),
]);

/// Earlier texts of documents, in parts.
pub static TEXTS: Table = table("texts", 5).with_columns(&[
    PROJECT,
    KIND,
    NAME,
    column("hash", Binary),
    column("part", Integer),
    column("bytes", Binary),
]);

/// Entries of the history that a later change ended.
pub static HISTORY: Table = table("history", 4)
    .with_columns(&[
        PROJECT,
        KIND,
        NAME,
        column("number", Integer),
        // Null for a deletion, as is the hash.
        nullable("version", Text),
        nullable("hash", Binary),
        // Number of rows in `texts`.
        column("parts", Integer),
        column("at", Integer),
        column("ended", Integer),
        nullable("author", Text),
        nullable("tool", Text),
        nullable("reason", Text),
        // 1 if the text was erased.
        column("purged", Integer),
    ])
    .with_indexes(&[index("history_by_end", &["ended"], None)]);

pub static LINKS: Table = table("links", 5).with_columns(&[
    PROJECT,
    column("target", Text),
    KIND,
    NAME,
    column("relation", Text),
]);

/// Index of documents by the values of fields, also of fields that the metadata only implies:
/// `diagnostics` without a value, `untagged` with the kind of an entity, and `words` by which
/// entities are found.
pub static FIELD_VALUES: Table = table("field_values", 5).with_columns(&[
    PROJECT,
    KIND,
    column("field", Text),
    column("value", Text),
    NAME,
]);

/// Listed records by the values of their custom fields and by their parent, with the columns of
/// `documents`. Lists and counts read these small rows. The position ends with the name.
pub static ITEM_FIELDS: Table = table("item_fields", 7).with_columns(&[
    PROJECT,
    KIND,
    column("field", Text),
    column("value", Text),
    column("status", Text),
    column("type", Text),
    column("position", Binary),
    // All custom values of the record, encoded.
    nullable("custom", Binary),
]);

/// Number of listed records in each group, of all and of those with a value of a custom field. The
/// texts are empty for records without.
pub static ITEM_COUNTS: Table = table("item_counts", 7).with_columns(&[
    PROJECT,
    column("field", Text),
    column("value", Text),
    KIND,
    column("status", Text),
    column("type", Text),
    column("priority", Integer),
    column("number", Integer),
]);

/// Counts of a project by kind, so that no answer counts rows. Counters: `entities`,
/// `untagged` and `tag:NAME` by the kind of entity, `diagnostics` by the kind of document.
pub static COUNTS: Table = table("counts", 3).with_columns(&[
    PROJECT,
    column("counter", Text),
    KIND,
    column("number", Integer),
]);

/// Users as JSON, by their name in lower case.
pub static USERS: Table =
    table("users", 1).with_columns(&[column("key", Text), column("text", Text)]);

/// Tokens as JSON. The last use is not in the text.
pub static TOKENS: Table = table("tokens", 1).with_columns(&[
    column("id", Text),
    column("owner", Text),
    column("created", Integer),
    nullable("used", Integer),
    column("text", Text),
]);

pub static AUDIT: Table = table("audit", 1).with_columns(&[
    column("number", Integer),
    column("hash", Binary),
    column("text", Text),
]);

/// Idempotency records as JSON, and the answer of their write.
pub static IDEMPOTENCY: Table = table("idempotency", 1)
    .with_columns(&[
        column("key", Text),
        column("at", Integer),
        column("record", Text),
        nullable("response", Text),
    ])
    .with_indexes(&[index("idempotency_by_age", &["at"], None)]);

/// Claims of stories. One that has ended is removed by the next change of a claim.
pub static CLAIMS: Table = table("claims", 2).with_columns(&[
    PROJECT,
    column("story", Text),
    column("claim", Text),
    column("holder", Text),
    column("until", Integer),
]);

/// Commits whose files, outside of the database, may not be replaced yet.
pub static PENDING: Table = table("pending", 1).with_columns(&[
    column("id", Integer),
    PROJECT,
    nullable("audit_number", Integer),
    nullable("idempotency_key", Text),
    // 1 if the files never will be replaced.
    column("withdrawn", Integer),
]);

/// The tables of a database for documents in files.
pub static TEAM_TABLES: [&Table; 6] = [&STORE, &USERS, &TOKENS, &AUDIT, &IDEMPOTENCY, &PENDING];

pub static TABLES: [&Table; 19] = [
    &STORE,
    &SERVER_GROUPS,
    &PROJECTS,
    &WRITERS,
    &SEQUENCES,
    &DOCUMENTS,
    &BODIES,
    &TEXTS,
    &HISTORY,
    &LINKS,
    &FIELD_VALUES,
    &ITEM_FIELDS,
    &ITEM_COUNTS,
    &COUNTS,
    &USERS,
    &TOKENS,
    &AUDIT,
    &IDEMPOTENCY,
    &CLAIMS,
];
