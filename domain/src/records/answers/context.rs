//! The answer of `get_context`.

use std::borrow::Cow;
use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::claims::ClaimView;
use super::document_label::DocumentLabel;

// The data of a context.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ContextData {
    /// Best first.
    #[schemars(with = "Vec<Map<String, Value>>")]
    pub entries: Vec<EntryData>,
    /// By kind.
    pub omitted: BTreeMap<String, usize>,
    // True if nothing found clearly fits.
    pub uncertain: bool,
    // Texts that are not whole.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cut: Vec<String>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct EntryData {
    #[serde(flatten)]
    pub label: DocumentLabel,
    pub reason: Cow<'static, str>,
    /// Of a link.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub relation: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub claim: Option<ClaimView>,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub version: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub text: String,
}
