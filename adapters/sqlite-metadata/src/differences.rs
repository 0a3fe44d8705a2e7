//! Compares the rows of all lists with the metadata of all documents.

use std::collections::BTreeMap;

use reqlore_domain::document::DocumentMeta;
use reqlore_domain::ports::entity_list::entity_words;
use reqlore_sqlite_team::error::DatabaseError;
use rusqlite::{Connection, Statement, ToSql};

use crate::entity_list::{counted_tags, entity_of};
use crate::item_list::ItemRow;
use crate::layouts::{DIAGNOSTICS, ENTITY_WORDS, ITEMS, UNTAGGED};

/// Counts by project and group.
type GroupCounts = BTreeMap<(i64, Vec<String>), i64>;

/// Returns a description of each missing or wrong row, and of each wrong count.
pub fn find_differences(
    connection: &Connection,
    limit: usize,
) -> Result<Vec<String>, DatabaseError> {
    let mut comparison = ListComparison::new(connection)?;
    let mut documents = connection.prepare("SELECT head, project, id FROM documents")?;
    let mut rows = documents.query([])?;
    while let Some(row) = rows.next()?
        && comparison.differences.len() < limit
    {
        // Other checks report damaged metadata.
        let bytes = row.get_ref(0)?.as_blob()?;
        if let Ok(meta) = postcard::from_bytes::<DocumentMeta>(bytes) {
            comparison.add(row.get(1)?, row.get(2)?, &meta)?;
        }
    }
    comparison.compare_counts(connection)
}

/// The expected rows and counts of the documents.
struct ListComparison<'a> {
    has_item: Statement<'a>,
    has_diagnostic: Statement<'a>,
    is_untagged: Statement<'a>,
    has_word: Statement<'a>,
    /// Number of rows in each of [`Self::TABLES`].
    rows: [usize; 4],
    item_counts: GroupCounts,
    entity_counts: GroupCounts,
    differences: Vec<String>,
}

impl<'a> ListComparison<'a> {
    const TABLES: [&'static str; 4] =
        [ITEMS.name, DIAGNOSTICS.name, UNTAGGED.name, ENTITY_WORDS.name];

    fn new(connection: &'a Connection) -> Result<Self, DatabaseError> {
        let exists = |table: &str, condition: &str| {
            connection.prepare(&format!(
                "SELECT EXISTS (SELECT 1 FROM {table} \
                 WHERE project = ?1 AND document = ?2 AND {condition})"
            ))
        };
        let item = "kind = ?3 AND position = ?4 AND status = ?5 AND type = ?6 AND parent = ?7";
        Ok(Self {
            has_item: exists("items", item)?,
            has_diagnostic: exists("diagnostics", "kind = ?3 AND name = ?4")?,
            is_untagged: exists("untagged", "kind = ?3 AND name = ?4")?,
            has_word: exists("entity_words", "word = ?3 AND name = ?4")?,
            rows: [0; 4],
            item_counts: GroupCounts::new(),
            entity_counts: GroupCounts::new(),
            differences: Vec::new(),
        })
    }

    /// Looks up the rows of a document.
    fn add(&mut self, project: i64, id: i64, meta: &DocumentMeta) -> Result<(), DatabaseError> {
        let (name, kind) = (&meta.id.name, meta.id.kind.name());
        if let Some(item) = ItemRow::new(meta) {
            let ItemRow { kind, position, status, requirement_type, parent } = &item;
            let row: [&dyn ToSql; 7] =
                [&project, &id, kind, position, status, requirement_type, parent];
            self.rows[0] += 1;
            let found = self.has_item.query_one(row, |row| row.get(0))?;
            self.add_missing(found, meta, "the list of items");
            let priority = item.priority().to_string();
            let group = [*kind, *status, *requirement_type, &priority].map(str::to_owned);
            *self.item_counts.entry((project, group.to_vec())).or_default() += 1;
        }
        if meta.diagnostic.is_some() {
            self.rows[1] += 1;
            let row = (project, id, kind, name);
            let found = self.has_diagnostic.query_one(row, |row| row.get(0))?;
            self.add_missing(found, meta, "the list of diagnostics");
        }
        let Some(entity) = entity_of(meta) else { return Ok(()) };
        for tag in counted_tags(entity) {
            let group = [tag, &entity.kind].map(str::to_owned);
            *self.entity_counts.entry((project, group.to_vec())).or_default() += 1;
        }
        if entity.tags.is_empty() {
            self.rows[2] += 1;
            let row = (project, id, &entity.kind, name);
            let found = self.is_untagged.query_one(row, |row| row.get(0))?;
            self.add_missing(found, meta, "the list of entities without tags");
        }
        for word in entity_words(meta) {
            self.rows[3] += 1;
            let found = self.has_word.query_one((project, id, word, name), |row| row.get(0))?;
            self.add_missing(found, meta, "the words of IDs");
        }
        Ok(())
    }

    fn add_missing(&mut self, found: bool, meta: &DocumentMeta, list: &str) {
        if !found {
            self.differences.push(format!("{} in {list}", meta.id));
        }
    }

    /// Compares the counts. They also differ after a missing row.
    fn compare_counts(mut self, connection: &Connection) -> Result<Vec<String>, DatabaseError> {
        if !self.differences.is_empty() {
            return Ok(self.differences);
        }
        for (table, expected) in Self::TABLES.into_iter().zip(self.rows) {
            let count = format!("SELECT count(*) FROM {table}");
            let rows: usize = connection.query_one(&count, [], |row| row.get(0))?;
            if rows != expected {
                let text = format!("{rows} rows of table {table} instead of {expected}");
                self.differences.push(text);
            }
        }
        let columns = "kind, status, type, CAST(priority AS TEXT)";
        if stored_counts(connection, "item_counts", columns, 4)? != self.item_counts {
            let text = "the item counts by status, type and priority";
            self.differences.push(text.to_owned());
        }
        if stored_counts(connection, "entity_counts", "tag, kind", 2)? != self.entity_counts {
            self.differences.push("the entity counts by tag and kind".to_owned());
        }
        Ok(self.differences)
    }
}

fn stored_counts(
    connection: &Connection,
    table: &str,
    columns: &str,
    width: usize,
) -> Result<GroupCounts, DatabaseError> {
    let mut select = connection
        .prepare(&format!("SELECT project, number, {columns} FROM {table} WHERE number != 0"))?;
    let mut rows = select.query([])?;
    let mut counts = GroupCounts::new();
    while let Some(row) = rows.next()? {
        let mut group = Vec::with_capacity(width);
        for column in 2..2 + width {
            group.push(row.get(column)?);
        }
        counts.insert((row.get(0)?, group), row.get(1)?);
    }
    Ok(counts)
}
