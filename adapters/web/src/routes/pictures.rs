//! The pictures of the whole backlog: progress of each epic, and the hierarchy.

use std::sync::Arc;

use askama::Template;
use axum::Router;
use axum::routing::get;
use serde::Deserialize;
use serde_json::json;

use crate::config::WebConfig;
use crate::page::{PageFrame, PageSection, render};
use crate::page_error::PageResult;
use crate::session::PageSession;
use crate::svg::picture_item::{MAX_NODES, PictureItem};
use crate::svg::{PictureStyle, draw_progress, draw_tree};

pub(super) fn routes() -> Router<Arc<WebConfig>> {
    Router::new().route("/p/{project}/pictures", get(show_pictures))
}

#[derive(Template)]
#[template(path = "pictures.html")]
struct PicturesPage {
    frame: PageFrame,
    progress: String,
    tree: String,
    /// The number of items of each kind that were read, if there are more.
    read_limit: Option<usize>,
}

#[derive(Deserialize)]
struct PictureItems {
    items: Vec<PictureItem>,
    total: usize,
}

async fn show_pictures(session: PageSession) -> PageResult {
    let session = session.with_schema().await?;
    let frame = PageFrame::new(&session, PageSection::Tree, "Pictures");
    let (mut lists, mut has_more) = (Vec::new(), false);
    for kind in ["epic", "user_story", "requirement"] {
        // A page shows no more than one picture's nodes; the command reads everything.
        let arguments = json!({ "kind": kind, "limit": MAX_NODES });
        let mut list: PictureItems = session.call_tool("list_items", arguments).await?;
        has_more |= list.total > list.items.len();
        for item in &mut list.items {
            item.set_mark(&frame.schema.records);
            item.href = Some(frame.item(&item.reference_id));
        }
        lists.push(list.items);
    }
    let progress = draw_progress(&lists[0], &lists[1], PictureStyle::Page);
    let tree = draw_tree(&lists.concat(), lists.len(), PictureStyle::Page);
    let read_limit = has_more.then_some(MAX_NODES);
    render(&PicturesPage { frame, progress, tree, read_limit })
}
