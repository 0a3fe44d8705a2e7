//! The later format of the configuration: docsets with an `id`, a title and `sources`.
//!
//! Files of it are read where they leave no doubt. What it downloads or links lies in
//! `.knowledge/docsets/{id}/`, put there by the tool that made the file; nothing is fetched here.

use serde_json::Value;

use super::path;

/// Where the files of sources lie, unless the configuration has a `docs_root`.
pub(super) const DOCS_ROOT: &str = ".knowledge/docsets";

/// The folder that the sources name without doubt: one local folder with one path inside the
/// project. It needs no copy and no link.
pub(super) fn local_folder(sources: &Value, folder: &str) -> Option<String> {
    let [source] = sources.as_array()?.as_slice() else { return None };
    if source.get("type")?.as_str()? != "local_folder" {
        return None;
    }
    let [only] = source.get("paths")?.as_array()?.as_slice() else { return None };
    let resolved = path::resolve(folder, only.as_str()?).ok()?;
    path::lies_in(&resolved, &path::normalised(folder)).then_some(resolved)
}
