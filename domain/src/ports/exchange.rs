//! Formats of other tools: the items of a source, and records written for another tool.

use std::collections::BTreeMap;
use std::io::{BufRead, Read};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::bounded_types::truncate_echo;
use crate::records::answers::lists::ListedItem;
use crate::records::custom_field::CustomField;
use crate::records::schema::RecordSchema;

/// Maximum size of all files of a source.
pub const MAX_SOURCE_BYTES: u64 = 100 << 20;
/// Bounds the memory of an import.
pub const MAX_IMPORTED_ITEMS: usize = 100_000;

/// The beginning of a ZIP archive.
pub const ARCHIVE_MARK: &str = "PK\u{3}\u{4}";

/// A file format that is imported, exported or both.
pub trait ExchangeFormat: Sync {
    fn name(&self) -> &'static str;

    /// True if a file of the source probably has this format. `beginning` is its first part.
    fn recognizes(&self, path: &str, beginning: &str) -> bool;

    /// Reads the items of a source. Completes the mapping by guesses. The error names the file and
    /// the problem.
    fn read(
        &self,
        files: Vec<SourceFile>,
        mapping: &mut ImportMapping,
    ) -> Result<ImportedItems, String>;

    /// Renders records, each parent before its children, as files. The error says what to do
    /// instead.
    fn write(&self, _records: Vec<ListedItem>) -> Result<ExportedFiles, String> {
        Err(format!("{} can only be imported; use json", self.name()))
    }

    /// True if an export writes records of this kind.
    fn can_write_kind(&self, _kind: &str) -> bool {
        true
    }

    /// True if an export writes a record only below its parent.
    fn needs_parents(&self) -> bool {
        false
    }
}

/// The format with this name, or the reason why there is none.
pub fn find_format(
    formats: &[&'static dyn ExchangeFormat],
    name: &str,
) -> Result<&'static dyn ExchangeFormat, String> {
    let mut all = formats.iter().copied();
    all.find(|format| format.name().eq_ignore_ascii_case(name.trim())).ok_or_else(|| {
        let (shown, names) = (truncate_echo(name), format_names(formats).join(", "));
        format!("{shown:?} is not one of {names}")
    })
}

pub fn format_names(formats: &[&'static dyn ExchangeFormat]) -> Vec<&'static str> {
    formats.iter().map(|format| format.name()).collect()
}

/// A file to import.
pub struct SourceFile {
    /// Relative to the source, with `/`.
    pub path: String,
    pub content: Box<dyn BufRead>,
}

impl SourceFile {
    /// Reads the text, without a byte order mark and with line ends of one character.
    pub fn read_text(&mut self) -> Result<String, String> {
        let mut bytes = Vec::new();
        let limited = (&mut self.content).take(MAX_SOURCE_BYTES + 1).read_to_end(&mut bytes);
        limited.map_err(|error| format!("{}: {error}", self.path))?;
        if bytes.len() as u64 > MAX_SOURCE_BYTES {
            return Err(format!("{}: it has more than 100 MiB; split it", self.path));
        }
        if is_utf16(&bytes) {
            return Err(format!("{}: it is UTF-16; save it as UTF-8", self.path));
        }
        let text = String::from_utf8(bytes).map_err(|error| {
            let line = error.as_bytes()[..error.utf8_error().valid_up_to()].split(|b| *b == b'\n');
            format!("{}:{}: it is not UTF-8; save it as UTF-8", self.path, line.count())
        })?;
        let text = text.strip_prefix('\u{feff}').map(str::to_owned).unwrap_or(text);
        Ok(if text.contains('\r') { text.replace("\r\n", "\n") } else { text })
    }
}

impl std::fmt::Debug for SourceFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SourceFile").field("path", &self.path).finish_non_exhaustive()
    }
}

/// The name of a file without folders and extension, for an item that a file stands for.
pub fn file_title(path: &str) -> &str {
    let file = path.rsplit('/').next().unwrap_or(path);
    file.rsplit_once('.').map_or(file, |(stem, _)| stem)
}

/// True for the beginning of a text in UTF-16 with a byte order mark.
pub fn is_utf16(beginning: &[u8]) -> bool {
    beginning.starts_with(&[0xff, 0xfe]) || beginning.starts_with(&[0xfe, 0xff])
}

/// An item of a source.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ImportedItem {
    /// Identifies it in all imports of the source: `PATH#ID`.
    pub source: String,
    /// The name of a kind.
    pub kind: String,
    /// A source, an ID of the source, or a reference of the project.
    pub parent: Option<String>,
    /// Kept if it has the form of an ID of the kind and the project never issued it.
    pub id: Option<String>,
    pub title: String,
    /// Markdown.
    pub text: String,
    /// True if the source has no place for a text, so that an empty one removes nothing.
    pub lacks_text: bool,
    /// Values by the name of a built-in or custom field. Others become extra keys. An empty one
    /// removes the value of an earlier import.
    pub values: BTreeMap<String, Value>,
    /// Targets by relation, each named like a parent.
    pub links: BTreeMap<String, Vec<String>>,
}

/// The items of a source, and what was ignored.
#[derive(Debug, Default, PartialEq)]
pub struct ImportedItems {
    pub items: Vec<ImportedItem>,
    /// One sentence for each part that no item contains.
    pub notes: Vec<String>,
}

impl ImportedItems {
    /// Adds an item. Fails above the limit.
    pub fn push(&mut self, item: ImportedItem) -> Result<(), String> {
        if self.items.len() == MAX_IMPORTED_ITEMS {
            return Err(format!("it has more than {MAX_IMPORTED_ITEMS} items; split it"));
        }
        self.items.push(item);
        Ok(())
    }
}

/// Written files with their paths. A path with a folder needs a folder to write to.
pub type ExportedFiles = Vec<(String, Vec<u8>)>;

/// The meaning of columns and values, as a user may edit it in a file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ImportMapping {
    pub format: String,
    /// The field of each column: a built-in or custom field, `tag`, an extra key, or empty for a
    /// column that is ignored.
    pub columns: BTreeMap<String, String>,
    /// The values of built-in fields, such as `status`, by their text in the source.
    pub values: BTreeMap<String, BTreeMap<String, String>>,
    /// Names and labels of the project's custom fields, for guesses.
    #[serde(skip)]
    pub custom_fields: Vec<(String, String)>,
}

impl ImportMapping {
    /// The mapping for a format and the custom fields of a project.
    #[must_use]
    pub fn for_format(mut self, format: &dyn ExchangeFormat, schema: &RecordSchema) -> Self {
        format.name().clone_into(&mut self.format);
        for CustomField { name, label, .. } in &schema.fields {
            self.custom_fields.push((name.clone(), label.clone()));
        }
        self
    }
}
