//! `ixchel_create`: creates an entity with a new id.

use std::borrow::Cow;

use reqlore_domain::backlog::fields::{Description, Tag, Tags, Title};
use reqlore_domain::bounded_types::{deserialize_text, truncate_echo};
use reqlore_domain::error::Result;
use reqlore_domain::knowledge::EntityKind;
use reqlore_domain::ports::service::{ToolCall, ToolSpec};
use reqlore_domain::records::edit::RecordEdit;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer};

use super::Repo;
use crate::tools::arguments::take_custom_fields;
use crate::tools::tool::{decode_arguments, write_tool};
use crate::writes::change::{Change, WriteTool};
use crate::writes::local_names::LocalNames;
use crate::writes::record_answer::EntityOutcome;
use crate::writes::record_change::{RecordChange, RecordTarget};
use crate::writes::record_links::LinkArguments;

pub(crate) struct CreateEntity;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    kind: KindArgument,
    title: Title,
    /// Markdown.
    body: Option<Description>,
    status: Option<Tag>,
    tags: Option<Tags>,
    /// Such as `{"affects": ["REQ-048"]}`.
    links: Option<LinkArguments>,
    /// Path in the repository.
    repo: Option<Repo>,
}

/// A kind by its name, its plural or the prefix of its ids.
struct KindArgument(EntityKind);

impl<'de> Deserialize<'de> for KindArgument {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = deserialize_text(deserializer)?;
        EntityKind::parse(&name).map(Self).ok_or_else(|| {
            let shown = truncate_echo(&name);
            let names = EntityKind::ALL.map(EntityKind::name).join(", ");
            serde::de::Error::custom(format!("{shown:?} is not one of {names}"))
        })
    }
}

impl JsonSchema for KindArgument {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "KindArgument".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "enum": EntityKind::ALL.map(EntityKind::name) })
    }
}

impl WriteTool for CreateEntity {
    fn spec(&self) -> ToolSpec {
        write_tool::<Arguments, EntityOutcome>(
            "ixchel_create",
            "Record a decision",
            "Records a decision, issue, idea or other knowledge: what was decided, and why.",
        )
    }

    fn decode(
        &self,
        call: &mut ToolCall,
        spec: &ToolSpec,
        names: &LocalNames,
    ) -> Result<Box<dyn Change>> {
        // Arguments have no custom fields, because only some projects have any.
        let custom = take_custom_fields(&mut call.arguments)?;
        let arguments: Arguments = decode_arguments(call, spec)?;
        let fields = RecordEdit {
            title: Some(arguments.title.into_string()),
            body: arguments.body.map(Description::into_string),
            status: arguments.status.map(Tag::into_string),
            tags: arguments.tags.map(Tags::into_vec),
            custom: custom.into_iter().collect(),
            ..RecordEdit::default()
        };
        let links = arguments.links.unwrap_or_default().decode(names)?;
        let (target, repo) = (RecordTarget::NewEntity(arguments.kind.0), arguments.repo);
        Ok(Box::new(RecordChange { target, fields, links, if_version: None, repo }))
    }
}
