//! An endpoint whose resources a test changes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::Mutex;

use async_trait::async_trait;
use reqlore_domain::error::{Error, ErrorKind, Result};
use reqlore_domain::identity::Caller;
use reqlore_domain::ports::service::{
    ApplicationService, ArgumentSpec, Call, Completion, CompletionRequest, Content, ListRequest,
    Message, Prompt, PromptSpec, Reply, Resource, ResourceRequest, Resources, TemplateSpec,
    ToolSpec,
};

const TEMPLATE: TemplateSpec = TemplateSpec {
    uri_template: "epic://{reference}",
    name: "epic",
    title: "Epic",
    description: "An epic.",
    mime_type: "application/json",
};

const PROMPT: PromptSpec = PromptSpec {
    name: "decompose_epic",
    title: "Decompose an epic",
    description: "Asks for stories.",
    arguments: &[ArgumentSpec {
        name: "epic",
        title: "Epic",
        description: "The reference.",
        required: true,
    }],
};

/// Two items a page.
const PAGE: usize = 2;

#[derive(Default)]
pub(crate) struct Stub {
    /// Serves neither resources nor prompts.
    empty: bool,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    items: BTreeMap<String, String>,
    count: u64,
    /// How often it was asked for the count.
    asked: usize,
    /// What every read fails with.
    fault: Option<ErrorKind>,
}

impl Stub {
    pub(crate) fn with(items: &[(&str, &str)]) -> std::sync::Arc<Self> {
        let stub = Self::default();
        for (reference, text) in items {
            stub.set(reference, text);
        }
        std::sync::Arc::new(stub)
    }

    pub(crate) fn empty() -> Self {
        Self { empty: true, state: Mutex::default() }
    }

    pub(crate) fn set(&self, reference: &str, text: &str) {
        self.change(|state| state.items.insert(format!("epic://{reference}"), text.to_owned()));
    }

    pub(crate) fn remove(&self, reference: &str) {
        self.change(|state| state.items.remove(&format!("epic://{reference}")));
    }

    pub(crate) fn fail(&self, fault: Option<ErrorKind>) {
        self.state.lock().unwrap().fault = fault;
    }

    pub(crate) fn asked(&self) -> usize {
        self.state.lock().unwrap().asked
    }

    fn change<T>(&self, act: impl FnOnce(&mut State) -> T) {
        let mut state = self.state.lock().unwrap();
        state.count += 1;
        act(&mut state);
    }
}

fn invalid(field: &str, message: &str) -> Error {
    Error::new(ErrorKind::InvalidArgument, message).field(field)
}

#[async_trait]
impl ApplicationService for Stub {
    fn tools(&self, _: &Caller) -> Vec<&ToolSpec> {
        Vec::new()
    }

    async fn call(&self, _: Call) -> Result<Reply> {
        panic!("no tool is called here")
    }

    async fn resources(&self, request: ListRequest) -> Result<Resources> {
        let from = match request.cursor.as_deref() {
            None => 0,
            Some("panic") => panic!("a secret of the inside"),
            Some(cursor) => {
                cursor.parse().map_err(|_| invalid("cursor", "cursor: it is unknown"))?
            }
        };
        let state = self.state.lock().unwrap();
        let resource = |(uri, text): (&String, &String)| Resource {
            uri: uri.clone(),
            name: uri.clone(),
            title: text.lines().next().unwrap_or_default().to_owned(),
            description: "An epic.".to_owned(),
            mime_type: "application/json",
        };
        let resources = state.items.iter().skip(from).take(PAGE).map(resource).collect();
        let next = from + PAGE;
        let next_cursor = (next < state.items.len()).then(|| next.to_string());
        Ok(Resources { resources, next_cursor })
    }

    fn templates(&self, _: &Caller) -> Vec<&TemplateSpec> {
        if self.empty { Vec::new() } else { vec![&TEMPLATE] }
    }

    async fn read(&self, asked: ResourceRequest) -> Result<Content> {
        let state = self.state.lock().unwrap();
        if let Some(fault) = state.fault {
            return Err(Error::new(fault, "words").hint("try again"));
        }
        if asked.name == "epic://panic" {
            drop(state);
            panic!("a secret of the inside");
        }
        if !asked.name.starts_with("epic://") {
            return Err(invalid("uri", "uri: it is no URI of Reqlore"));
        }
        let Some(text) = state.items.get(&asked.name) else {
            return Err(Error::new(ErrorKind::NotFound, "Epic not found").reference("EP-1"));
        };
        Ok(content(&asked.name, text))
    }

    fn prompts(&self, _: &Caller) -> Vec<&PromptSpec> {
        if self.empty { Vec::new() } else { vec![&PROMPT] }
    }

    async fn prompt(&self, asked: ResourceRequest) -> Result<Prompt> {
        match (asked.name.as_str(), asked.arguments.get("epic")) {
            ("panic", _) => panic!("a secret of the inside"),
            ("decompose_epic", None) => Err(invalid("epic", "epic: it is required")),
            ("decompose_epic", Some(epic)) => {
                let epic = epic.as_str().unwrap_or_default();
                let stored = Message::Resource(content("epic://EP-1", "stored"));
                let messages = vec![Message::Text(format!("Decompose {epic}.")), stored];
                Ok(Prompt { description: "Asks for stories.".to_owned(), messages })
            }
            _ => Err(invalid("name", "Unknown prompt. The prompts are: decompose_epic.")),
        }
    }

    async fn complete(
        &self,
        _: &Arc<Caller>,
        _: &str,
        begun: CompletionRequest,
    ) -> Result<Completion> {
        assert!(begun.value != "panic", "a secret of the inside");
        let values = (0..150).map(|n| format!("{:?} {}{n}", begun.of, begun.value)).collect();
        Ok(Completion { values, total: 150 })
    }

    async fn admit(&self, _: &Arc<Caller>, _: &str, _: &'static str) -> Result<()> {
        Ok(())
    }

    async fn resources_changed(&self, _: &Caller) -> Result<u64> {
        let mut state = self.state.lock().unwrap();
        state.asked += 1;
        Ok(state.count)
    }
}

fn content(uri: &str, text: &str) -> Content {
    Content {
        uri: uri.to_owned(),
        name: "EP-1".to_owned(),
        description: "An epic.".to_owned(),
        mime_type: "application/json",
        text: text.to_owned(),
    }
}
