//! Workbooks of Excel: each visible sheet with a heading for the title is a table as in CSV.

mod cells;
mod write;

use std::io::{self, BufRead, Cursor};

use calamine::{Reader as _, SheetType, SheetVisible};
use quick_xml::Reader;
use quick_xml::events::Event;
use reqlore_domain::bounded_types::truncate_echo;
use reqlore_domain::ports::exchange::{
    ARCHIVE_MARK, ExchangeFormat, ExportedFiles, ImportMapping, ImportedItems, MAX_SOURCE_BYTES,
    SourceFile,
};
use reqlore_domain::records::answers::csv::whole_item_rows;
use reqlore_domain::records::answers::lists::ListedItem;

use self::cells::{SheetRows, error_text};
use crate::archive::read_archive;
use crate::columns::{HEADING_ROWS, find_columns};
use crate::jira::JiraParents;
use crate::table::TableReader;

pub(crate) struct Xlsx;

/// The memory that the texts or the styles of a workbook may take.
const MAX_PART_MEMORY: usize = 256 << 20;
/// Overhead of a text and of a style in memory.
const TEXT_BYTES: usize = 64;
const STYLE_BYTES: usize = 1_024;
/// Maximum digits of a declared number of texts, for which the reader reserves memory.
const MAX_COUNT_DIGITS: usize = 7;

impl ExchangeFormat for Xlsx {
    fn name(&self) -> &'static str {
        "xlsx"
    }

    fn recognizes(&self, path: &str, _: &str) -> bool {
        let path = path.to_ascii_lowercase();
        [".xlsx", ".xlsm", ".xls"].iter().any(|end| path.ends_with(end))
    }

    fn read(
        &self,
        files: Vec<SourceFile>,
        mapping: &mut ImportMapping,
    ) -> Result<ImportedItems, String> {
        read_files(files, MAX_SOURCE_BYTES, mapping)
    }

    fn write(&self, records: Vec<ListedItem>) -> Result<ExportedFiles, String> {
        let workbook = write::write_workbook(whole_item_rows(&records))?;
        Ok(vec![("items.xlsx".to_owned(), workbook)])
    }
}

/// Reads workbooks, which may unpack to at most `max_bytes` together. The same limit applies to the
/// texts of cells, which repeat texts of a workbook.
pub(crate) fn read_files(
    files: Vec<SourceFile>,
    max_bytes: u64,
    mapping: &mut ImportMapping,
) -> Result<ImportedItems, String> {
    let (mut imported, mut jira) = (ImportedItems::default(), JiraParents::default());
    let mut left = [max_bytes; 2];
    for file in files.into_iter().filter(|file| Xlsx.recognizes(&file.path, "")) {
        read_workbook(file, &mut left, mapping, (&mut imported, &mut jira))?;
    }
    jira.resolve(&mut imported)?;
    Ok(imported)
}

fn read_workbook(
    SourceFile { path, mut content }: SourceFile,
    [left, left_texts]: &mut [u64; 2],
    mapping: &mut ImportMapping,
    (imported, jira): (&mut ImportedItems, &mut JiraParents),
) -> Result<(), String> {
    let problem = |error: &dyn std::fmt::Display| format!("{path}: {error}");
    let beginning = content.fill_buf().map_err(|error| problem(&error))?;
    // Neither encrypted workbooks nor those of Excel 97 are archives.
    if !beginning.starts_with(ARCHIVE_MARK.as_bytes()) {
        return Err(problem(&"it is not a workbook; save it as .xlsx without a password"));
    }
    let bytes = read_archive(&path, content, left, |name, part| {
        check_part(name, part).map_err(|error| format!("{path}: {}: {error}", truncate_echo(name)))
    })?;
    let mut workbook = calamine::Xlsx::new(Cursor::new(bytes))
        .map_err(|error| format!("{path}{}", error_text(&error)))?;
    let sheets = workbook.sheets_metadata().to_vec();
    let mut table = TableReader::new(path.clone(), imported, jira);
    let (mut others, mut guessed) = (0, mapping.clone());
    for sheet in &sheets {
        let is_shown = sheet.typ == SheetType::WorkSheet && sheet.visible == SheetVisible::Visible;
        let name = truncate_echo(&sheet.name);
        let sheet_error = |error: String| format!("{path}: sheet {name:?}{error}");
        if !is_shown {
            others += 1;
            continue;
        }
        let cells = workbook.worksheet_cells_reader(&sheet.name);
        let cells = cells.map_err(|error| sheet_error(error_text(&error)))?;
        let rows = SheetRows::new(cells, left_texts);
        if !read_sheet(rows, &mut table, mapping, &mut guessed).map_err(sheet_error)? {
            others += 1;
        }
    }
    if table.is_empty() && (others > 0 || sheets.is_empty()) {
        *mapping = guessed;
        return Err(problem(
            &"no visible sheet has a heading for the title; name it Title, or map it with --map",
        ));
    }
    table.finish().map_err(|error| format!("{path}{error}"))?;
    if others > 0 {
        let note = format!("{path}: hidden sheets, and sheets without a title column: {others}");
        imported.notes.push(note);
    }
    Ok(())
}

/// Reads a sheet. False for one that has rows, but no heading for the title; `guessed` gets its
/// first row as headings. The error begins with the row.
fn read_sheet(
    mut rows: SheetRows<'_>,
    table: &mut TableReader<'_>,
    mapping: &mut ImportMapping,
    guessed: &mut ImportMapping,
) -> Result<bool, String> {
    let mut first = None;
    for headings in rows.by_ref().take(HEADING_ROWS) {
        let (headings, mut mapped) = (headings?.cells, mapping.clone());
        let columns = find_columns(&headings, &[], &mut mapped)?;
        if columns.iter().any(|(_, field)| field == "title") {
            rows.columns = columns.len();
            table.read(&headings, rows, mapping)?;
            return Ok(true);
        }
        first.get_or_insert(mapped.columns);
    }
    let is_blank = first.is_none();
    guessed.columns.extend(first.unwrap_or_default());
    Ok(is_blank)
}

/// Reads a file of a workbook to its end. Refuses texts and styles that would fill the memory:
/// the reader of workbooks keeps them, reserves what they declare and copies the name and the
/// format of each style.
fn check_part(name: &str, part: &mut dyn BufRead) -> Result<(), String> {
    let name = name.to_ascii_lowercase();
    let is_styles = name.ends_with("styles.xml");
    if !is_styles && !name.ends_with("sharedstrings.xml") {
        return io::copy(part, &mut io::sink()).map(drop).map_err(|error| error.to_string());
    }
    let mut reader = Reader::from_reader(part);
    let (mut elements, mut longest, mut buffer) = (0, 0, Vec::new());
    loop {
        buffer.clear();
        let event = reader.read_event_into(&mut buffer).map_err(|error| error.to_string())?;
        let element = match event {
            Event::Eof => return Ok(()),
            Event::Start(element) | Event::Empty(element) => element,
            _ => continue,
        };
        let mut is_large = false;
        for attribute in element.attributes() {
            let attribute = attribute.map_err(|error| error.to_string())?;
            let is_count = attribute.key.local_name().as_ref() == "uniqueCount";
            is_large |= is_count && attribute.value.len() > MAX_COUNT_DIGITS;
            longest = longest.max(attribute.value.len());
        }
        elements += 1;
        let bytes = if is_styles { STYLE_BYTES + 2 * longest } else { TEXT_BYTES };
        if is_large || elements * bytes > MAX_PART_MEMORY {
            return Err("it has too many styles or different texts; split it".to_owned());
        }
    }
}
