//! The answer of `list_docsets`.

use reqlore_domain::docsets::{Docset, DocsetConfig, format_diagnostic};
use reqlore_domain::error::Result;
use reqlore_domain::records::answers::docsets::{
    DocsetItem, DocsetList, InvalidDocset, ListedDocset,
};

use crate::answers::answer::{NoteStyle, TextAnswer, compact_json, fixed_answer};

/// Renders the answer of `list_docsets`, which is the same for every call.
pub(super) fn render_list(configuration: &DocsetConfig) -> Result<TextAnswer> {
    let mut docsets = Vec::new();
    docsets.extend(configuration.docsets.iter().map(docset_item).map(ListedDocset::Usable));
    for error in &configuration.docset_errors {
        let (name, error) =
            (configuration.invalid_name(error).map(str::to_owned), format_diagnostic(error));
        docsets.push(ListedDocset::Faulty(InvalidDocset { name, error }));
    }
    let answer = DocsetList { docsets };
    // The text is the array, as the specification fixes it.
    fixed_answer(compact_json(&answer.docsets)?, &answer, NoteStyle::Hidden)
}

fn docset_item(docset: &Docset) -> DocsetItem {
    DocsetItem {
        name: docset.name.clone(),
        version: docset.version.clone(),
        aliases: docset.aliases.clone(),
        local_path: docset.local_path.clone(),
        // The title is better than nothing for choosing a docset.
        description: docset.description.as_ref().or(docset.title.as_ref()).cloned(),
    }
}
