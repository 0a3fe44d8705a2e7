//! `create_user_story` and `update_user_story`.

use async_trait::async_trait;
use reqlore_domain::backlog::ItemKind;
use reqlore_domain::backlog::fields::{Assignee, Description, Tags, Title};
use reqlore_domain::document::Version;
use reqlore_domain::error::Result;
use reqlore_domain::ports::service::{Call, Reply, ToolSpec};
use schemars::JsonSchema;
use serde::Deserialize;

use super::arguments::{EpicRef, ItemFields, PriorityArgument, UserStoryRef, WorkStatusArgument};
use super::write_item::{Written, create_item, update_fields, update_tool};
use crate::Context;
use crate::tool::{Tool, decode, write_tool};

pub(crate) struct CreateUserStory;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct CreateArguments {
    epic: EpicRef,
    title: Title,
    /// 1 Critical, 2 High, 3 Medium, 4 Low.
    priority: PriorityArgument,
    /// Markdown.
    description: Option<Description>,
    status: Option<WorkStatusArgument>,
    /// A user's name.
    assignee: Option<Assignee>,
    tags: Option<Tags>,
}

#[async_trait]
impl Tool for CreateUserStory {
    fn spec(&self) -> ToolSpec {
        write_tool::<CreateArguments, Written>(
            "create_user_story",
            "Create a user story",
            "Creates a user story of an epic: what a user wants and why. Answers with its \
             reference (US-001) and version.",
        )
    }

    async fn call(&self, context: &Context, spec: &ToolSpec, mut call: Call) -> Result<Reply> {
        let given: CreateArguments = decode(&mut call, spec)?;
        let epic = given.epic.reference("epic")?;
        let fields = ItemFields {
            title: Some(given.title),
            description: given.description,
            status: given.status.map(|status| status.0),
            priority: Some(given.priority),
            assignee: given.assignee,
            tags: given.tags,
            ..ItemFields::default()
        };
        create_item(context, &call, spec, ItemKind::UserStory, Some(epic), fields.into()).await
    }
}

pub(crate) struct UpdateUserStory;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct UpdateArguments {
    user_story: UserStoryRef,
    title: Option<Title>,
    /// Markdown.
    description: Option<Description>,
    status: Option<WorkStatusArgument>,
    /// 1 Critical, 2 High, 3 Medium, 4 Low.
    priority: Option<PriorityArgument>,
    /// Moves it to this epic.
    epic: Option<EpicRef>,
    /// A user's name; empty removes the assignee.
    assignee: Option<Assignee>,
    /// In place of those it has.
    tags: Option<Tags>,
    /// Change only if it is still at this version.
    if_version: Option<Version>,
}

#[async_trait]
impl Tool for UpdateUserStory {
    fn spec(&self) -> ToolSpec {
        update_tool::<UpdateArguments>(
            "update_user_story",
            "Update a user story",
            "Changes what is given of a user story and leaves the rest. Answers with the \
             record and its new version.",
        )
    }

    async fn call(&self, context: &Context, spec: &ToolSpec, mut call: Call) -> Result<Reply> {
        let given: UpdateArguments = decode(&mut call, spec)?;
        let item = given.user_story.reference("user_story")?;
        let parent = given.epic.map(|epic| epic.reference("epic")).transpose()?;
        let fields = ItemFields {
            title: given.title,
            description: given.description,
            status: given.status.map(|status| status.0),
            priority: given.priority,
            assignee: given.assignee,
            tags: given.tags,
            ..ItemFields::default()
        };
        let version = given.if_version;
        update_fields(context, &call, spec, item, parent, fields.into(), version).await
    }
}
