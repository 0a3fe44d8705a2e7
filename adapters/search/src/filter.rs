//! The filters of a query as a tantivy query.

use reqlore_domain::document::DocumentKind;
use reqlore_domain::search::SearchQuery;
use tantivy::query::{BooleanQuery, Query, TermQuery};
use tantivy::schema::IndexRecordOption;

use crate::lexical::schema::{SchemaFields, document_kind_value, facet_value, item_kind_value};

/// The kinds of documents with items.
const SEARCHED_KINDS: [DocumentKind; 2] = [DocumentKind::Section, DocumentKind::Entity];

/// Selects the items that pass all filters; `None` if there are none.
pub(crate) fn filter_query(query: &SearchQuery, fields: SchemaFields) -> Option<Box<dyn Query>> {
    let mut filters: Vec<Box<dyn Query>> = Vec::new();
    let kinds = &query.document_kinds;
    let mut searched_kinds = SEARCHED_KINDS.iter().chain(&DocumentKind::ITEMS);
    // A filter with all kinds selects everything, and would take longer than the search itself.
    if !kinds.is_empty() && !searched_kinds.all(|kind| kinds.contains(kind)) {
        filters.push(any_of(fields, kinds.iter().map(|kind| document_kind_value(*kind))));
    }
    if !query.item_kinds.is_empty() {
        filters.push(any_of(fields, query.item_kinds.iter().map(|kind| item_kind_value(kind))));
    }
    for alternatives in &query.facets {
        // An empty list selects nothing, like a query without terms.
        filters.push(any_of(fields, alternatives.iter().map(facet_value)));
    }
    if filters.is_empty() { None } else { Some(Box::new(BooleanQuery::intersection(filters))) }
}

fn any_of(fields: SchemaFields, values: impl Iterator<Item = String>) -> Box<dyn Query> {
    let mut queries: Vec<Box<dyn Query>> = Vec::new();
    for value in values {
        let term = fields.filter_term(&value);
        queries.push(Box::new(TermQuery::new(term, IndexRecordOption::Basic)));
    }
    Box::new(BooleanQuery::union(queries))
}
