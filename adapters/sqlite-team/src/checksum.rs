//! Checksums of rows: computed by SQL when a row is written, verified by SQL when it is read.
//!
//! They detect damage and careless edits. An attacker can compute them too.

use rusqlite::functions::{Context, FunctionFlags};
use rusqlite::types::ValueRef;
use rusqlite::{Connection, Error};

use crate::error::{DatabaseError, ROW_DAMAGE};

/// A table whose rows have a column `checksum` that covers these columns.
///
/// The statements of one table share the list, so that no column is written but not verified. A
/// column must store values in the type in which they were bound, so none may be `REAL`.
#[derive(Debug, Clone, Copy)]
pub struct TableLayout {
    pub name: &'static str,
    /// The first one names a row in reports.
    pub columns: &'static [&'static str],
}

impl TableLayout {
    /// Inserts a row. The parameters `?1`, `?2` … are the columns in their order.
    pub fn insert(&self) -> String {
        let mut values = Vec::with_capacity(self.columns.len());
        for number in 1..=self.columns.len() {
            values.push(format!("?{number}"));
        }
        let (name, columns, values) = (self.name, self.columns.join(", "), values.join(", "));
        format!(
            "INSERT INTO {name} ({columns}, checksum) \
             VALUES ({values}, row_checksum('{name}', {values}))"
        )
    }

    /// Inserts a row, or replaces all columns of the one with the same unique `key`.
    pub fn upsert(&self, key: &str) -> String {
        let mut changes = vec!["checksum = excluded.checksum".to_owned()];
        for column in self.columns {
            if *column != key {
                changes.push(format!("{column} = excluded.{column}"));
            }
        }
        format!("{} ON CONFLICT ({key}) DO UPDATE SET {}", self.insert(), changes.join(", "))
    }

    /// Assigns new values to columns of the rows that meet the condition. Fails if one of these
    /// rows is damaged: otherwise the new checksum would make the damage valid.
    pub fn update(&self, assignments: &[(&str, &str)], condition: &str) -> String {
        let mut changes = Vec::with_capacity(assignments.len());
        for (column, value) in assignments {
            changes.push(format!("{column} = {value}"));
        }
        let mut values = Vec::with_capacity(self.columns.len());
        for column in self.columns {
            let assigned = assignments.iter().find(|(name, _)| name == column);
            values.push(assigned.map_or(*column, |(_, value)| *value));
        }
        let (name, verified) = (self.name, self.verify(""));
        let (changes, values) = (changes.join(", "), values.join(", "));
        format!(
            "UPDATE {name} SET {changes}, \
             checksum = CASE WHEN {verified} THEN row_checksum('{name}', {values}) END \
             WHERE {condition}"
        )
    }

    /// A value to select that is 1 for an intact row and fails for a damaged one. `alias` is the
    /// table's name in the statement with a dot, or empty.
    ///
    /// Not for `WHERE`: for `key = ?1 AND …` SQLite replaces `key` by the parameter in the other
    /// conditions, and evaluates them for rows with other keys, too.
    pub fn verify(&self, alias: &str) -> String {
        format!("verify_row({alias}checksum, {})", self.arguments(alias))
    }

    /// The table's name and its columns, as arguments of `row_checksum`.
    fn arguments(&self, alias: &str) -> String {
        let mut arguments = vec![format!("'{}'", self.name)];
        arguments.extend(self.columns.iter().map(|column| format!("{alias}{column}")));
        arguments.join(", ")
    }

    /// Returns the first `limit` damaged rows, named for a report.
    pub fn find_damage(
        &self,
        connection: &Connection,
        limit: usize,
    ) -> Result<Vec<String>, DatabaseError> {
        let (name, arguments) = (self.name, self.arguments(""));
        let mut select = connection.prepare(&format!(
            "SELECT {} FROM {name} WHERE checksum IS NOT row_checksum({arguments}) LIMIT ?1",
            self.columns[0]
        ))?;
        let mut rows = select.query([limit])?;
        let mut damaged = Vec::new();
        while let Some(row) = rows.next()? {
            let key = match row.get_ref(0)? {
                ValueRef::Integer(number) => number.to_string(),
                // The bytes may be anything, so they are printed escaped.
                ValueRef::Text(bytes) => format!("{:.100}", bytes.escape_ascii().to_string()),
                _ => "without a name".to_owned(),
            };
            damaged.push(format!("{} {key} of table {name}", self.columns[0]));
        }
        Ok(damaged)
    }
}

/// Registers the SQL functions of this module. Every connection needs them.
pub fn register(connection: &Connection) -> rusqlite::Result<()> {
    // Direct only: the schema of a foreign file must not call them.
    let flags = FunctionFlags::SQLITE_UTF8
        | FunctionFlags::SQLITE_DETERMINISTIC
        | FunctionFlags::SQLITE_DIRECTONLY;
    connection.create_scalar_function("row_checksum", -1, flags, |row| Ok(checksum(row, 0)))?;
    connection.create_scalar_function("verify_row", -1, flags, |row| verify(row))
}

/// `verify_row(checksum, table, values…)`: an error if the checksum is another one.
fn verify(row: &Context<'_>) -> rusqlite::Result<bool> {
    if row.get_raw(0) == ValueRef::Integer(checksum(row, 1)) {
        return Ok(true);
    }
    let table = row.get_raw(1).as_str().unwrap_or_default();
    Err(Error::UserFunctionError(format!("{ROW_DAMAGE} {table}").into()))
}

/// The CRC32 of the arguments from `first` on: the table's name, then the values. Each has its type
/// and its length in front, so that no two rows have the same bytes.
fn checksum(row: &Context<'_>, first: usize) -> i64 {
    // Copied to one slice, because CRC32 of many small pieces is slower than the copy.
    let mut bytes = Vec::with_capacity(512);
    for argument in first..row.len() {
        match row.get_raw(argument) {
            ValueRef::Null => bytes.push(b'n'),
            ValueRef::Integer(number) => append(&mut bytes, b'i', &number.to_le_bytes()),
            ValueRef::Real(number) => append(&mut bytes, b'r', &number.to_le_bytes()),
            ValueRef::Text(text) => append(&mut bytes, b't', text),
            ValueRef::Blob(blob) => append(&mut bytes, b'b', blob),
        }
    }
    crc32fast::hash(&bytes).into()
}

fn append(bytes: &mut Vec<u8>, value_type: u8, value: &[u8]) {
    bytes.push(value_type);
    bytes.extend((value.len() as u64).to_le_bytes());
    bytes.extend(value);
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOTES: TableLayout = TableLayout { name: "notes", columns: &["key", "text", "at"] };

    fn open() -> Connection {
        let connection = Connection::open_in_memory().unwrap();
        register(&connection).unwrap();
        let create = "CREATE TABLE notes (key TEXT PRIMARY KEY, text TEXT, at INTEGER, \
                      checksum INTEGER NOT NULL) STRICT";
        connection.execute_batch(create).unwrap();
        connection.execute(&NOTES.insert(), ("a", "one", 1)).unwrap();
        connection.execute(&NOTES.insert(), ("b", None::<&str>, 2)).unwrap();
        connection
    }

    fn read(connection: &Connection, key: &str) -> Result<Option<String>, DatabaseError> {
        let select = format!("SELECT text, {} FROM notes WHERE key = ?1", NOTES.verify(""));
        Ok(connection.query_one(&select, [key], |row| row.get(0))?)
    }

    fn message(error: DatabaseError) -> String {
        error.into_store_error("file.db").to_string()
    }

    #[test]
    fn changed_column_fails_the_read_and_is_found() {
        for change in ["key = 'c'", "text = 'two'", "text = NULL", "at = 2", "checksum = 0"] {
            let connection = open();
            connection.execute(&format!("UPDATE notes SET {change} WHERE key = 'a'"), []).unwrap();
            let key = if change.starts_with("key") { "c" } else { "a" };
            let error = message(read(&connection, key).unwrap_err());
            assert!(error.contains("file.db") && error.contains("notes"), "{change}: {error}");
            assert!(error.contains("reqlore restore"), "{change}: {error}");
            let damage = NOTES.find_damage(&connection, 10).unwrap();
            assert_eq!(damage, [format!("key {key} of table notes")], "{change}");
            assert_eq!(read(&connection, "b").unwrap(), None, "{change}");
        }
    }

    #[test]
    fn update_of_a_part_does_not_accept_damage() {
        let connection = open();
        let update = NOTES.update(&[("at", "?2")], "key = ?1");
        assert_eq!(connection.execute(&update, ("b", 7)).unwrap(), 1);
        connection.execute("UPDATE notes SET text = 'bad' WHERE key = 'a'", []).unwrap();
        let error = message(connection.execute(&update, ("a", 7)).unwrap_err().into());
        assert!(error.contains("notes"), "{error}");
        assert_eq!(NOTES.find_damage(&connection, 10).unwrap().len(), 1);
        // A row that is written as a whole is valid again.
        connection.execute(&NOTES.upsert("key"), ("a", "new", 3)).unwrap();
        assert_eq!(read(&connection, "a").unwrap().as_deref(), Some("new"));
        assert!(NOTES.find_damage(&connection, 10).unwrap().is_empty());
    }

    #[test]
    fn checksum_differs_by_type_and_by_border() {
        let connection = open();
        let select = "SELECT count(DISTINCT v) FROM (SELECT row_checksum('t', 'ab', 'c') AS v \
                      UNION ALL SELECT row_checksum('t', 'a', 'bc') \
                      UNION ALL SELECT row_checksum('t', x'6162', 'c') \
                      UNION ALL SELECT row_checksum('tab', 'c') \
                      UNION ALL SELECT row_checksum('t', NULL, 'c') \
                      UNION ALL SELECT row_checksum('t', 1, 'c') \
                      UNION ALL SELECT row_checksum('t', '1', 'c'))";
        assert_eq!(connection.query_one(select, [], |row| row.get(0)), Ok(7));
    }
}
