//! Errors of loading a model.

#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    #[error("{name}: unknown model; known are {known}")]
    Unknown { name: String, known: String },
    #[error("{path}: cannot be read ({source}); remove the model and install it again")]
    Read { path: String, source: std::io::Error },
    #[error("{path}: not a file of this model ({why}); remove the model and install it again")]
    Unfit { path: String, why: String },
}
