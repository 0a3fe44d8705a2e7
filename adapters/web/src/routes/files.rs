//! The images of the project's folder, and their URLs in texts.

use std::sync::Arc;

use axum::Router;
use axum::extract::Path;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::response::IntoResponse;
use axum::routing::get;
use reqlore_domain::backlog::Reference;
use reqlore_domain::document::BACKLOG_FOLDER;
use reqlore_domain::image_file::is_image_path;
use reqlore_domain::knowledge::is_entity_id;
use reqlore_domain::ports::project_resolver::ProjectResolver;

use crate::config::WebConfig;
use crate::markdown::ItemUrl;
use crate::page_error::{PageError, PageResult};
use crate::session::PageSession;

pub(super) fn routes() -> Router<Arc<WebConfig>> {
    Router::new().route("/p/{project}/files/{*path}", get(show_image))
}

async fn show_image(session: PageSession, Path((_, path)): Path<(String, String)>) -> PageResult {
    let projects = session.config.service.projects().ok_or(PageError::NotFound)?;
    let image = projects.read_image(&session.project, &path).await?.ok_or(PageError::NotFound)?;
    // Live pages load their images again with each change.
    let headers = [(CONTENT_TYPE, image.media_type), (CACHE_CONTROL, "private, max-age=60")];
    Ok((headers, image.bytes).into_response())
}

/// The URLs of the images that the text of a document names.
pub(super) fn image_url(session: &PageSession, id: &str) -> ItemUrl {
    let base = session.url("files/");
    let projects = session.config.service.projects();
    let has_images = projects.is_some_and(ProjectResolver::has_images);
    let folder = match Reference::parse(id) {
        Some(reference) => format!("{BACKLOG_FOLDER}/{}", reference.kind.row().folder),
        None if is_entity_id(id) => ".ixchel/kind".to_owned(),
        None => String::new(),
    };
    Arc::new(move |link| {
        let path = resolve_image(&folder, link).filter(|_| has_images)?;
        Some(format!("{base}{path}"))
    })
}

/// The path of an image below the project's folder, from a link in a file of `folder`. A link that
/// begins with `/` is relative to the project's folder.
fn resolve_image(folder: &str, link: &str) -> Option<String> {
    // Browsers leave out control characters, and resolve encoded dots and other slashes.
    let is_special = |letter: char| letter.is_control() || "\\:?#".contains(letter);
    if link.contains(is_special) || link.to_lowercase().contains("%2e") {
        return None;
    }
    let folder = if link.starts_with('/') { "" } else { folder };
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in link.strip_prefix('/').unwrap_or(link).split('/').filter(|part| *part != ".") {
        match part {
            ".." => drop(parts.pop()?),
            part => parts.push(part),
        }
    }
    Some(parts.join("/")).filter(|path| is_image_path(path))
}

#[cfg(test)]
mod tests;
