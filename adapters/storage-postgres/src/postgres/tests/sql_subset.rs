//! SQL outside of the common subset of all supported engines is rejected.

use super::support::{key_of, row_of};
use crate::postgres::schema::migrations;
use crate::postgres::statements::SqlStatement;
use reqlore_row_store::row::RowQuery;
use reqlore_row_store::tables::TABLES;

/// Engines lack these, or they have no effect there.
const FORBIDDEN: &[&str] = &[
    "ADVISORY",
    "AUTOVACUUM",
    "CONCURRENTLY",
    "COUNT",
    "CURSOR",
    "DEFERRABLE",
    "EXCLUDE",
    "EXTENSION",
    "FOREIGN",
    "FUNCTION",
    "GIN",
    "GIST",
    "ICU",
    "IDENTITY",
    "ILIKE",
    "INHERITS",
    "INT",
    "INTEGER",
    "JSON",
    "JSONB",
    "LISTEN",
    "LOCKED",
    "NEXTVAL",
    "NOTIFY",
    "PARTITION",
    "PLPGSQL",
    "PROCEDURE",
    "REFERENCES",
    "RETURNING",
    "SAVEPOINT",
    "SEQUENCE",
    "SERIAL",
    "BIGSERIAL",
    "SHARE",
    "SKIP",
    "TABLESPACE",
    "TEMP",
    "TEMPORARY",
    "TRIGGER",
    "TRUNCATE",
    "TSVECTOR",
    "UNLOGGED",
    "VACUUM",
    "VARCHAR",
    "VIEW",
    "XMAX",
];

fn assert_common(sql: &str) {
    let upper = sql.to_uppercase();
    for word in upper.split(|letter: char| !letter.is_alphanumeric() && letter != '_') {
        assert!(!FORBIDDEN.contains(&word), "{word} in {sql}");
        // All supported engines have this catalog view.
        assert!(!word.starts_with("PG_") || word == "PG_INDEXES", "{word} in {sql}");
    }
    assert!(!upper.contains("FOR UPDATE"), "{sql}");
    let known_stars = ["SELECT * FROM UNNEST(", "* 1000"];
    let rest = known_stars.iter().fold(upper.clone(), |text, star| text.replace(star, ""));
    assert!(!rest.contains('*'), "{sql}");
}

/// All texts that the modules of this crate contain, besides those that are built.
const SOURCES: [&str; 4] = [
    include_str!("../connector.rs"),
    include_str!("../schema.rs"),
    include_str!("../session.rs"),
    include_str!("../statements.rs"),
];

#[test]
fn sql_is_within_the_common_subset() {
    for table in TABLES {
        let (rows, order) = ([row_of(table, 1), row_of(table, 2)], table.columns[0].name);
        let keys = [key_of(table, &rows[0]), key_of(table, &rows[1])];
        let mut query = RowQuery::keys(table, keys[..1].to_vec()).sorted_by(&[order]).limited_to(1);
        query = query.within(order, rows[0].value(0)..rows[1].value(0));
        query.not_null = Some(order);
        let many = RowQuery::keys(table, keys.to_vec());
        let (rows, keys) = (rows.each_ref(), keys.each_ref());
        let queries = [query, many];
        for sql in [
            SqlStatement::select(&queries[..1]).unwrap(),
            SqlStatement::select(&queries).unwrap(),
            SqlStatement::upsert(table, &rows).unwrap(),
            SqlStatement::delete(table, &keys).unwrap(),
        ] {
            assert_common(&sql.text);
        }
    }
    for migration in migrations().unwrap() {
        for step in &migration.steps {
            assert_common(step);
        }
    }
    let mut count = 0;
    for source in SOURCES {
        // SQL is written in capitals.
        for text in source.split('"').skip(1).step_by(2) {
            let word = text.split(' ').next().unwrap_or_default();
            if word.len() > 3 && word.chars().all(|letter| letter.is_ascii_uppercase()) {
                assert_common(text);
                count += 1;
            }
        }
    }
    assert!(count > 12, "{count} texts");
}

#[test]
fn tables_and_indexes_fit_all_engines() {
    for migration in migrations().unwrap() {
        for step in &migration.steps {
            if !step.starts_with("CREATE TABLE IF NOT EXISTS") {
                assert!(!step.starts_with("CREATE TABLE"), "{step}");
                continue;
            }
            assert!(step.contains("PRIMARY KEY ("), "{step}");
            for line in step.lines() {
                let is_plain = line.contains(" TEXT") && !line.contains(" TEXT COLLATE \"C\"");
                assert!(!is_plain, "{line}");
            }
        }
    }
    for table in TABLES {
        assert!((1..=8).contains(&table.key_width), "{}", table.name);
        for column in &table.columns[..table.key_width] {
            assert!(!column.is_nullable, "{} {}", table.name, column.name);
        }
        for index in table.indexes {
            let is_nullable = |name| table.columns[table.index_of(name).unwrap()].is_nullable;
            let mut nullable = index.columns.iter().filter(|name| is_nullable(name));
            match index.condition {
                Some(condition) => assert!(nullable.any(|name| *name == condition), "{index:?}"),
                None => assert_eq!(nullable.next(), None, "{index:?}"),
            }
        }
        assert!(table.indexes.len() < 24, "{}", table.name);
    }
}

#[test]
#[should_panic(expected = "JSONB")]
fn forbidden_words_are_found() {
    assert_common("SELECT a::jsonb FROM documents");
}
