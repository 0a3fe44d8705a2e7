//! Tests of the paths of images, and of their responses.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use reqlore_domain::error::{Error, ErrorKind, Result};
use reqlore_domain::identity::Caller;
use reqlore_domain::image_file::ImageFile;
use reqlore_domain::ports::project_resolver::{DocumentsFolder, ProjectResolver, Toolset};
use reqlore_domain::project_key::ProjectKey;
use reqlore_domain::test_support::StubService;
use serde_json::json;

use super::resolve_image;
use crate::test_support::PageClient;

const GIF: &str = "GIF89a";

#[derive(Debug)]
struct StubImages;

#[async_trait]
impl ProjectResolver for StubImages {
    async fn resolve<'a>(
        &self,
        _: &'a Caller,
        _: Option<&'a str>,
        _: Toolset,
    ) -> Result<ProjectKey> {
        Err(Error::new(ErrorKind::NotFound, "project"))
    }

    fn find_documents(&self, _: &Caller, _: &ProjectKey, _: Toolset) -> DocumentsFolder {
        DocumentsFolder::Missing
    }

    fn keys(&self) -> Vec<ProjectKey> {
        Vec::new()
    }

    fn is_configured(&self, _: &ProjectKey) -> bool {
        true
    }

    async fn folder(&self, _: &ProjectKey) -> Result<String> {
        Ok(String::new())
    }

    fn has_images(&self) -> bool {
        true
    }

    async fn read_image(&self, project: &ProjectKey, path: &str) -> Result<Option<ImageFile>> {
        assert_eq!(*project, ProjectKey::default());
        let image = ImageFile::new(Bytes::from_static(GIF.as_bytes()));
        Ok(image.filter(|_| path == "docs/a b.png"))
    }

    async fn has_folder(&self, _: &str) -> bool {
        false
    }
}

fn client() -> PageClient {
    let mut client = PageClient::new(&[], |_, _| Ok(json!({})));
    client.change(|config| {
        config.service = Arc::new(StubService::default().with_projects(Arc::new(StubImages)));
    });
    client
}

#[tokio::test]
async fn image_is_served_by_its_content() {
    let image = client().get("/p/default/files/docs/a%20b.png").await;
    assert_eq!((image.status(), &*image.body), (200, GIF));
    assert_eq!(image.header("content-type"), "image/gif");
    assert_eq!(image.header("x-content-type-options"), "nosniff");
    assert!(image.header("content-security-policy").contains("default-src 'none'"));
    assert!(image.header("cache-control").starts_with("private"));
    assert_eq!(client().get("/p/default/files/docs/b.png").await.status(), 404);
    assert_eq!(client().get("/p/other/files/docs/a%20b.png").await.status(), 404);
}

#[tokio::test]
async fn storage_without_files_has_no_images() {
    let client = PageClient::new(&[], |_, _| Ok(json!({})));
    assert_eq!(client.get("/p/default/files/docs/a%20b.png").await.status(), 404);
}

#[test]
fn image_link_is_resolved_from_the_file_of_the_text() {
    let story = ".reqlore/backlog/stories";
    for (folder, link, path) in [
        (story, "../../../docs/a%20b.png", Some("docs/a%20b.png")),
        (story, "/docs/./x/../a.png", Some("docs/a.png")),
        (story, "../../files/0123.png", Some(".reqlore/files/0123.png")),
        (".ixchel/decisions", "../../docs/a.png", Some("docs/a.png")),
        ("", "/docs/a.png", Some("docs/a.png")),
        (story, "../../../../docs/a.png", None),
        (story, "a.png", None),
        (story, "/.git/a.png", None),
        (story, "/.reqlore/files/.a/b.png", None),
        (story, "/.reqlore/local/a.png", None),
        (story, "/docs/%2E%2e/a.png", None),
        (story, "/docs\\..\\a.png", None),
        (story, "/docs/.\t./a.png", None),
        (story, "//evil.example/a.png", None),
        (story, "javascript:alert(1)", None),
        (story, "/docs/a.png?x", None),
        (story, "", None),
    ] {
        assert_eq!(resolve_image(folder, link).as_deref(), path, "{folder} {link}");
    }
}
