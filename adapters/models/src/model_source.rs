//! The place of models, and the progress of a download.

use std::path::PathBuf;

/// The progress of one file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DownloadProgress<'file> {
    pub file: &'file str,
    pub done_bytes: u64,
    /// 0 if unknown.
    pub total_bytes: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InstalledModel {
    pub path: PathBuf,
    /// True if the model was already installed and valid; nothing was downloaded.
    pub was_installed: bool,
}

/// The source of a model's files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ModelSource {
    /// The address of the model's publisher.
    Default,
    /// The address of a folder with both files, of a zip or of a wheel.
    Url(String),
    /// A folder with both files.
    Folder(PathBuf),
    /// A zip or a wheel with both files in any of its folders.
    Archive(PathBuf),
}
