//! `reqlore link` and `reqlore unlink`: add and remove relations between documents.

use reqlore_domain::backlog::{ItemKind, Reference};
use reqlore_domain::bounded_types::truncate_echo;
use reqlore_domain::error::Error;
use reqlore_domain::ports::service::RenderedAnswer;
use reqlore_domain::records::answers::links::{EntityGraph, OutgoingLinks};
use reqlore_domain::records::fields::{FieldType, find_field, relationship_types};
use reqlore_domain::untrusted_text::{encode_id, encode_line};
use serde_json::{Map, json};

use super::item_fields::WritableKind;
use super::tool_client::{ClientPurpose, ToolClient};
use super::write_target::{ToolRequest, WriteOptions, WriteTarget};
use crate::config::AppConfig;
use crate::exit::{CommandError, Result};

pub(crate) const LINK_EXAMPLES: &str = "Examples:\n  reqlore link REQ-002 depends_on REQ-001\n  \
     reqlore link dec-1d2c8f affects US-001\n  reqlore link US-002 parent EP-003";
pub(crate) const UNLINK_EXAMPLE: &str = "Example:\n  reqlore unlink REQ-002 depends_on REQ-001";

#[derive(Debug, clap::Args)]
pub(crate) struct LinkOptions {
    /// The source: a requirement or story, an entity, or for `link` any item with a parent
    #[arg(value_name = "A", add = super::complete::all_ids())]
    source: String,
    /// Of requirements: depends_on, blocks, relates_to, conflicts_with or derives_from. Of stories:
    /// depends_on or blocks. Of entities: any word. `reqlore link A parent B` moves an item
    relation: String,
    /// The target
    #[arg(value_name = "B", add = super::complete::all_ids())]
    target: String,
    #[command(flatten)]
    write: WriteOptions,
}

pub(crate) fn run_link(config: &AppConfig, options: &LinkOptions) -> Result<u8> {
    let client = ToolClient::open(config, &options.write.project, ClientPurpose::Change)?;
    let source = WriteTarget::read(&client, &options.source)?;
    let (relation, target) = (&*options.relation, &*options.target);
    let answer = if let Some(parent) = parent_field(&source, relation) {
        source.update_request(Map::new()).with(parent, target).send(&client)?
    } else if let WritableKind::Entity(_) = source.kind {
        let mut links = EntityLinks::read(&client, &source, relation)?;
        links.targets.push(target.to_owned());
        links.store(&client, &source)?
    } else {
        relationship_request("create_relationship", &source, relation, target)?.send(&client)?
    };
    options.write.print_answer(&answer)
}

pub(crate) fn run_unlink(config: &AppConfig, options: &LinkOptions) -> Result<u8> {
    let client = ToolClient::open(config, &options.write.project, ClientPurpose::Change)?;
    let source = WriteTarget::read(&client, &options.source)?;
    let (relation, target) = (&*options.relation, &*options.target);
    if let Some(parent) = parent_field(&source, relation) {
        let (id, noun) = (encode_id(&source.id), source.kind.noun());
        return Err(CommandError::failure(format!(
            "{id}: a {noun} always has a parent; move it with `reqlore link {id} {parent} ID`"
        )));
    }
    let answer = if let WritableKind::Entity(_) = source.kind {
        let mut links = EntityLinks::read(&client, &source, relation)?;
        let count = links.targets.len();
        links.targets.retain(|linked| link_key(linked) != link_key(target));
        if links.targets.len() == count {
            let (id, relation) = (encode_id(&source.id), encode_line(&links.relation));
            return Err(CommandError::failure(format!(
                "This link does not exist: {id} {relation} {}; `reqlore show {id}` lists all",
                encode_line(truncate_echo(target))
            )));
        }
        links.store(&client, &source)?
    } else {
        relationship_request("delete_relationship", &source, relation, target)?.send(&client)?
    };
    options.write.print_answer(&answer)
}

/// The field of the source's parent, if the relation names it.
fn parent_field(source: &WriteTarget, relation: &str) -> Option<&'static str> {
    let field = find_field(source.kind.row()?, relation).filter(|field| field.is_editable)?;
    matches!(field.field_type, FieldType::Parent(_)).then_some(field.name)
}

fn relationship_request(
    tool: &str,
    source: &WriteTarget,
    relation: &str,
    target: &str,
) -> Result<ToolRequest> {
    let id = encode_id(&source.id);
    let has_types = |kind: &ItemKind| !relationship_types(*kind).is_empty();
    if !matches!(&source.kind, WritableKind::Item(kind) if has_types(kind)) {
        let noun = source.kind.noun();
        return Err(CommandError::failure(format!(
            "{id}: this {noun} has no relationships; only requirements, stories and entities do"
        )));
    }
    if Reference::parse(&link_key(target)).is_none() {
        let target = encode_line(truncate_echo(target));
        return Err(CommandError::failure(format!(
            "{id}: a {} relates to another one only; use `reqlore link {target} RELATION \
             {id}` for an entity",
            source.kind.noun()
        )));
    }
    let request = ToolRequest::new(tool).with("source", &*source.id);
    Ok(request.with("type", relation).with("target", target))
}

/// The links of one relation of an entity.
struct EntityLinks {
    relation: String,
    targets: Vec<String>,
}

impl EntityLinks {
    fn read(client: &ToolClient, source: &WriteTarget, relation: &str) -> Result<Self, Error> {
        let graph: EntityGraph = client.call("ixchel_graph", json!({ "id": source.id }))?;
        let name = relation.trim().replace([' ', '-'], "_");
        for OutgoingLinks { relation, targets } in graph.outgoing {
            if relation.replace('-', "_").eq_ignore_ascii_case(&name) {
                let targets = targets.into_iter().map(|target| target.label.id).collect();
                return Ok(Self { relation, targets });
            }
        }
        Ok(Self { relation: name, targets: Vec::new() })
    }

    /// Replaces the relation, unless the entity has changed since it was read.
    fn store(self, client: &ToolClient, source: &WriteTarget) -> Result<RenderedAnswer, Error> {
        let request = source.update_request(Map::new()).with("if_version", &*source.version);
        request.with("links", json!({ self.relation: self.targets })).send(client)
    }
}

/// Normalizes the spelling of an ID.
fn link_key(id: &str) -> String {
    let id = id.trim();
    let id = id.strip_prefix("section:").unwrap_or(id);
    match Reference::parse(&id.to_ascii_uppercase()) {
        Some(reference) => reference.to_string(),
        None => id.to_lowercase(),
    }
}
