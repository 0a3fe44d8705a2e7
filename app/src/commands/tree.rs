//! `reqlore tree`: shows epics with their user stories and requirements.

use std::collections::{BTreeMap, BTreeSet};

use reqlore_domain::backlog::ItemKind;
use reqlore_domain::records::answers::details::ItemDetails;
use reqlore_domain::records::answers::lists::ListedItem;
use serde::Serialize;
use serde_json::json;

use super::list::{LIST_ITEMS, fetch_items, progress_text};
use super::output::{OutputScreen, TextStyle, clean_line, truncate};
use super::tool_client::{ClientPurpose, ProjectOptions, ToolClient};
use crate::commands::output::print_json;
use crate::config::AppConfig;
use crate::exit::{CommandError, Result};

#[derive(Debug, clap::Args)]
pub(crate) struct TreeOptions {
    /// An epic or a user story [default: all epics]
    #[arg(value_name = "ID", add = super::complete::all_ids())]
    reference: Option<String>,
    /// Also show acceptance criteria
    #[arg(long)]
    criteria: bool,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    project: ProjectOptions,
}

pub(crate) fn run(config: &AppConfig, options: &TreeOptions) -> Result<u8> {
    let client = ToolClient::open(config, &options.project, ClientPurpose::Read)?;
    let roots = read_tree(&client, options)?;
    drop(client);
    if options.json {
        return print_json(&json!({ "items": roots }));
    }
    if roots.is_empty() {
        return OutputScreen::of_stdout().print("There are no epics yet.\n");
    }
    let screen = OutputScreen::of_stdout();
    let mut text = String::new();
    for root in &roots {
        push_branch(&mut text, root, ("", ""), &screen);
    }
    screen.print(&text)
}

/// The root items with their descendants in `children`.
fn read_tree(client: &ToolClient, options: &TreeOptions) -> Result<Vec<TreeNode>> {
    let mut kinds = ItemKind::ALL.to_vec();
    kinds.retain(|kind| options.criteria || kind.is_planned());
    let mut filter = None;
    if let Some(reference) = &options.reference {
        let found: ItemDetails = client.call("get_item", json!({ "reference": reference }))?;
        let id = found.item.id().to_owned();
        let argument = match found.item.item_kind() {
            Some(kind) if kind.counted_child().is_some() => kind,
            _ => {
                return Err(CommandError::usage_error(format!(
                    "{}: is not an epic or a user story; use `reqlore show`",
                    clean_line(reference)
                )));
            }
        };
        kinds.retain(|kind| argument == ItemKind::Epic || *kind != ItemKind::Epic);
        filter = Some((argument, id));
    }
    let mut items = Vec::new();
    for kind in kinds {
        let mut arguments = json!({ "kind": kind.name() });
        match &filter {
            // The root itself has no filter by its ID, but its ID is a part of its text.
            Some((argument, id)) if *argument == kind => arguments["text"] = json!(id),
            Some((argument, id)) => arguments[argument.name()] = json!(id),
            None => {}
        }
        for item in fetch_items(client, LIST_ITEMS, arguments, None)?.items {
            let is_other_root = filter
                .as_ref()
                .is_some_and(|(argument, id)| *argument == kind && item.reference_id != *id);
            if !is_other_root {
                items.push(item);
            }
        }
    }
    Ok(nest_items(items))
}

#[derive(Debug, Serialize)]
struct TreeNode {
    #[serde(flatten)]
    item: ListedItem,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    children: Vec<TreeNode>,
}

/// Nests items below their parents. An item whose parent is not among them is a root.
fn nest_items(items: Vec<ListedItem>) -> Vec<TreeNode> {
    let ids: BTreeSet<String> = items.iter().map(|item| item.reference_id.clone()).collect();
    let mut children_of: BTreeMap<String, Vec<TreeNode>> = BTreeMap::new();
    let mut roots = Vec::new();
    // Parents come before their children, so the reverse order completes each item first.
    for item in items.into_iter().rev() {
        let mut children = children_of.remove(&item.reference_id).unwrap_or_default();
        children.reverse();
        match item.parent.clone() {
            Some(parent) if ids.contains(&parent) => {
                children_of.entry(parent).or_default().push(TreeNode { item, children });
            }
            _ => roots.push(TreeNode { item, children }),
        }
    }
    roots.reverse();
    roots
}

/// Adds an item and its descendants. `indents` begin its own line and the lines of its children.
fn push_branch(
    text: &mut String,
    node: &TreeNode,
    (own, below): (&str, &str),
    screen: &OutputScreen,
) {
    let TreeNode { item, children } = node;
    let id = clean_line(&item.reference_id);
    let status = clean_line(item.status.as_deref().unwrap_or_default());
    let mut facts = Vec::new();
    facts.extend(Some(status.clone()).filter(|status| !status.is_empty()));
    facts.extend(Some(progress_text(item)).filter(|progress| !progress.is_empty()));
    let facts = if facts.is_empty() { String::new() } else { format!(" ({})", facts.join(" ")) };
    let used = own.chars().count() + id.len() + facts.chars().count() + 2;
    let width = screen.width.map_or(usize::MAX, |width| width.saturating_sub(used).max(8));
    let title = truncate(&clean_line(&item.title), width);
    let facts = screen.paint(TextStyle::of_status(&status), &facts);
    *text += &format!("{own}{}{facts}  {title}\n", screen.paint(TextStyle::Cyan, &id));
    for (index, child) in children.iter().enumerate() {
        let is_last = index + 1 == children.len();
        let (branch, trunk) = if is_last { ("└─ ", "   ") } else { ("├─ ", "│  ") };
        let indents = (format!("{below}{branch}"), format!("{below}{trunk}"));
        push_branch(text, child, (&indents.0, &indents.1), screen);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nest_items_keeps_the_order_and_orphans() {
        let items = [
            ("EP-2", ""),
            ("EP-1", ""),
            ("US-3", "EP-1"),
            ("US-1", "EP-1"),
            ("US-9", "EP-9"),
            ("REQ-1", "US-1"),
        ];
        let items = items.map(|(id, parent)| ListedItem {
            reference_id: id.to_owned(),
            parent: Some(parent.to_owned()),
            ..ListedItem::default()
        });
        let roots = nest_items(items.into());
        let ids: Vec<_> = roots.iter().map(|root| root.item.reference_id.as_str()).collect();
        assert_eq!(ids, ["EP-2", "EP-1", "US-9"]);
        assert_eq!(roots[1].children[0].item.reference_id, "US-3");
        assert_eq!(roots[1].children[1].children[0].item.reference_id, "REQ-1");
    }
}
