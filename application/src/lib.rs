//! What Reqlore does for its callers: one file per tool, in the folder of its slice.
//!
//! A tool's file holds its arguments, the words that clients read and what it does. [`Application`]
//! finds the tool, checks that the caller may use it, and calls it; it implements the driving port
//! and knows no protocol and no storage.

mod audit;
pub mod backlog;
pub mod check;
pub mod docsets;
mod edit;
mod endpoint;
mod gate;
pub mod identity;
mod knowledge;
mod once;
mod paging;
mod project_index;
pub mod sections;
#[cfg(test)]
mod test_support;
mod tool;
pub mod transfer;
mod upkeep;

use std::ops::Deref;
use std::sync::Arc;

use reqlore_domain::identity::Access;
use reqlore_domain::ports::audit::AuditLog;
use reqlore_domain::ports::clock::Clock;
use reqlore_domain::ports::documents::DocumentRepository;
use reqlore_domain::ports::id_generator::IdGenerator;
use reqlore_domain::ports::idempotency::{IdempotencyKey, IdempotencyStore};
use reqlore_domain::ports::identity::IdentityRepository;
use reqlore_domain::ports::project_resolver::{ProjectResolver, Toolset};
use reqlore_domain::ports::search::SearchIndex;
use reqlore_domain::ports::service::ToolSpec;
use reqlore_domain::ports::write_context::AuditScope;

use audit::Recorder;
use identity::authenticate::TokenAuthenticator;
use once::Turns;
use project_index::ProjectIndexes;
use tool::Tool;
pub use upkeep::Upkeep;

/// What the tools need from outside, and how they are set.
#[derive(Clone)]
#[expect(missing_debug_implementations, reason = "ports are traits without one")]
pub struct Ports {
    pub documents: Arc<dyn DocumentRepository>,
    /// The files of the server's root, where documents are kept elsewhere: `ixchel_sync` takes them
    /// over (S4; rulings 5).
    pub tree: Option<Arc<dyn DocumentRepository>>,
    pub projects: Arc<dyn ProjectResolver>,
    pub search: Arc<dyn SearchIndex>,
    pub clock: Arc<dyn Clock>,
    pub ids: Arc<dyn IdGenerator>,
    /// The answers of writes that may be sent twice.
    pub answers: Arc<dyn IdempotencyStore>,
    /// Where every call is recorded, if it is.
    pub audit: Option<Arc<dyn AuditLog>>,
    pub settings: Settings,
}

/// Settings of the tools themselves.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Which slices' tools there are.
    pub toolsets: Vec<Toolset>,
    /// Where the lines of requirements are wrapped, in characters; 0 is off (S1 R.2).
    pub wrap_columns: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            toolsets: Toolset::ALL.to_vec(),
            wrap_columns: reqlore_domain::sections::text::COLUMNS,
        }
    }
}

/// What a call works with: the ports, and what was made of documents and is still true.
pub(crate) struct SharedContext {
    pub(crate) ports: Ports,
    pub(crate) indexes: ProjectIndexes,
    pub(crate) configurations: docsets::Configurations,
    pub(crate) recorder: Arc<Recorder>,
    pub(crate) turns: Turns,
}

/// What one request works with: the shared state, and what is recorded of the request itself.
#[derive(Clone)]
pub(crate) struct Context {
    shared: Arc<SharedContext>,
    /// Set for a tool call where there is an audit.
    pub(crate) audit: Option<AuditScope>,
    /// Set for a write that must not happen twice.
    pub(crate) once: Option<IdempotencyKey>,
}

impl Deref for Context {
    type Target = SharedContext;

    fn deref(&self) -> &SharedContext {
        &self.shared
    }
}

/// All tools over one set of ports.
pub struct Application {
    context: Context,
    /// Sorted by name.
    tools: Vec<(ToolSpec, Box<dyn Tool>)>,
}

impl std::fmt::Debug for Application {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names = self.tools.iter().map(|(spec, _)| spec.name);
        f.debug_list().entries(names).finish()
    }
}

impl Application {
    pub fn new(ports: Ports) -> Self {
        let tools = tool::tools(&ports).into_iter().map(|tool| (tool.spec(), tool));
        let mut tools: Vec<(ToolSpec, Box<dyn Tool>)> = tools.collect();
        tools.sort_by_key(|(spec, _)| spec.name);
        let recorder = Recorder::new(ports.audit.clone(), Arc::clone(&ports.clock));
        let recorder = Arc::new(recorder);
        let shared = SharedContext {
            ports,
            indexes: ProjectIndexes::default(),
            configurations: docsets::Configurations::default(),
            recorder,
            turns: Turns::default(),
        };
        let context = Context { shared: Arc::new(shared), audit: None, once: None };
        Self { context, tools }
    }

    /// Recognises this application's callers, and allows nobody more than `most`.
    pub fn authenticator(
        &self,
        identities: Arc<dyn IdentityRepository>,
        most: Access,
    ) -> TokenAuthenticator {
        let Ports { projects, clock, .. } = &self.context.ports;
        let recorder = Arc::clone(&self.context.recorder);
        TokenAuthenticator::new(identities, Arc::clone(projects), Arc::clone(clock), recorder, most)
    }

    /// What somebody must do every second beside the calls, and at the end. Rows of the audit are
    /// kept for so many days.
    pub fn upkeep(&self, authenticator: Option<Arc<TokenAuthenticator>>, keep_days: u32) -> Upkeep {
        let Ports { answers, clock, .. } = &self.context.ports;
        let (recorder, answers) = (Arc::clone(&self.context.recorder), Arc::clone(answers));
        let (minute, hour) = Default::default();
        let clock = Arc::clone(clock);
        Upkeep { recorder, answers, clock, authenticator, keep_days, minute, hour }
    }
}
