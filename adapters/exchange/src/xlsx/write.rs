//! Writes a workbook (ECMA-376) with one sheet, whose cells are those of the CSV export.
//!
//! A library would add more than a megabyte to the program for styles and charts.

use std::fmt::Write as _;
use std::io::{Cursor, Write as _};

use csv::ReaderBuilder;
use reqlore_domain::records::answers::csv::unmark;
use zip::ZipWriter;
use zip::write::SimpleFileOptions;

/// Maximum length of a cell in Excel, in UTF-16 units.
const MAX_CELL_UNITS: usize = 32_767;
/// Columns whose texts are never numbers.
const TEXT_COLUMNS: [&str; 3] = ["id", "title", "text"];

const DECLARATION: &str = r#"<?xml version="1.0" encoding="UTF-8" standalone="yes"?>"#;
const SHEET_SCHEMA: &str = "http://schemas.openxmlformats.org/spreadsheetml/2006/main";
const RELATIONS: &str = "http://schemas.openxmlformats.org/package/2006/relationships";
const TYPES: &str = "http://schemas.openxmlformats.org/package/2006/content-types";
const DOCUMENT: &str = "http://schemas.openxmlformats.org/officeDocument/2006/relationships";
const SHEET_TYPE: &str = "application/vnd.openxmlformats-officedocument.spreadsheetml";

/// Writes the rows of a CSV text, the first one as headings.
pub(super) fn write_workbook(csv: &str) -> Result<Vec<u8>, String> {
    let parts = [
        ("[Content_Types].xml", content_types()),
        ("_rels/.rels", relation("officeDocument", "xl/workbook.xml")),
        ("xl/workbook.xml", workbook()),
        ("xl/_rels/workbook.xml.rels", relation("worksheet", "worksheets/sheet1.xml")),
        ("xl/worksheets/sheet1.xml", sheet(csv)?),
    ];
    let mut archive = ZipWriter::new(Cursor::new(Vec::new()));
    for (name, part) in parts {
        let started = archive.start_file(name, SimpleFileOptions::default());
        started.map_err(|error| error.to_string())?;
        for text in [DECLARATION, &part] {
            archive.write_all(text.as_bytes()).map_err(|error| error.to_string())?;
        }
    }
    archive.finish().map(Cursor::into_inner).map_err(|error| error.to_string())
}

fn content_types() -> String {
    let mut text = format!(r#"<Types xmlns="{TYPES}">"#);
    for (extension, kind) in [
        ("rels", "application/vnd.openxmlformats-package.relationships+xml"),
        ("xml", "application/xml"),
    ] {
        _ = write!(text, r#"<Default Extension="{extension}" ContentType="{kind}"/>"#);
    }
    for (part, kind) in [("workbook.xml", "sheet.main"), ("worksheets/sheet1.xml", "worksheet")] {
        _ = write!(
            text,
            r#"<Override PartName="/xl/{part}" ContentType="{SHEET_TYPE}.{kind}+xml"/>"#
        );
    }
    text + "</Types>"
}

fn relation(kind: &str, target: &str) -> String {
    [
        format!(r#"<Relationships xmlns="{RELATIONS}"><Relationship Id="rId1" "#),
        format!(r#"Type="{DOCUMENT}/{kind}" Target="{target}"/></Relationships>"#),
    ]
    .concat()
}

fn workbook() -> String {
    [
        &*format!(r#"<workbook xmlns="{SHEET_SCHEMA}" xmlns:r="{DOCUMENT}">"#),
        "<bookViews><workbookView/></bookViews>",
        r#"<sheets><sheet name="Items" sheetId="1" r:id="rId1"/></sheets></workbook>"#,
    ]
    .concat()
}

/// The headings stay in view while the rows are scrolled.
fn sheet(csv: &str) -> Result<String, String> {
    let mut text = format!(r#"<worksheet xmlns="{SHEET_SCHEMA}"><sheetViews>"#);
    text += r#"<sheetView workbookViewId="0"><pane ySplit="1" topLeftCell="A2" state="frozen"/>"#;
    text += "</sheetView></sheetViews><sheetData>";
    let mut rows = ReaderBuilder::new().has_headers(false).from_reader(csv.as_bytes());
    let mut headings = Vec::new();
    for row in rows.records() {
        let row = row.map_err(|error| error.to_string())?;
        text += "<row>";
        for (index, cell) in row.iter().enumerate() {
            let heading = headings.get(index).map(String::as_str);
            // An import would take a second mark away.
            let cell = Some(unmark(cell)).filter(|one| unmark(one) == *one).unwrap_or(cell);
            if cell.encode_utf16().count() > MAX_CELL_UNITS {
                let (id, column) = (row.get(0).unwrap_or_default(), heading.unwrap_or_default());
                return Err(format!(
                    "{id}: {column}: a cell of Excel holds at most {MAX_CELL_UNITS} characters; \
                     export csv instead"
                ));
            }
            write_cell(&mut text, cell, heading.is_some_and(|one| !TEXT_COLUMNS.contains(&one)));
        }
        text += "</row>";
        if headings.is_empty() {
            headings.extend(row.iter().map(str::to_owned));
        }
    }
    Ok(text + "</sheetData></worksheet>")
}

fn write_cell(sheet: &mut String, text: &str, may_be_number: bool) {
    // The text of another number would change, such as that of `007` or of 20 digits.
    let is_number = text.parse::<f64>().is_ok_and(|one| one.is_finite() && one.to_string() == text);
    if text.is_empty() {
        sheet.push_str("<c/>");
    } else if is_number && may_be_number {
        sheet.extend(["<c><v>", text, "</v></c>"]);
    } else {
        sheet.push_str(r#"<c t="inlineStr"><is><t xml:space="preserve">"#);
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
