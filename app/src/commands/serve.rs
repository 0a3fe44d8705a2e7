//! `reqlore serve`: serves until the client or the operator ends it.

use std::io::{ErrorKind, IsTerminal};
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use reqlore_application::Application;
use reqlore_application::identity::token_authenticator::TokenAuthenticator;
use reqlore_domain::error::Error;
use reqlore_domain::ports::Store;
use reqlore_domain::ports::clock::Clock;
use reqlore_domain::ports::documents::StoreError;
use reqlore_domain::ports::identity::IdentityRepository;
use reqlore_domain::ports::service::AnswerFormat;
use reqlore_domain::ports::transport::{TrafficCounters, Transport};
use reqlore_metrics::Metrics;
use reqlore_transport_http::{HttpTransport, Readiness};
use reqlore_web::{Router, WebConfig};
use tokio::sync::watch;

use crate::background::BackgroundTasks;
use crate::composition;
use crate::config::{self, AppConfig};
use crate::console::eprint_line;
use crate::exit::{CommandError, EXIT_OK, Result};
use crate::system::SystemClock;
use crate::telemetry::LogFormat;

/// Clients kill a server that takes 2 seconds to end.
const MAX_BUILD_WAIT: Duration = Duration::from_millis(1_500);
const LIMITS_PER_LINE: usize = 3;
const FIRST_USER: &str = "There are no users yet. On this host, with the same --root, --storage \
                          and --config:\n  reqlore user add NAME --role administrator\n  \
                          reqlore token create --user NAME";

pub(crate) fn run(config: &AppConfig) -> Result<u8> {
    match &config.http {
        None => serve_stdio(config),
        Some(http) => serve_http(config, http),
    }
}

fn serve_stdio(config: &AppConfig) -> Result<u8> {
    let is_audited = config.audit == Some(true);
    let store = composition::open_store(config, &config.storage)?;
    let application = Application::new(composition::ports_over(config, &store, is_audited)?);
    // Otherwise there is nothing to maintain, and no reason to wake up every second.
    let is_maintained = is_audited || config.keep_days.history > 0;
    let maintenance = is_maintained.then(|| application.maintenance(None, config.keep_days));
    if std::io::stdin().is_terminal() {
        print_terminal_hint(config);
    }
    let runtime = composition::single_thread_runtime()?;
    let served = runtime.block_on(async {
        let background = maintenance.map(|tasks| BackgroundTasks::start(tasks, None));
        let mut transport = composition::stdio_transport(config);
        transport.start()?;
        let application = Arc::new(application);
        let served = transport.serve(Arc::clone(&application) as _).await;
        if let Some(background) = background {
            background.finish().await;
        }
        application.finish_index_builds(MAX_BUILD_WAIT).await;
        served
    });
    // A read of standard input may still block a thread; all accepted requests are answered.
    runtime.shutdown_background();
    served
        .map(|()| EXIT_OK)
        .map_err(|error| CommandError::failure(format!("standard input and output: {error}")))
}

fn serve_http(config: &AppConfig, http: &config::HttpSettings) -> Result<u8> {
    // First: a port in use must not leave a new storage behind.
    if let Err(error) = TcpListener::bind(http.listen)
        && error.kind() == ErrorKind::AddrInUse
    {
        let next = "stop the program that uses this port, or choose another one with --listen";
        return Err(http_error(format!("{}: {error}; {next}", http.listen)));
    }
    let is_audited = config.audit != Some(false);
    let runtime = composition::multi_thread_runtime()?;
    let (store, readiness) = composition::open_http_store(config, &runtime)?;
    let counters = Arc::<TrafficCounters>::default();
    let (version, now) = (env!("CARGO_PKG_VERSION"), SystemClock.now());
    let metrics = Metrics::with_http(version, now, Arc::clone(&counters));
    let metrics = Arc::new(metrics.with_storage(Arc::clone(&store) as _));
    let mut ports = composition::ports_over(config, &store, is_audited)?;
    ports.documents = metrics.measured_store(ports.documents);
    ports.history = metrics.measured_store(ports.history);
    ports.search = metrics.measured_search(ports.search);
    ports.idempotency = metrics.measured_store(ports.idempotency);
    ports.claims = metrics.measured_store(ports.claims);
    ports.audit = ports.audit.map(|audit| metrics.measured_store(audit) as _);
    let identities: Arc<dyn IdentityRepository> = Arc::clone(&store) as _;
    let identities: Arc<dyn IdentityRepository> = metrics.measured_store(identities);
    ports.users = Some(Arc::clone(&identities));
    let application = Application::new(ports);
    let authenticator =
        application.authenticator(Arc::clone(&identities), composition::max_access(config));
    let authenticator = Arc::new(authenticator);
    let maintenance = application.maintenance(Some(Arc::clone(&authenticator)), config.keep_days);
    let sessions = Arc::new(application.sessions(Arc::clone(&authenticator)));
    let administration = Arc::new(application.administration(identities));
    let service = metrics.measured_service(Arc::new(application));
    let pages = http.has_pages.then(|| {
        reqlore_web::router(WebConfig {
            service: Arc::clone(&service),
            sessions,
            administration: Some(administration),
            has_link: false,
            has_tls: http.behind_proxy.is_some(),
            base_path: http.base_path.clone(),
            folder_name: String::new(),
        })
    });
    // Holds until the first probe.
    let is_reached = readiness == Readiness::Ready;
    let (state, readiness) = watch::channel(readiness);
    let served = runtime.block_on(async {
        let answers = config.answers;
        let mut transport =
            bind_http(http, authenticator, readiness, &metrics, counters, pages, answers)?;
        // Before the address is printed: a signal may follow at once.
        let address = transport.start().map_err(http_error)?;
        if let Some(address) = address {
            print_startup_report(config, http, address, is_reached.then_some(&*store)).await?;
        }
        let background = BackgroundTasks::start(maintenance, Some((store, state)));
        let served = transport.serve(service).await;
        background.finish().await;
        served.map_err(http_error)
    });
    runtime.shutdown_background();
    served.map(|()| EXIT_OK)
}

fn http_error(error: impl std::fmt::Display) -> CommandError {
    CommandError::failure(format!("http: {error}"))
}

fn bind_http(
    http: &config::HttpSettings,
    authenticator: Arc<TokenAuthenticator>,
    readiness: watch::Receiver<Readiness>,
    metrics: &Arc<Metrics>,
    counters: Arc<TrafficCounters>,
    pages: Option<Router>,
    answers: AnswerFormat,
) -> Result<Box<dyn Transport>> {
    let metrics = Arc::clone(metrics);
    let config = reqlore_transport_http::HttpConfig {
        listen: http.listen,
        behind_proxy: http.behind_proxy.clone(),
        hosts: http.hosts.clone(),
        origins: http.origins.clone(),
        limits: http.limits.clone(),
        answers,
        authenticator,
        readiness: Arc::new(move || *readiness.borrow()),
        render_metrics: Arc::new(move || metrics.render_text()),
        counters,
        pages,
    };
    let bound = HttpTransport::bind(config);
    let http = bound.map_err(http_error)?;
    Ok(Box::new(http))
}

/// Tells a user at a terminal that this command is meant for MCP clients.
fn print_terminal_hint(config: &AppConfig) {
    eprint_line(&format!(
        "reqlore serves {} and waits for an MCP client on standard input (end with Ctrl-D).\n\
         AI assistants start it, with this configuration:\n\
         {}\n\
         For a short demonstration: reqlore demo",
        config.root.display(),
        super::demo::SNIPPET,
    ));
}

/// Counts users and tokens.
async fn count_identities(store: &dyn Store) -> Result<(usize, usize), StoreError> {
    Ok((store.list_users().await?.len(), store.list_tokens().await?.len()))
}

/// Prints the address, limits and next step for the operator; with JSON logs as one event. Without
/// a store, the database cannot be reached yet.
async fn print_startup_report(
    config: &AppConfig,
    http: &config::HttpSettings,
    address: SocketAddr,
    store: Option<&dyn Store>,
) -> Result<()> {
    let pages = http.has_pages.then(|| format!("http://{address}/"));
    let serves = format!(
        "reqlore serves {} from {} at http://{address}{}",
        config.root.display(),
        config.storage,
        reqlore_transport_http::PATH,
    );
    let mut identities = None;
    if let Some(store) = store {
        match count_identities(store).await {
            Ok(counts) => identities = Some(counts),
            // A damaged storage is served as far as it can be read.
            Err(error @ StoreError::Unreadable { .. }) => {
                tracing::error!(%error, "users and tokens can't be listed");
            }
            Err(error) => return Err(Error::from(error).into()),
        }
    }
    let (users, tokens) = identities.unzip();
    let (is_audited, read_only) = (config.audit != Some(false), config.read_only);
    let next = (users == Some(0)).then_some(FIRST_USER);
    if config.log_format == LogFormat::Json {
        let limits = http.limit_texts.join(" ");
        let audit = is_audited;
        tracing::info!(pages, users, tokens, read_only, audit, limits, next, "{serves}");
        return Ok(());
    }
    let counts = match (users, tokens) {
        (Some(users), Some(tokens)) => format!("{users} user(s), {tokens} token(s)"),
        _ if store.is_none() => "waiting for the database".to_owned(),
        _ => "users and tokens unknown, because the storage is damaged".to_owned(),
    };
    eprint_line(&serves);
    if let Some(pages) = pages {
        eprint_line(&format!("Pages for people: {pages}"));
    }
    eprint_line(&format!(
        "{counts}; {}audit {}. Limits (http.limits.*):",
        if read_only { "read-only; " } else { "" },
        if is_audited { "on" } else { "off" },
    ));
    for limits in http.limit_texts.chunks(LIMITS_PER_LINE) {
        eprint_line(&format!("  {}", limits.join(" ")));
    }
    if let Some(next) = next {
        eprint_line(next);
    }
    Ok(())
}
