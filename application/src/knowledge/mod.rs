//! The knowledge graph: eight tools on the entities of `.ixchel/**/*.md`.

pub(crate) mod context;
pub(crate) mod create;
mod entity_request;
mod import_files;
pub(crate) mod search;
pub(crate) mod show;
pub(crate) mod show_graph;
pub(crate) mod sync;
pub(crate) mod tags;
pub(crate) mod update;

use reqlore_domain::bounded_types::BoundedString;
use reqlore_domain::error::{Error, ErrorKind, Result};
use reqlore_domain::identity::Caller;
use reqlore_domain::knowledge::entity_graph;
use reqlore_domain::ports::project_resolver::Toolset;
use reqlore_domain::ports::record_list::{RecordCounts, RecordQuery};
use reqlore_domain::project_key::ProjectKey;

use crate::context::ToolContext;
use crate::ports::ApplicationPorts;

pub(crate) type Repo = BoundedString<1_000>;

/// Returns the project that `repo` names, or the caller's default.
pub(crate) async fn resolve_project(
    context: &ToolContext,
    caller: &Caller,
    repo: Option<&Repo>,
) -> Result<ProjectKey> {
    context.ports.projects.resolve(caller, repo.map(Repo::as_str), Toolset::Knowledge).await
}

/// Returns the kind that a filter names. An unknown one is an error, not an empty answer.
pub(crate) async fn find_kind(
    ports: &ApplicationPorts,
    project: &ProjectKey,
    kind: &str,
) -> Result<String> {
    let kinds = RecordQuery::of_entities(None, 0).count_by(RecordCounts::Kind);
    let stored = ports.documents.list(project, &kinds).await?.by_text;
    entity_graph::find_kind(&stored, kind)
        .map_err(|reason| Error::new(ErrorKind::InvalidArgument, reason).field("kind"))
}

#[cfg(test)]
mod tests;
