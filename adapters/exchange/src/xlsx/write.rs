//! Writes a workbook (ECMA-376) with one sheet, whose cells are those of the CSV export.
//!
//! A library would add more than a megabyte to the program for styles and charts.

use std::fmt::Write as _;
use std::io::{Cursor, Write as _};

use reqlore_domain::records::answers::csv::{CsvCell, unmark};
use zip::ZipWriter;
use zip::write::SimpleFileOptions;

use super::cells::number_text;

/// Maximum length of a cell in Excel, in UTF-16 units.
const MAX_CELL_UNITS: usize = 32_767;

const DECLARATION: &str = r#"<?xml version="1.0" encoding="UTF-8" standalone="yes"?>"#;
const CONTENT_TYPES: &str = "<Types xmlns=\"http://schemas.openxmlformats.org/package/2006/\
    content-types\"><Default Extension=\"rels\" ContentType=\"application/vnd.openxmlformats-\
    package.relationships+xml\"/><Default Extension=\"xml\" ContentType=\"application/xml\"/>\
    <Override PartName=\"/xl/workbook.xml\" ContentType=\"application/vnd.openxmlformats-\
    officedocument.spreadsheetml.sheet.main+xml\"/><Override PartName=\
    \"/xl/worksheets/sheet1.xml\" ContentType=\"application/vnd.openxmlformats-officedocument.\
    spreadsheetml.worksheet+xml\"/></Types>";
const PACKAGE_RELATIONS: &str = "<Relationships xmlns=\"http://schemas.openxmlformats.org/package/\
    2006/relationships\"><Relationship Id=\"rId1\" Type=\"http://schemas.openxmlformats.org/\
    officeDocument/2006/relationships/officeDocument\" Target=\"xl/workbook.xml\"/>\
    </Relationships>";
const WORKBOOK: &str = "<workbook xmlns=\"http://schemas.openxmlformats.org/spreadsheetml/2006/\
    main\" xmlns:r=\"http://schemas.openxmlformats.org/officeDocument/2006/relationships\">\
    <bookViews><workbookView/></bookViews><sheets><sheet name=\"Items\" sheetId=\"1\" \
    r:id=\"rId1\"/></sheets></workbook>";
const WORKBOOK_RELATIONS: &str = "<Relationships xmlns=\"http://schemas.openxmlformats.org/package/\
    2006/relationships\"><Relationship Id=\"rId1\" Type=\"http://schemas.openxmlformats.org/\
    officeDocument/2006/relationships/worksheet\" Target=\"worksheets/sheet1.xml\"/>\
    </Relationships>";
/// The headings stay in view while the rows are scrolled.
const SHEET_START: &str = "<worksheet xmlns=\"http://schemas.openxmlformats.org/spreadsheetml/\
    2006/main\"><sheetViews><sheetView workbookViewId=\"0\"><pane ySplit=\"1\" \
    topLeftCell=\"A2\" state=\"frozen\"/></sheetView></sheetViews><sheetData>";

/// Writes rows, the first one as headings.
pub(super) fn write_workbook(rows: impl Iterator<Item = Vec<CsvCell>>) -> Result<Vec<u8>, String> {
    let parts = [
        ("[Content_Types].xml", CONTENT_TYPES),
        ("_rels/.rels", PACKAGE_RELATIONS),
        ("xl/workbook.xml", WORKBOOK),
        ("xl/_rels/workbook.xml.rels", WORKBOOK_RELATIONS),
        ("xl/worksheets/sheet1.xml", &sheet(rows)?),
    ];
    let mut archive = ZipWriter::new(Cursor::new(Vec::new()));
    for (name, part) in parts {
        let started = archive.start_file(name, SimpleFileOptions::default());
        started.map_err(|error| error.to_string())?;
        for text in [DECLARATION, part] {
            archive.write_all(text.as_bytes()).map_err(|error| error.to_string())?;
        }
    }
    archive.finish().map(Cursor::into_inner).map_err(|error| error.to_string())
}

fn sheet(rows: impl Iterator<Item = Vec<CsvCell>>) -> Result<String, String> {
    let mut text = SHEET_START.to_owned();
    let mut rows = rows.peekable();
    let headings = rows.peek().cloned().unwrap_or_default();
    for row in rows {
        text += "<row>";
        for ((cell, is_number), (heading, _)) in row.iter().zip(&headings) {
            let mark_units = usize::from(unmark(cell) != cell);
            if cell.encode_utf16().count() + mark_units > MAX_CELL_UNITS {
                let id = &row[0].0;
                return Err(format!(
                    "{id}: {heading}: an Excel cell holds at most {MAX_CELL_UNITS} characters; \
                     export csv instead"
                ));
            }
            write_cell(&mut text, cell, *is_number);
        }
        text += "</row>";
    }
    Ok(text + "</sheetData></worksheet>")
}

fn write_cell(sheet: &mut String, text: &str, is_number: bool) {
    // Excel keeps 15 digits.
    let is_exact = || text.parse().is_ok_and(|number| number_text(number) == text);
    if text.is_empty() {
        sheet.push_str("<c/>");
    } else if is_number && is_exact() {
        sheet.extend(["<c><v>", text, "</v></c>"]);
    } else {
        sheet.push_str(r#"<c t="inlineStr"><is><t xml:space="preserve">"#);
        // An import removes the mark of a text.
        sheet.push_str(if unmark(text) == text { "" } else { "'" });
        escape(sheet, text);
        sheet.push_str("</t></is></c>");
    }
}

/// Characters that XML does not allow are written as `_xHHHH_` (ECMA-376, part 1, 22.4.2.4).
fn escape(sheet: &mut String, text: &str) {
    for (index, c) in text.char_indices() {
        match c {
            '&' => sheet.push_str("&amp;"),
            '<' => sheet.push_str("&lt;"),
            '>' => sheet.push_str("&gt;"),
            '_' if is_code(&text.as_bytes()[index..]) => sheet.push_str("_x005F_"),
            '\t' | '\n' => sheet.push(c),
            '\0'..' ' | '\u{fffe}' | '\u{ffff}' => _ = write!(sheet, "_x{:04X}_", u32::from(c)),
            _ => sheet.push(c),
        }
    }
}

/// True for a text that begins like `_x000D_`.
fn is_code(bytes: &[u8]) -> bool {
    matches!(bytes, [b'_', b'x', digits @ .., ] if digits.len() > 4
        && digits[4] == b'_' && digits[..4].iter().all(u8::is_ascii_hexdigit))
}
