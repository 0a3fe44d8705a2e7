//! Windows: the project's folder decides who has access.

use std::fs::{File, Metadata};
use std::io;

use cap_std::fs::Dir;

#[expect(clippy::unnecessary_wraps, reason = "inspecting the folder fails on Unix")]
pub(crate) fn is_own_folder(_: &Dir, _: &Dir) -> io::Result<bool> {
    Ok(true)
}

pub(crate) fn is_own_file(_: &Metadata, _: &Dir) -> bool {
    true
}

#[expect(clippy::unnecessary_wraps, reason = "changing the mode fails on Unix")]
pub(crate) fn make_folder_private(_: &Dir) -> io::Result<()> {
    Ok(())
}

#[expect(clippy::unnecessary_wraps, reason = "changing the mode fails on Unix")]
pub(crate) fn set_mode_and_owner(_: &File, _: &Dir) -> io::Result<()> {
    Ok(())
}
