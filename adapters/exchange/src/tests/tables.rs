//! Tables: the meaning of columns, named epics and stories, and our own exports.

use std::io::Cursor;

use reqlore_domain::ports::exchange::{
    ExchangeFormat as _, ImportMapping, ImportedItem, SourceFile,
};
use serde_json::{Value, json};

use super::strictdoc::records;
use super::{outline, read, try_read, written};
use crate::csv::Csv;

fn items(text: &str) -> Vec<ImportedItem> {
    read(&Csv, &[("a.csv", text)]).items
}

/// The items of a table whose columns a user mapped.
fn mapped_items(text: &str, columns: &[(&str, &str)]) -> Vec<ImportedItem> {
    let mut mapping = ImportMapping::default();
    for (heading, field) in columns {
        mapping.columns.insert((*heading).to_owned(), (*field).to_owned());
    }
    let content = Box::new(Cursor::new(text.as_bytes().to_vec()));
    let files = vec![SourceFile { path: "a.csv".to_owned(), content }];
    Csv.read(files, &mut mapping).unwrap().items
}

fn parents(items: &[ImportedItem]) -> Vec<&str> {
    items.iter().map(|item| item.parent.as_deref().unwrap_or_default()).collect()
}

#[test]
fn further_columns_of_a_field_become_extra_keys() {
    let rows = "A,B,Offen,Done,x,\"y, z\"\n,C,,Done,,\nD,,Offen,,,\n";
    let text = format!("Titel,Summary,Zustand,status,Tags,Label\n{rows}");
    let columns = [("Summary", "title"), ("Zustand", "status"), ("status", "status")];
    for items in [items(&text), mapped_items(&text, &columns)] {
        let titles: Vec<&str> = items.iter().map(|item| &*item.title).collect();
        assert_eq!(titles, ["A", "C", "D"]);
        let statuses: Vec<&Value> = items.iter().map(|item| &item.values["status"]).collect();
        assert_eq!(statuses, ["Offen", "Done", "Offen"]);
        let values = &items[0].values;
        assert_eq!((&values["Summary"], &values["status 2"]), (&json!("B"), &json!("Done")));
        assert_eq!(values["tags"], json!(["x", "y", "z"]));
    }
    let mapped = mapped_items("a,b,c\n1,A,\n2,B,C\n", &[("b", "text"), ("c", "text")]);
    assert_eq!((&*mapped[0].text, &*mapped[1].text), ("A", "B"));
    assert_eq!(mapped[1].values["c"], "C");
}

#[test]
fn epics_and_stories_are_found_in_other_rows() {
    let items = items(
        "ID,Title,Type,Epic,Story\nR1,Pwd,Requirement,E1,S1\nR2,Pwd2,Requirement,Konto,Login\n\
         E1,Konto,Epic,,\nS1,Login,Story,E1,\nS2,Logout,Story,Konto,\nS3,Login,Story,E2,\n\
         E2,Shop,Epic,Shop,\nR3,a,Requirement,Shop,Login\nR4,b,Requirement,,Login\n\
         R5,c,Requirement,,\nR6,d,Criterion,EP-007,Cart\nR7,e,Requirement,EP-007,Cart\n\
         S4,f,Story,US-based users,\n",
    );
    let made = ["epic:US-based users", "EP-007/user_story:Cart"].map(|id| format!("a.csv#{id}"));
    let of = |id: &str| format!("a.csv#{id}");
    assert_eq!(items.len(), 15);
    let expected = [
        of("S1"),
        of("S1"),
        String::new(),
        of("E1"),
        of("E1"),
        of("E2"),
        String::new(),
        of("S3"),
        of("S1"),
        String::new(),
        made[1].clone(),
        made[1].clone(),
        made[0].clone(),
        String::new(),
        "EP-007".to_owned(),
    ];
    assert_eq!(parents(&items), expected);
    assert_eq!([&items[13].source, &items[14].source], [&made[0], &made[1]]);
    assert!(items.iter().all(|item| item.values.is_empty()), "{items:?}");
}

#[test]
fn parent_comes_before_named_epics_and_stories() {
    let items = items(
        "ID,Title,Kind,Parent,Epic,User story\nS1,Login,Story,EP-001,Shop,\n\
         R1,Pwd,Requirement,S1,Shop,Cart\nD1,Why,Decision,,Shop,\n",
    );
    assert_eq!(parents(&items), ["EP-001", "S1", ""]);
    let values: Vec<_> = items.iter().map(|item| json!(item.values)).collect();
    let epic = json!({ "epic": "Shop" });
    assert_eq!(values, [epic.clone(), json!({ "epic": "Shop", "story": "Cart" }), epic]);
}

#[test]
fn extra_keys_of_an_own_export_keep_their_names() {
    let mut records = records();
    let names = [
        "tag",
        "label",
        "story",
        "userstory",
        "epicname",
        "dependencies",
        "relatedto",
        "done",
        "due, date",
        "=a",
    ];
    for name in names {
        records[3].extra.insert(name.to_owned(), json!(format!("{name}, x")));
    }
    // A relation of entities.
    records[0].links.insert("epic".to_owned(), vec!["EP-009".to_owned()]);
    let text = written(&Csv, records).swap_remove(0).1;
    // The second time as with the mapping file of the first.
    for columns in [&[][..], &[("tag", "tag"), ("story", "story")]] {
        let items = mapped_items(&text, columns);
        let item = &items[3];
        for name in names {
            let key = if name == "done" { "done 2" } else { name };
            assert_eq!(item.values[key], format!("{name}, x"));
        }
        assert_eq!(item.parent.as_deref(), Some("US-001"));
        assert_eq!(item.links["derives_from"], ["REQ-002", "REQ-009"]);
        assert_eq!(items[0].links["epic"], ["EP-009"]);
        assert!(item.text.len() > 10 && items.len() == 7);
        assert_eq!(items[0].values["tags"], json!(["a,b", "\"c\""]));
    }
}

#[test]
fn type_column_with_kinds_is_the_kind() {
    let kinds = items("Titel,Typ\nA,Story\nB,Ding\nC,Anforderung\n");
    assert_eq!([0, 1, 2].map(|index| &*kinds[index].kind), ["user_story", "Ding", "requirement"]);
    let types = items("Titel,Typ\nA,Story\nB,Business rule\n");
    assert_eq!([0, 1].map(|index| &*types[index].kind), ["requirement"; 2]);
    assert_eq!(types[1].values["type"], "Business rule");
}

#[test]
fn open_quotes_are_refused() {
    for (text, row) in [
        ("id,title,text\n1,a,\"open\n2,b,c\n3,d,e", 2),
        ("id,title\n1,\"a\"\n2,\"b\"\"\n", 3),
        ("id,\"title\n1,a\n", 1),
        ("title\n\"", 2),
    ] {
        let error = try_read(&Csv, &[("a.csv", text)]).unwrap_err();
        assert_eq!(error, format!("a.csv: row {row}: a quote is not closed"), "{text}");
    }
    for text in ["title\n5\" pipe", "title\n\"a\"", "title\n\"a\"\n\n", "title\n\"a\"b\""] {
        assert_eq!(items(text).len(), 1, "{text}");
    }
    for text in ["", "\n", "title", "title\n"] {
        assert_eq!(items(text).len(), 0, "{text}");
    }
}

#[test]
fn first_line_of_excel_names_the_separator() {
    for start in ["sep=;\r\n", "sep=;\n", "\u{feff}sep=;\n"] {
        let items = items(&format!("{start}Titel;a,b,c,d\r\nx;1\r\n"));
        assert_eq!((&*items[0].title, &items[0].values["a,b,c,d"]), ("x", &json!("1")));
    }
    let error = try_read(&Csv, &[("a.csv", "sep=|\na|title\n1|2|3\n")]).unwrap_err();
    assert!(error.starts_with("a.csv: row 2: it has 3 cells"), "{error}");
    assert_eq!(items("sep=x,title\n1,2\n")[0].values["sep=x"], "1");
}

#[test]
fn headings_are_found_below_a_title() {
    let text = "Item,,\nParent,,x\n,\nParent,ID,Name\n,A-1,Pay\n";
    let found = items(text);
    assert_eq!((&*found[0].title, found[0].id.as_deref(), found.len()), ("Pay", Some("A-1"), 1));
}

#[test]
fn headings_of_specifications_are_guessed() {
    for heading in ["Anforderungs-ID", "Anforderungs ID", "Requirement ID", "Req. ID"] {
        let items = items(&format!("{heading};Name der Anforderung\nA-1;Login\n"));
        assert_eq!((&*items[0].title, items[0].id.as_deref()), ("Login", Some("A-1")));
    }
    assert_eq!(outline(&read(&Csv, &[("a.csv", "Titel\na\n")])), ["requirement a"]);
}
