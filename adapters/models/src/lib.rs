//! The models a user has installed: fetched on request, checked by hash, kept in a folder.
//!
//! Only [`Store::install`] fetches. A model is a folder with its name. During the installation the
//! folder is called `NAME.partial`; it is renamed after all files were checked.

mod download;
pub mod error;
mod files;
mod install;
pub mod known;

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use crate::error::Error;
use crate::known::Model;

/// The source of a model's files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// The address of the model's publisher.
    Default,
    /// A folder's address that both files lie under, or that of a zip or a wheel.
    Url(String),
    /// A folder with both files.
    Folder(PathBuf),
    /// A zip or a wheel with both files, at any depth.
    Archive(PathBuf),
}

impl Source {
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

/// Progress of the current file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress<'file> {
    pub file: &'file str,
    pub done_bytes: u64,
    /// Zero if unknown.
    pub total_bytes: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Installed {
    pub path: PathBuf,
    /// The model was already installed; nothing was fetched.
    pub already: bool,
}

/// A known model and its state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    pub name: &'static str,
    pub license: &'static str,
    pub bytes: u64,
    pub state: State,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    Absent,
    /// An incomplete installation; the next one resumes after these bytes.
    Partial {
        bytes: u64,
    },
    Installed {
        path: PathBuf,
    },
}

/// The models in one folder.
#[derive(Debug, Clone)]
pub struct Store {
    known: &'static [Model],
    folder: PathBuf,
}

impl Store {
    /// `known` is [`known::MODELS`] outside of tests.
    pub fn new(known: &'static [Model], folder: impl Into<PathBuf>) -> Self {
        Self { known, folder: folder.into() }
    }

    /// Installs a model. After a cut connection the next call resumes.
    pub fn install(
        &self,
        name: &str,
        source: &Source,
        progress: &mut dyn FnMut(Progress<'_>),
    ) -> Result<Installed, Error> {
        install::install_model(self.find_model(name)?, &self.folder, source, progress)
    }

    /// The folder of an installed model.
    pub fn open(&self, name: &str) -> Option<PathBuf> {
        let model = self.find_model(name).ok()?;
        let path = self.folder.join(model.name);
        let whole = |file: &known::File| {
            fs::metadata(path.join(file.name)).is_ok_and(|found| found.len() == file.bytes)
        };
        model.files.iter().all(whole).then_some(path)
    }

    pub fn list(&self) -> Vec<Listed> {
        let listed = |model: &Model| Listed {
            name: model.name,
            license: model.license,
            bytes: model.files.iter().map(|file| file.bytes).sum(),
            state: self.state(model),
        };
        self.known.iter().map(listed).collect()
    }

    /// Removes a model and its incomplete installation; `false` if there was none.
    pub fn remove(&self, name: &str) -> Result<bool, Error> {
        let model = self.find_model(name)?;
        let path = self.folder.join(model.name);
        let partial = files::partial_folder(&self.folder, model);
        let found = fs::symlink_metadata(&partial);
        if found.is_err_and(|error| error.kind() == ErrorKind::NotFound) {
            return files::remove_folder(&path);
        }
        let _lock = files::lock_folder(&partial, model)?;
        let removed = files::remove_folder(&path)?;
        Ok(files::remove_folder(&partial)? || removed)
    }

    fn state(&self, model: &Model) -> State {
        if let Some(path) = self.open(model.name) {
            return State::Installed { path };
        }
        let entries = match fs::read_dir(files::partial_folder(&self.folder, model)) {
            Ok(entries) => entries,
            Err(error) if error.kind() == ErrorKind::NotFound => return State::Absent,
            Err(_) => return State::Partial { bytes: 0 },
        };
        let sizes = entries.flatten().filter_map(|entry| entry.metadata().ok());
        State::Partial { bytes: sizes.map(|found| found.len()).sum() }
    }

    fn find_model(&self, name: &str) -> Result<&'static Model, Error> {
        self.known.iter().find(|model| model.name == name).ok_or_else(|| Error::Unknown {
            name: name.to_owned(),
            known: self.known.iter().map(|model| model.name).collect::<Vec<_>>().join(", "),
        })
    }
}
