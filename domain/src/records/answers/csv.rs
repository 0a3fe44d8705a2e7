//! Items as CSV (RFC 4180), for the table page, `reqlore list` and `reqlore export`.

use std::collections::BTreeSet;

use serde_json::Value;

use super::lists::{ListedItem, ProgressView};
use crate::backlog::Priority;
pub use crate::records::text_list::{join_list, split_list};

/// Tells a spreadsheet that a file is UTF-8.
pub const BYTE_ORDER_MARK: &str = "\u{feff}";

type CellText = fn(&ListedItem) -> String;
const COLUMNS: [(&str, CellText); 13] = [
    ("id", |item| item.reference_id.clone()),
    ("kind", |item| item.kind.clone()),
    ("title", |item| item.title.clone()),
    ("status", |item| item.status.clone().unwrap_or_default()),
    ("priority", |item| priority_name(item).to_owned()),
    ("rank", |item| item.rank.clone().unwrap_or_default()),
    ("type", |item| item.type_name.clone().unwrap_or_default().into_owned()),
    ("done", |item| child_count(item, ProgressView::count)),
    ("children", |item| child_count(item, |progress| progress.total)),
    ("parent", |item| item.parent.clone().unwrap_or_default()),
    ("assignee", |item| item.assignee_username.clone().unwrap_or_default()),
    ("tags", |item| join_list(&item.tags)),
    ("updated_at", |item| item.updated_at.clone().unwrap_or_default()),
];

/// The headings of the built-in columns, which come first.
pub fn column_names() -> [&'static str; COLUMNS.len()] {
    COLUMNS.map(|(name, _)| name)
}

/// A spreadsheet may read a cell that begins with one of these as a formula. The last one is
/// [`TEXT_MARK`] itself, so that [`unmark`] returns every text.
const MARKED_STARTS: [char; 15] =
    ['=', '+', '-', '@', '＝', '＋', '－', '＠', '﹦', '﹢', '﹣', '﹫', '\t', '\r', '\''];
const TEXT_MARK: char = '\'';

/// Removes the mark of a text that a spreadsheet could read as a formula.
pub fn unmark(cell: &str) -> &str {
    cell.strip_prefix(TEXT_MARK).filter(|text| text.starts_with(MARKED_STARTS)).unwrap_or(cell)
}

fn priority_name(item: &ListedItem) -> &'static str {
    let number = item.priority.map(usize::from);
    number.and_then(Priority::new).map_or("", Priority::name)
}

fn child_count(item: &ListedItem, count: fn(&ProgressView) -> usize) -> String {
    item.progress.as_ref().map(|progress| count(progress).to_string()).unwrap_or_default()
}

/// The text of a cell, and true for a number.
pub type CsvCell = (String, bool);

/// Renders items of `list_items` as CSV. `fields` are the names of custom fields, whose columns
/// follow the built-in ones. `encode` returns the text of a cell on one line.
pub fn items_csv(items: &[ListedItem], fields: &[&str], encode: fn(&str) -> String) -> String {
    render_csv(item_rows(items, fields.to_vec(), Vec::new()), encode)
}

/// As [`items_csv`], with texts as they are, links and extra keys, for an import elsewhere.
pub fn whole_items_csv(items: &[ListedItem]) -> String {
    render_csv(whole_item_rows(items), str::to_owned)
}

/// The cells of [`whole_items_csv`], without marks. The first row has the headings.
pub fn whole_item_rows(items: &[ListedItem]) -> impl Iterator<Item = Vec<CsvCell>> {
    let [mut fields, mut others] = [BTreeSet::new(), BTreeSet::new()];
    for item in items {
        fields.extend(item.fields.keys().map(String::as_str));
        others.extend(item.links.keys().map(String::as_str));
        others.extend(item.extra.keys().map(String::as_str));
    }
    let others = [TEXT_COLUMN].into_iter().chain(others).collect();
    item_rows(items, Vec::from_iter(fields), others)
}

/// The column of the Markdown text.
const TEXT_COLUMN: &str = "text";

/// The text of an item, the targets of a relation, or the text of an extra key.
fn content_text(item: &ListedItem, column: &str) -> String {
    match (item.links.get(column), item.extra.get(column)) {
        _ if column == TEXT_COLUMN => item.description.clone().unwrap_or_default(),
        (Some(targets), _) => join_list(targets),
        (None, value) => value.map(value_text).unwrap_or_default(),
    }
}

fn item_rows<'a>(
    items: &'a [ListedItem],
    fields: Vec<&'a str>,
    others: Vec<&'a str>,
) -> impl Iterator<Item = Vec<CsvCell>> + 'a {
    let names = COLUMNS.iter().map(|(name, _)| name).chain(&fields).chain(&others);
    let headings = names.map(|name| ((*name).to_owned(), false)).collect();
    let rows = items.iter().map(move |item| {
        let texts = COLUMNS.iter().map(|(name, text)| {
            let is_count = matches!(*name, "done" | "children");
            (text(item), is_count)
        });
        let custom = fields.iter().map(|name| {
            let value = item.fields.get(*name);
            (value.map(value_text).unwrap_or_default(), value.is_some_and(Value::is_number))
        });
        let others = others.iter().map(|column| (content_text(item, column), false));
        texts.chain(custom).chain(others).collect()
    });
    std::iter::once(headings).chain(rows)
}

fn render_csv(rows: impl Iterator<Item = Vec<CsvCell>>, encode: fn(&str) -> String) -> String {
    let mut csv = String::new();
    for row in rows {
        for (index, (text, is_number)) in row.into_iter().enumerate() {
            let mut cell = encode(&text);
            if !is_number && text.starts_with(MARKED_STARTS) {
                cell.insert(0, TEXT_MARK);
            }
            csv.push_str(if index == 0 { "" } else { "," });
            if cell.contains([',', '"', '\n', '\r']) {
                csv.extend(["\"", &cell.replace('"', "\"\""), "\""]);
            } else {
                csv.push_str(&cell);
            }
        }
        csv.push_str("\r\n");
    }
    csv
}

/// Renders a value of a custom field as text, and a list with [`join_list`].
pub fn value_text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(values) => join_list(&values.iter().map(value_text).collect::<Vec<_>>()),
        value => value.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn title_cell(title: &str) -> String {
        let encode = |text: &str| crate::untrusted_text::encode_line(text).into_owned();
        let item = ListedItem {
            reference_id: "EP-001".to_owned(),
            title: title.to_owned(),
            ..ListedItem::default()
        };
        let csv = items_csv(&[item], &[], encode);
        let (_, row) = csv.split_once("\r\n").unwrap();
        row.strip_prefix("EP-001,,").unwrap().strip_suffix(",,,,,,,,,,\r\n").unwrap().to_owned()
    }

    #[test]
    fn csv_cells_run_no_formula_and_return_their_text() {
        for (title, cell) in [
            ("=cmd|' /C calc'!A0", "'=cmd|' /C calc'!A0"),
            ("+1", "'+1"),
            ("-2+3", "'-2+3"),
            ("@SUM(A1)", "'@SUM(A1)"),
            ("＝1+1", "'＝1+1"),
            ("＋1", "'＋1"),
            ("－1", "'－1"),
            ("＠x", "'＠x"),
            ("﹦1", "'﹦1"),
            ("\t=1", "'\\t=1"),
            ("'=1", "''=1"),
            ("'", "''"),
            ("=\"a\",b", "\"'=\"\"a\"\",b\""),
            ("a,b", "\"a,b\""),
            ("say \"x\"", "\"say \"\"x\"\"\""),
            ("Größe prüfen", "Größe prüfen"),
            ("a=1", "a=1"),
            ("\u{1b}[2J\u{202e}\n", r"\u{1b}[2J\u{202e}\n"),
            ("", ""),
        ] {
            assert_eq!(title_cell(title), cell, "{title:?}");
            let unquoted = cell.strip_prefix('"').and_then(|cell| cell.strip_suffix('"'));
            let text = unquoted.unwrap_or(cell).replace("\"\"", "\"");
            let text = text.strip_prefix(TEXT_MARK).unwrap_or(&text).to_owned();
            assert_eq!(text, crate::untrusted_text::encode_line(title));
        }
    }

    #[test]
    fn headings_are_quoted_and_marked() {
        let extra = json!({ "due, date": "x", "=a": "y", "z": "=1" });
        let item = json!({ "reference_id": "", "tags": [], "version": "", "kind": "", "title": "",
            "extra": extra });
        let csv = whole_items_csv(&[serde_json::from_value(item).unwrap()]);
        let (headings, row) = csv.split_once("\r\n").unwrap();
        assert!(headings.ends_with(",text,'=a,\"due, date\",z"), "{headings}");
        assert!(row.ends_with(",,y,x,'=1\r\n"), "{row}");
    }

    #[test]
    fn csv_has_a_cell_for_each_column() {
        let item = json!({
            "reference_id": "US-001", "kind": "user_story", "title": "Pay", "status": "Done",
            "priority": 2, "assignee_username": "ada", "parent": "EP-001", "tags": ["a, b", "c"],
            "updated_at": "2026-11-26T20:00:00Z", "progress": { "met": 1, "total": 3 },
            "type_name": "Data", "rank": "a1", "version": "",
            "fields": { "areas": ["x", "y, z"], "due": "-1", "effort": -2.5, "risk": "=High" }
        });
        let items = [serde_json::from_value(item).unwrap()];
        let with_fields = items_csv(&items, &["risk", "effort", "areas", "due"], str::to_owned);
        assert!(with_fields.contains(",updated_at,risk,effort,areas,due\r\n"), "{with_fields}");
        let cells = "20:00:00Z,'=High,-2.5,\"x, \"\"y, z\"\"\",'-1\r\n";
        assert!(with_fields.ends_with(cells), "{with_fields}");
        let csv = items_csv(&items, &[], str::to_owned);
        let expected = "id,kind,title,status,priority,rank,type,done,children,parent,assignee,tags,\
                        updated_at\r\nUS-001,user_story,Pay,Done,High,a1,Data,1,3,EP-001,ada,\
                        \"\"\"a, b\"\", c\",2026-11-26T20:00:00Z\r\n";
        assert_eq!(csv, expected);
    }
}
