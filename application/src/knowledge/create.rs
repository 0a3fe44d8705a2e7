//! `ixchel_create`: creates an entity with a new id.

use reqlore_domain::backlog::fields::{Description, Tag, Tags, Title};
use reqlore_domain::error::Result;
use reqlore_domain::knowledge::EntityKind;
use reqlore_domain::ports::service::ToolSpec;
use reqlore_domain::records::edit::RecordEdit;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::Repo;
use crate::backlog::arguments::enum_argument;
use crate::tools::arguments::{take_custom_fields, take_extra};
use crate::tools::tool::{ToolRequest, write_tool};
use crate::writes::change::{Change, WriteTool};
use crate::writes::local_names::LocalNames;
use crate::writes::record_answer::EntityOutcome;
use crate::writes::record_change::{RecordChange, RecordTarget, WANTED_ID};
use crate::writes::record_links::LinkArguments;
use crate::writes::superseded_records::add_superseded_link;

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
    /// Such as `{"supersedes": ["dec-1d2c8f"]}`.
    links: Option<LinkArguments>,
    /// Folder.
    repo: Option<Repo>,
}

// By its name, its plural or the prefix of its ids.
enum_argument!(KindArgument, EntityKind, EntityKind::all());

impl WriteTool for CreateEntity {
    fn spec(&self) -> ToolSpec {
        write_tool::<Arguments, EntityOutcome>(
            "ixchel_create",
            "Record a decision",
            "Records a decision, issue, idea or other knowledge: what was decided, and why.",
        )
    }

    fn decode(&self, request: &mut ToolRequest<'_>, names: &LocalNames) -> Result<Box<dyn Change>> {
        // Arguments have no custom fields, because only some projects have any.
        let wanted = request.call.arguments.remove(WANTED_ID);
        let custom = take_custom_fields(&mut request.call.arguments)?;
        let extra = take_extra(&mut request.call.arguments)?;
        add_superseded_link(&mut request.call.arguments)?;
        let arguments: Arguments = request.decode()?;
        let fields = RecordEdit {
            title: Some(arguments.title.into_string()),
            body: arguments.body.map(Description::into_string),
            status: arguments.status.map(Tag::into_string),
            tags: arguments.tags.map(Tags::into_vec),
            custom: custom.into_iter().collect(),
            extra,
            ..RecordEdit::default()
        };
        let links = arguments.links.unwrap_or_default().decode(names)?;
        let wanted = wanted.as_ref().and_then(Value::as_str).map(str::to_owned);
        let (target, repo) = (RecordTarget::NewEntity(arguments.kind.0, wanted), arguments.repo);
        Ok(Box::new(RecordChange { target, fields, links, if_version: None, repo }))
    }
}
