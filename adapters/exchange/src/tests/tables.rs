//! Tables: the meaning of columns, named epics and stories, and our own exports.

use std::io::Cursor;

use reqlore_domain::ports::exchange::{
    ExchangeFormat as _, ImportMapping, ImportedItem, SourceFile,
};
use serde_json::{Value, json};

use super::read;
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
