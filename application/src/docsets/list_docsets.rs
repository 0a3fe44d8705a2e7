//! `list_docsets`.

use std::sync::Arc;

use async_trait::async_trait;
use reqlore_domain::docsets::{CONFIG_PATH, Docset, DocsetConfig};
use reqlore_domain::document::Version;
use reqlore_domain::error::Result;
use reqlore_domain::ports::service::{ToolCall, ToolReply, ToolSpec};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{LoadedConfig, first_diagnostics};
use crate::ToolContext;
use crate::tool::{Tool, add_notes, decode_arguments, pretty_json, read_tool, serialization_error};

pub(crate) struct ListDocsets;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {}

#[derive(Serialize, JsonSchema)]
struct DocsetList<'a> {
    docsets: Vec<DocsetItem<'a>>,
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
        read_tool::<Arguments, DocsetList<'_>>(
            "list_docsets",
            "List docsets",
            "Lists the project's documentation sets. Call it to choose a docset for search_docs.",
        )
    }

    async fn call(
        &self,
        context: &ToolContext,
        spec: &ToolSpec,
        mut call: ToolCall,
    ) -> Result<ToolReply> {
        let Arguments {} = decode_arguments(&mut call, spec)?;
        let loaded = context.configurations.current_config(&context.ports, &call.caller).await?;
        let mut text = vec![loaded.list_text.clone()];
        if loaded.configuration.docsets.is_empty() {
            text.push(format!("`docsets` in {CONFIG_PATH} is empty."));
        }
        let mut reply = ToolReply { text, data: Arc::clone(&loaded.list_data) };
        let faults = &loaded.configuration.faults;
        if !faults.is_empty() {
            add_notes(&mut reply, vec![first_diagnostics(faults)]);
        }
        Ok(reply)
    }
}

/// Renders the answer of `list_docsets`, which is the same for every call.
pub(super) fn render_list(configuration: DocsetConfig, version: Version) -> Result<LoadedConfig> {
    let answer = DocsetList { docsets: configuration.docsets.iter().map(docset_item).collect() };
    let list_text = pretty_json(&answer.docsets)?;
    let list_data = Arc::new(serde_json::to_value(&answer).map_err(serialization_error)?);
    Ok(LoadedConfig { configuration, version, list_text, list_data })
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
