//! Reads sources in memory, and the complete items that follow from them.

use std::io::{Cursor, Write as _};

use reqlore_domain::ports::exchange::{
    ExchangeFormat, ImportMapping, ImportedItem, ImportedItems, SourceFile,
};
use reqlore_domain::records::answers::lists::ListedItem;
use zip::ZipWriter;
use zip::write::SimpleFileOptions;

use crate::{EXPORT_FORMATS, FORMATS};

mod backlog_md;
mod doorstop;
mod encodings;
mod github;
mod kiro;
mod markdown;
mod needs_json;
mod reqif;
mod reqlix;
mod spec_kit;
mod strictdoc;
mod tables;
mod xlsx;

fn try_read(format: &dyn ExchangeFormat, files: &[(&str, &str)]) -> Result<ImportedItems, String> {
    let files = files.iter().map(|(path, text)| SourceFile {
        path: (*path).to_owned(),
        content: Box::new(Cursor::new(text.as_bytes().to_vec())),
    });
    format.read(files.collect(), &mut ImportMapping::default())
}

fn read(format: &dyn ExchangeFormat, files: &[(&str, &str)]) -> ImportedItems {
    try_read(format, files).unwrap()
}

/// An item of the file `path` with a kind, an ID, the ID of its parent, a title and a text.
fn item(path: &str, [kind, id, parent, title, text]: [&str; 5]) -> ImportedItem {
    ImportedItem {
        source: format!("{path}#{id}"),
        kind: kind.to_owned(),
        parent: (kind != "epic").then(|| format!("{path}#{parent}")),
        title: title.to_owned(),
        text: text.to_owned(),
        ..ImportedItem::default()
    }
}

/// The exported files, whose contents are text.
fn written(format: &dyn ExchangeFormat, records: Vec<ListedItem>) -> Vec<(String, String)> {
    let files = format.write(records).unwrap().into_iter();
    files.map(|(path, content)| (path, String::from_utf8(content).unwrap())).collect()
}

fn archive(entries: &[(&str, &[u8])]) -> Vec<u8> {
    let mut writer = ZipWriter::new(Cursor::new(Vec::new()));
    for (name, bytes) in entries {
        writer.start_file(*name, SimpleFileOptions::default()).unwrap();
        writer.write_all(bytes).unwrap();
    }
    writer.finish().unwrap().into_inner()
}

/// The kind and ID of each item.
fn outline(imported: &ImportedItems) -> Vec<String> {
    let line = |item: &ImportedItem| {
        let id = item.source.split_once('#').unwrap().1;
        format!("{} {id}", item.kind)
    };
    imported.items.iter().map(line).collect()
}

#[test]
fn formats_of_exports_are_those_that_write() {
    let names = |formats: &[&dyn ExchangeFormat]| -> Vec<_> {
        let writing = formats.iter().filter(|format| format.write(Vec::new()).is_ok());
        writing.map(|format| format.name()).collect()
    };
    assert_eq!(names(&FORMATS), EXPORT_FORMATS.map(ExchangeFormat::name));
}

#[test]
fn extensions_have_any_case() {
    let is_markdown = |path| crate::names::has_extension(path, &["md", "markdown"]);
    assert!(["a.MD", "x.y/a.b.Markdown", ".md"].into_iter().all(is_markdown));
    assert!(!["md", "a.md.txt", "a.mdx", "a.md/b", ""].into_iter().any(is_markdown));
}

/// The format that recognizes a file first.
fn recognized(path: &str, text: &str) -> &'static str {
    FORMATS.iter().find(|format| format.recognizes(path, text)).map_or("", |one| one.name())
}
