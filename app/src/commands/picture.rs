//! `reqlore picture`: writes a picture of the backlog or of an item's links as an SVG file.

use std::io::Write;
use std::path::{Path, PathBuf};

use reqlore_domain::error::{Error, ErrorKind};
use reqlore_domain::records::answers::details::ItemDetails;
use reqlore_domain::untrusted_text::encode_line;
use reqlore_durable_fs::set_temp_mode;
use reqlore_web::svg::{
    GraphWalk, MAX_GRAPH_DEPTH, PictureItem, PictureStyle, draw_graph, draw_progress, draw_tree,
    tree_focus,
};
use serde::Deserialize;
use serde_json::json;

use super::tool_client::{ClientPurpose, ProjectOptions, ToolClient};
use crate::commands::output::print;
use crate::config::AppConfig;
use crate::exit::{CommandError, Result};

const DEFAULT_GRAPH_DEPTH: u32 = 2;
/// Epics, user stories and requirements.
const TREE_LEVELS: usize = 3;

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum PictureKind {
    /// Epics, user stories and requirements with status and progress
    Tree,
    /// The links of an item in both directions; needs --focus
    Graph,
    /// A bar of done and active user stories for each epic
    Progress,
}

#[derive(Debug, clap::Args)]
pub(crate) struct PictureOptions {
    #[arg(value_enum)]
    kind: PictureKind,
    /// The SVG file to write; replaces a file of this name
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// The item in the middle of a graph, or at the top of a tree
    #[arg(long, value_name = "ID")]
    focus: Option<String>,
    /// Links to follow in a graph, or levels of a tree: 1 to 3 [default: 2 links, 3 levels]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=3))]
    depth: Option<u32>,
    /// Follow links of this relation only, such as implements
    #[arg(long, value_name = "RELATION")]
    relation: Option<String>,
    #[command(flatten)]
    project: ProjectOptions,
}

pub(crate) fn run(config: &AppConfig, options: &PictureOptions) -> Result<u8> {
    options.check_combination()?;
    let client = ToolClient::open(config, &options.project, ClientPurpose::Read)?;
    let svg = match options.kind {
        PictureKind::Tree => tree_picture(&client, options)?,
        PictureKind::Graph => graph_picture(&client, options)?,
        PictureKind::Progress => {
            let epics = list_items(&client, "epic")?;
            draw_progress(&epics, &list_items(&client, "user_story")?, PictureStyle::File)
        }
    };
    write_file(&options.out, &svg)?;
    print(&format!("Wrote {}.\n", encode_line(&options.out.display().to_string())))
}

impl PictureOptions {
    fn check_combination(&self) -> Result<()> {
        let Self { kind, focus, depth, relation, .. } = self;
        let message = match kind {
            PictureKind::Graph if focus.is_none() => {
                "--focus: is missing; name the item of the graph"
            }
            PictureKind::Tree | PictureKind::Progress if relation.is_some() => {
                "--relation: only a graph has relations; remove it"
            }
            PictureKind::Progress if focus.is_some() || depth.is_some() => {
                "--focus and --depth: progress shows all epics; remove them"
            }
            _ => return Ok(()),
        };
        Err(CommandError::usage_error(message))
    }
}

fn tree_picture(client: &ToolClient, options: &PictureOptions) -> Result<String, Error> {
    let mut items = Vec::new();
    for kind in ["epic", "user_story", "requirement"] {
        items.extend(list_items(client, kind)?);
    }
    if let Some(focus) = &options.focus {
        // The user may write another form of the reference.
        let answer: ItemDetails = client.call("get_item", json!({ "reference": focus }))?;
        items = tree_focus(items, answer.item.id());
        if items.is_empty() {
            let message = "--focus: is not an epic, user story or requirement; name one of them";
            return Err(Error::new(ErrorKind::InvalidArgument, message));
        }
    }
    let levels = options.depth.map_or(TREE_LEVELS, |depth| depth as usize);
    Ok(draw_tree(&items, levels, PictureStyle::File))
}

fn graph_picture(client: &ToolClient, options: &PictureOptions) -> Result<String, Error> {
    let depth = options.depth.unwrap_or(DEFAULT_GRAPH_DEPTH).min(MAX_GRAPH_DEPTH);
    let focus = options.focus.as_deref().unwrap_or_default();
    let mut walk = GraphWalk::new(focus, depth, options.relation.as_deref());
    let mut is_first = true;
    while let Some(reference) = walk.next_reference() {
        let answer: Option<ItemDetails> =
            match client.call("get_item", json!({ "reference": reference })) {
                Ok(answer) => Some(answer),
                Err(error) if is_first => return Err(error),
                // A link may name a document that the caller cannot read.
                Err(_) => None,
            };
        walk.add_answer(answer.as_ref());
        is_first = false;
    }
    Ok(draw_graph(&walk, PictureStyle::File))
}

#[derive(Deserialize)]
struct ItemPage {
    items: Vec<PictureItem>,
    next_cursor: Option<String>,
}

/// Returns all items of a kind, in the order of all lists.
fn list_items(client: &ToolClient, kind: &str) -> Result<Vec<PictureItem>, Error> {
    let mut items = Vec::new();
    let mut arguments = json!({ "kind": kind, "limit": 1_000 });
    loop {
        let page: ItemPage = client.call("list_items", arguments.clone())?;
        items.extend(page.items);
        match page.next_cursor {
            Some(cursor) => arguments["cursor"] = json!(cursor),
            None => return Ok(items),
        }
    }
}

/// Replaces the file as a whole, so that an interrupted run leaves no half picture.
pub(super) fn write_file(path: &Path, text: &str) -> Result<()> {
    let failed = |error: &dyn std::fmt::Display| {
        let path = encode_line(&path.display().to_string()).into_owned();
        CommandError::failure(format!("--out: {path} cannot be written: {error}"))
    };
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let mut file = tempfile::Builder::new();
    // Pictures are for other users too; the umask still applies.
    set_temp_mode(&mut file, 0o666);
    let mut file =
        file.tempfile_in(folder.unwrap_or(Path::new("."))).map_err(|error| failed(&error))?;
    file.write_all(text.as_bytes()).map_err(|error| failed(&error))?;
    file.persist(path).map(drop).map_err(|error| failed(&error.error))
}
