//! The names and values of a form or of a URL's query.

use form_urlencoded::Serializer;

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

    /// The first value with this name without surrounding space. `None` if that is empty.
    pub(crate) fn filled(&self, name: &str) -> Option<&str> {
        Some(self.text(name).trim()).filter(|value| !value.is_empty())
    }

    /// The query with `name` set to `value`, or removed if `value` is empty. Without `?`.
    pub(crate) fn with(&self, name: &str, value: &str) -> String {
        let mut query = Serializer::new(String::new());
        for (key, old) in self.0.iter().filter(|(key, old)| key != name && !old.is_empty()) {
            query.append_pair(key, old);
        }
        if !value.is_empty() {
            query.append_pair(name, value);
        }
        query.finish()
    }

    /// The query of the first page in another order.
    pub(crate) fn sorted_by(&self, sort: &str) -> String {
        Self::parse(self.with("cursor", "").as_bytes()).with("sort", sort)
    }
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
