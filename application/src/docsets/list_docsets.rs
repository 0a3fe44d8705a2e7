//! `list_docsets`.

use async_trait::async_trait;
use reqlore_domain::error::Result;
use reqlore_domain::ports::service::{ToolCall, ToolSpec};
use schemars::JsonSchema;
use serde::Deserialize;

use super::docset_list::DocsetList;
use crate::answers::answer::ToolAnswer;
use crate::context::ToolContext;
use crate::tools::tool::{Tool, decode_arguments, whole_tool};

pub(crate) struct ListDocsets;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {}

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
