//! The embedding models that a user has installed: downloaded, checked by hash, stored in a folder.
//!
//! Only `install` uses the network. A model is the folder `NAME`. An incomplete installation is the
//! folder `NAME.partial`, which is renamed after all its files were checked.

pub mod catalog;
mod download;
pub mod error;
mod files;
mod install;
mod model_source;

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

pub use model_source::{DownloadProgress, InstalledModel, ModelSource};

use crate::catalog::CatalogModel;
use crate::error::Error;

impl ModelSource {
    /// Parses `--from TEXT`.
    pub fn parse(text: &str) -> Self {
        if text.starts_with("https://") || text.starts_with("http://") {
            Self::Url(text.to_owned())
        } else if Path::new(text).is_dir() {
            Self::Folder(text.into())
        } else {
            Self::Archive(text.into())
        }
    }
}

/// A model of the catalog and its state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelStatus {
    pub name: &'static str,
    pub license: &'static str,
    pub bytes: u64,
    pub state: InstallState,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InstallState {
    Absent,
    /// An incomplete installation; the next one resumes after these bytes.
    Partial {
        bytes: u64,
    },
    Installed {
        path: PathBuf,
    },
}

/// The installed models of one folder.
#[derive(Debug, Clone)]
pub struct ModelStore {
    catalog: &'static [CatalogModel],
    folder: PathBuf,
}

impl ModelStore {
    /// The product passes the catalog of this crate; tests pass their own.
    pub fn new(catalog: &'static [CatalogModel], folder: impl Into<PathBuf>) -> Self {
        Self { catalog, folder: folder.into() }
    }

    /// Installs a model. After a lost connection the next call resumes.
    pub fn install(
        &self,
        name: &str,
        source: &ModelSource,
        progress: &mut dyn FnMut(DownloadProgress<'_>),
    ) -> Result<InstalledModel, Error> {
        install::install_model(self.find_model(name)?, &self.folder, source, progress)
    }

    /// Returns the folder of an installed model; `None` if a file is missing or of another length.
    pub fn open(&self, name: &str) -> Option<PathBuf> {
        let model = self.find_model(name).ok()?;
        let path = self.folder.join(model.name);
        for file in model.files {
            // Hashing hundreds of megabytes at each start would take too long.
            if fs::metadata(path.join(file.name)).ok()?.len() != file.bytes {
                return None;
            }
        }
        Some(path)
    }

    pub fn list(&self) -> Vec<ModelStatus> {
        let mut listed = Vec::with_capacity(self.catalog.len());
        for model in self.catalog {
            listed.push(ModelStatus {
                name: model.name,
                license: model.license,
                bytes: model.total_bytes(),
                state: self.state(model),
            });
        }
        listed
    }

    /// Removes a model and its incomplete installation; `false` if there was none.
    pub fn remove(&self, name: &str) -> Result<bool, Error> {
        let model = self.find_model(name)?;
        let path = self.folder.join(model.name);
        let partial = files::partial_folder(&self.folder, model);
        // Nothing is being installed, and taking the lock would create the folder.
        if let Err(error) = fs::symlink_metadata(&partial)
            && error.kind() == ErrorKind::NotFound
        {
            return files::remove_folder(&path);
        }
        // Another process may be installing the model.
        let _lock = files::lock_folder(&partial, model)?;
        let removed = files::remove_folder(&path)?;
        Ok(files::remove_folder(&partial)? || removed)
    }

    fn state(&self, model: &CatalogModel) -> InstallState {
        if let Some(path) = self.open(model.name) {
            return InstallState::Installed { path };
        }
        let entries = match fs::read_dir(files::partial_folder(&self.folder, model)) {
            Ok(entries) => entries,
            Err(error) if error.kind() == ErrorKind::NotFound => return InstallState::Absent,
            Err(_) => return InstallState::Partial { bytes: 0 },
        };
        let mut bytes = 0;
        for entry in entries.flatten() {
            if let Ok(metadata) = entry.metadata() {
                bytes += metadata.len();
            }
        }
        InstallState::Partial { bytes }
    }

    fn find_model(&self, name: &str) -> Result<&'static CatalogModel, Error> {
        if let Some(model) = self.catalog.iter().find(|model| model.name == name) {
            return Ok(model);
        }
        let known: Vec<_> = self.catalog.iter().map(|model| model.name).collect();
        Err(Error::Unknown { name: name.to_owned(), known: known.join(", ") })
    }
}
