//! Serves the pages of a project to the local user until Ctrl-C.
//!
//! The browser opens a private file that leads to a link. The link works once, within a minute, and
//! begins a session. Process lists do not show the secret. Port and sessions survive a
//! restart, so that open pages and bookmarks keep working.

use std::io::{ErrorKind, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use reqlore_application::Application;
use reqlore_domain::document::Version;
use reqlore_domain::error::Result;
use reqlore_domain::identity::token::{ID_LETTERS, SECRET_LETTERS, TokenDigest};
use reqlore_domain::identity::{CallChannel, Caller, PresentedToken, ProjectScope, TokenError};
use reqlore_domain::ports::authenticator::{AuthenticationError, Authenticator, Credentials};
use reqlore_domain::ports::clock::Clock;
use reqlore_domain::ports::id_generator::IdGenerator;
use reqlore_domain::ports::project_resolver::{ProjectResolver, project_not_found};
use reqlore_domain::ports::service::AnswerFormat;
use reqlore_domain::ports::sessions::{IssuedSession, SessionService};
use reqlore_domain::ports::transport::Transport;
use reqlore_domain::project_key::ProjectKey;
use reqlore_domain::timestamp::Timestamp;
use reqlore_durable_fs::owner_only_options;
use reqlore_transport_http::{HttpConfig, HttpLimits, HttpTransport, Readiness};
use reqlore_web::{Router, WebConfig};
use tempfile::TempDir;

use crate::background::BackgroundTasks;
use crate::client_environment::open_in_browser;
use crate::commands::output::print;
use crate::composition;
use crate::composition::file_store::{read_text, write_text};
use crate::config::AppConfig;
use crate::config::paths::env_variable;
use crate::console::eprint_line;
use crate::exit::{CommandError, EXIT_OK};
use crate::system::{RandomIds, SystemClock, terminal_closed};

const LINK_SECONDS: i64 = 60;
const SESSION_SECONDS: i64 = 12 * 60 * 60;
const MAX_SESSIONS: usize = 8;
/// The digests of the sessions, in the local state directory.
pub(super) const SESSIONS_FILE: &str = "board.sessions";
/// First port of projects. Their range does not overlap the ephemeral ports of operating systems.
const FIRST_PORT: u16 = 20_000;
const PORT_COUNT: u16 = 10_000;
/// Number of ports to try, starting with the project's own. After them the system chooses one.
const PORT_TRIES: u16 = 20;
/// Running requests of a closed terminal or a second Ctrl-C are not worth a longer wait.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(2);

/// Serves the pages. The link leads to the page at this path. Without `opens_browser` it is
/// printed.
pub(crate) fn run(config: &AppConfig, page: &str, opens_browser: bool) -> Result<u8, CommandError> {
    let store = composition::open_project_store(config, true)?;
    let is_audited = config.audit == Some(true);
    let ports = composition::ports_over(config, &store, is_audited)?;
    let link = RandomIds.random_letters(SECRET_LETTERS)?;
    let sessions = Arc::new(LocalSessions {
        caller: Caller {
            // As on a server: a page names a configured project by its key.
            scope: ProjectScope::Configured,
            ..composition::local_caller(config).through(CallChannel::Web)
        },
        projects: Arc::clone(&ports.projects),
        link: Mutex::new(Some(OneTimeLink { secret: link.clone(), created_at: SystemClock.now() })),
        root: config.root.clone(),
        sessions: Mutex::default(),
    });
    sessions.update(|_| {});
    let application = Application::new(ports);
    let maintenance = application.maintenance(None, config.keep_days);
    let service = Arc::new(application);
    let pages = reqlore_web::router(WebConfig {
        service: Arc::clone(&service) as _,
        sessions: Arc::clone(&sessions) as _,
        administration: None,
        has_link: true,
        has_tls: false,
        base_path: "/".to_owned(),
        folder_name: folder_name(&config.root),
    });
    let listen = config.board_address()?;
    let runtime = composition::multi_thread_runtime()?;
    let served = runtime.block_on(async {
        let mut transport =
            Box::new(bind_port(config, listen, &sessions, &pages).map_err(board_error)?);
        let closed = terminal_closed().map_err(board_error)?;
        let address = transport.start().map_err(board_error)?.unwrap_or(([127, 0, 0, 1], 0).into());
        let url = format!("http://{address}/signin/{link}?next={page}");
        eprint_line(&format!("The board of {} is at http://{address}/", config.root.display()));
        eprint_line("End it with Ctrl-C.");
        // Kept until the end, because the browser may be slow.
        let file = if opens_browser { open_link(&url) } else { None };
        if file.is_none() {
            eprint_line(&format!("Open this link within {LINK_SECONDS} seconds:"));
            print(&format!("{url}\n"))?;
        }
        let background = BackgroundTasks::start(maintenance, None);
        let served = tokio::select! {
            served = transport.serve(service) => served,
            () = closed => Ok(()),
        };
        background.finish().await;
        drop(file);
        served.map_err(board_error)
    });
    runtime.shutdown_background();
    served.map(|()| EXIT_OK)
}

fn board_error(error: impl std::fmt::Display) -> CommandError {
    CommandError::failure(format!("board: {error}"))
}

fn folder_name(root: &Path) -> String {
    root.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// Binds the given address, otherwise the project's own port or the next free one.
fn bind_port(
    config: &AppConfig,
    listen: Option<SocketAddr>,
    sessions: &Arc<LocalSessions>,
    pages: &Router,
) -> std::io::Result<HttpTransport> {
    let mut bound = Err(ErrorKind::AddrInUse.into());
    for address in listen.map_or_else(|| project_addresses(&config.root), |listen| vec![listen]) {
        bound = bind_loopback(address, Arc::clone(sessions), pages.clone());
        if !matches!(&bound, Err(error) if error.kind() == ErrorKind::AddrInUse) {
            break;
        }
    }
    bound
}

/// The addresses to try for a project. They depend only on its path.
fn project_addresses(root: &Path) -> Vec<SocketAddr> {
    let hash = Version::of_bytes(root.as_os_str().as_encoded_bytes()).to_bits();
    let own = u16::try_from(hash % u64::from(PORT_COUNT)).unwrap_or_default();
    let ports = (0..PORT_TRIES).map(|step| FIRST_PORT + (own + step) % PORT_COUNT);
    ports.chain([0]).map(|port| ([127, 0, 0, 1], port).into()).collect()
}

fn bind_loopback(
    listen: SocketAddr,
    sessions: Arc<LocalSessions>,
    pages: Router,
) -> std::io::Result<HttpTransport> {
    HttpTransport::bind(HttpConfig {
        listen,
        behind_proxy: None,
        hosts: Vec::new(),
        origins: Vec::new(),
        limits: HttpLimits { drain_timeout: DRAIN_TIMEOUT, ..HttpLimits::default() },
        answers: AnswerFormat::default(),
        authenticator: sessions,
        readiness: Arc::new(|| Readiness::Ready),
        render_metrics: Arc::new(String::new),
        counters: Arc::default(),
        pages: Some(pages),
    })
}

/// Opens a private file that redirects to the link. `None` if there is no browser.
fn open_link(url: &str) -> Option<TempDir> {
    let folder = env_variable("XDG_RUNTIME_DIR").map(PathBuf::from);
    let folder = folder.unwrap_or_else(std::env::temp_dir);
    let folder = TempDir::with_prefix_in("reqlore-", folder).ok()?;
    let path = folder.path().join("board.html");
    let mut file = owner_only_options().write(true).create_new(true).open(&path).ok()?;
    // The link has only letters, digits, the address and a page's path, so it needs no escapes.
    let page = format!(
        "<!doctype html><meta charset=\"utf-8\"><meta name=\"referrer\" content=\"no-referrer\">\
         <meta http-equiv=\"refresh\" content=\"0; url={url}\"><title>Reqlore</title>\
         <a href=\"{url}\">Open the board</a>\n"
    );
    file.write_all(page.as_bytes()).ok()?;
    let failed = format!("The browser did not open. Open this link within a minute: {url}");
    open_in_browser(&path, move || eprint_line(&failed)).then_some(folder)
}

struct OneTimeLink {
    secret: String,
    created_at: Timestamp,
}

/// Digests of session secrets, each with its expiry in seconds since 1970; the oldest first.
type SessionList = Vec<(TokenDigest, i64)>;

/// The sessions of the user who started this process.
struct LocalSessions {
    caller: Caller,
    projects: Arc<dyn ProjectResolver>,
    /// `None` after its use.
    link: Mutex<Option<OneTimeLink>>,
    /// The root of the project. Its local state directory has [`SESSIONS_FILE`].
    root: PathBuf,
    sessions: Mutex<SessionList>,
}

impl LocalSessions {
    /// Changes the sessions of this process and of later processes.
    fn update(&self, change: impl FnOnce(&mut SessionList)) {
        let mut sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        // Another board of this project may have changed them.
        let stored = match read_text(&self.root, SESSIONS_FILE) {
            Ok(text) => text.and_then(|text| serde_json::from_str::<SessionList>(&text).ok()),
            Err(error) => {
                tracing::warn!(%error, "the stored sessions of this board are ignored");
                None
            }
        };
        let stored = stored.unwrap_or_else(|| sessions.clone());
        sessions.clone_from(&stored);
        change(&mut sessions);
        let now = SystemClock.now().seconds();
        sessions.retain(|(_, end)| now < *end);
        let surplus = sessions.len().saturating_sub(MAX_SESSIONS);
        sessions.drain(..surplus);
        if *sessions == stored {
            return;
        }
        let text = serde_json::to_string(&*sessions).unwrap_or_default();
        if let Err(error) = write_text(&self.root, SESSIONS_FILE, &text) {
            tracing::warn!(%error, "the session cannot be stored and ends with this process");
        }
    }

    fn is_session(&self, credentials: &Credentials<'_>) -> bool {
        let Some(digest) = session_digest(credentials) else { return false };
        let sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        let now = SystemClock.now().seconds();
        sessions.iter().any(|(known, end)| *known == digest && now < *end)
    }
}

fn session_digest(credentials: &Credentials<'_>) -> Option<TokenDigest> {
    Some(PresentedToken::parse_session(credentials.token?)?.digest())
}

/// Compares in constant time.
fn is_same_secret(one: &str, other: &str) -> bool {
    let mut difference = one.len() ^ other.len();
    for (one, other) in one.bytes().zip(other.bytes()) {
        difference |= usize::from(one ^ other);
    }
    difference == 0
}

#[async_trait]
impl SessionService for LocalSessions {
    async fn sign_in(
        &self,
        credentials: Credentials<'_>,
    ) -> Result<IssuedSession, AuthenticationError> {
        let mut link = self.link.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(current) = &*link else {
            return Err(AuthenticationError::Token(TokenError::Retired));
        };
        if !is_same_secret(&current.secret, credentials.token.unwrap_or_default()) {
            return Err(AuthenticationError::Token(TokenError::Wrong));
        }
        let age = SystemClock.now().seconds() - current.created_at.seconds();
        *link = None;
        if age > LINK_SECONDS {
            return Err(AuthenticationError::Token(TokenError::Expired));
        }
        let letters = |count| RandomIds.random_letters(count).map_err(AuthenticationError::Failed);
        let session = PresentedToken::new(&letters(ID_LETTERS)?, &letters(SECRET_LETTERS)?)
            .ok_or(AuthenticationError::Token(TokenError::Wrong))?
            .for_session();
        let end = SystemClock.now().seconds() + SESSION_SECONDS;
        self.update(|sessions| sessions.push((session.digest(), end)));
        Ok(IssuedSession { secret: session.reveal(), expires_at: Timestamp::new(end, 0) })
    }

    async fn caller(
        &self,
        credentials: Credentials<'_>,
    ) -> Result<Arc<Caller>, AuthenticationError> {
        if !self.is_session(&credentials) {
            return Err(AuthenticationError::Token(TokenError::Unknown));
        }
        let mut caller = self.caller.clone();
        if let Some(project) = credentials.project {
            caller.project = ProjectKey::new(project);
            if !self.projects.is_configured(&caller.project) {
                let keys = self.projects.keys();
                let error = project_not_found(&caller.scope, &keys, "project", project);
                return Err(AuthenticationError::Project(error));
            }
        }
        Ok(Arc::new(caller))
    }

    async fn sign_out(&self, credentials: Credentials<'_>) -> Result<()> {
        if let Some(digest) = session_digest(&credentials) {
            self.update(|sessions| sessions.retain(|(known, _)| *known != digest));
        }
        Ok(())
    }
}

/// Clients of the protocol have no access: they start their own server.
#[async_trait]
impl Authenticator for LocalSessions {
    async fn authenticate(&self, _: Credentials<'_>) -> Result<Arc<Caller>, AuthenticationError> {
        Err(AuthenticationError::Token(TokenError::Unknown))
    }
}
