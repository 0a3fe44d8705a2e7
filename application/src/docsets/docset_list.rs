//! The answer of `list_docsets`.

use reqlore_domain::docsets::{Docset, DocsetConfig, format_diagnostic};
use reqlore_domain::error::Result;
use schemars::JsonSchema;
use serde::Serialize;

use crate::answers::answer::{NoteStyle, TextAnswer, compact_json, fixed_answer};

#[derive(Serialize, JsonSchema)]
pub(super) struct DocsetList<'a> {
    docsets: Vec<ListedDocset<'a>>,
}

#[derive(Serialize, JsonSchema)]
#[serde(untagged)]
enum ListedDocset<'a> {
    Usable(DocsetItem<'a>),
    Faulty(InvalidDocset<'a>),
}

/// A docset that search_docs cannot use.
#[derive(Serialize, JsonSchema)]
struct InvalidDocset<'a> {
    /// Null if the file has none.
    #[schemars(required, extend("type" = ["string", "null"]))]
    name: Option<&'a str>,
    /// The problem with its line in the file.
    error: String,
}

#[derive(Serialize, JsonSchema)]
struct DocsetItem<'a> {
    /// For search_docs.
    name: &'a str,
    #[schemars(required, extend("type" = ["string", "null"]))]
    version: Option<&'a str>,
    aliases: &'a [String],
    /// Absolute folder, ending with a slash.
    local_path: &'a str,
    #[schemars(required, extend("type" = ["string", "null"]))]
    description: Option<&'a str>,
}

/// Renders the answer of `list_docsets`, which is the same for every call.
pub(super) fn render_list(configuration: &DocsetConfig) -> Result<TextAnswer> {
    let mut docsets: Vec<ListedDocset<'_>> = Vec::new();
    docsets.extend(configuration.docsets.iter().map(docset_item).map(ListedDocset::Usable));
    for error in &configuration.docset_errors {
        let (name, error) = (configuration.invalid_name(error), format_diagnostic(error));
        docsets.push(ListedDocset::Faulty(InvalidDocset { name, error }));
    }
    let answer = DocsetList { docsets };
    // The text is the array, as the specification fixes it.
    fixed_answer(compact_json(&answer.docsets)?, &answer, NoteStyle::Hidden)
}

fn docset_item(docset: &Docset) -> DocsetItem<'_> {
    DocsetItem {
        name: &docset.name,
        version: docset.version.as_deref(),
        aliases: &docset.aliases,
        local_path: &docset.local_path,
        // The title is better than nothing for choosing a docset.
        description: docset.description.as_deref().or(docset.title.as_deref()),
    }
}
