//! Files of the pages, embedded in the program and addressed by the hash of their content.

use std::sync::LazyLock;

use sha2::{Digest, Sha256};

/// A file with its name in URLs, such as `style.0123456789abcdef.css`.
pub(crate) struct AssetFile {
    pub(crate) name: String,
    pub(crate) content_type: &'static str,
    pub(crate) content: String,
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

impl AssetFile {
    fn new(name: &str, extension: &str, content_type: &'static str, text: &str) -> Self {
        let content = without_comments(text);
        let hash = hex::encode(Sha256::digest(&content));
        let name = format!("{name}.{}.{extension}", &hash[..16]);
        Self { name, content_type, content }
    }
}

/// A file as browsers load it: lines that are only a comment are for its maintainers.
fn without_comments(text: &str) -> String {
    let is_comment = |line: &str| {
        line.starts_with("//") || line.starts_with("/*") && line.trim_end().ends_with("*/")
    };
    text.split_inclusive('\n').filter(|line| !is_comment(line.trim_start())).collect()
}

#[cfg(test)]
mod tests {
    use super::{SCRIPT, STYLE};

    #[test]
    fn script_and_style_have_at_most_60_kb() {
        let sizes = [SCRIPT.content.len(), STYLE.content.len()];
        assert!(sizes.iter().sum::<usize>() <= 60_000, "{sizes:?}");
        assert!(SCRIPT.content.starts_with("\"use strict\";"));
    }
}
