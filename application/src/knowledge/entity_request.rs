//! The common arguments of `ixchel_show`, `ixchel_graph` and `ixchel_context`.

use std::sync::Arc;

use reqlore_domain::bounded_types::BoundedString;
use reqlore_domain::error::Result;
use reqlore_domain::identity::Caller;

use super::Repo;
use crate::addresses::address::{Address, AddressSpace};
use crate::context::ToolContext;

pub(super) type EntityId = BoundedString<1_000>;

/// Finds any document: IDs of the other toolsets are answered too.
pub(super) async fn find_address(
    context: &ToolContext,
    caller: &Arc<Caller>,
    id: &EntityId,
    repo: Option<&Repo>,
) -> Result<Address> {
    let space = match repo {
        Some(_) => {
            let project = super::resolve_project(context, caller, repo).await?;
            AddressSpace::of_project(context, caller, project)
        }
        None => AddressSpace::of_caller(context, caller).await?,
    };
    space.resolve_folded(id.as_str(), "id").await
}
