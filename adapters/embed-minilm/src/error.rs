//! Why a model could not be loaded, and what to do next.

/// A model's folder is not as it must be.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    #[error("no model is called {name}; known are {known}")]
    Unknown { name: String, known: String },
    #[error("{path} could not be read ({source}); remove the model and install it again")]
    Read { path: String, source: std::io::Error },
    #[error("{path} does not fit this model: {why}; remove the model and install it again")]
    Unfit { path: String, why: String },
}
