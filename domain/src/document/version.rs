//! Versions: which bytes a document has.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// An opaque token for a document's exact bytes: the same on every storage, true for edits by hand.
///
/// It is the first 16 hexadecimal digits of the SHA-256 of the bytes, so `sha256sum FILE` shows it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(try_from = "String")]
pub struct Version(u64);

impl Version {
    pub const LENGTH: usize = 16;
    /// Stands for the version of what can't be read; no text that can be read has it.
    pub const UNREAD: Self = Self(0);

    pub fn of(bytes: &[u8]) -> Self {
        let digest = Sha256::digest(bytes);
        Self(digest.iter().take(8).fold(0, |value, byte| value << 8 | u64::from(*byte)))
    }

    /// Reads what [`fmt::Display`] wrote; `None` for anything else.
    pub fn parse(text: &str) -> Option<Self> {
        let lower_hex = |b: u8| matches!(b, b'0'..=b'9' | b'a'..=b'f');
        let well_formed = text.len() == Self::LENGTH && text.bytes().all(lower_hex);
        well_formed.then(|| u64::from_str_radix(text, 16).ok().map(Self)).flatten()
    }
}

impl Serialize for Version {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl TryFrom<String> for Version {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        Self::parse(&text).ok_or_else(|| {
            format!("a version is {} hexadecimal digits, as an answer gave it", Self::LENGTH)
        })
    }
}

impl JsonSchema for Version {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Version".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "pattern": "^[0-9a-f]{16}$" })
    }
}

impl fmt::Debug for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_sixteen_digits_of_sha256_and_reads_back() {
        let version = Version::of(b"abc");
        assert_eq!(version.to_string(), "ba7816bf8f01cfea");
        assert_eq!(Version::parse("ba7816bf8f01cfea"), Some(version));
        for wrong in
            ["", "ba7816bf8f01cfe", "BA7816BF8F01CFEA", "+a7816bf8f01cfea", "ba7816bf8f01cfea0"]
        {
            assert_eq!(Version::parse(wrong), None, "{wrong}");
        }
    }
}
