//! Reads the images of a project's folder.

use std::path::Path;

use reqlore_domain::image_file::{ImageFile, is_image_path};
use reqlore_durable_fs::folder::open_folder;

use crate::layout::ProjectRoot;
use crate::read_file::read_file;

/// Follows no links: they could lead out of the folder, or into a hidden one.
pub(crate) fn read_image(folder: &Path, path: &str) -> Option<ImageFile> {
    if !is_image_path(path) {
        return None;
    }
    let mut dir = ProjectRoot::open(folder).ok()?.dir;
    let mut name = path;
    while let Some((part, rest)) = name.split_once('/') {
        dir = open_folder(&dir, part).ok()?;
        name = rest;
    }
    ImageFile::new(read_file(&dir, name, path).ok()??.bytes)
}
