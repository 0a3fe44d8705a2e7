//! Workbooks that Excel, LibreOffice and libraries write, and hostile ones.

use std::fmt::Write as _;
use std::io::Cursor;

use reqlore_domain::ports::exchange::{
    ExchangeFormat as _, ImportMapping, ImportedItems, MAX_SOURCE_BYTES, SourceFile,
};
use serde_json::json;

use super::strictdoc::records;
use super::{archive, outline, recognized, try_read, written};
use crate::csv::Csv;
use crate::xlsx::{Xlsx, read_files};

/// The styles 1 to 3 are a date, a date with time and a duration.
const STYLES: &str = "<styleSheet><numFmts><numFmt numFmtId=\"200\" \
    formatCode=\"dd\\.mm\\.yyyy hh:mm\"/></numFmts><fonts><font><name val=\"Calibri\"/></font></fonts>\
    <cellXfs><xf/><xf numFmtId=\"14\" fontId=\"0\"/><xf numFmtId=\"200\"/><xf numFmtId=\"46\"/>\
    </cellXfs></styleSheet>";
const STRINGS: &str = "<sst uniqueCount=\"1\"><si><t>shared</t></si></sst>";
const TYPE: &str = "http://schemas.openxmlformats.org/officeDocument/2006/relationships";

/// The parts of a workbook with these sheets: name, further attributes, and rows or all of it.
fn parts(sheets: &[(&str, &str, &str)]) -> Vec<(String, String)> {
    let (mut list, mut links, mut parts) = (String::new(), String::new(), Vec::new());
    for (index, (name, attributes, rows)) in sheets.iter().enumerate() {
        write!(list, "<sheet name=\"{name}\" {attributes} r:id=\"r{index}\"/>").unwrap();
        let target = format!("worksheets/{index}.xml");
        write!(
            links,
            "<Relationship Id=\"r{index}\" Type=\"{TYPE}/worksheet\" Target=\"{target}\"/>"
        )
        .unwrap();
        let sheet = if rows.starts_with("<worksheet>") {
            (*rows).to_owned()
        } else {
            format!("<worksheet><sheetData>{rows}</sheetData></worksheet>")
        };
        parts.push((format!("xl/{target}"), sheet));
    }
    let document = format!(
        "<Relationship Id=\"d\" Type=\"{TYPE}/officeDocument\" Target=\"xl/workbook.xml\"/>"
    );
    for (name, text) in [
        ("_rels/.rels", format!("<Relationships>{document}</Relationships>")),
        ("xl/_rels/workbook.xml.rels", format!("<Relationships>{links}</Relationships>")),
        ("xl/workbook.xml", format!("<workbook><sheets>{list}</sheets></workbook>")),
        ("xl/styles.xml", STYLES.to_owned()),
        ("xl/sharedStrings.xml", STRINGS.to_owned()),
    ] {
        parts.push((name.to_owned(), text));
    }
    parts
}

fn pack(parts: &[(String, String)]) -> Vec<u8> {
    let entries = parts.iter().map(|(name, text)| (&**name, text.as_bytes()));
    archive(&entries.collect::<Vec<_>>())
}

fn workbook(sheets: &[(&str, &str, &str)]) -> Vec<u8> {
    pack(&parts(sheets))
}

/// A workbook of one sheet whose part is replaced.
fn with_part(name: &str, text: &str) -> Vec<u8> {
    let mut parts = parts(&[("A", "", &(row(&["Title"]) + &row(&["a"])))]);
    parts.iter_mut().find(|(part, _)| part == name).unwrap().1 = text.to_owned();
    pack(&parts)
}

/// A row of texts, and of cells that are given as XML.
fn row(cells: &[&str]) -> String {
    let cells = cells.iter().map(|cell| {
        if cell.starts_with('<') {
            return (*cell).to_owned();
        }
        let text = cell.replace('&', "&amp;");
        format!("<c t=\"inlineStr\"><is><t xml:space=\"preserve\">{text}</t></is></c>")
    });
    format!("<row>{}</row>", cells.collect::<String>())
}

fn try_bytes(bytes: Vec<u8>, max_bytes: u64) -> Result<ImportedItems, String> {
    let content = Box::new(Cursor::new(bytes));
    let files = vec![SourceFile { path: "a.xlsx".to_owned(), content }];
    read_files(files, max_bytes, &mut ImportMapping::default())
}

fn read_bytes(bytes: Vec<u8>) -> ImportedItems {
    try_bytes(bytes, MAX_SOURCE_BYTES).unwrap()
}

#[test]
fn sheet_below_a_title_has_the_items_of_its_csv() {
    let table = [
        ["Nr", "Titel", "Beschreibung", "Typ", "Epos", "Team"],
        ["A-1", "Anmelden & mehr", " Zeile 1\nZeile 2", "Anforderung", "Konto", "'=1+1"],
        ["", "", "", "", "", ""],
        ["A-2", "Abmelden", "", "Story", "Konto", "=1"],
        ["", "Ohne Nummer", "x", "Anforderung", "EP-001", ""],
    ];
    let mut csv = String::new();
    let mut rows = row(&["Pflichtenheft"]) + "<row/>";
    for cells in table {
        rows += &row(&cells);
        let quoted: Vec<String> = cells.iter().map(|cell| format!("\"{cell}\"")).collect();
        csv += &(quoted.join(";") + "\n");
    }
    let expected = try_read(&Csv, &[("a.csv", &csv)]).unwrap();
    let expected = format!("{expected:?}").replace("a.csv", "a.xlsx");
    let imported = read_bytes(workbook(&[("Liste", "", &rows)]));
    assert_eq!(format!("{imported:?}"), expected);
    assert_eq!(imported.items.len(), 4);
    assert_eq!(imported.items[0].values["Team"], "=1+1");
}

#[test]
fn cells_have_the_text_that_their_reader_sees() {
    let cells = [
        ("<c><v>3.0</v></c>", "3"),
        ("<c><v>0.30000000000000004</v></c>", "0.3"),
        ("<c><v>-0</v></c>", "0"),
        ("<c><v>1E-3</v></c>", "0.001"),
        ("<c s=\"1\"><v>46053</v></c>", "2026-01-31"),
        ("<c s=\"2\"><v>46053.604166666664</v></c>", "2026-01-31T14:30:00"),
        ("<c s=\"2\"><v>0.5</v></c>", "12:00:00"),
        ("<c s=\"3\"><v>1.5</v></c>", "36:00:00"),
        ("<c s=\"1\"><v>-1</v></c>", "-1"),
        ("<c s=\"1\"><v>1e300</v></c>", &format!("1{}", "0".repeat(300))),
        ("<c t=\"d\"><v>2026-01-31</v></c>", "2026-01-31"),
        ("<c t=\"b\"><v>1</v></c>", "true"),
        ("<c t=\"e\"><f>#REF!</f><v>#REF!</v></c>", "#REF!"),
        ("<c><f>1+1</f><v>2</v></c>", "2"),
        ("<c t=\"str\"><f>A1</f><v>=a_x000D_&lt;</v></c>", "=a\r<"),
        ("<c t=\"s\"><v>0</v></c>", "shared"),
    ];
    let mut rows = row(&["Titel", "Wert"]);
    for (cell, _) in &cells {
        rows += &row(&["a", cell]);
    }
    let imported = read_bytes(workbook(&[("A", "", &rows)]));
    for (item, (cell, text)) in imported.items.iter().zip(&cells) {
        assert_eq!(item.values["Wert"], **text, "{cell}");
    }
    assert_eq!(imported.items.len(), cells.len());
}

#[test]
fn all_visible_sheets_with_a_title_are_tables() {
    let one = row(&["Nr", "Titel", "Epos"]) + &row(&["1", "a", "Konto"]);
    let two = row(&["Name", "Epos"]) + &row(&["a", "Konto"]) + &row(&["a", ""]);
    let legend = row(&["Status", "Bedeutung"]).repeat(30) + &row(&["Titel"]);
    let sheets = [
        ("Eins", "", &*one),
        ("Legende", "", &legend),
        ("Alt", "state=\"hidden\"", &one),
        ("Leer", "", ""),
        ("Zwei", "", &two),
    ];
    let imported = read_bytes(workbook(&sheets));
    let expected = ["requirement 1", "requirement a", "requirement a~2", "epic epic:Konto"];
    assert_eq!(outline(&imported), expected);
    assert_eq!(imported.items[1].parent.as_deref(), Some("a.xlsx#epic:Konto"));
    let note = "a.xlsx: hidden sheets, and sheets without a title column: 2";
    assert_eq!(imported.notes, [note]);
    let blank = read_bytes(workbook(&sheets[3..4]));
    assert!(blank.items.is_empty() && blank.notes.is_empty());
    let error = try_bytes(workbook(&sheets[1..4]), MAX_SOURCE_BYTES).unwrap_err();
    assert!(error.starts_with("a.xlsx: no visible sheet has a heading for the title"), "{error}");
    let long = row(&["Titel", "Art"]) + "<row r=\"7\"/>" + &row(&["a", "b", "c"]);
    let error = try_bytes(workbook(&[("Ü", "", &long)]), MAX_SOURCE_BYTES).unwrap_err();
    let expected = "a.xlsx: sheet \"Ü\": row 8: it has 3 cells, but the table has 2 columns";
    assert_eq!(error, expected);
}

#[test]
fn mapped_heading_makes_a_sheet_a_table() {
    let rows = row(&["Object Text", "x"]) + &row(&["a", "b"]);
    let content = Box::new(Cursor::new(workbook(&[("A", "", &rows)])));
    let mut mapping = ImportMapping::default();
    mapping.columns.insert("Object Text".to_owned(), "title".to_owned());
    let files = vec![SourceFile { path: "A.XLSM".to_owned(), content }];
    let imported = Xlsx.read(files, &mut mapping).unwrap();
    assert_eq!((&*imported.items[0].title, &imported.items[0].values["x"]), ("a", &json!("b")));
}

#[test]
fn headings_without_a_title_reach_the_mapping() {
    let one = row(&["Anliegen", "Nr"]) + &row(&["a", "1"]);
    let two = row(&["Thema"]) + &row(&["b"]);
    let sheets =
        [("A", "", &*one), ("B", "state=\"hidden\"", &two), ("C", "", ""), ("D", "", &two)];
    let content = Box::new(Cursor::new(workbook(&sheets)));
    let mut mapping = ImportMapping::default();
    let files = vec![SourceFile { path: "a.xlsx".to_owned(), content }];
    let error = Xlsx.read(files, &mut mapping).unwrap_err();
    assert!(error.starts_with("a.xlsx: no visible sheet has a heading for the title"), "{error}");
    let columns = [("Anliegen", "Anliegen"), ("Nr", "id"), ("Thema", "Thema")];
    let columns = columns.map(|(heading, field)| (heading.to_owned(), field.to_owned()));
    assert_eq!(mapping.columns, columns.into());
}

#[test]
fn declared_size_of_a_sheet_is_not_allocated() {
    for size in ["A1:XFD1048576", "B2:A1", "ZZZZZZZZZ99999999999:A1"] {
        let cell = "<c r=\"B1048576\" t=\"inlineStr\"><is><t>a</t></is></c>";
        let rows = row(&["Nr", "Titel"]) + &row(&[cell]);
        let sheet = format!(
            "<worksheet><dimension ref=\"{size}\"/><sheetData>{rows}</sheetData></worksheet>"
        );
        assert_eq!(read_bytes(workbook(&[("A", "", &sheet)])).items.len(), 1, "{size}");
    }
}

#[test]
fn hostile_workbooks_are_refused() {
    let title = row(&["Title"]);
    let sheet = |rows: &str| workbook(&[("A", "", &(title.clone() + rows))]);
    let wide = vec!["x"; 1_001];
    let far = "<c r=\"XFD1\" t=\"b\"><v>1</v></c>";
    let name = format!("<font><name val=\"{}\"/></font>", "x".repeat(1 << 20));
    let styles = format!(
        "<styleSheet><fonts>{name}</fonts><cellXfs>{}</cellXfs></styleSheet>",
        "<xf/>".repeat(200)
    );
    let missing: Vec<_> =
        parts(&[]).into_iter().filter(|(name, _)| !name.starts_with("xl/")).collect();
    for (bytes, problem) in [
        (b"".to_vec(), "a.xlsx: it is not a workbook; save it as .xlsx without a password"),
        (b"PK\x03\x04".to_vec(), "a.xlsx: "),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1".to_vec(), "a.xlsx: it is not a workbook; save it"),
        (archive(&[("a.txt", b"x")]), "a.xlsx: File not found '_rels/.rels'"),
        (pack(&missing), "a.xlsx: File not found 'xl/_rels/workbook.xml.rels'"),
        (workbook(&[]), "a.xlsx: no visible sheet"),
        (sheet(&row(&wide)), "a.xlsx: sheet \"A\": row 2: it has more columns; at most 1000"),
        (sheet(&row(&[far])), "a.xlsx: sheet \"A\": row 1: it has more columns"),
        (sheet(&row(&["a", "b"])), "a.xlsx: sheet \"A\": row 2: it has 2 cells, but the table"),
        (sheet("<row><c t=\"s\"><v>7</v></c>"), "a.xlsx: sheet \"A\": Cell string index"),
        (sheet("<row><c t=\"str\"><v>&e;</v></c>"), "a.xlsx: sheet \"A\": Xml error: "),
        (sheet("<row><c><v>1</v>"), "a.xlsx: sheet \"A\": Unexpected end of xml"),
        (
            with_part("xl/sharedStrings.xml", "<sst uniqueCount=\"99999999999\"></sst>"),
            "a.xlsx: xl/sharedStrings.xml: it has too many styles or different texts",
        ),
        (with_part("xl/styles.xml", &styles), "a.xlsx: xl/styles.xml: it has too many styles"),
        (
            with_part("xl/workbook.xml", "<workbook><sheets><sheet r:id=\"x\"/>"),
            "a.xlsx: Relationship not found",
        ),
    ] {
        let error = try_bytes(bytes, MAX_SOURCE_BYTES).unwrap_err();
        assert!(error.starts_with(problem), "{problem}: {error}");
    }
    let large = with_part("xl/sharedStrings.xml", &format!("<sst>{}</sst>", " ".repeat(1 << 20)));
    let error = try_bytes(large, 1 << 20).unwrap_err();
    assert_eq!(error, "a.xlsx: the archives unpack to more than 100 MiB; split them");
    // Many cells repeat a text.
    let strings = format!("<sst><si><t>{}</t></si></sst>", "x".repeat(1 << 16));
    let mut parts =
        parts(&[("A", "", &(title.clone() + &row(&["<c t=\"s\"><v>0</v></c>"]).repeat(9)))]);
    parts.last_mut().unwrap().1 = strings;
    let error = try_bytes(pack(&parts), 1 << 18).unwrap_err();
    let expected =
        "a.xlsx: sheet \"A\": row 5: all cells together take more than 100 MiB; split the file";
    assert_eq!(error, expected);
}

#[test]
fn workbooks_are_recognized() {
    assert_eq!(recognized("x/A.XLSX", "PK"), "xlsx");
    assert_eq!(recognized("a.xls", ""), "xlsx");
}

#[test]
fn exported_workbook_has_the_items_of_the_csv() {
    let mut records = records();
    for (name, text) in [
        ("number", "12"),
        ("code", "_x000D_ _x12_"),
        ("zeros", "007"),
        ("control", "a\u{1}\r\n\tb"),
        ("markup", " <&>\"' =1+1"),
        ("formula", "=1+1"),
        ("mark", "'=1+1"),
        ("marks", "''=1+1"),
        ("digits", "1234567890123456"),
        ("minus", "-0"),
        ("due, date", "x"),
        ("=head", "y"),
    ] {
        records[3].extra.insert(name.to_owned(), json!(text));
    }
    for (name, number) in
        [("large", json!(1_234_567_890_123_456_u64)), ("zero", json!(-0.0)), ("half", json!(-0.5))]
    {
        records[3].fields.insert(name.to_owned(), number);
    }
    let (path, bytes) = Xlsx.write(records.clone()).unwrap().swap_remove(0);
    assert_eq!(path, "items.xlsx");
    let mut archive = zip::ZipArchive::new(Cursor::new(&*bytes)).unwrap();
    let sheet = archive.by_name("xl/worksheets/sheet1.xml").unwrap();
    let sheet = std::io::read_to_string(sheet).unwrap();
    let numbers: Vec<&str> = sheet.split("<v>").skip(1).map(|v| &v[..4]).collect();
    assert_eq!(numbers, ["-0.5", "2.5<"]);
    let mut items = read_bytes(bytes).items;
    let csv = written(&Csv, records.clone()).swap_remove(0).1;
    let expected = try_read(&Csv, &[("a.xlsx.csv", &csv)]).unwrap().items;
    for item in &mut items {
        item.source = item.source.replace("a.xlsx#", "a.xlsx.csv#");
    }
    assert_eq!(items, expected);
    records[0].description = Some("x".repeat(40_000));
    let error = Xlsx.write(records).unwrap_err();
    let expected = "EP-001: text: an Excel cell holds at most 32767 characters; export csv instead";
    assert_eq!(error, expected);
}
