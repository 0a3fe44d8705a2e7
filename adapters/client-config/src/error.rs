//! The error of an edit.

/// The reason why a client or its file can't be edited, and the next step.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ConfigError(pub String);

impl ConfigError {
    /// An error at a byte position of a text. Shows line and column as editors count them.
    pub(crate) fn at_position(text: &str, position: usize, message: &str) -> Self {
        let before = &text[..position];
        let line = before.matches('\n').count() + 1;
        let line_start = before.rfind('\n').map_or(0, |end| end + 1);
        let column = before[line_start..].chars().count() + 1;
        Self(format!("line {line}, column {column}: {message}"))
    }

    pub(crate) fn syntax_error(text: &str, position: usize, format: &str, problem: &str) -> Self {
        let message = format!(
            "invalid {format}: {problem}; correct the file or move it away, then run the command \
             again"
        );
        Self::at_position(text, position, &message)
    }
}

impl From<&str> for ConfigError {
    fn from(reason: &str) -> Self {
        Self(reason.to_owned())
    }
}

impl From<String> for ConfigError {
    fn from(reason: String) -> Self {
        Self(reason)
    }
}

impl From<ConfigError> for String {
    fn from(error: ConfigError) -> Self {
        error.0
    }
}
