//! `update_epic` (S5 7.5): changes an epic.

use async_trait::async_trait;
use reqlore_domain::backlog::fields::{Assignee, Description, Tags, Title};
use reqlore_domain::backlog::{Edit, Priority};
use reqlore_domain::bounded::BoundedInt;
use reqlore_domain::document::Version;
use reqlore_domain::error::Result;
use reqlore_domain::ports::service::{Call, Reply, ToolSpec};
use schemars::JsonSchema;
use serde::Deserialize;

use super::change::ChangeItem;
use super::choice::{One, WorkStatuses};
use super::given::{Epic, Given};
use crate::Context;
use crate::arguments::{decode, present};
use crate::tool::Tool;

pub(crate) struct UpdateEpic;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    epic: Given<Epic>,
    #[serde(default, deserialize_with = "present")]
    #[schemars(with = "Title")]
    title: Option<Title>,
    /// Markdown.
    #[serde(default, deserialize_with = "present")]
    #[schemars(with = "Description")]
    description: Option<Description>,
    #[serde(default, deserialize_with = "present")]
    #[schemars(with = "One<WorkStatuses>")]
    status: Option<One<WorkStatuses>>,
    /// 1 Critical, 2 High, 3 Medium, 4 Low.
    #[serde(default, deserialize_with = "present")]
    #[schemars(with = "BoundedInt<1, 4>")]
    priority: Option<BoundedInt<1, 4>>,
    /// A user's name; empty for nobody.
    #[serde(default, deserialize_with = "present")]
    #[schemars(with = "Assignee")]
    assignee: Option<Assignee>,
    /// In place of those it has.
    #[serde(default, deserialize_with = "present")]
    #[schemars(with = "Tags")]
    tags: Option<Tags>,
    /// Change only if it is still at this version.
    #[serde(default, deserialize_with = "present")]
    #[schemars(with = "Version")]
    if_version: Option<Version>,
}

#[async_trait]
impl Tool for UpdateEpic {
    fn spec(&self) -> ToolSpec {
        super::writing::<Arguments>(
            "update_epic",
            "Update an epic",
            "Changes what is given of an epic and leaves the rest. Answers with the record and \
             its new version.",
        )
    }

    async fn call(&self, context: &Context, spec: &ToolSpec, mut call: Call) -> Result<Reply> {
        let given: Arguments = decode(std::mem::take(&mut call.arguments), spec)?;
        let edit = Edit {
            title: given.title.map(|title| title.as_str().to_owned()),
            description: given.description.map(|text| text.as_str().to_owned()),
            status: given.status.map(|status| status.0),
            priority: given.priority.and_then(|number| Priority::new(number.get())),
            assignee: given.assignee.map(|name| name.name().map(str::to_owned)),
            tags: super::tags(given.tags),
            ..Edit::default()
        };
        let change = ChangeItem {
            item: given.epic.reference("epic")?,
            parent: None,
            edit,
            if_version: given.if_version,
        };
        change.run(context, &call, spec).await
    }
}
