//! The names and values of a form or of a URL's query.

use axum::http::HeaderMap;
use axum::http::header::ACCEPT;
use form_urlencoded::Serializer;
pub(crate) use reqlore_domain::records::answers::csv::{join_list, split_list, value_text};

/// The name of the hidden field in every form, which holds the session's token.
pub(crate) const CSRF_FIELD: &str = "csrf";

/// More than any form has. A body of short fields would need many times its size in memory.
const MAX_FIELDS: usize = 1_000;

/// Pairs of names and values in their order. Line ends are `\n`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct FormFields(Vec<(String, String)>);

impl FormFields {
    /// Fields after the first [`MAX_FIELDS`] are left out.
    pub(crate) fn parse(encoded: &[u8]) -> Self {
        let mut fields = Vec::new();
        for (name, value) in form_urlencoded::parse(encoded).take(MAX_FIELDS) {
            // Browsers send CRLF for each line end of a text area.
            fields.push((name.into_owned(), value.replace("\r\n", "\n")));
        }
        Self(fields)
    }

    /// The first value with this name, or an empty text.
    pub(crate) fn text(&self, name: &str) -> &str {
        self.sent(name).unwrap_or_default()
    }

    /// The first value with this name. `None` if the form has no such field.
    pub(crate) fn sent(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|field| field.0 == name).map(|(_, value)| value.as_str())
    }

    /// All names and values, in the order of the form.
    pub(crate) fn pairs(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (&**name, &**value))
    }

    /// All values with this name.
    pub(crate) fn all(&self, name: &str) -> impl Iterator<Item = &str> {
        self.0.iter().filter(move |field| field.0 == name).map(|(_, value)| value.as_str())
    }

    pub(crate) fn has(&self, name: &str, value: &str) -> bool {
        self.all(name).any(|one| one == value)
    }

    /// The first value with this name without surrounding space. `None` if that is empty.
    pub(crate) fn filled(&self, name: &str) -> Option<&str> {
        Some(self.text(name).trim()).filter(|value| !value.is_empty())
    }

    /// The query with `name` set to `value`, or removed if `value` is empty. Without `?`.
    pub(crate) fn with(&self, name: &str, value: &str) -> String {
        let others = self.0.iter().filter(|(key, _)| key != name);
        encode_query(others.map(|(key, old)| (&**key, &**old)).chain([(name, value)]))
    }

    /// The query of the first page in another order.
    pub(crate) fn sorted_by(&self, sort: &str) -> String {
        Self::parse(self.with("cursor", "").as_bytes()).with("sort", sort)
    }
}

/// A form of an ended or earlier session, shown again so that the user can resend it.
#[derive(Debug)]
pub(crate) struct UnsentForm {
    pub(crate) path: String,
    pub(crate) fields: FormFields,
    /// The token of the current session; empty without one.
    pub(crate) csrf_token: String,
}

impl UnsentForm {
    /// The names and values of the form, except its token.
    pub(crate) fn values(&self) -> impl Iterator<Item = (&str, &str)> {
        self.fields.pairs().filter(|(name, _)| *name != CSRF_FIELD)
    }

    pub(crate) fn message(&self) -> &'static str {
        match &*self.csrf_token {
            "" => "Nothing was changed, because your session has ended; sign in again.",
            _ => "Nothing was changed, because the page belongs to an earlier session; reload it.",
        }
    }
}

/// True for a request of the script, which shows the result without a new page.
pub(crate) fn accepts_json(headers: &HeaderMap) -> bool {
    headers.get(ACCEPT).is_some_and(|accept| accept == "application/json")
}

/// Encodes the fields that are not empty as a query string, without `?`.
pub(crate) fn encode_query<'a>(fields: impl IntoIterator<Item = (&'a str, &'a str)>) -> String {
    let filled = fields.into_iter().filter(|(_, value)| !value.is_empty());
    Serializer::new(String::new()).extend_pairs(filled).finish()
}

/// Encodes a text for a URL's path or query.
pub(crate) fn encode_component(text: &str) -> String {
    form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>().replace('+', "%20")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn form_fields_with_a_changed_value_keep_the_others() {
        let fields = FormFields::parse(b"kind=epic&q=a+b%26&tag=&x=1%0D%0A2");
        assert_eq!(fields.text("q"), "a b&");
        assert_eq!(fields.text("x"), "1\n2");
        assert_eq!(fields.filled("tag"), None);
        assert_eq!(fields.with("kind", "requirement"), "q=a+b%26&x=1%0A2&kind=requirement");
        assert_eq!(fields.with("q", ""), "kind=epic&x=1%0A2");
        assert_eq!(encode_component("a b/ü"), "a%20b%2F%C3%BC");
    }

    #[test]
    fn form_fields_of_a_flood_are_limited() {
        assert_eq!(FormFields::parse(&b"a&".repeat(1 << 20)).0.len(), MAX_FIELDS);
    }
}
