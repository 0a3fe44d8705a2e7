//! A model that is read when it is first needed: a start must not wait for a hundred megabytes.

use std::path::PathBuf;
use std::sync::OnceLock;

use reqlore_domain::error::{Error, ErrorKind, Result};
use reqlore_domain::ports::embedder::{Embedder, Profile, Role};

use crate::SentenceModel;
use crate::error::LoadError;
use crate::known;

/// A known model in a folder, in memory from its first text on.
#[derive(Debug)]
pub struct LazyModel {
    name: String,
    folder: PathBuf,
    profile: Profile,
    /// Why it can't be read stays: files that were checked at their installation don't mend.
    model: OnceLock<std::result::Result<SentenceModel, String>>,
}

impl LazyModel {
    pub fn new(name: &str, folder: PathBuf) -> std::result::Result<Self, LoadError> {
        let profile = known::find(name)?.profile();
        Ok(Self { name: name.to_owned(), folder, profile, model: OnceLock::new() })
    }
}

impl Embedder for LazyModel {
    fn profile(&self) -> &Profile {
        &self.profile
    }

    fn embed(&self, role: Role, texts: &[&str]) -> Result<Vec<Vec<f32>>> {
        let open = || SentenceModel::open(&self.name, &self.folder).map_err(|e| e.to_string());
        match self.model.get_or_init(open) {
            Ok(model) => model.embed(role, texts),
            Err(reason) => Err(Error::new(ErrorKind::Unavailable, reason.clone())),
        }
    }
}
