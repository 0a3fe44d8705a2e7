//! `list_docsets`.

use async_trait::async_trait;
use reqlore_domain::error::Result;
use reqlore_domain::ports::service::ToolSpec;
use reqlore_domain::records::answers::docsets::DocsetList;

use crate::answers::answer::ToolAnswer;
use crate::tools::tool::{NoArguments, Tool, ToolRequest, whole_tool};

pub(crate) struct ListDocsets;

#[async_trait]
impl Tool for ListDocsets {
    fn spec(&self) -> ToolSpec {
        whole_tool::<NoArguments, DocsetList>(
            "list_docsets",
            "List the docs of libraries",
            "Lists the project's documentation sets. Call it to choose a docset for search_docs.",
        )
    }

    async fn call(&self, mut request: ToolRequest<'_>) -> Result<ToolAnswer> {
        let NoArguments {} = request.decode()?;
        let ToolRequest { context, call, .. } = request;
        let loaded = context.configurations.current_config(&context.ports, &call.caller).await?;
        Ok(ToolAnswer::new(loaded.list.clone()))
    }
}
