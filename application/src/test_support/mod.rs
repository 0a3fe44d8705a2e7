//! An application on the memory store, for the tests of the tools.

pub(crate) mod team;

use std::sync::Arc;

use bytes::Bytes;
use reqlore_domain::backlog::Reference;
use reqlore_domain::document::{DocumentId, DocumentKind};
use reqlore_domain::error::{Error, Result};
use reqlore_domain::identity::{Access, Caller, ProjectScope};
use reqlore_domain::ports::claims::ClaimStore;
use reqlore_domain::ports::documents::{
    CommitRequest, DocumentChange, DocumentRepository, MockDocumentRepository, ReadSet, StoreError,
};
use reqlore_domain::ports::history::DocumentHistory;
use reqlore_domain::ports::id_generator::{CountedIds, IdGenerator};
use reqlore_domain::ports::idempotency::IdempotencyStore;
use reqlore_domain::ports::search::SearchIndex;
use reqlore_domain::ports::service::{
    AnswerFormat, ApplicationService, CompletionRequest, CompletionTarget, CompletionValues,
    ListRequest, NoProgress, PromptContent, RenderedAnswer, ResourceContent, ResourcePage,
    ResourceRequest, ToolCall, ToolService,
};
use reqlore_domain::ports::write_context::WriteContext;
use reqlore_domain::project_key::ProjectKey;
use reqlore_domain::timestamp::Timestamp;
use reqlore_storage_memory::{MemoryIndex, NamedProjects, memory_store};
use serde_json::{Value, json};

use crate::Application;
use crate::check::check_documents;
use crate::check::finding::CheckFinding;
use crate::ports::{ApplicationPorts, ApplicationSettings};

/// The store, settings and caller of an application under test.
#[derive(Clone)]
pub(crate) struct TestApplication {
    pub(crate) store: Arc<dyn DocumentRepository>,
    /// The same store as `store`, unless that is a mock.
    pub(crate) history: Arc<dyn DocumentHistory>,
    pub(crate) tree: Option<Arc<dyn DocumentRepository>>,
    pub(crate) idempotency: Arc<dyn IdempotencyStore>,
    pub(crate) claims: Arc<dyn ClaimStore>,
    pub(crate) search: Arc<dyn SearchIndex>,
    pub(crate) ids: Arc<dyn IdGenerator>,
    pub(crate) access: Access,
    /// Configured projects besides the default one.
    pub(crate) projects: Vec<ProjectKey>,
    pub(crate) scope: ProjectScope,
    /// The default project of the caller.
    pub(crate) project: ProjectKey,
}

pub(crate) fn item_id(name: &str) -> DocumentId {
    let kind = Reference::from_document_name(name).expect("the name of an item").kind;
    DocumentId { kind: DocumentKind::Item(kind), name: name.to_owned() }
}

pub(crate) fn write_context(at: Timestamp) -> WriteContext {
    WriteContext {
        caller: Arc::new(Caller::local("editor", Access::Write)),
        tool: "editor",
        reason: String::new(),
        correlation_id: String::new(),
        at,
        audited: None,
        idempotency_key: None,
    }
}

/// The references of a list of items or results.
pub(crate) fn references(list: &Value) -> Vec<&str> {
    list.as_array().unwrap().iter().map(|one| one["reference_id"].as_str().unwrap()).collect()
}

/// An application on a store whose lookups fail.
pub(crate) fn unavailable() -> TestApplication {
    let mut store = MockDocumentRepository::new();
    store.expect_lookup().returning(|_, _, _| {
        let (subject, reason) = (".reqlore".to_owned(), "permission denied".to_owned());
        Err(StoreError::Unavailable { subject, reason, source: None })
    });
    TestApplication::on(store)
}

impl TestApplication {
    pub(crate) fn new() -> Self {
        let store = Arc::new(memory_store());
        Self {
            store: store.clone(),
            history: store.clone(),
            tree: None,
            idempotency: store.clone(),
            claims: store,
            search: Arc::new(MemoryIndex::default()),
            ids: Arc::new(CountedIds::default()),
            access: Access::Write,
            projects: Vec::new(),
            scope: ProjectScope::Anywhere,
            project: ProjectKey::default(),
        }
    }

    /// An application on a mock. Calls without an expectation panic.
    pub(crate) fn on(store: MockDocumentRepository) -> Self {
        Self { store: Arc::new(store), ..Self::new() }
    }

    pub(crate) fn ports(&self) -> ApplicationPorts {
        ApplicationPorts {
            documents: Arc::clone(&self.store),
            read_scope: |call| call,
            history: Arc::clone(&self.history),
            root_files: self.tree.clone(),
            projects: Arc::new(NamedProjects(self.projects.clone())),
            search: Arc::clone(&self.search),
            clock: Arc::new(Timestamp::default()),
            ids: Arc::clone(&self.ids),
            idempotency: Arc::clone(&self.idempotency),
            claims: Arc::clone(&self.claims),
            audit: None,
            users: None,
            progress: Arc::new(NoProgress),
            settings: ApplicationSettings::default(),
            schemas: Arc::default(),
            exchange_formats: &[],
        }
    }

    /// Builds an application that keeps its caches between calls of [`TestApplication::call_on`].
    pub(crate) fn application(&self) -> Application {
        Application::new(self.ports())
    }

    pub(crate) async fn call(&self, tool: &str, arguments: Value) -> Result<RenderedAnswer> {
        self.call_on(&self.application(), tool, arguments).await
    }

    pub(crate) async fn call_on(
        &self,
        application: &Application,
        tool: &str,
        mut arguments: Value,
    ) -> Result<RenderedAnswer> {
        if tool.starts_with("reqlix_") {
            let named = arguments.get("project_root").cloned();
            arguments["project_root"] = named.unwrap_or_else(|| json!("/project"));
            arguments["operation_description"] = json!("a test");
        }
        let call = ToolCall {
            caller: self.caller(),
            client_name: None,
            correlation_id: "test".to_owned(),
            name: tool.to_owned(),
            arguments: arguments.as_object().unwrap().clone(),
            progress_sink: Arc::new(NoProgress),
            idempotency_key: None,
            answer_format: AnswerFormat::Both,
            is_audited: false,
        };
        application.call(call).await
    }

    /// The first text block, or the error's message.
    pub(crate) async fn text(&self, tool: &str, arguments: Value) -> String {
        match self.call(tool, arguments).await {
            Ok(answer) => answer.text,
            Err(error) => error.message,
        }
    }

    /// The data of an answer that succeeds.
    pub(crate) async fn data(&self, tool: &str, arguments: Value) -> Value {
        let answer = self.call(tool, arguments).await.expect("the call succeeds");
        Arc::unwrap_or_clone(answer.data)
    }

    pub(crate) async fn error(&self, tool: &str, arguments: Value) -> Error {
        self.call(tool, arguments).await.expect_err("the call fails")
    }

    /// Writes a document without a tool, like an editor.
    pub(crate) async fn write(&self, id: DocumentId, body: impl Into<Bytes>) {
        self.change(DocumentChange::put(id, body)).await;
    }

    /// Writes a backlog item; the name determines its kind.
    pub(crate) async fn write_item(&self, name: &str, body: impl Into<Bytes>) {
        self.write(item_id(name), body).await;
    }

    /// Writes the tombstone of an item.
    pub(crate) async fn write_tombstone(&self, name: &str, body: impl Into<Bytes>) {
        self.write(DocumentId { kind: DocumentKind::Deleted, name: name.to_owned() }, body).await;
    }

    pub(crate) async fn write_entity(&self, name: &str, body: impl Into<Bytes>) {
        self.write(DocumentId::entity(name), body).await;
    }

    /// Deletes a document without a tool.
    pub(crate) async fn remove(&self, id: DocumentId) {
        self.change(DocumentChange::Delete { id }).await;
    }

    async fn change(&self, change: DocumentChange) {
        let act = write_context(Timestamp::default());
        let reads = ReadSet::of_documents(vec![change.id().clone()]);
        let commit = CommitRequest {
            read_set: reads,
            decide: Box::new(move |_| Ok(vec![change.clone()])),
            context: act,
        };
        self.store.commit(&self.project, commit).await.unwrap();
    }

    pub(crate) async fn body(&self, id: DocumentId) -> Option<String> {
        let found = self.store.get(&self.project, &[id]).await.unwrap();
        let document = found.into_iter().next().flatten()?;
        Some(String::from_utf8(document.body.to_vec()).unwrap())
    }

    /// The findings of `reqlore check`, as `document:line: message`.
    pub(crate) async fn check(&self) -> Vec<String> {
        let mut shown = Vec::new();
        for CheckFinding { document, line, message, .. } in
            check_documents(&self.ports()).await.unwrap()
        {
            let line = line.map_or_else(String::new, |line| line.to_string());
            shown.push(format!("{document}:{line}: {message}"));
        }
        shown
    }

    pub(crate) fn caller(&self) -> Arc<Caller> {
        let (scope, project) = (self.scope.clone(), self.project.clone());
        Arc::new(Caller { scope, project, ..Caller::local("tester", self.access) })
    }

    fn resource_request(&self, name: &str, arguments: &Value) -> ResourceRequest {
        ResourceRequest {
            caller: self.caller(),
            correlation_id: "test".to_owned(),
            name: name.to_owned(),
            arguments: arguments.as_object().cloned().unwrap_or_default(),
            is_poll: false,
            fills_placeholders: false,
        }
    }

    pub(crate) async fn read(&self, uri: &str) -> Result<ResourceContent> {
        self.application().read(self.resource_request(uri, &Value::Null)).await
    }

    pub(crate) async fn resources(&self, cursor: Option<&str>) -> Result<ResourcePage> {
        let request = ListRequest {
            caller: self.caller(),
            correlation_id: "test".to_owned(),
            cursor: cursor.map(str::to_owned),
            is_poll: false,
        };
        self.application().resources(request).await
    }

    pub(crate) async fn prompt(&self, name: &str, arguments: Value) -> Result<PromptContent> {
        self.application().prompt(self.resource_request(name, &arguments)).await
    }

    /// The answer to a client that replaces placeholders.
    pub(crate) async fn prompt_with_placeholder(
        &self,
        name: &str,
        arguments: Value,
    ) -> Result<PromptContent> {
        let request = self.resource_request(name, &arguments);
        self.application().prompt(ResourceRequest { fills_placeholders: true, ..request }).await
    }

    pub(crate) async fn complete(
        &self,
        of: CompletionTarget,
        argument: &str,
        value: &str,
    ) -> Result<CompletionValues> {
        let request = CompletionRequest {
            target: of,
            argument: argument.to_owned(),
            value: value.to_owned(),
        };
        self.application().complete(&self.caller(), "test", request).await
    }
}
