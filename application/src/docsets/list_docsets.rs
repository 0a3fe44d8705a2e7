//! `list_docsets`.

use async_trait::async_trait;
use reqlore_domain::docsets::{Docset, DocsetConfig, format_diagnostic};
use reqlore_domain::document::Version;
use reqlore_domain::error::Result;
use reqlore_domain::ports::service::{ToolCall, ToolSpec};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::LoadedConfig;
use crate::ToolContext;
use crate::answers::answer::{NoteStyle, ToolAnswer, compact_json, fixed_answer};
use crate::tools::tool::{Tool, decode_arguments, whole_tool};

pub(crate) struct ListDocsets;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {}

#[derive(Serialize, JsonSchema)]
struct DocsetList<'a> {
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
    /// The problem and its place in the file.
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

#[async_trait]
impl Tool for ListDocsets {
    fn spec(&self) -> ToolSpec {
        whole_tool::<Arguments, DocsetList<'_>>(
            "list_docsets",
            "List the docs of libraries",
            "Lists the project's documentation sets. Call it to choose a docset for search_docs.",
        )
    }

    async fn call(
        &self,
        context: &ToolContext,
        spec: &ToolSpec,
        mut call: ToolCall,
    ) -> Result<ToolAnswer> {
        let Arguments {} = decode_arguments(&mut call, spec)?;
        let loaded = context.configurations.current_config(&context.ports, &call.caller).await?;
        Ok(ToolAnswer::new(loaded.list.clone()))
    }
}

/// Renders the answer of `list_docsets`, which is the same for every call.
pub(super) fn render_list(configuration: DocsetConfig, version: Version) -> Result<LoadedConfig> {
    let mut docsets: Vec<ListedDocset<'_>> = Vec::new();
    docsets.extend(configuration.docsets.iter().map(docset_item).map(ListedDocset::Usable));
    for fault in &configuration.faults {
        let (name, error) = (configuration.faulty_name(fault), format_diagnostic(fault));
        docsets.push(ListedDocset::Faulty(InvalidDocset { name, error }));
    }
    let answer = DocsetList { docsets };
    // The text is the array, as the specification fixes it.
    let list = fixed_answer(compact_json(&answer.docsets)?, &answer, NoteStyle::Hidden)?;
    Ok(LoadedConfig { configuration, version, list })
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
