//! The frame of all pages, their headers, and the pages of errors.

use std::fmt;
use std::sync::Arc;

use askama::Template;
use askama::filters::Escaper;
use axum::Extension;
use axum::extract::{Request, State};
use axum::http::HeaderValue;
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, HeaderName, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
};
use axum::middleware::Next;
use axum::response::{Html, IntoResponse, Response};
use reqlore_domain::backlog::{ItemKind, Priority};
use reqlore_domain::error::{Error, ErrorKind};
use reqlore_domain::knowledge::EntityKind;
use reqlore_domain::project_key::ProjectKey;
use reqlore_domain::timestamp::Timestamp;
use reqlore_domain::untrusted_text::encode_lines;

use crate::assets::{AssetFile, FAVICON, SCRIPT, STYLE};
use crate::config::WebConfig;
use crate::form_fields::{accepts_json, encode_component, encode_query};
use crate::page_error::{ErrorTexts, PageError, PageResult};
use crate::project_schema::ProjectSchema;
use crate::routes::undo::ChangeNotice;
use crate::session::{PageSession, ThemeChoice, theme_choice};

const CONTENT_POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; \
    img-src 'self' data:; connect-src 'self'; form-action 'self'; frame-ancestors 'none'; \
    base-uri 'none'";
const OPENER_POLICY: HeaderName = HeaderName::from_static("cross-origin-opener-policy");

/// The entry of the navigation that a page belongs to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum PageSection {
    /// Pages without an entry, such as the sign-in page.
    #[default]
    Other,
    Board,
    Tree,
    Table,
    Sections,
    Knowledge,
    Docsets,
    Graph,
    Schema,
    Activity,
    Users,
    Tokens,
}

/// An entry of the navigation: its section, page, icon and label.
pub(crate) struct NavigationEntry {
    pub(crate) section: PageSection,
    pub(crate) page: &'static str,
    pub(crate) icon: &'static str,
    pub(crate) label: &'static str,
}

const fn entry(
    section: PageSection,
    page: &'static str,
    icon: &'static str,
    label: &'static str,
) -> NavigationEntry {
    NavigationEntry { section, page, icon, label }
}

/// Each entry with the tool that its page needs.
const PROJECT_PAGES: [(&str, NavigationEntry); 7] = [
    ("list_items", entry(PageSection::Board, "board", "board", "Board")),
    ("list_items", entry(PageSection::Tree, "tree", "tree", "Tree")),
    ("list_items", entry(PageSection::Table, "table", "table", "Table")),
    ("reqlix_get_requirements", entry(PageSection::Sections, "sections", "section", "Sections")),
    ("ixchel_search", entry(PageSection::Knowledge, "knowledge", "knowledge", "Knowledge")),
    ("list_docsets", entry(PageSection::Docsets, "docsets", "docset", "Docsets")),
    ("get_item", entry(PageSection::Graph, "graph", "graph", "Graph")),
];

/// For callers who may change the record schema.
const SCHEMA_PAGE: NavigationEntry =
    entry(PageSection::Schema, "schema", "acceptance_criteria", "Fields and statuses");

const ADMINISTRATOR_PAGES: [NavigationEntry; 3] = [
    entry(PageSection::Activity, "activity", "activity", "Activity"),
    entry(PageSection::Users, "admin/users", "user", "Users"),
    entry(PageSection::Tokens, "admin/tokens", "token", "Tokens"),
];

/// For other users of a team's server.
const OWN_PAGES: [NavigationEntry; 2] = [
    entry(PageSection::Activity, "activity", "activity", "My activity"),
    entry(PageSection::Tokens, "tokens", "token", "My tokens"),
];

/// The values of `layout.html`. Templates have it as their field `frame`.
#[derive(Default)]
pub(crate) struct PageFrame {
    pub(crate) title: String,
    pub(crate) section: PageSection,
    /// Empty without a session.
    pub(crate) project: String,
    /// The display name: the folder name of a local project, otherwise its key.
    pub(crate) project_name: String,
    /// The user's name; empty without a session and on pages of a static site.
    pub(crate) user: String,
    pub(crate) csrf_token: String,
    pub(crate) has_history: bool,
    pub(crate) theme: ThemeChoice,
    /// The page's own path and query, to return to it after a form.
    pub(crate) address: String,
    /// True if the page refreshes itself after changes. The answer to a form does not: it holds the
    /// typed text of the user, or a secret that is shown once.
    pub(crate) is_live: bool,
    /// Proves a refresh of this page.
    pub(crate) refresh_token: String,
    /// The text in the search box.
    pub(crate) search_text: String,
    pub(crate) can_write: bool,
    /// The URL of the form that the New button opens; `None` for callers who may not create.
    pub(crate) creation: Option<String>,
    /// The notice of the change that led to the page.
    pub(crate) done: Option<ChangeNotice>,
    pub(crate) navigation: Vec<&'static NavigationEntry>,
    pub(crate) administration: &'static [NavigationEntry],
    pub(crate) schema: Arc<ProjectSchema>,
    /// The base path of all pages, such as `/`.
    pub(crate) home: String,
    base: String,
    asset_base: String,
}

impl PageFrame {
    /// The frame of a page of a project.
    pub(crate) fn new(
        session: &PageSession,
        section: PageSection,
        title: impl Into<String>,
    ) -> Self {
        let mut navigation = Vec::new();
        let tools = session.config.service.tools(&session.caller);
        for (tool, entry) in &PROJECT_PAGES {
            // A site has the graphs of items, but no form to choose one.
            let is_left_out = session.is_static() && entry.section == PageSection::Graph;
            if !is_left_out && tools.iter().any(|spec| spec.name == *tool) {
                navigation.push(entry);
            }
        }
        if session.caller.is_administrator()
            && tools.iter().any(|spec| spec.name == "set_record_schema")
        {
            navigation.push(&SCHEMA_PAGE);
        }
        let creates = |name: &str| name == "create_epic" || name == "ixchel_create";
        let can_create = session.can_write() && tools.iter().any(|spec| creates(spec.name));
        let kind = match section {
            PageSection::Tree => ItemKind::Epic.name(),
            PageSection::Knowledge => EntityKind::any_row().name,
            _ => "",
        };
        let is_administrator = session.is_administrator();
        Self {
            section,
            project: session.project.to_string(),
            project_name: project_name(&session.config.folder_name, session.project.as_str()),
            user: if session.is_static() { String::new() } else { session.caller.name.to_string() },
            csrf_token: session.csrf_token.clone(),
            has_history: session.has_history,
            address: session.address.clone(),
            refresh_token: session.refresh_token(),
            is_live: !session.is_form_answer && !session.is_static(),
            can_write: session.can_write(),
            creation: can_create.then(|| new_page([("kind", kind)])),
            done: ChangeNotice::parse(&session.query),
            navigation,
            administration: match session.config.administration {
                Some(_) if is_administrator => &ADMINISTRATOR_PAGES,
                Some(_) => &OWN_PAGES,
                None => &[],
            },
            schema: session.schema.clone(),
            base: session.url(""),
            ..Self::anonymous(&session.config, session.theme, title)
        }
    }

    /// The frame of a page without a session: sign-in and errors.
    pub(crate) fn anonymous(
        config: &WebConfig,
        theme: ThemeChoice,
        title: impl Into<String>,
    ) -> Self {
        let home = config.base_path.clone();
        Self {
            title: title.into(),
            theme,
            address: home.clone(),
            base: home.clone(),
            asset_base: format!("{home}assets/"),
            home,
            ..Self::default()
        }
    }

    /// The URL of a page of the project, such as `board`, or `board?kind=epic`.
    pub(crate) fn url(&self, page: &str) -> String {
        format!("{}{page}", self.base)
    }

    /// Replaces the form that the New button opens.
    pub(crate) fn with_creation(self, page: String) -> Self {
        Self { creation: self.creation.map(|_| page), ..self }
    }

    /// The URL of the form for a new item or entity; `parent` may be empty.
    pub(crate) fn new_url(&self, kind: &str, parent: &str) -> String {
        self.url(&new_page([("kind", kind), ("parent", parent)]))
    }

    /// The URL of an item or entity.
    pub(crate) fn item(&self, reference: &str) -> String {
        self.url(&format!("item/{}", encode_component(reference)))
    }

    pub(crate) fn style(&self) -> String {
        self.asset(&STYLE)
    }

    pub(crate) fn script(&self) -> String {
        self.asset(&SCRIPT)
    }

    pub(crate) fn favicon(&self) -> String {
        self.asset(&FAVICON)
    }

    fn asset(&self, asset: &AssetFile) -> String {
        format!("{}{}", self.asset_base, asset.name)
    }

    /// True if the page has a server that handles forms and searches.
    pub(crate) fn has_session(&self) -> bool {
        !self.user.is_empty()
    }

    pub(crate) fn is_current(&self, entry: &NavigationEntry) -> bool {
        self.section == entry.section
    }
}

/// The page of the form for a new item or entity, with these fields filled in.
pub(crate) fn new_page<'a>(fields: impl IntoIterator<Item = (&'a str, &'a str)>) -> String {
    format!("new?{}", encode_query(fields))
}

fn project_name(folder: &str, key: &str) -> String {
    match (folder, key) {
        ("", key) => key.to_owned(),
        (folder, ProjectKey::DEFAULT) => folder.to_owned(),
        (folder, key) => format!("{folder}: {key}"),
    }
}

/// Encodes and escapes what templates print. `askama.toml` selects it.
#[derive(Clone, Copy)]
pub(crate) struct NameEscaper;

impl Escaper for NameEscaper {
    fn write_escaped_str<W: fmt::Write>(&self, page: W, text: &str) -> fmt::Result {
        askama::filters::Html.write_escaped_str(page, &encode_lines(text))
    }
}

/// The first letters of a user's name, such as AL of `ada.l@example.org`.
pub(crate) fn initials(name: &str) -> String {
    let local = name.split('@').next().unwrap_or_default();
    let mut words = local.split(['.', '_', '-', '+', ' ']).filter(|word| !word.is_empty());
    let (first, last) = (words.next().unwrap_or_default(), words.next_back());
    let mut letters: String = first.chars().take(if last.is_some() { 1 } else { 2 }).collect();
    letters.extend(last.and_then(|word| word.chars().next()));
    letters.to_uppercase()
}

pub(crate) fn capitalize(words: &str) -> String {
    let mut letters = words.chars();
    let first = letters.next().map(|first| first.to_uppercase().to_string());
    first.unwrap_or_default() + letters.as_str()
}

/// A stored name as people read it: `user_story` becomes `user story`.
pub(crate) fn name_words(name: &str) -> String {
    name.to_lowercase().replace('_', " ")
}

/// The name of a priority from 1 to 4; empty for other numbers.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "templates pass references")]
pub(crate) fn priority_name(number: &u8) -> &'static str {
    Priority::new(usize::from(*number)).map_or("", Priority::name)
}

/// A point in time such as `2026-01-31 23:59 UTC`, from RFC 3339. Other text stays unchanged.
pub(crate) fn short_time(text: &str) -> String {
    let Some(time) = Timestamp::parse(text) else { return text.to_owned() };
    let rfc3339 = time.whole_seconds().to_rfc3339();
    match (rfc3339.get(..10), rfc3339.get(11..16)) {
        (Some(date), Some(minute)) => format!("{date} {minute} UTC"),
        _ => text.to_owned(),
    }
}

/// Renders a page.
pub(crate) fn render(template: &impl Template) -> PageResult {
    let html = template.render().map_err(|error| {
        Error::new(ErrorKind::Internal, "The page can't be rendered").caused_by(error)
    })?;
    Ok(Html(html).into_response())
}

#[derive(Template)]
#[template(path = "error.html")]
struct ErrorPage<'a> {
    frame: PageFrame,
    texts: &'a ErrorTexts,
}

/// Renders error pages in the theme of the request. The script gets only the message.
pub(crate) async fn render_errors(
    State(config): State<Arc<WebConfig>>,
    request: Request,
    next: Next,
) -> Response {
    let theme = theme_choice(request.headers());
    let is_script = accepts_json(request.headers());
    let mut response = next.run(request).await;
    let Some(texts) = response.extensions_mut().remove::<ErrorTexts>() else {
        return response;
    };
    if is_script {
        let message = serde_json::json!({ "message": texts.message });
        return (response.status(), axum::Json(message)).into_response();
    }
    let frame = PageFrame::anonymous(&config, theme, &*texts.title);
    match (ErrorPage { frame, texts: &texts }).render() {
        Ok(html) => (response.status(), Extension(texts), Html(html)).into_response(),
        Err(_) => response,
    }
}

/// Answers paths without a route, with or without a session alike.
pub(crate) async fn not_found() -> PageError {
    PageError::NotFound
}

/// Adds the headers that every response has.
pub(crate) async fn add_security_headers(mut response: Response) -> Response {
    let headers = response.headers_mut();
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(CONTENT_POLICY));
    // Not `no-referrer`: browsers would then send forms with `Origin: null`.
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("same-origin"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(OPENER_POLICY, HeaderValue::from_static("same-origin"));
    // Assets set their own.
    headers.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    response
}
