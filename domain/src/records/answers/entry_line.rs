//! The line of a document in lists, the same in all tools.

use serde_json::Value;

use crate::backlog::Priority;
use crate::records::ended::{REVIEW_OVERDUE, SUPERSEDED};
use crate::untrusted_text::{encode_id, encode_line};

/// The word for a numbered requirement of a section in texts.
pub const RULE: &str = "rule";

/// The values of a line. Absent values are left out.
#[derive(Debug, Default)]
pub struct EntryLine<'a> {
    pub id: &'a str,
    /// The type of the link to the document.
    pub attribute: Option<&'a str>,
    pub kind: Option<&'a str>,
    pub status: Option<&'a str>,
    /// The reason why the document is no longer valid.
    pub stale: Option<&'a str>,
    pub review_overdue: bool,
    pub priority: Option<u8>,
    pub type_name: Option<&'a str>,
    pub title: Option<&'a str>,
    pub tags: &'a [String],
    pub assignee: Option<&'a str>,
    /// Further values with their labels.
    pub details: Vec<String>,
}

impl EntryLine<'_> {
    /// Leaves out the values of the line whose keys the caller did not choose.
    #[must_use]
    pub fn keep(mut self, has: impl Fn(&str) -> bool) -> Self {
        self.kind = self.kind.filter(|_| has("kind"));
        self.status = self.status.filter(|_| has("status"));
        self.priority = self.priority.filter(|_| has("priority"));
        self.type_name = self.type_name.filter(|_| has("type_name"));
        self.title = self.title.filter(|_| has("title"));
        self.assignee = self.assignee.filter(|_| has("assignee_username"));
        if !has("tags") {
            self.tags = &[];
        }
        self
    }

    /// Returns `REQ-012 (Active, 2 High, Functional): Title [pay, eu]; assignee ann`. Hidden
    /// characters are encoded.
    pub fn render(&self) -> String {
        let mut labels: Vec<String> = Vec::new();
        labels.extend(self.kind.map(|kind| encode_line(kind).into_owned()));
        for text in validity_labels(self.status, self.stale, self.review_overdue) {
            labels.push(encode_line(text).into_owned());
        }
        labels.extend(self.priority.map(priority_label));
        labels.extend(self.type_name.map(|name| encode_line(name).into_owned()));
        let mut groups = vec![encode_line(self.attribute.unwrap_or_default()).into_owned()];
        groups.push(labels.join(", "));
        groups.retain(|group| !group.is_empty());
        let mut line = encode_id(self.id).into_owned();
        if !groups.is_empty() {
            line.extend([" (", &groups.join("; "), ")"]);
        }
        if let Some(title) = self.title {
            line.extend([": ", &encode_line(title)]);
        }
        if !self.tags.is_empty() {
            line.extend([" [", &tag_list(self.tags), "]"]);
        }
        if let Some(assignee) = self.assignee {
            line.extend(["; assignee ", &encode_line(assignee)]);
        }
        for detail in &self.details {
            line.extend(["; ", &encode_line(detail)]);
        }
        line
    }
}

/// The status of a record and the reasons why it is not valid, each said once. Not encoded.
pub fn validity_labels<'a>(
    status: Option<&'a str>,
    stale: Option<&'a str>,
    review_overdue: bool,
) -> impl Iterator<Item = &'a str> {
    let is_status = |text: &str| status.is_some_and(|one| one.trim().eq_ignore_ascii_case(text));
    let stale = stale.filter(|stale| !is_status(stale));
    // "superseded by dec-9c01aa" says it too.
    let status = status.filter(|_| stale.is_none() || !is_status(SUPERSEDED));
    let overdue = review_overdue.then_some(REVIEW_OVERDUE);
    [status, stale, overdue].into_iter().flatten().filter(|text| !text.is_empty())
}

/// Renders a custom field with the name that tools accept. Not encoded.
pub fn custom_text(name: &str, value: &Value) -> String {
    format!("{name}: {}", custom_value(value))
}

/// Renders the value of a custom field. Not encoded.
pub fn custom_value(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(texts) => texts.iter().map(custom_value).collect::<Vec<_>>().join(", "),
        value => value.to_string(),
    }
}

/// The number and the name of a priority, such as `2 High`.
pub fn priority_label(number: u8) -> String {
    match Priority::new(usize::from(number)) {
        Some(priority) => format!("{number} {}", priority.name()),
        None => number.to_string(),
    }
}

pub fn tag_list(tags: &[String]) -> String {
    let tags: Vec<_> = tags.iter().map(|tag| encode_line(tag)).collect();
    tags.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_has_all_values_and_encodes_them() {
        let tags = ["pay".to_owned(), "e\nu".to_owned()];
        let line = EntryLine {
            id: "REQ-012",
            status: Some("Active"),
            priority: Some(2),
            type_name: Some("Functional"),
            title: Some("Pay\nlater"),
            tags: &tags,
            assignee: Some("ann"),
            details: vec!["parent US-001".to_owned()],
            ..EntryLine::default()
        };
        let expected = "REQ-012 (Active, 2 High, Functional): Pay\\nlater [pay, e\\nu]; assignee \
                        ann; parent US-001";
        assert_eq!(line.render(), expected);
        let short = EntryLine { id: "dec-1", title: Some("T"), ..EntryLine::default() };
        assert_eq!(short.render(), "dec-1: T");
    }
}
