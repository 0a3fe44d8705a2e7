//! `list_docsets`.

use async_trait::async_trait;
use reqlore_domain::error::Result;
use reqlore_domain::ports::service::{ToolCall, ToolSpec};

use super::docset_list::DocsetList;
use crate::answers::answer::ToolAnswer;
use crate::context::ToolContext;
use crate::tools::tool::{NoArguments, Tool, decode_arguments, whole_tool};

pub(crate) struct ListDocsets;

#[async_trait]
impl Tool for ListDocsets {
    fn spec(&self) -> ToolSpec {
        whole_tool::<NoArguments, DocsetList<'_>>(
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
        let NoArguments {} = decode_arguments(&mut call, spec)?;
        let loaded = context.configurations.current_config(&context.ports, &call.caller).await?;
        Ok(ToolAnswer::new(loaded.list.clone()))
    }
}
