//! The content of a `needs.json`.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

/// The program that wrote our own files.
pub(crate) const CREATOR: &str = "reqlore";
/// The relation of links without a name.
pub(crate) const PLAIN_LINKS: &str = "relates_to";
/// The types of needs that are not requirements, and that of requirements first.
pub(crate) const TYPES: [(&str, &str); 5] = [
    ("req", "requirement"),
    ("story", "user_story"),
    ("user_story", "user_story"),
    ("epic", "epic"),
    ("criterion", "acceptance_criteria"),
];
/// Begins the name of an extra key that sphinx-needs uses for another purpose.
pub(crate) const KEY_PREFIX: &str = "reqlore_";

pub(crate) type Need = BTreeMap<String, Value>;

#[derive(Deserialize)]
pub(crate) struct NeedsFile {
    #[serde(default)]
    pub(crate) current_version: String,
    pub(crate) versions: BTreeMap<String, NeedsVersion>,
}

#[derive(Deserialize)]
pub(crate) struct NeedsVersion {
    #[serde(default)]
    pub(crate) creator: Map<String, Value>,
    #[serde(default)]
    pub(crate) needs_schema: Map<String, Value>,
    pub(crate) needs: NeedList,
}

/// The needs by ID, in their order.
pub(crate) struct NeedList(pub(crate) Vec<(String, Need)>);

impl<'de> Deserialize<'de> for NeedList {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct NeedVisitor;
        impl<'de> Visitor<'de> for NeedVisitor {
            type Value = NeedList;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("needs by ID")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<NeedList, A::Error> {
                let mut needs = Vec::new();
                while let Some(need) = map.next_entry()? {
                    needs.push(need);
                }
                Ok(NeedList(needs))
            }
        }
        deserializer.deserialize_map(NeedVisitor)
    }
}
