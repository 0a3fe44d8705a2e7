//! How keys are made, so that a scan is what is asked for and names sort as strings do.
//!
//! The trap: a name may hold any text, NUL too. So it stands last in a key, or before a number of
//! fixed length; what stands before it (numbers, kinds, references) holds no NUL.

use reqlore_domain::document::{DocumentId, Kind, Version};

/// The longest name and the longest key of a project, in bytes: keys stay far below sled's pages.
pub(crate) const MAX_NAME: usize = 1000;

/// All documents of a kind.
pub(crate) fn kind(project: u32, kind: Kind) -> Vec<u8> {
    let mut key = project.to_be_bytes().to_vec();
    key.extend(kind.name().as_bytes());
    key.push(0);
    key
}

pub(crate) fn document(project: u32, id: &DocumentId) -> Vec<u8> {
    let mut key = kind(project, id.kind);
    key.extend(id.name.as_bytes());
    key
}

/// One piece of the body of the document with this key.
pub(crate) fn piece(document: &[u8], piece: u32) -> Vec<u8> {
    [document, &piece.to_be_bytes()].concat()
}

/// All documents that claim a reference.
pub(crate) fn reference(project: u32, of: Kind, reference: &str) -> Vec<u8> {
    let mut key = kind(project, of);
    key.extend(reference.as_bytes());
    key.push(0);
    key
}

/// All documents of a kind that may link to a target. A target is any text of any length, so it
/// stands here as a hash of fixed length, and whoever looks asks the heads.
pub(crate) fn link(project: u32, from: Kind, target: &str) -> Vec<u8> {
    let mut key = kind(project, from);
    key.extend(Version::of(target.as_bytes()).to_string().as_bytes());
    key
}

/// The latest change of a document that there is.
pub(crate) fn change(project: u32, id: &DocumentId, revision: u64) -> Vec<u8> {
    let mut key = kind(project, id.kind);
    key.extend(revision.to_be_bytes());
    key.extend(id.name.as_bytes());
    key
}

/// A deletion; those of all kinds stand in one row, the oldest first.
pub(crate) fn deletion(project: u32, revision: u64, id: &DocumentId) -> Vec<u8> {
    let mut key = deletions(project, revision);
    key.extend(id.kind.name().as_bytes());
    key.push(0);
    key.extend(id.name.as_bytes());
    key
}

/// Where the deletions of a revision begin.
pub(crate) fn deletions(project: u32, revision: u64) -> Vec<u8> {
    [&project.to_be_bytes()[..], &revision.to_be_bytes()].concat()
}

/// The revision and the document of a key that [`deletion`] made.
pub(crate) fn deleted(key: &[u8]) -> Option<(u64, DocumentId)> {
    let (revision, rest) = key.get(4..)?.split_first_chunk()?;
    let end = rest.iter().position(|byte| *byte == 0)?;
    let kind = Kind::named(std::str::from_utf8(&rest[..end]).ok()?)?;
    let name = name(&rest[end + 1..])?;
    Some((u64::from_be_bytes(*revision), DocumentId { kind, name }))
}

/// All pieces of the value with this key in a tree that is not [`crate::base::BODIES`]. With the
/// key's length before it, no key is the beginning of another one.
pub(crate) fn overflow(tree: &str, key: &[u8]) -> Vec<u8> {
    let length = u16::try_from(key.len()).unwrap_or(u16::MAX);
    [tree.as_bytes(), &[0], &length.to_be_bytes(), key].concat()
}

pub(crate) fn name(bytes: &[u8]) -> Option<String> {
    String::from_utf8(bytes.to_vec()).ok()
}
