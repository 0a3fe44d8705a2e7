//! Images in the folder of a project, which texts show.

use bytes::Bytes;

/// The folder of images that belong to no other file of the project.
pub const IMAGE_FOLDER: &str = ".reqlore/files/";

/// An image with the media type of its content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageFile {
    pub media_type: &'static str,
    pub bytes: Bytes,
}

impl ImageFile {
    /// `None` for content that is not PNG, JPEG, GIF or WebP, which hold no scripts.
    pub fn new(bytes: Bytes) -> Option<Self> {
        let media_type = match &*bytes {
            [0x89, b'P', b'N', b'G', b'\r', b'\n', 0x1a, b'\n', ..] => "image/png",
            [0xff, 0xd8, 0xff, ..] => "image/jpeg",
            [b'G', b'I', b'F', b'8', b'7' | b'9', b'a', ..] => "image/gif",
            [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => "image/webp",
            _ => return None,
        };
        Some(Self { media_type, bytes })
    }
}

/// True for a relative path without hidden folders or files, except [`IMAGE_FOLDER`].
pub fn is_image_path(path: &str) -> bool {
    let is_visible = |part: &str| !part.is_empty() && !part.starts_with('.');
    path.strip_prefix(IMAGE_FOLDER).unwrap_or(path).split('/').all(is_visible)
}
