//! What can be read, a page at a time: the collections, then every item, kind by kind.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use reqlore_domain::backlog::ItemKind;
use reqlore_domain::document::{DocumentMeta, Kind, Version};
use reqlore_domain::error::{Error, ErrorKind, Result};
use reqlore_domain::ports::documents::Filter;
use reqlore_domain::ports::service::{Resource, Resources};
use reqlore_domain::project::ProjectKey;

use super::listed;
use super::uri::{Collection, JSON, View, uri};
use crate::backlog::find::{self, Backlog};

/// A page.
const MOST: usize = 100;

/// The longest cursor that we give is shorter: a kind, and the name of a file.
const LONGEST: usize = 1_000;

pub(super) async fn page(backlog: Backlog<'_>, cursor: Option<&str>) -> Result<Resources> {
    let (mut kind, mut after, mut resources) = match cursor {
        None => (0, None, Collection::ALL.map(collection).to_vec()),
        Some(cursor) => {
            let (kind, after) = read(backlog.project, cursor).ok_or_else(|| bad(cursor))?;
            (kind, Some(after), Vec::new())
        }
    };
    while let Some(of) = ItemKind::ALL.get(kind) {
        let room = MOST - resources.len();
        let limit = Some(room.max(1));
        let filter = Filter { kind: Kind::Item(*of), after: after.take(), limit };
        let page = backlog.ports.documents.find(backlog.project, &filter).await?;
        if room == 0 && !page.heads.is_empty() {
            return Ok(Resources {
                resources,
                next_cursor: Some(written(backlog.project, *of, "")),
            });
        }
        resources.extend(page.heads.iter().filter_map(|head| resource(head)));
        // Two files may claim one reference; it is one resource.
        resources.dedup_by(|a, b| a.uri == b.uri);
        if let Some(next) = page.next {
            return Ok(Resources {
                resources,
                next_cursor: Some(written(backlog.project, *of, &next)),
            });
        }
        kind += 1;
    }
    Ok(Resources { resources, next_cursor: None })
}

fn collection(collection: Collection) -> Resource {
    Resource {
        uri: collection.uri(),
        name: collection.name().to_owned(),
        title: collection.title().to_owned(),
        description: collection.description().to_owned(),
        mime_type: JSON,
    }
}

/// Nothing can be read of what has no reference; `check` names it.
fn resource(head: &DocumentMeta) -> Option<Resource> {
    let item = find::item(head)?;
    let reference = item.reference?;
    Some(Resource {
        uri: uri(reference, View::Item),
        name: reference.to_string(),
        title: item.title.clone(),
        description: listed(reference, &item.title),
        mime_type: JSON,
    })
}

/// Continues behind this name. The digest tells our cursors from others.
fn written(project: &ProjectKey, kind: ItemKind, name: &str) -> String {
    let place = format!("{}\n{name}", kind.name());
    URL_SAFE_NO_PAD.encode(format!("{}{place}", digest(project, &place)))
}

fn read(project: &ProjectKey, cursor: &str) -> Option<(usize, String)> {
    if cursor.len() > LONGEST {
        return None;
    }
    let text = String::from_utf8(URL_SAFE_NO_PAD.decode(cursor).ok()?).ok()?;
    let (found, place) = text.split_at_checked(16)?;
    let (kind, name) = place.split_once('\n').filter(|_| found == digest(project, place))?;
    let kind = ItemKind::ALL.iter().position(|known| known.name() == kind)?;
    Some((kind, name.to_owned()))
}

fn digest(project: &ProjectKey, place: &str) -> String {
    Version::of(format!("resources\n{project}\n{place}").as_bytes()).to_string()
}

fn bad(cursor: &str) -> Error {
    let shown: String = cursor.chars().take(100).collect();
    let message = format!(
        "`cursor` {shown:?} is none of this list; take it from `nextCursor` of the page before, or \
         leave it out to begin"
    );
    Error::new(ErrorKind::InvalidArgument, message).field("cursor")
}
