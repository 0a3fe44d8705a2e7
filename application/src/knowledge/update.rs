//! `ixchel_update`: changes the given fields of an entity.

use reqlore_domain::backlog::fields::{Description, Tag, Tags, Title};
use reqlore_domain::bounded_types::BoundedString;
use reqlore_domain::document::VersionPrefix;
use reqlore_domain::error::Result;
use reqlore_domain::ports::service::ToolSpec;
use reqlore_domain::records::edit::RecordEdit;
use schemars::JsonSchema;
use serde::Deserialize;

use super::Repo;
use crate::tools::arguments::{take_custom_fields, take_extra};
use crate::tools::tool::{ToolRequest, write_tool};
use crate::writes::change::{Change, WriteTool};
use crate::writes::local_names::LocalNames;
use crate::writes::record_answer::EntityOutcome;
use crate::writes::record_change::{RecordChange, RecordTarget};
use crate::writes::record_links::LinkArguments;
use crate::writes::superseded_records::add_superseded_link;

pub(crate) struct UpdateEntity;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    id: BoundedString<1_000>,
    title: Option<Title>,
    /// Markdown.
    body: Option<Description>,
    status: Option<Tag>,
    /// Replaces all tags.
    tags: Option<Tags>,
    /// Replaces the given relations.
    links: Option<LinkArguments>,
    /// Current version.
    if_version: Option<VersionPrefix>,
    /// Folder.
    repo: Option<Repo>,
}

impl WriteTool for UpdateEntity {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            is_idempotent: true,
            ..write_tool::<Arguments, EntityOutcome>(
                "ixchel_update",
                "Change or link a decision, issue or idea",
                "Changes only the given fields.",
            )
        }
    }

    fn decode(&self, request: &mut ToolRequest<'_>, names: &LocalNames) -> Result<Box<dyn Change>> {
        // Arguments have no custom fields, because only some projects have any.
        let custom = take_custom_fields(&mut request.call.arguments)?;
        let extra = take_extra(&mut request.call.arguments)?;
        add_superseded_link(&mut request.call.arguments)?;
        let arguments: Arguments = request.decode()?;
        let fields = RecordEdit {
            title: arguments.title.map(Title::into_string),
            body: arguments.body.map(Description::into_string),
            status: arguments.status.map(Tag::into_string),
            tags: arguments.tags.map(Tags::into_vec),
            custom: custom.into_iter().collect(),
            extra,
            ..RecordEdit::default()
        };
        let links = arguments.links.unwrap_or_default().decode(names)?;
        let Arguments { if_version, repo, .. } = arguments;
        let target = RecordTarget::Entity(arguments.id.into_string());
        RecordChange { target, fields, links, if_version, repo }.into_change(request.spec)
    }
}
