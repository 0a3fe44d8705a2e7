//! CSV with any separator: one item a row, one field a column.

use std::io::{BufRead, Read as _};

use ::csv::ReaderBuilder;
use reqlore_domain::ports::exchange::{
    ExchangeFormat, ExportedFiles, ImportMapping, ImportedItems, SourceFile, is_utf16,
};
use reqlore_domain::records::answers::csv::{BYTE_ORDER_MARK, whole_items_csv};
use reqlore_domain::records::answers::lists::ListedItem;

use crate::columns::{HEADING_ROWS, TableRow, find_columns};
use crate::jira::JiraParents;
use crate::table::TableReader;

pub(crate) struct Csv;

/// Appended to each file. A cell that ends with it has an unclosed quote.
const END: &str = "\n\0";
const END_CELL: &str = "\0";
const SEPARATORS: [u8; 4] = [b'|', b'\t', b';', b','];

impl ExchangeFormat for Csv {
    fn name(&self) -> &'static str {
        "csv"
    }

    fn recognizes(&self, path: &str, _: &str) -> bool {
        let path = path.to_ascii_lowercase();
        [".csv", ".tsv"].iter().any(|end| path.ends_with(end))
    }

    fn read(
        &self,
        files: Vec<SourceFile>,
        mapping: &mut ImportMapping,
    ) -> Result<ImportedItems, String> {
        let (mut imported, mut jira) = (ImportedItems::default(), JiraParents::default());
        for file in files.into_iter().filter(|file| self.recognizes(&file.path, "")) {
            let path = file.path.clone();
            let read = read_file(file, mapping, &mut imported, &mut jira);
            read.map_err(|problem| format!("{path}{problem}"))?;
        }
        jira.resolve(&mut imported)?;
        Ok(imported)
    }

    fn write(&self, records: Vec<ListedItem>) -> Result<ExportedFiles, String> {
        Ok(vec![("items.csv".to_owned(), whole_items_csv(&records).into_bytes())])
    }
}

/// The separator in a first line such as `sep=;` of Excel, and the number of bytes to skip.
fn named_separator(beginning: &[u8]) -> Option<(u8, usize)> {
    let text = beginning.strip_prefix(BYTE_ORDER_MARK.as_bytes()).unwrap_or(beginning);
    let (separator, rest) = text.strip_prefix(b"sep=")?.split_first()?;
    let rest = rest.strip_prefix(b"\r").unwrap_or(rest).strip_prefix(b"\n")?;
    SEPARATORS.contains(separator).then_some((*separator, beginning.len() - rest.len()))
}

/// The separator that the first line has most often outside of quotes.
fn find_separator(line: &[u8]) -> u8 {
    let mut counts = SEPARATORS.map(|separator| (separator, 0));
    let mut is_quoted = false;
    for byte in line.iter().take_while(|byte| **byte != b'\n') {
        is_quoted ^= *byte == b'"';
        if let Some((_, count)) = counts.iter_mut().find(|(one, _)| one == byte && !is_quoted) {
            *count += 1;
        }
    }
    counts.iter().max_by_key(|(_, count)| *count).map_or(b',', |(byte, _)| *byte)
}

/// The error begins with the row.
fn read_file(
    mut file: SourceFile,
    mapping: &mut ImportMapping,
    imported: &mut ImportedItems,
    jira: &mut JiraParents,
) -> Result<(), String> {
    let beginning = file.content.fill_buf().map_err(|error| format!(": {error}"))?;
    if is_utf16(beginning) {
        return Err(": it is UTF-16; save it as CSV UTF-8".to_owned());
    }
    let named = named_separator(beginning);
    let (separator, skipped) = named.unwrap_or_else(|| (find_separator(beginning), 0));
    file.content.consume(skipped);
    let mut builder = ReaderBuilder::new();
    let builder = builder.delimiter(separator).flexible(true).has_headers(false);
    let records = builder.from_reader(file.content.chain(END.as_bytes())).into_records();
    let mut rows = records.map(read_record).filter(|row| !row.as_ref().is_ok_and(is_end));
    let (headings, read) = find_headings(&mut rows, mapping)?;
    let mut table = TableReader::new(file.path, imported, jira);
    table.read(&headings, read.into_iter().map(Ok).chain(rows), mapping)?;
    table.finish()
}

/// The first row with a heading for the title; if none has one, the first row and the rows that
/// were read after it.
fn find_headings(
    rows: &mut impl Iterator<Item = Result<TableRow, String>>,
    mapping: &ImportMapping,
) -> Result<(Vec<String>, Vec<TableRow>), String> {
    let mut read = Vec::new();
    for row in rows.take(HEADING_ROWS) {
        let row = row?;
        let columns = find_columns(&row.cells, &[], &mut mapping.clone())?;
        if columns.iter().any(|(_, field)| field == "title") {
            return Ok((row.cells, Vec::new()));
        }
        read.push(row);
    }
    let first = if read.is_empty() { TableRow::default() } else { read.remove(0) };
    Ok((first.cells, read))
}

fn read_record(record: ::csv::Result<::csv::StringRecord>) -> Result<TableRow, String> {
    let record = record.map_err(|error| describe(&error))?;
    let number = record.position().map_or(0, row_number);
    let cells: Vec<String> = record.iter().map(str::to_owned).collect();
    if cells.last().is_some_and(|cell| cell.ends_with(END)) {
        return Err(format!(": row {number}: a quote is not closed"));
    }
    Ok(TableRow { number, cells })
}

fn is_end(row: &TableRow) -> bool {
    matches!(&*row.cells, [cell] if cell == END_CELL)
}

/// The number of a row as spreadsheets show it: the headings are row 1.
fn row_number(position: &::csv::Position) -> u64 {
    position.record() + 1
}

fn describe(error: &::csv::Error) -> String {
    let row = error.position().map_or(1, row_number);
    match error.kind() {
        ::csv::ErrorKind::Utf8 { .. } => {
            format!(": row {row}: it is not UTF-8; save it as CSV UTF-8")
        }
        _ => format!(": row {row}: {error}"),
    }
}
