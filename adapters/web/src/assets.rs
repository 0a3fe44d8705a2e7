//! Files of the pages, embedded in the program and addressed by the hash of their content.

use std::sync::LazyLock;

use sha2::{Digest, Sha256};

/// A file with its name in URLs, such as `style.0123456789abcdef.css`.
pub(crate) struct AssetFile {
    pub(crate) name: String,
    pub(crate) content_type: &'static str,
    pub(crate) content: &'static str,
}

pub(crate) static STYLE: LazyLock<AssetFile> = LazyLock::new(|| {
    let style = concat!(include_str!("../assets/style.css"), include_str!("../assets/picture.css"));
    AssetFile::new("style", "css", "text/css; charset=utf-8", style)
});

pub(crate) static SCRIPT: LazyLock<AssetFile> = LazyLock::new(|| {
    let script = include_str!("../assets/script.js");
    AssetFile::new("script", "js", "text/javascript; charset=utf-8", script)
});

pub(crate) static FAVICON: LazyLock<AssetFile> = LazyLock::new(|| {
    AssetFile::new("icon", "svg", "image/svg+xml", include_str!("../assets/icon.svg"))
});

/// Symbols of all icons. Part of every page, so that no icon appears late and pages on a disk have
/// icons too.
pub(crate) const ICONS: &str = include_str!("../assets/icons.svg");

impl AssetFile {
    fn new(name: &str, extension: &str, content_type: &'static str, content: &'static str) -> Self {
        let hash = hex::encode(Sha256::digest(content));
        let name = format!("{name}.{}.{extension}", &hash[..16]);
        Self { name, content_type, content }
    }
}
