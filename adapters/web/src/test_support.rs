//! A session service and a client for tests of pages.

use std::sync::Arc;

use async_trait::async_trait;
use axum::body::Body;
use axum::http::header::{CONTENT_TYPE, COOKIE};
use axum::http::{Request, Response};
use http_body_util::BodyExt;
use reqlore_domain::document::{Document, DocumentId};
use reqlore_domain::error::{Error, ErrorKind, Result};
use reqlore_domain::identity::{Access, Caller, TokenError};
use reqlore_domain::ports::authenticator::{AuthenticationError, Credentials};
use reqlore_domain::ports::service::RenderedAnswer;
use reqlore_domain::ports::sessions::{IssuedSession, SessionService};
use reqlore_domain::project_key::ProjectKey;
use reqlore_domain::records::answers::record_schema::RecordSchemaAnswer;
use reqlore_domain::records::schema::RecordSchema;
use reqlore_domain::records::template::TemplateList;
use reqlore_domain::test_support::StubService;
use reqlore_domain::timestamp::Timestamp;
use serde_json::{Map, Value, json};
use tower_service::Service;

use crate::config::WebConfig;
use crate::router;
use crate::session::derived_token;

/// The secret of the session that exists.
pub(crate) const SECRET: &str = "session-secret";
/// The token that begins it.
pub(crate) const TOKEN: &str = "access-token";

/// The time of all changes.
pub(crate) const WRITTEN_AT: Timestamp = Timestamp(7);

/// Knows one session, of a caller with this access to the project `default`.
#[derive(Debug)]
pub(crate) struct StubSessions(pub(crate) Access);

#[async_trait]
impl SessionService for StubSessions {
    async fn sign_in(
        &self,
        credentials: Credentials<'_>,
    ) -> Result<IssuedSession, AuthenticationError> {
        if credentials.token == Some(TOKEN) {
            return Ok(IssuedSession { secret: SECRET.into(), expires_at: Timestamp::default() });
        }
        Err(AuthenticationError::Token(TokenError::Unknown))
    }

    async fn caller(
        &self,
        credentials: Credentials<'_>,
    ) -> Result<Arc<Caller>, AuthenticationError> {
        if credentials.token != Some(SECRET) {
            return Err(AuthenticationError::Token(TokenError::Unknown));
        }
        match credentials.project {
            None | Some(ProjectKey::DEFAULT) => Ok(Arc::new(Caller::local("ada", self.0))),
            Some(_) => {
                Err(AuthenticationError::Project(Error::new(ErrorKind::NotFound, "project")))
            }
        }
    }

    async fn sign_out(&self, _: Credentials<'_>) -> Result<()> {
        Ok(())
    }
}

/// A response with its body as text.
pub(crate) struct PageResponse {
    pub(crate) response: Response<()>,
    pub(crate) body: String,
}

impl PageResponse {
    pub(crate) fn status(&self) -> u16 {
        self.response.status().as_u16()
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        self.response.headers().get(name).map_or("", |value| value.to_str().unwrap())
    }
}

/// Sends requests to the pages in this process, with the cookie of the session.
pub(crate) struct PageClient {
    config: WebConfig,
}

impl PageClient {
    /// Pages whose tools answer with `on_call`, from their name and arguments.
    pub(crate) fn new(
        tools: &[&'static str],
        on_call: impl Fn(&str, &Map<String, Value>) -> Result<Value> + Send + Sync + 'static,
    ) -> Self {
        let has_schema = tools.contains(&"get_record_schema");
        let has_templates = tools.contains(&"list_record_templates");
        let service = StubService::default().with_tools(tools).on_call(move |call| {
            let data = match &*call.name {
                "get_record_schema" if !has_schema => Ok(schema_answer("")),
                "list_record_templates" if !has_templates => Ok(json!(TemplateList::default())),
                name => on_call(name, &call.arguments).map(complete),
            };
            let written_at = Some(WRITTEN_AT);
            Box::pin(async move {
                Ok(RenderedAnswer { text: String::new(), data: Arc::new(data?), written_at })
            })
        });
        let sessions = Arc::new(StubSessions(Access::Write));
        let service = Arc::new(service);
        let (administration, has_link, has_tls) = (None, false, false);
        let (base_path, folder_name) = ("/".to_owned(), String::new());
        let config = WebConfig {
            service,
            sessions,
            administration,
            has_link,
            has_tls,
            base_path,
            folder_name,
        };
        Self { config }
    }

    /// The same pages for a caller with this access.
    pub(crate) fn with_access(mut self, access: Access) -> Self {
        self.config.sessions = Arc::new(StubSessions(access));
        self
    }

    pub(crate) fn change(&mut self, change: impl FnOnce(&mut WebConfig)) {
        change(&mut self.config);
    }

    pub(crate) fn config(&self) -> WebConfig {
        self.config.clone()
    }

    pub(crate) async fn get(&self, path: &str) -> PageResponse {
        let request = Request::get(path).header(COOKIE, format!("reqlore={SECRET}"));
        self.send(request.body(Body::empty()).unwrap()).await
    }

    /// Sends a form with its token.
    pub(crate) async fn post(&self, path: &str, form: &str) -> PageResponse {
        let form = format!("{form}&csrf={}", derived_token("csrf", SECRET));
        let request = Request::post(path)
            .header(COOKIE, format!("reqlore={SECRET}"))
            .header(CONTENT_TYPE, "application/x-www-form-urlencoded");
        self.send(request.body(Body::from(form)).unwrap()).await
    }

    pub(crate) async fn send(&self, request: Request<Body>) -> PageResponse {
        let response = router(self.config.clone()).call(request).await.unwrap();
        let (parts, body) = response.into_parts();
        let bytes = body.collect().await.unwrap().to_bytes();
        let body = String::from_utf8(bytes.to_vec()).unwrap();
        PageResponse { response: Response::from_parts(parts, ()), body }
    }
}

/// The answer of `get_record_schema` to a caller who may edit this schema.
pub(crate) fn schema_answer(text: &str) -> Value {
    let document = Document::new(DocumentId::schema(), text.to_owned().into_bytes().into());
    let document = Some(&document).filter(|_| !text.is_empty());
    json!(RecordSchemaAnswer::new(String::new(), document, &RecordSchema::parse(text), true))
}

/// Adds the members that a test does not care about, and every answer of a tool has.
pub(crate) fn complete(mut answer: Value) -> Value {
    let fill = |value: &mut Value, defaults: Value| {
        if let (Value::Object(value), Value::Object(defaults)) = (value, defaults) {
            for (name, default) in defaults {
                value.entry(name).or_insert(default);
            }
        }
    };
    let names = ["item", "items", "results"];
    let links = json!({ "outgoing": [], "incoming": [], "incoming_total": 0 });
    let rest = json!({
        "project": "", "version": "", "reference": "", "total": 0, "links": links,
        "by_status": {}, "signals": [], "pending": 0, "dry_run": false, "count": 0, "results": []
    });
    fill(&mut answer, rest);
    let item = json!({
        "project": "", "version": "", "title": "", "description": "", "creator_username": "",
        "created_at": "", "updated_at": "", "tags": [], "kind": "", "text": "", "snippet": ""
    });
    for name in names {
        match answer.get_mut(name) {
            Some(Value::Array(items)) => {
                for one in items.iter_mut() {
                    fill(one, item.clone());
                }
            }
            Some(one) => fill(one, item.clone()),
            None => {}
        }
    }
    answer
}

/// Characters that change the direction of text or that no font shows, also those of other scripts.
const HIDDEN: &str = "\u{202a}\u{202b}\u{202c}\u{202d}\u{202e}\u{2066}\u{2067}\u{2068}\u{2069}\
    \u{200e}\u{200f}\u{61c}\u{ad}\u{180e}\u{200b}\u{2028}\u{2029}\u{2060}\u{2061}\u{2062}\u{2063}\
    \u{2064}\u{2065}\u{206a}\u{206f}\u{feff}\u{fff9}\u{fffa}\u{fffb}\u{115f}\u{1160}\u{17b4}\
    \u{17b5}\u{3164}\u{ffa0}\u{1bca0}\u{1d173}\u{1d17a}\u{e0001}\u{e0041}\u{e007f}\u{e0100}\u{85}";

/// Adds hidden characters to each hostile text of an answer.
pub(crate) fn with_hidden(answer: &Value) -> Value {
    let script = format!("<script>{HIDDEN}");
    serde_json::from_str(&answer.to_string().replace("<script>", &script)).unwrap()
}

/// Hidden characters are in texts of documents and in values of forms only.
#[track_caller]
pub(crate) fn check_names(page: &str, body: &str) {
    let mut names = body.to_owned();
    for (start, end) in [
        ("<pre", "</pre>"),
        ("<textarea", "</textarea>"),
        (" value=\"", "\""),
        ("<div class=\"prose\">", "</div>"),
    ] {
        while let Some((before, rest)) = names.split_once(start) {
            names = format!("{before}{}", rest.split_once(end).unwrap().1);
        }
    }
    for hidden in HIDDEN.chars() {
        assert!(!names.contains(hidden), "{page} shows {hidden:?}: {names}");
    }
    assert!(names.contains(r"\u{202a}\u{202b}"), "{page}: {names}");
}

/// The form with the action `target` as a browser sends it if the user changes nothing: the input
/// stream and values are normalized, and line ends are CRLF (HTML, form submission).
pub(crate) fn untouched_form(body: &str, target: &str) -> String {
    let body = body.replace("\r\n", "\n").replace('\r', "\n");
    let form = body.split_once(&format!("action=\"{target}\"")).unwrap().1;
    let form = form.split_once("</form>").unwrap().0;
    let mut sent = form_urlencoded::Serializer::new(String::new());
    for control in form.split('<').filter(|control| control.contains(" name=\"")) {
        let attribute = |name: &str| {
            let value = control.split_once(&format!(" {name}=\""))?.1.split_once('"')?.0;
            Some(unescape(value))
        };
        let name = attribute("name").unwrap();
        let value = match control.split(' ').next().unwrap() {
            "textarea" => {
                let text = unescape(control.split_once('>').unwrap().1);
                text.strip_prefix('\n').unwrap_or(&text).to_owned()
            }
            "input" if control.contains("type=\"hidden\"") => attribute("value").unwrap(),
            "input" => attribute("value").unwrap().replace('\n', ""),
            "select" => {
                let options =
                    form.split_once(control).unwrap().1.split_once("</select>").unwrap().0;
                let chosen = options.split("<option ").find(|option| option.contains(" selected"));
                let chosen = chosen.or(options.split("<option ").nth(1)).unwrap();
                unescape(chosen.split_once("value=\"").unwrap().1.split_once('"').unwrap().0)
            }
            // A button that was not pressed.
            _ => continue,
        };
        if name != "csrf" {
            sent.append_pair(&name, &value.replace('\n', "\r\n"));
        }
    }
    sent.finish()
}

fn unescape(html: &str) -> String {
    let mut text = html.to_owned();
    for (reference, letter) in
        [("&#60;", "<"), ("&#62;", ">"), ("&#34;", "\""), ("&#39;", "'"), ("&#38;", "&")]
    {
        text = text.replace(reference, letter);
    }
    text
}
