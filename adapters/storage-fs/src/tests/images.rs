//! The images that pages may show: by content, and only from visible folders of the project.

use std::fs;
use std::os::unix::fs::symlink;

use reqlore_domain::document::MAX_DOCUMENT_BYTES;
use reqlore_domain::ports::project_resolver::ProjectResolver;

use super::{PROJECT, config};
use crate::FsProjects;

const PNG: &[u8] = b"\x89PNG\r\n\x1a\nrest";

#[tokio::test]
async fn images_are_read_by_content_from_visible_folders() {
    let outside = tempfile::tempdir().unwrap();
    let root = outside.path().join("project");
    for folder in ["docs/in", ".git", ".reqlore/files/.hidden", ".reqlore/local", "docs/.old"] {
        fs::create_dir_all(root.join(folder)).unwrap();
    }
    let mut large = PNG.to_vec();
    large.resize(MAX_DOCUMENT_BYTES + 1, 0);
    for (path, content) in [
        ("docs/a.png", PNG),
        ("docs/in/a", b"\xff\xd8\xff\xe0"),
        ("docs/a.gif", b"GIF87a"),
        ("docs/a.webp", b"RIFF\x01\x02\x03\x04WEBPVP8 "),
        (".reqlore/files/0123.png", PNG),
        ("docs/svg.png", b"<svg xmlns=\"http://www.w3.org/2000/svg\"/>"),
        ("docs/html.gif", b"<html>GIF89a"),
        ("docs/empty.png", b""),
        ("docs/large.png", &large),
        (".git/a.png", PNG),
        (".reqlore/files/.hidden/a.png", PNG),
        (".reqlore/files/.a.png", PNG),
        (".reqlore/local/a.png", PNG),
        (".reqlore/a.png", PNG),
        ("docs/.old/a.png", PNG),
        ("docs/.a.png", PNG),
        ("../a.png", PNG),
    ] {
        fs::write(root.join(path), content).unwrap();
    }
    symlink("../../a.png", root.join("docs/out.png")).unwrap();
    symlink("a.png", root.join("docs/link.png")).unwrap();
    symlink("../.git", root.join("docs/git")).unwrap();
    symlink(outside.path(), root.join("up")).unwrap();
    let projects = FsProjects::new(&config(&root));
    let read = async |path: &str| {
        let image = projects.read_image(&PROJECT(), path).await.unwrap();
        image.map(|image| image.media_type)
    };
    for (path, expected) in [
        ("docs/a.png", "image/png"),
        ("docs/in/a", "image/jpeg"),
        ("docs/a.gif", "image/gif"),
        ("docs/a.webp", "image/webp"),
        (".reqlore/files/0123.png", "image/png"),
    ] {
        assert_eq!(read(path).await, Some(expected), "{path}");
    }
    let root = root.to_str().unwrap();
    let absolute = format!("{root}/docs/a.png");
    let refused = "docs/svg.png docs/html.gif docs/empty.png docs/large.png .git/a.png \
                   .reqlore/files/.hidden/a.png .reqlore/files/.a.png .reqlore/local/a.png \
                   .reqlore/a.png .reqlore/files docs/.old/a.png docs/.a.png ../a.png up/a.png \
                   docs/../docs/a.png docs/../../a.png docs/out.png docs/link.png docs/git/a.png \
                   docs docs/no.png .reqlore/files/../local/a.png docs//a.png ./docs/a.png";
    for path in refused.split_whitespace().chain(["", "/", &absolute, "docs/a.png\0"]) {
        assert_eq!(read(path).await, None, "{path}");
    }
}

#[test]
fn databases_have_no_images() {
    let root = tempfile::tempdir().unwrap();
    assert!(!FsProjects::of_database(&config(root.path())).has_images());
}
