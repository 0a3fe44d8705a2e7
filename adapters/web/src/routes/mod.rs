//! The routes: each page is one file here and one line in `all_routes`.

mod board;
mod events;
mod graph;
mod home;
pub(crate) mod item;
mod search;
mod sign_in;
mod table;
#[cfg(test)]
mod tests;
mod tree;

use std::sync::Arc;

use axum::Router;

use crate::{WebConfig, assets};

pub(crate) fn all_routes() -> Router<Arc<WebConfig>> {
    Router::new()
        .merge(assets::routes())
        .merge(home::routes())
        .merge(sign_in::routes())
        .merge(board::routes())
        .merge(events::routes())
        .merge(search::routes())
        .merge(table::routes())
        .merge(tree::routes())
        .merge(graph::routes())
        .merge(item::routes())
}
