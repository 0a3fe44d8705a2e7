//! The answer of `list_docsets`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct DocsetList {
    pub docsets: Vec<ListedDocset>,
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum ListedDocset {
    Usable(DocsetItem),
    Faulty(InvalidDocset),
}

/// A docset that search_docs cannot use.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct InvalidDocset {
    /// Null if the file has none.
    #[schemars(required, extend("type" = ["string", "null"]))]
    pub name: Option<String>,
    /// The problem with its line in the file.
    pub error: String,
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct DocsetItem {
    /// For search_docs.
    pub name: String,
    #[schemars(required, extend("type" = ["string", "null"]))]
    pub version: Option<String>,
    pub aliases: Vec<String>,
    /// Absolute folder, ending with a slash.
    pub local_path: String,
    #[schemars(required, extend("type" = ["string", "null"]))]
    pub description: Option<String>,
}
