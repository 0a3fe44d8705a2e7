//! The text form of SHA-256 hashes: 64 hexadecimal digits.

/// Implements `Display`, `Debug` and the conversions from and to text for a newtype of `[u8; 32]`.
macro_rules! hash_text {
    ($type:ty) => {
        impl std::fmt::Display for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(&hex::encode(self.0))
            }
        }

        impl std::fmt::Debug for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                std::fmt::Display::fmt(self, f)
            }
        }

        impl TryFrom<String> for $type {
            type Error = &'static str;

            fn try_from(text: String) -> Result<Self, &'static str> {
                let mut hash = [0; 32];
                match hex::decode_to_slice(&text, &mut hash) {
                    Ok(()) => Ok(Self(hash)),
                    Err(_) => Err("a hash is 64 hexadecimal digits"),
                }
            }
        }

        impl From<$type> for String {
            fn from(hash: $type) -> Self {
                hash.to_string()
            }
        }
    };
}

pub(crate) use hash_text;
