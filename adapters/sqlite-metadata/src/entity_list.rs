//! Counts of entities by kind and tag, entities without tags, and words of IDs.

use std::collections::BTreeSet;
use std::sync::{Arc, LazyLock};

use reqlore_domain::document::{DocumentKind, DocumentMeta};
use reqlore_domain::knowledge::Entity;
use reqlore_domain::ports::entity_list::{
    DuplicateIds, EntityCounts, SimilarEntities, UntaggedList, entity_words, exact_word, push_id,
    similar_prefix,
};
use reqlore_domain::ports::item_list::MAX_PAGE_ITEMS;
use reqlore_sqlite_team::error::DatabaseError;
use rusqlite::Connection;

use crate::layouts::{ENTITY_COUNTS, ENTITY_WORDS, UNTAGGED};
use crate::{MetadataTables, sql_limit};

/// The empty tag counts all entities of a kind. Real tags are never empty.
const ALL_TAGS: &str = "";

const UNTAGGED_LIST: &str = "the list of entities without tags";
const WORD_LIST: &str = "the words of IDs";

/// The entity of a document, unless it is a tombstone.
pub(crate) fn entity_of(meta: &DocumentMeta) -> Option<&Entity> {
    meta.entity.as_deref().filter(|_| meta.id.kind == DocumentKind::Entity)
}

/// The groups that count an entity.
pub(crate) fn counted_tags(entity: &Entity) -> BTreeSet<&str> {
    let tags = entity.tags.iter().map(String::as_str);
    tags.chain([ALL_TAGS]).collect()
}

/// Replaces the rows of an entity.
pub(crate) fn replace_entity(
    connection: &Connection,
    project: i64,
    old: Option<&DocumentMeta>,
    new: Option<(i64, &DocumentMeta)>,
) -> Result<(), DatabaseError> {
    let old_entity = old.and_then(entity_of);
    let new_entity = new.and_then(|(_, meta)| entity_of(meta));
    let (old_tags, new_tags) = (old_entity.map(counted_tags), new_entity.map(counted_tags));
    let old_kind = old_entity.map(|entity| &entity.kind);
    let new_kind = new_entity.map(|entity| &entity.kind);
    // Most changes of a text change neither tags nor IDs.
    if (old_kind, &old_tags) != (new_kind, &new_tags) {
        if let (Some(meta), Some(kind), Some(tags)) = (old, old_kind, old_tags) {
            for tag in tags {
                count_entity(connection, project, tag, kind, -1)?;
            }
            let delete = "DELETE FROM untagged WHERE project = ?1 AND kind = ?2 AND name = ?3";
            connection.prepare_cached(delete)?.execute((project, kind, &meta.id.name))?;
        }
        if let (Some((document, meta)), Some(kind), Some(tags)) = (new, new_kind, new_tags) {
            static INSERT: LazyLock<String> = LazyLock::new(|| UNTAGGED.insert());
            if tags.len() == 1 {
                let row = (&meta.id.name, project, kind, document);
                connection.prepare_cached(&INSERT)?.execute(row)?;
            }
            for tag in tags {
                count_entity(connection, project, tag, kind, 1)?;
            }
        }
    }
    replace_words(connection, project, old, new)
}

fn count_entity(
    connection: &Connection,
    project: i64,
    tag: &str,
    kind: &str,
    change: i64,
) -> Result<(), DatabaseError> {
    static COUNT: LazyLock<String> = LazyLock::new(|| {
        ENTITY_COUNTS
            .update(&[("number", "number + ?4")], "project = ?1 AND tag = ?2 AND kind = ?3")
    });
    static INSERT: LazyLock<String> = LazyLock::new(|| ENTITY_COUNTS.insert());
    if connection.prepare_cached(&COUNT)?.execute((project, tag, kind, change))? == 0 {
        connection.prepare_cached(&INSERT)?.execute((tag, project, kind, change))?;
    }
    if change < 0 {
        // Unused tags are removed, because the table would only grow otherwise.
        let delete = "DELETE FROM entity_counts \
                      WHERE project = ?1 AND tag = ?2 AND kind = ?3 AND number = 0";
        connection.prepare_cached(delete)?.execute((project, tag, kind))?;
    }
    Ok(())
}

fn replace_words(
    connection: &Connection,
    project: i64,
    old: Option<&DocumentMeta>,
    new: Option<(i64, &DocumentMeta)>,
) -> Result<(), DatabaseError> {
    static INSERT: LazyLock<String> = LazyLock::new(|| ENTITY_WORDS.insert());
    let old_words = old.map(entity_words).unwrap_or_default();
    let new_words = new.map(|(_, meta)| entity_words(meta)).unwrap_or_default();
    if let Some(meta) = old {
        let delete = "DELETE FROM entity_words WHERE project = ?1 AND word = ?2 AND name = ?3";
        let mut delete = connection.prepare_cached(delete)?;
        for word in old_words.difference(&new_words) {
            delete.execute((project, word, &meta.id.name))?;
        }
    }
    if let Some((document, meta)) = new {
        let mut insert = connection.prepare_cached(&INSERT)?;
        for word in new_words.difference(&old_words) {
            insert.execute((word, project, &meta.id.name, document))?;
        }
    }
    Ok(())
}

/// Implements the methods of the same name of [`DocumentRepository`].
///
/// [`DocumentRepository`]: reqlore_domain::ports::documents::DocumentRepository
impl MetadataTables<'_> {
    pub fn entity_kinds(&self) -> Result<EntityCounts, DatabaseError> {
        static SELECT: LazyLock<String> = LazyLock::new(|| {
            let verify = ENTITY_COUNTS.verify_with("", &[("project", "?1"), ("tag", "?2")]);
            format!(
                "SELECT kind, number, {verify} FROM entity_counts WHERE project = ?1 AND tag = ?2"
            )
        });
        let mut select = self.connection.prepare_cached(&SELECT)?;
        let mut rows = select.query((self.project, ALL_TAGS))?;
        let mut kinds = EntityCounts::new();
        while let Some(row) = rows.next()? {
            kinds.insert(row.get(0)?, row.get(1)?);
        }
        Ok(kinds)
    }

    pub fn tag_counts(&self, kind: Option<&str>) -> Result<EntityCounts, DatabaseError> {
        static SELECT: LazyLock<String> = LazyLock::new(|| {
            let verify = ENTITY_COUNTS.verify_with("", &[("project", "?1")]);
            format!(
                "SELECT tag, kind, number, {verify} FROM entity_counts \
                 WHERE project = ?1 AND tag > ?2"
            )
        });
        let mut select = self.connection.prepare_cached(&SELECT)?;
        let mut rows = select.query((self.project, ALL_TAGS))?;
        let mut tags = EntityCounts::new();
        while let Some(row) = rows.next()? {
            let counted_kind = row.get_ref(1)?.as_str()?;
            if kind.is_none_or(|kind| kind == counted_kind) {
                let number: usize = row.get(2)?;
                *tags.entry(row.get(0)?).or_default() += number;
            }
        }
        Ok(tags)
    }

    pub fn untagged(
        &self,
        kind: Option<&str>,
        limit: usize,
    ) -> Result<UntaggedList, DatabaseError> {
        // An empty bound lets one statement serve all kinds, in the order of the primary key.
        let (first, last) = (kind.unwrap_or_default(), kind.unwrap_or("\u{10ffff}"));
        let bounds = "project = ?1 AND kind >= ?2 AND kind <= ?3";
        let count = format!("SELECT count(*) FROM untagged WHERE {bounds}");
        let mut count = self.connection.prepare_cached(&count)?;
        let total: usize = count.query_one((self.project, first, last), |row| row.get(0))?;
        let select =
            format!("SELECT document FROM untagged WHERE {bounds} ORDER BY kind, name LIMIT ?4");
        let mut select = self.connection.prepare_cached(&select)?;
        let mut rows = select.query((self.project, first, last, sql_limit(limit, 0)))?;
        let mut metadata = Vec::new();
        while let Some(row) = rows.next()? {
            let meta = self.metadata(row.get(0)?, UNTAGGED_LIST)?;
            let is_listed = |entity: &Entity| {
                entity.tags.is_empty() && kind.is_none_or(|kind| entity.kind == kind)
            };
            if !entity_of(&meta).is_some_and(is_listed) {
                return Err(DatabaseError::damaged(UNTAGGED_LIST));
            }
            metadata.push(meta);
        }
        Ok(UntaggedList { metadata, total })
    }

    pub fn similar_entities(&self, text: &str) -> Result<SimilarEntities, DatabaseError> {
        let mut similar = SimilarEntities::default();
        let exact = exact_word(text);
        let mut select = self.connection.prepare_cached(
            "SELECT word, document FROM entity_words WHERE project = ?1 AND word = ?2 \
             ORDER BY name LIMIT ?3",
        )?;
        let mut rows = select.query((self.project, &exact, sql_limit(MAX_PAGE_ITEMS, 0)))?;
        while let Some(row) = rows.next()? {
            similar.same.push(self.entity_with_word(row.get_ref(0)?.as_str()?, row.get(1)?)?);
        }
        let Some(prefix) = similar_prefix(text) else { return Ok(similar) };
        let mut select = self.connection.prepare_cached(
            "SELECT word, document FROM entity_words WHERE project = ?1 AND word >= ?2 \
             ORDER BY word, name",
        )?;
        let mut rows = select.query((self.project, &prefix))?;
        // Rows are read lazily, and the first few are enough.
        while let Some(row) = rows.next()? {
            let word = row.get_ref(0)?.as_str()?;
            if !word.starts_with(&prefix) {
                break;
            }
            let meta = self.entity_with_word(word, row.get(1)?)?;
            if !entity_of(&meta).is_some_and(|entity| push_id(&mut similar.ids, &entity.id)) {
                break;
            }
        }
        Ok(similar)
    }

    /// Reads the metadata of a row of words, and confirms the row.
    fn entity_with_word(
        &self,
        word: &str,
        document: i64,
    ) -> Result<Arc<DocumentMeta>, DatabaseError> {
        let meta = self.metadata(document, WORD_LIST)?;
        if !entity_words(&meta).contains(word) {
            return Err(DatabaseError::damaged(WORD_LIST));
        }
        Ok(meta)
    }

    pub fn duplicate_ids(&self, limit: usize) -> Result<DuplicateIds, DatabaseError> {
        // The index on references has the IDs in their order, so nothing is sorted.
        let mut select = self.connection.prepare_cached(
            "SELECT reference FROM documents \
             WHERE project = ?1 AND kind = ?2 AND reference IS NOT NULL \
             GROUP BY reference HAVING count(*) > 1 ORDER BY reference",
        )?;
        let mut rows = select.query((self.project, DocumentKind::Entity.name()))?;
        let mut duplicates = DuplicateIds::default();
        while let Some(row) = rows.next()? {
            duplicates.total += 1;
            if duplicates.ids.len() < limit {
                duplicates.ids.push(row.get(0)?);
            }
        }
        Ok(duplicates)
    }
}
