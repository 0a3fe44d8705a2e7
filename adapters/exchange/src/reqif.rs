//! ReqIF 1.2: specifications are epics, their first level of chapters stories, and all other
//! objects requirements.

mod items;
mod write;
mod xhtml;
mod xhtml_render;
mod xml;

use std::io::{BufRead, Read};

use reqlore_domain::ports::exchange::{
    ExchangeFormat, ExportedFiles, ImportMapping, ImportedItems, MAX_SOURCE_BYTES, SourceFile,
};
use reqlore_domain::records::answers::lists::ListedItem;

use self::items::add_items;
use self::write::write_document;
use self::xml::read_document;
use crate::archive::read_archive;
use crate::names::{check_length, has_extension};

pub(crate) struct ReqIf;

impl ExchangeFormat for ReqIf {
    fn name(&self) -> &'static str {
        "reqif"
    }

    fn recognizes(&self, path: &str, _: &str) -> bool {
        is_document(path) || is_archive(path)
    }

    fn read(
        &self,
        files: Vec<SourceFile>,
        mapping: &mut ImportMapping,
    ) -> Result<ImportedItems, String> {
        read_files(files, MAX_SOURCE_BYTES, mapping)
    }

    fn write(&self, records: Vec<ListedItem>) -> Result<ExportedFiles, String> {
        Ok(vec![("items.reqif".to_owned(), write_document(&records).into_bytes())])
    }
}

fn is_document(path: &str) -> bool {
    has_extension(path, &["reqif"])
}

fn is_archive(path: &str) -> bool {
    has_extension(path, &["reqifz"])
}

/// Reads the files of a source, whose archives may unpack to at most `max_bytes` together.
pub(crate) fn read_files(
    files: Vec<SourceFile>,
    max_bytes: u64,
    mapping: &mut ImportMapping,
) -> Result<ImportedItems, String> {
    let (mut imported, mut left) = (ImportedItems::default(), max_bytes);
    for SourceFile { path, content } in files {
        if is_archive(&path) {
            read_documents(&path, content, &mut left, mapping, &mut imported)?;
        } else if is_document(&path) {
            read_file(&path, content, mapping, &mut imported)?;
        }
    }
    Ok(imported)
}

fn read_file(
    path: &str,
    content: impl BufRead,
    mapping: &mut ImportMapping,
    imported: &mut ImportedItems,
) -> Result<(), String> {
    let document = read_document(content).map_err(|problem| format!("{path}: {problem}"))?;
    add_items(path, document, mapping, imported).map_err(|problem| format!("{path}: {problem}"))
}

/// Reads the documents in an archive, which may unpack to at most `left` bytes. Reduces `left`.
fn read_documents(
    path: &str,
    content: impl Read,
    left: &mut u64,
    mapping: &mut ImportMapping,
    imported: &mut ImportedItems,
) -> Result<(), String> {
    let mut others = 0;
    read_archive(path, content, left, |name, content| {
        if !is_document(name) {
            others += 1;
            return Ok(());
        }
        // The path is a name only; nothing is written to it.
        let entry_path = format!("{path}/{name}");
        check_length("the path of a file", &entry_path)
            .map_err(|problem| format!("{path}: {problem}"))?;
        read_file(&entry_path, content, mapping, imported)
    })?;
    if others > 0 {
        imported.notes.push(format!("{path}: ignored images and other files: {others}"));
    }
    Ok(())
}
