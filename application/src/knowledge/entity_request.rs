//! The common arguments of `ixchel_show`, `ixchel_graph` and `ixchel_context`.

use reqlore_domain::bounded_types::BoundedString;
use reqlore_domain::error::Result;
use reqlore_domain::ports::service::{ToolCall, ToolSpec};
use schemars::JsonSchema;
use serde::Deserialize;

use super::{MaxTokens, Repo, TokenBudget};
use crate::ToolContext;
use crate::address::{Address, AddressSpace};
use crate::tool::decode_arguments;

// A doc comment would appear in the schema.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct EntityArguments {
    /// Entity ID or path, or any other ID.
    id: BoundedString<1_000>,
    /// Path in the repository.
    repo: Option<Repo>,
    /// Approximate size limit.
    max_tokens: Option<MaxTokens>,
}

/// The decoded arguments.
pub(super) struct EntityRequest {
    /// Any document: IDs of the other toolsets are answered too.
    pub(super) address: Address,
    pub(super) budget: TokenBudget,
}

impl EntityRequest {
    pub(super) async fn decode(
        context: &ToolContext,
        spec: &ToolSpec,
        call: &mut ToolCall,
    ) -> Result<Self> {
        let EntityArguments { id, repo, max_tokens } = decode_arguments(call, spec)?;
        let caller = &call.caller;
        let space = match &repo {
            Some(_) => {
                let project = super::resolve_project(context, caller, repo.as_ref()).await?;
                AddressSpace::of_project(context, caller, project)
            }
            None => AddressSpace::of_caller(context, caller).await?,
        };
        let address = space.resolve(id.as_str(), "id").await?;
        Ok(Self { address, budget: TokenBudget::new(max_tokens) })
    }
}
