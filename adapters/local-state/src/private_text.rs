//! A small text file in a project's local state directory, which only its user may read and write.

use std::io::Read;
use std::path::Path;

use cap_std::ambient_authority;
use cap_std::fs::Dir;
use reqlore_domain::ports::documents::{StoreError, StoreResult};

use crate::error::failed;
use crate::private_file::{PrivateFile, local_folder, writable_local_folder};

const MAX_BYTES: u64 = 64 << 10;

/// Returns the text; `None` if the file does not exist. Rejects a copied file, because it may come
/// from a repository.
pub fn read_text(root: &Path, name: &str) -> StoreResult<Option<String>> {
    let Some(local) = local_folder(&open_root(root)?)? else { return Ok(None) };
    let file = PrivateFile::new(&local, name);
    let Some(opened) = file.open()? else { return Ok(None) };
    let mut text = String::new();
    let read = opened.file.take(MAX_BYTES).read_to_string(&mut text);
    read.map_err(|error| file.failed("read it", error))?;
    match text.split_once('\n') {
        Some((identity, text)) if identity == opened.identity => Ok(Some(text.to_owned())),
        _ => Err(file.refused("was copied here or is damaged; remove it")),
    }
}

/// Replaces the text atomically.
pub fn write_text(root: &Path, name: &str, text: &str) -> StoreResult<()> {
    let local = writable_local_folder(&open_root(root)?)?;
    let temp_name = format!("{name}.new");
    let temp = PrivateFile::new(&local, &temp_name);
    // A killed process may have left one.
    temp.remove()?;
    temp.create(|identity| Ok(format!("{identity}\n{text}").into_bytes()))?;
    temp.rename(name)
}

fn open_root(root: &Path) -> Result<Dir, StoreError> {
    let opened = Dir::open_ambient_dir(root, ambient_authority());
    opened.map_err(|error| failed("the project's folder", "open it", error))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn text_is_private_and_its_copy_is_rejected() {
        let root =
            std::env::temp_dir().join(format!("reqlore-private-text-{}", std::process::id()));
        let _ = fs::remove_dir_all(&root);
        fs::create_dir(&root).unwrap();
        assert_eq!(read_text(&root, "a").unwrap(), None);
        for text in ["first", "second\nline"] {
            write_text(&root, "a", text).unwrap();
            assert_eq!(read_text(&root, "a").unwrap().as_deref(), Some(text));
        }
        let path = root.join(".reqlore/local/a");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        fs::copy(&path, path.with_file_name("b")).unwrap();
        assert!(read_text(&root, "b").is_err());
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        assert!(read_text(&root, "a").is_err());
        fs::remove_dir_all(&root).unwrap();
    }
}
