//! The list of all tools.

use std::sync::Arc;

use reqlore_domain::ports::project_resolver::Toolset;

use crate::apply_changes::ApplyChanges;
use crate::exchange::import_items::ImportItems;
use crate::ports::ApplicationPorts;
use crate::record_schemas::operations::{GetRecordSchema, SetRecordSchema};
use crate::record_templates::ListRecordTemplates;
use crate::task_context::get_context::GetContext;
use crate::tools::tool::{ListedTool, Tool};
use crate::{backlog, docsets, history, knowledge, sections};

/// The tools that `--toolsets core` lists: they read and write sections, items and entities.
const CORE_TOOLS: [&str; 13] = [
    "apply_changes",
    "claim_item",
    "epic_hierarchy",
    "get_context",
    "get_history",
    "get_item",
    "list_items",
    "list_ready",
    "reqlix_delete_requirements",
    "reqlix_get_instructions",
    "reqlix_get_requirements",
    "reqlix_set_requirements",
    "search_global",
];

/// The tools of all toolsets that the settings enable.
pub(crate) fn enabled_tools(ports: &ApplicationPorts) -> Vec<ListedTool> {
    let settings = &ports.settings;
    let mut tools: Vec<ListedTool> = Vec::new();
    let add = |tools: &mut Vec<ListedTool>, tool: Box<dyn Tool>, toolset| {
        let mut spec = tool.spec();
        spec.is_listed &=
            settings.listed_toolsets.contains(&toolset) || CORE_TOOLS.contains(&spec.name);
        tools.push((spec, Arc::from(tool)));
    };
    for toolset in Toolset::ALL {
        if settings.toolsets.contains(&toolset) {
            for tool in toolset_tools(toolset, ports) {
                add(&mut tools, tool, toolset);
            }
        }
    }
    // They handle entities too, and the loop has added them with the backlog.
    let has = |toolset| settings.toolsets.contains(&toolset);
    if has(Toolset::Knowledge) && !has(Toolset::Backlog) {
        add(&mut tools, Box::new(backlog::delete_item::DeleteItem), Toolset::Knowledge);
        add(&mut tools, Box::new(backlog::list_items::ListItems), Toolset::Knowledge);
    }
    // With sections or docsets alone, the list is exactly that of the server which they replace.
    if has(Toolset::Backlog) || has(Toolset::Knowledge) {
        // Its entries need a tool that writes one item.
        let changes = ApplyChanges { toolsets: settings.toolsets.clone(), tools: tools.clone() };
        add(&mut tools, Box::new(ImportItems(changes.clone())), Toolset::Backlog);
        add(&mut tools, Box::new(changes), Toolset::Backlog);
        add(&mut tools, Box::new(history::get_history::GetHistory), Toolset::Backlog);
        add(&mut tools, Box::new(history::list_changes::ListChanges), Toolset::Backlog);
        add(&mut tools, Box::new(GetContext), Toolset::Backlog);
        add(&mut tools, Box::new(GetRecordSchema), Toolset::Backlog);
        add(&mut tools, Box::new(SetRecordSchema), Toolset::Backlog);
        add(&mut tools, Box::new(ListRecordTemplates), Toolset::Backlog);
    }
    add(&mut tools, Box::new(history::undo::UndoTool), Toolset::Backlog);
    tools
}

fn toolset_tools(toolset: Toolset, ports: &ApplicationPorts) -> Vec<Box<dyn Tool>> {
    match toolset {
        Toolset::Sections => vec![
            Box::new(sections::get_instructions::GetInstructions),
            Box::<sections::get_requirements::GetRequirements>::default(),
            Box::new(sections::set_requirements::SetRequirements),
            Box::new(sections::delete_requirements::DeleteRequirements),
        ],
        Toolset::Backlog => backlog::tools(),
        Toolset::Docsets => {
            vec![
                Box::new(docsets::search_docs::SearchDocs),
                Box::new(docsets::list_docsets::ListDocsets),
            ]
        }
        Toolset::Knowledge => vec![
            Box::new(knowledge::sync::SyncTool { imports_files: ports.root_files.is_some() }),
            Box::new(knowledge::search::SearchTool),
            Box::new(knowledge::show::ShowTool),
            Box::new(knowledge::show_graph::GraphTool),
            Box::new(knowledge::context::ContextTool),
            Box::new(knowledge::tags::TagsTool),
            Box::new(knowledge::create::CreateEntity),
            Box::new(knowledge::update::UpdateEntity),
        ],
    }
}
