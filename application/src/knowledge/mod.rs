//! The knowledge graph (S4): six tools over `.ixchel/**/*.md`, and their check.

pub(crate) mod budget;
pub(crate) mod context;
pub(crate) mod graph;
mod import;
mod neighbours;
pub(crate) mod search;
pub(crate) mod show;
pub(crate) mod sync;
pub(crate) mod tags;

use std::sync::Arc;

use reqlore_domain::bounded::BoundedString;
use reqlore_domain::document::{DocumentMeta, Kind};
use reqlore_domain::error::{Error, ErrorKind, Result};
use reqlore_domain::identity::Caller;
use reqlore_domain::knowledge::{Found, Node};
use reqlore_domain::ports::documents::Refresh;
use reqlore_domain::ports::project_resolver::Toolset;
use reqlore_domain::ports::service::Reply;
use reqlore_domain::project::ProjectKey;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Context;
use crate::tool;
use budget::MaxTokens;

/// S4 `repo`.
pub(crate) type Repo = BoundedString<1_000>;
/// An id, or the path of a file below `.ixchel`.
pub(crate) type Id = BoundedString<1_000>;

// What the tools about one entity take. (A doc comment would become part of the schema.)
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct OneEntity {
    /// The entity's id, such as "dec-1d2c8f"; for a file without one its path below .ixchel.
    id: Id,
    /// A path inside the repository; the server's root when left out.
    repo: Option<Repo>,
    /// Cuts the answer's text to about so many tokens.
    max_tokens: Option<MaxTokens>,
}

/// The project that `repo` names, or the caller's own (S4 AC-003).
async fn project(context: &Context, caller: &Caller, repo: Option<&Repo>) -> Result<ProjectKey> {
    context.ports.projects.resolve(caller, repo.map(Repo::as_str), Toolset::Knowledge).await
}

/// What these words name now, in their order.
async fn named(
    context: &Context,
    project: &ProjectKey,
    words: &[String],
) -> Result<Vec<Vec<Node>>> {
    let named = context.ports.documents.lookup(project, Kind::Entity, words).await?;
    let nodes =
        |heads: Vec<Arc<DocumentMeta>>| heads.iter().filter_map(|head| Node::of(head)).collect();
    Ok(named.into_iter().map(nodes).collect())
}

/// The one entity of an id.
async fn find(context: &Context, project: &ProjectKey, id: &Id) -> Result<Node> {
    let word = id.as_str();
    let nodes = named(context, project, &[word.to_owned()]).await?;
    match Found::among(word, nodes.first().map_or(&[], Vec::as_slice)) {
        Found::One(node) => Ok(node.clone()),
        Found::Several(names) => {
            let message = format!(
                "{} files claim the id {id}: {}. Give one of these names as the id, and mend the \
                 others.",
                names.len(),
                names.join(", ")
            );
            Err(Error::new(ErrorKind::Refused, message).field("id").reference(word))
        }
        Found::Nothing => {
            let known =
                context.indexes.entities(&context.ports, project, Refresh::Incremental).await?;
            Err(unknown(word, &known.inventory.similar(word)))
        }
    }
}

fn unknown(id: &str, similar: &[&str]) -> Error {
    let meant = match similar {
        [] => String::new(),
        similar => format!(" Did you mean {}?", similar.join(" or ")),
    };
    let shown: String = id.chars().take(100).collect();
    let message =
        format!("There is no entity {shown:?} in this project.{meant} ixchel_search finds ids.");
    Error::new(ErrorKind::NotFound, message).field("id").reference(shown)
}

/// Pretty JSON as text, and the same as data.
fn reply(answer: &impl Serialize) -> Result<Reply> {
    let text = serde_json::to_string_pretty(answer).map_err(|error| {
        Error::new(ErrorKind::Internal, "The answer could not be written.").caused_by(error)
    })?;
    tool::reply(text, answer)
}

#[cfg(test)]
mod tests;
