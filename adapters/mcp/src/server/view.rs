//! What a caller sees of the server before asking for anything, made once for each right.

use std::collections::HashSet;
use std::sync::Arc;

use reqlore_domain::identity::{Access, Caller};
use reqlore_domain::ports::service::ApplicationService;
use rmcp::model::{
    Implementation, Prompt, PromptsCapability, ResourceTemplate, ServerCapabilities, ServerConfig,
    Tool,
};

use super::words;
use crate::present;

/// The lists that are compiled in, as far as somebody with one right may see them.
pub(super) struct View {
    pub(super) config: ServerConfig,
    pub(super) tools: Vec<Tool>,
    pub(super) writing: HashSet<String>,
    pub(super) templates: Vec<ResourceTemplate>,
    pub(super) prompts: Vec<Prompt>,
}

/// A view for each right.
pub(super) struct Views {
    read: View,
    write: View,
}

impl Views {
    pub(super) fn of(endpoint: &Arc<dyn ApplicationService>) -> Self {
        let of = |access| View::of(&**endpoint, &Caller::local("", access));
        Self { read: of(Access::Read), write: of(Access::Write) }
    }

    pub(super) fn for_access(&self, access: Access) -> &View {
        match access {
            Access::Read => &self.read,
            Access::Write => &self.write,
        }
    }
}

impl View {
    fn of(endpoint: &dyn ApplicationService, caller: &Caller) -> Self {
        let specs = endpoint.tools(caller);
        let writing = specs.iter().filter(|spec| spec.access == Access::Write);
        let writing = writing.map(|spec| spec.name.to_owned()).collect();
        let templates: Vec<_> =
            endpoint.templates(caller).into_iter().map(present::template).collect();
        let prompts: Vec<_> =
            endpoint.prompts(caller).into_iter().map(present::prompt_spec).collect();
        let mut config = ServerConfig::new(capabilities(&templates, &prompts));
        config.server_info = implementation();
        config.instructions = Some(words::instructions(&specs));
        let tools = specs.into_iter().map(present::tool).collect();
        Self { config, tools, writing, templates, prompts }
    }

    /// Is there anything that can be read by URI?
    pub(super) fn has_resources(&self) -> bool {
        !self.templates.is_empty()
    }
}

pub(super) fn implementation() -> Implementation {
    let mut reqlore = Implementation::new("reqlore", env!("CARGO_PKG_VERSION"));
    reqlore.title = Some("Reqlore".to_owned());
    reqlore.description = Some(words::DESCRIPTION.to_owned());
    reqlore
}

/// Only what there is something of.
fn capabilities(templates: &[ResourceTemplate], prompts: &[Prompt]) -> ServerCapabilities {
    let mut capabilities = ServerCapabilities::builder().enable_tools().build();
    if !templates.is_empty() {
        let resources = ServerCapabilities::builder()
            .enable_resources()
            .enable_resources_subscribe()
            .enable_resources_list_changed();
        capabilities.resources = resources.build().resources;
    }
    if !prompts.is_empty() {
        capabilities.prompts = Some(PromptsCapability::default());
    }
    if !templates.is_empty() || !prompts.is_empty() {
        capabilities.completions = Some(rmcp::model::JsonObject::default());
    }
    capabilities
}
