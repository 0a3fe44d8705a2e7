//! Lists in pages while other clients create, change and delete items.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use proptest::prelude::*;
use reqlore_application::{Application, ApplicationPorts};
use reqlore_domain::backlog::{ItemKind, Reference};
use reqlore_domain::document::DocumentId;
use reqlore_domain::identity::{Access, Caller};
use reqlore_domain::ports::documents::{
    CommitRequest, DocumentChange, DocumentRepository, ReadSet,
};
use reqlore_domain::ports::service::{
    AnswerFormat, ApplicationService, ListRequest, NoProgress, ToolCall, ToolService,
};
use reqlore_domain::ports::write_context::WriteContext;
use reqlore_domain::project_key::ProjectKey;
use reqlore_domain::timestamp::Timestamp;
use reqlore_search::{LocalSearchIndex, SearchConfig};
use reqlore_storage_memory::{RowStore, memory_store};
use serde_json::{Value, json};

use crate::transcripts::memory_ports;

/// Priority and second of creation.
type SortKey = (u8, u8);

#[derive(Debug, Clone)]
enum Edit {
    Create(SortKey),
    /// Keeps the sort key.
    Rename(prop::sample::Index),
    Move(prop::sample::Index, SortKey),
    Delete(prop::sample::Index),
}

fn sort_key() -> impl Strategy<Value = SortKey> {
    (1..5_u8, 0..4_u8)
}

fn edits() -> impl Strategy<Value = Vec<Edit>> {
    let edit = prop_oneof![
        1 => sort_key().prop_map(Edit::Create),
        1 => any::<prop::sample::Index>().prop_map(Edit::Rename),
        1 => (any::<prop::sample::Index>(), sort_key()).prop_map(|(item, key)| Edit::Move(item, key)),
        3 => any::<prop::sample::Index>().prop_map(Edit::Delete),
    ];
    prop::collection::vec(edit, 0..6)
}

/// A list of items, and those whose position was the same for the whole time.
struct Backlog {
    kind: ItemKind,
    store: Arc<RowStore>,
    application: Application,
    items: BTreeMap<u32, SortKey>,
    unmoved: BTreeSet<u32>,
    moved: BTreeSet<u32>,
    last_number: u32,
}

impl Backlog {
    async fn new(kind: ItemKind, keys: &[SortKey]) -> Self {
        let store = Arc::new(memory_store());
        let ports = ApplicationPorts {
            documents: Arc::clone(&store) as Arc<dyn DocumentRepository>,
            ..memory_ports(Arc::new(LocalSearchIndex::new(SearchConfig::default())))
        };
        let application = Application::new(ports);
        let (items, unmoved) = (BTreeMap::new(), BTreeSet::new());
        let mut backlog = Self {
            kind,
            store,
            application,
            items,
            unmoved,
            moved: BTreeSet::new(),
            last_number: 0,
        };
        for key in keys {
            backlog.edit(&Edit::Create(*key)).await;
        }
        backlog.unmoved = backlog.items.keys().copied().collect();
        backlog
    }

    async fn edit(&mut self, edit: &Edit) {
        let choose = |index: &prop::sample::Index| {
            let numbers: Vec<u32> = self.items.keys().copied().collect();
            if numbers.is_empty() { None } else { Some(*index.get(&numbers)) }
        };
        let (number, key) = match edit {
            Edit::Create(key) => {
                self.last_number += 1;
                (self.last_number, Some(*key))
            }
            Edit::Rename(item) | Edit::Move(item, _) | Edit::Delete(item) => {
                let Some(number) = choose(item) else { return };
                let key = match edit {
                    Edit::Move(_, key) => Some(*key),
                    Edit::Rename(_) => Some(self.items[&number]),
                    _ => None,
                };
                (number, key)
            }
        };
        let before = self.items.get(&number).copied();
        if before != key {
            self.unmoved.remove(&number);
            if matches!(edit, Edit::Move(..)) {
                self.moved.insert(number);
            }
        }
        match key {
            Some(key) => _ = self.items.insert(number, key),
            None => _ = self.items.remove(&number),
        }
        let id = Reference { kind: self.kind, number }.document_id("item", "abcdef");
        let change = match key {
            Some((priority, second)) => {
                let text = format!(
                    "---\ntitle: Version {number} {before:?}\npriority: {priority}\n\
                     created_at: 2026-01-01T00:00:0{second}Z\n---\n"
                );
                DocumentChange::put(id, text)
            }
            None => DocumentChange::Delete { id },
        };
        commit(&self.store, change).await;
    }

    /// Returns the references of a page and the cursor of the next one.
    async fn page(&self, cursor: Option<String>) -> (Vec<String>, Option<String>) {
        let (tool, list) = match self.kind {
            ItemKind::Epic => ("list_epics", "epics"),
            ItemKind::Requirement => ("search_requirements", "results"),
            _ => return self.resource_page(cursor).await,
        };
        let arguments = json!({ "limit": 3, "cursor": cursor });
        let call = ToolCall {
            caller: caller(),
            idempotency_key: None,
            answer_format: AnswerFormat::Both,
            is_audited: false,
            progress_sink: Arc::new(NoProgress),
            client_name: None,
            correlation_id: String::new(),
            name: tool.to_owned(),
            arguments: arguments.as_object().unwrap().clone(),
        };
        let data = self.application.call(call).await.unwrap().data;
        let items = data[list].as_array().unwrap().iter();
        let names = items.map(|item| item["reference_id"].as_str().unwrap().to_owned()).collect();
        (names, data.get("next_cursor").and_then(Value::as_str).map(str::to_owned))
    }

    async fn resource_page(&self, cursor: Option<String>) -> (Vec<String>, Option<String>) {
        let (caller, correlation_id) = (caller(), String::new());
        let request = ListRequest { caller, correlation_id, cursor, is_poll: false };
        let page = self.application.resources(request).await.unwrap();
        let names = page.resources.into_iter().map(|resource| resource.name);
        (names.filter(|name| Reference::parse(name).is_some()).collect(), page.next_cursor)
    }
}

fn caller() -> Arc<Caller> {
    Arc::new(Caller::local("tester", Access::Write))
}

async fn commit(store: &RowStore, change: DocumentChange) {
    let context = WriteContext {
        caller: caller(),
        tool: "editor",
        reason: String::new(),
        correlation_id: String::new(),
        at: Timestamp::default(),
        audited: None,
        idempotency_key: None,
    };
    let ids: Vec<DocumentId> = vec![change.id().clone()];
    let commit = CommitRequest {
        read_set: ReadSet::of_documents(ids),
        decide: Box::new(move |_| Ok(vec![change.clone()])),
        context,
    };
    store.commit(&ProjectKey::default(), commit).await.unwrap();
}

/// Reads all pages with edits between them. Every item that existed throughout with an unchanged
/// sort key is listed exactly once. One that was created or deleted meanwhile is not repeated.
fn check_pages(kind: ItemKind, keys: &[SortKey], edits: &[Vec<Edit>]) {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let mut backlog = Backlog::new(kind, keys).await;
        let mut listed: BTreeMap<String, usize> = BTreeMap::new();
        let (mut cursor, mut edits) = (None, edits.iter());
        loop {
            let (names, next) = backlog.page(cursor).await;
            for name in names {
                *listed.entry(name).or_default() += 1;
            }
            let Some(next) = next else { break };
            cursor = Some(next);
            for edit in edits.next().into_iter().flatten() {
                backlog.edit(edit).await;
            }
        }
        for number in &backlog.unmoved {
            let name = Reference { kind, number: *number }.to_string();
            assert_eq!(listed.get(&name), Some(&1), "{name}");
        }
        for (name, count) in listed {
            let number = Reference::parse(&name).unwrap().number;
            assert!(count == 1 || backlog.moved.contains(&number), "{name}: {count}");
        }
    });
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn pages_list_each_unmoved_item_once_during_changes(
        keys in prop::collection::vec(sort_key(), 0..25),
        edits in prop::collection::vec(edits(), 0..10),
    ) {
        for kind in [ItemKind::Epic, ItemKind::Requirement] {
            check_pages(kind, &keys, &edits);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 10, ..ProptestConfig::default() })]

    #[test]
    fn resource_pages_list_each_unmoved_item_once(
        keys in prop::collection::vec(sort_key(), 230..330),
        edits in prop::collection::vec(edits(), 0..4),
    ) {
        // Resources are sorted by kind and file name, which no edit changes.
        check_pages(ItemKind::UserStory, &keys, &edits);
    }
}
