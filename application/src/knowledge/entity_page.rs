//! Pages of entities with filters, for `list_items`.

use std::collections::BTreeMap;
use std::sync::Arc;

use reqlore_domain::document::DocumentMeta;
use reqlore_domain::knowledge::Entity;
use reqlore_domain::name_form::fold_name;
use reqlore_domain::ports::item_list::{
    DetailFilter, ItemOrder, ListedTexts, SortField, updated_rank,
};

/// The entities that match all conditions, from a position on.
#[derive(Debug)]
pub(crate) struct EntityQuery {
    pub(crate) kind: Option<String>,
    /// In lower case.
    pub(crate) status: Option<String>,
    pub(crate) details: DetailFilter,
    pub(crate) order: ItemOrder,
    pub(crate) after: Option<EntityPosition>,
    pub(crate) limit: usize,
}

/// The position of an entity in a list: the value that is compared first, ID and document name.
pub(crate) type EntityPosition = (String, String, String);

#[derive(Debug, Default)]
pub(crate) struct EntityPage {
    pub(crate) metadata: Vec<Arc<DocumentMeta>>,
    /// Number of entities on all pages.
    pub(crate) total: usize,
    /// Number of entities of the kind.
    pub(crate) total_of_kind: usize,
    /// Number of entities that meet all conditions except the status.
    pub(crate) by_status: BTreeMap<String, usize>,
    /// The position of each entity of this page.
    pub(crate) positions: Vec<EntityPosition>,
    /// The last of these; `None` on the last page.
    pub(crate) next: Option<EntityPosition>,
}

impl EntityPage {
    /// Selects a page from the metadata of all entities.
    pub(crate) fn select(all: &[Arc<DocumentMeta>], query: &EntityQuery) -> Self {
        let (mut page, mut found) = (Self::default(), Vec::new());
        for meta in all {
            let Some(entity) = &meta.entity else { continue };
            if query.kind.as_ref().is_some_and(|kind| entity.kind != *kind) {
                continue;
            }
            page.total_of_kind += 1;
            if !query.details.matches(&listed_texts(entity)) {
                continue;
            }
            if let Some(status) = &entity.status {
                *page.by_status.entry(status.clone()).or_default() += 1;
            }
            let status = entity.status.as_ref().map(|status| fold_name(status));
            if query.status.is_some() && status != query.status {
                continue;
            }
            page.total += 1;
            let value = match query.order.field {
                SortField::Updated => updated_rank(entity.updated_at),
                SortField::Title => fold_name(&entity.title),
                SortField::Status => status.unwrap_or_default(),
                _ => String::new(),
            };
            let position = (value, entity.id.clone(), meta.id.name.clone());
            if query.after.as_ref().is_none_or(|after| query.order.is_after(&position, after)) {
                found.push((position, meta));
            }
        }
        found.sort_unstable_by(|a, b| query.order.compare(&a.0, &b.0));
        let has_more = found.len() > query.limit;
        found.truncate(query.limit);
        page.next = found.last().filter(|_| has_more).map(|(last, _)| last.clone());
        page.metadata = found.iter().map(|(_, meta)| Arc::clone(meta)).collect();
        page.positions = found.into_iter().map(|(position, _)| position).collect();
        page
    }
}

fn listed_texts(entity: &Entity) -> ListedTexts<'_> {
    ListedTexts {
        id: entity.id.as_str().into(),
        title: &entity.title,
        assignee: None,
        tags: &entity.tags,
        updated_at: entity.updated_at,
    }
}
