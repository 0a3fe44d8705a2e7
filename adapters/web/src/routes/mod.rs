//! The routes: each page is one file here and one line in `all_routes`.

mod activity;
mod admin_tokens;
mod admin_users;
mod assets;
mod board;
mod events;
pub(crate) mod field;
mod files;
mod find;
mod graph;
mod home;
pub(crate) mod item;
mod knowledge;
mod pick;
mod pictures;
mod schema;
mod search;
mod sections;
mod sign_in;
mod table;
#[cfg(test)]
mod tests;
mod tree;
pub(crate) mod undo;

use std::sync::Arc;

use axum::Router;
use reqlore_domain::timestamp::Timestamp;

use crate::config::WebConfig;

pub(crate) fn all_routes() -> Router<Arc<WebConfig>> {
    Router::new()
        .merge(activity::routes())
        .merge(admin_tokens::routes())
        .merge(admin_users::routes())
        .merge(assets::routes())
        .merge(home::routes())
        .merge(sign_in::routes())
        .merge(board::routes())
        .merge(events::routes())
        .merge(field::routes())
        .merge(files::routes())
        .merge(find::routes())
        .merge(schema::routes())
        .merge(search::routes())
        .merge(table::routes())
        .merge(tree::routes())
        .merge(graph::routes())
        .merge(item::routes())
        .merge(knowledge::routes())
        .merge(pick::routes())
        .merge(sections::routes())
        .merge(pictures::routes())
        .merge(undo::routes())
}

/// A time for a reader, such as `2026-01-31 12:00:00 UTC`.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "templates pass references")]
fn show_time(time: &Timestamp) -> String {
    time.to_rfc3339().replace('T', " ").replace('Z', " UTC")
}
