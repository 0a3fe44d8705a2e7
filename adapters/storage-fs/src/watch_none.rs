//! Systems without inotify: nothing is watched, so every read lists the folders.

use std::os::fd::OwnedFd;
use std::path::Path;

use crate::layout::{Area, Root};
use crate::metadata_index::News;
use crate::walk::Folder;

/// Never exists.
#[derive(Debug)]
pub(crate) enum Watch {}

impl Watch {
    pub(crate) fn start(_: &Root, _: &Path, _: Area) -> Option<Self> {
        None
    }

    pub(crate) fn add(&mut self, _: &OwnedFd, _: &Folder<'_>) {
        match *self {}
    }

    pub(crate) fn sees_all(&self) -> bool {
        match *self {}
    }

    pub(crate) fn news(&mut self) -> News {
        match *self {}
    }
}
