//! CSV with any separator: one item a row, one field a column.

use std::io::BufRead;

use ::csv::ReaderBuilder;
use reqlore_domain::ports::exchange::{
    ExchangeFormat, ExportedFiles, ImportMapping, ImportedItems, SourceFile, is_utf16,
};
use reqlore_domain::records::answers::csv::whole_items_csv;
use reqlore_domain::records::answers::lists::ListedItem;

use crate::columns::TableRow;
use crate::jira::JiraParents;
use crate::table::TableReader;

pub(crate) struct Csv;

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

/// The separator that the first line has most often outside of quotes.
fn find_separator(line: &[u8]) -> u8 {
    let mut counts = [(b',', 0), (b';', 0), (b'\t', 0), (b'|', 0)];
    let mut is_quoted = false;
    for byte in line.iter().take_while(|byte| **byte != b'\n') {
        is_quoted ^= *byte == b'"';
        if let Some((_, count)) = counts.iter_mut().find(|(one, _)| one == byte && !is_quoted) {
            *count += 1;
        }
    }
    counts.iter().rev().max_by_key(|(_, count)| *count).map_or(b',', |(byte, _)| *byte)
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
    let separator = find_separator(beginning);
    let mut builder = ReaderBuilder::new();
    let mut reader = builder.delimiter(separator).flexible(true).from_reader(file.content);
    let headings = reader.headers().map_err(|error| describe(&error))?;
    let headings: Vec<String> = headings.iter().map(str::to_owned).collect();
    let rows = reader.into_records().map(|record| {
        let record = record.map_err(|error| describe(&error))?;
        let number = record.position().map_or(0, row_number);
        Ok(TableRow { number, cells: record.iter().map(str::to_owned).collect() })
    });
    let mut table = TableReader::new(file.path, imported, jira);
    table.read(&headings, rows, mapping)?;
    table.finish()
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
