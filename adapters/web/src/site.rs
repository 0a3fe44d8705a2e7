//! A project's pages as files: the same pages for a caller with read access, with relative links.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

use async_trait::async_trait;
use axum::body::{Body, to_bytes};
use axum::http::header::{CONTENT_TYPE, LOCATION};
use axum::http::{Request, StatusCode};
use futures_util::future::join_all;
use reqlore_domain::error::{Error, ErrorKind, Result};
use reqlore_domain::identity::{Caller, TokenError};
use reqlore_domain::ports::authenticator::{AuthenticationError, Credentials};
use reqlore_domain::ports::service::ApplicationService;
use reqlore_domain::ports::sessions::{IssuedSession, SessionService};
use tower_service::Service;

use crate::assets::{FAVICON, SCRIPT, STYLE};
use crate::config::WebConfig;
use crate::page_error::ErrorTexts;
use crate::session::StaticCaller;
use crate::{Router, router};

mod html;

use html::rewrite_links;

/// Pages where the links begin. The board is the first page of a site.
const FIRST_PAGES: [&str; 7] =
    ["board", "tree", "table", "sections", "knowledge", "docsets", "pictures"];
/// Parts of a query that have a file of their own. Sorting and filters need a server.
const QUERY_NAMES: [&str; 4] = ["kind", "epic", "cursor", "focus"];
/// A page waits for Git or a database.
const MAX_CONCURRENT_PAGES: usize = 8;
const MAX_PAGE_BYTES: usize = 64 << 20;
const MAX_NAME_BYTES: usize = 100;

/// A file of a site.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SiteFile {
    /// Relative to the site's folder: letters, digits and `-._~`, with at most one folder.
    pub path: String,
    pub content: Vec<u8>,
    /// The error that the page shows instead of its content.
    pub error: Option<String>,
}

/// Renders all pages of the caller's project that are linked from its board, tree, table, sections,
/// knowledge and docsets, and with `has_history` the history of each item. Equal for equal content
/// and history. The caller must have read access
/// only: other pages have forms. A page that fails holds its error.
pub async fn render_site(
    service: Arc<dyn ApplicationService>,
    caller: Arc<Caller>,
    has_history: bool,
) -> Result<Vec<SiteFile>> {
    let base = format!("/p/{}/", caller.project);
    let config = WebConfig {
        service,
        sessions: Arc::new(NoSessions),
        administration: None,
        has_link: false,
        has_tls: false,
        base_path: "/".to_owned(),
        folder_name: String::new(),
    };
    let mut crawler = SiteCrawler {
        router: router(config),
        caller: StaticCaller { caller, has_history },
        pages: BTreeMap::new(),
        order: Vec::new(),
        pending: FIRST_PAGES.iter().map(|page| format!("{base}{page}")).collect(),
        base,
    };
    crawler.read_pages().await?;
    Ok(crawler.into_files())
}

/// A page that was read.
enum SitePage {
    /// The HTML and its error.
    Html(String, Option<String>),
    Image(Vec<u8>),
    /// The target of a redirect.
    Moved(String),
    /// The project has no such page.
    Missing,
}

struct SiteCrawler {
    router: Router,
    caller: StaticCaller,
    /// The path of all pages: `/p/default/`.
    base: String,
    /// By address.
    pages: BTreeMap<String, SitePage>,
    /// Their addresses in the order of the links.
    order: Vec<String>,
    pending: VecDeque<String>,
}

impl SiteCrawler {
    async fn read_pages(&mut self) -> Result<()> {
        while !self.pending.is_empty() {
            let mut addresses = Vec::new();
            while addresses.len() < MAX_CONCURRENT_PAGES
                && let Some(address) = self.pending.pop_front()
            {
                if !self.pages.contains_key(&address) && !addresses.contains(&address) {
                    addresses.push(address);
                }
            }
            let pages = join_all(addresses.iter().map(|address| self.read_page(address))).await;
            for (address, page) in addresses.into_iter().zip(pages) {
                self.add_page(address, page?);
            }
        }
        Ok(())
    }

    fn add_page(&mut self, address: String, page: SitePage) {
        let mut found = Vec::new();
        match &page {
            SitePage::Html(html, _) => {
                rewrite_links(html, |link| {
                    found.extend(self.resolve(&address, link).map(|(target, _)| target));
                    None
                });
            }
            SitePage::Moved(target) => found.push(target.clone()),
            SitePage::Image(_) | SitePage::Missing => {}
        }
        self.order.push(address.clone());
        self.pages.insert(address, page);
        for target in found {
            if !self.pages.contains_key(&target) {
                self.pending.push_back(target);
            }
        }
    }

    async fn read_page(&self, address: &str) -> Result<SitePage> {
        let failed = |problem: String| {
            let message = format!("{address}: the page cannot be rendered: {problem}");
            Error::new(ErrorKind::Internal, message)
        };
        let request = Request::get(address).extension(self.caller.clone()).body(Body::empty());
        let request = request.map_err(|error| failed(error.to_string()))?;
        let Ok(response) = self.router.clone().call(request).await;
        let status = response.status();
        if status.is_redirection() {
            let target = response.headers().get(LOCATION).and_then(|target| target.to_str().ok());
            let target = target.and_then(|target| self.resolve(address, target));
            return Ok(target.map_or(SitePage::Missing, |(target, _)| SitePage::Moved(target)));
        }
        // The link of a missing document, or of a toolset that is turned off.
        if matches!(status, StatusCode::NOT_FOUND | StatusCode::BAD_REQUEST) {
            return Ok(SitePage::Missing);
        }
        let media_type = response.headers().get(CONTENT_TYPE);
        let is_image = media_type.is_some_and(|one| one.as_bytes().starts_with(b"image/"));
        let error = response.extensions().get::<ErrorTexts>().map(|texts| texts.message.clone());
        let body = to_bytes(response.into_body(), MAX_PAGE_BYTES).await;
        let body = body.map_err(|error| failed(error.to_string()))?;
        if status != StatusCode::OK && error.is_none() {
            return Err(failed(format!("status {status}")));
        }
        if is_image {
            return Ok(SitePage::Image(body.into()));
        }
        Ok(SitePage::Html(String::from_utf8_lossy(&body).into_owned(), error))
    }

    /// The address of a page of the site, and the fragment with `#`. `None` for another page.
    fn resolve<'a>(&self, address: &str, link: &'a str) -> Option<(String, &'a str)> {
        let (link, fragment) = link.split_at(link.find('#').unwrap_or(link.len()));
        let (path, query) = link.split_once('?').unwrap_or((link, ""));
        let own_path = address.split('?').next().unwrap_or_default();
        let path = match path {
            "" => own_path.to_owned(),
            "/" => format!("{}board", self.base),
            path if path.starts_with('/') => path.to_owned(),
            path => format!("{}{path}", &own_path[..=own_path.rfind('/')?]),
        };
        let page = path.strip_prefix(&self.base)?;
        let is_name = |name: &str| !name.is_empty() && !name.contains('/');
        let is_known = match page.split_once('/') {
            Some(("item", name)) => match name.strip_suffix("/history") {
                Some(name) => self.caller.has_history && is_name(name),
                None => is_name(name),
            },
            Some(("sections", name)) => is_name(name),
            Some(("files", _)) => true,
            Some(_) => false,
            None => FIRST_PAGES.contains(&page) || page == "graph" && query.starts_with("focus="),
        };
        let mut address = path;
        for part in query.split('&').filter(|part| !part.is_empty()) {
            // A graph has the direct links.
            if part == "depth=1" {
                continue;
            }
            let (name, value) = part.split_once('=').unwrap_or((part, ""));
            if !QUERY_NAMES.contains(&name) || value.is_empty() {
                return None;
            }
            address += if address.contains('?') { "&" } else { "?" };
            address += part;
        }
        is_known.then_some((address, fragment))
    }

    fn into_files(self) -> Vec<SiteFile> {
        let names = self.file_names();
        let mut files = Vec::new();
        for (address, page) in &self.pages {
            let Some(path) = names.get(address.as_str()) else { continue };
            let up = if path.contains('/') { "../" } else { "" };
            let link = |link: &str| self.local_link(address, link, up, &names);
            let (content, error) = match page {
                SitePage::Html(html, error) => (rewrite_links(html, link).into(), error.clone()),
                SitePage::Image(bytes) => (bytes.clone(), None),
                SitePage::Moved(_) | SitePage::Missing => continue,
            };
            files.push(SiteFile { path: path.clone(), content, error });
        }
        for asset in [&STYLE, &SCRIPT, &FAVICON] {
            let (path, content) = (format!("assets/{}", asset.name), asset.content.clone().into());
            files.push(SiteFile { path, content, error: None });
        }
        files
    }

    /// The link of a file; `None` if the site does not contain its target.
    fn local_link(
        &self,
        address: &str,
        link: &str,
        up: &str,
        names: &HashMap<&str, String>,
    ) -> Option<String> {
        let scheme = link.split(['/', '?', '#']).next().unwrap_or_default();
        if link.starts_with('#') || scheme.contains(':') {
            return Some(link.to_owned());
        }
        if link.starts_with("/assets/") {
            return Some(format!("{up}{}", &link[1..]));
        }
        let (mut target, fragment) = self.resolve(address, link)?;
        // At most one redirect: from another form of an ID.
        if let Some(SitePage::Moved(moved)) = self.pages.get(&target) {
            target.clone_from(moved);
        }
        Some(format!("{up}{}{fragment}", names.get(target.as_str())?))
    }

    /// The path of each page. Two pages never differ only in case, because some file systems
    /// ignore it.
    fn file_names(&self) -> HashMap<&str, String> {
        let mut names = HashMap::new();
        let mut taken = HashMap::new();
        for address in &self.order {
            let extension = match self.pages.get(address) {
                Some(SitePage::Html(..)) => ".html",
                Some(SitePage::Image(_)) => "",
                _ => continue,
            };
            // A cursor may contain times of files, which differ between clones.
            let page = address[self.base.len()..].split("cursor=").next().unwrap_or_default();
            let name = file_name(page.trim_end_matches(['?', '&']));
            let count = taken.entry(name.to_lowercase()).or_insert(0_usize);
            *count += 1;
            let suffix = if *count == 1 { String::new() } else { format!("~{count}") };
            names.insert(address.as_str(), format!("{name}{suffix}{extension}"));
        }
        names
    }
}

/// The path of a page's file without its extension.
fn file_name(page: &str) -> String {
    let page = match page.strip_prefix("board") {
        Some("") => "index",
        _ => page,
    };
    let (folder, name) = match (page.split_once('/'), page.strip_prefix("graph?focus=")) {
        (_, Some(name)) => ("graph", name),
        (Some((folder, name)), _) => match name.strip_suffix("/history") {
            Some(name) => ("history", name),
            None => (folder, name),
        },
        (None, None) => ("", page),
    };
    let mut file = String::new();
    for letter in name.chars() {
        match letter {
            // Not a hidden file, and no name of a folder.
            '.' if file.is_empty() => file += "~2E",
            '?' | '&' | '=' => file.push('-'),
            '-' | '_' | '.' => file.push(letter),
            letter if letter.is_ascii_alphanumeric() => file.push(letter),
            '%' => file.push('~'),
            letter => file.extend(["~", &hex::encode_upper(letter.to_string())]),
        }
    }
    if file.len() > MAX_NAME_BYTES {
        let digest = hex::encode(<sha2::Sha256 as sha2::Digest>::digest(file.as_bytes()));
        file.truncate(MAX_NAME_BYTES - 20);
        file.extend(["~", &digest[..16]]);
    }
    if folder.is_empty() { file } else { format!("{folder}/{file}") }
}

/// A site has no sessions: each request carries its caller.
struct NoSessions;

#[async_trait]
impl SessionService for NoSessions {
    async fn sign_in(
        &self,
        _: Credentials<'_>,
    ) -> std::result::Result<IssuedSession, AuthenticationError> {
        Err(AuthenticationError::Token(TokenError::Unknown))
    }

    async fn caller(
        &self,
        _: Credentials<'_>,
    ) -> std::result::Result<Arc<Caller>, AuthenticationError> {
        Err(AuthenticationError::Token(TokenError::Unknown))
    }

    async fn sign_out(&self, _: Credentials<'_>) -> Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::file_name;

    #[test]
    fn file_name_is_safe_on_every_file_system() {
        for (page, expected) in [
            ("board", "index"),
            ("board?kind=epic", "board-kind-epic"),
            ("item/REQ-001", "item/REQ-001"),
            ("item/general%3A2.1", "item/general~3A2.1"),
            ("item/..", "item/~2E."),
            ("item/%2e%2e%2fetc", "item/~2e~2e~2fetc"),
            ("item/a*b", "item/a~2Ab"),
            ("item/general%3A2.1/history", "history/general~3A2.1"),
            ("graph?focus=general%3A2.1", "graph/general~3A2.1"),
        ] {
            assert_eq!(file_name(page), expected);
        }
        let long = file_name(&format!("table?cursor={}", "x".repeat(300)));
        assert!(long.len() <= super::MAX_NAME_BYTES, "{long}");
    }
}
