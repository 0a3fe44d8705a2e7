//! Installs a model: collects its files in `NAME.partial`, checks them and renames it to `NAME`.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{BufReader, Read, Write};
use std::path::{Path, PathBuf};

use zip::ZipArchive;
use zip::result::ZipError;

use crate::catalog::{self, CatalogModel};
use crate::error::Error;
use crate::files::CopyError;
use crate::model_source::{DownloadProgress, InstalledModel, ModelSource};
use crate::{download, files};

/// The file name of a downloaded archive.
const ARCHIVE_FILE: &str = "archive";
const MAX_ARCHIVE_ENTRIES: usize = 10_000;

/// A running installation.
struct Installation<'a> {
    model: &'a CatalogModel,
    partial: PathBuf,
    progress: &'a mut dyn FnMut(DownloadProgress<'_>),
}

pub(crate) fn install_model(
    model: &CatalogModel,
    folder: &Path,
    source: &ModelSource,
    progress: &mut dyn FnMut(DownloadProgress<'_>),
) -> Result<InstalledModel, Error> {
    let partial = files::partial_folder(folder, model);
    let path = folder.join(model.name);
    // Two installations of one model exclude each other.
    let lock = files::lock_folder(&partial, model)?;
    if is_valid_model(model, &path)? {
        files::remove_folder(&partial)?;
        return Ok(InstalledModel { path, was_installed: true });
    }

    let mut installation = Installation { model, partial, progress };
    if let Err(error) = installation.collect_files(source) {
        // Partial files are kept, so that the next call resumes. An empty folder is removed.
        files::remove_lock(&installation.partial)?;
        fs::remove_dir(&installation.partial).ok();
        return Err(error);
    }
    move_into_place(model, &installation.partial, &path)?;
    // The new name is on disk only when its folder is.
    files::sync_to_disk(folder)?;
    drop(lock);
    Ok(InstalledModel { path, was_installed: false })
}

fn move_into_place(model: &CatalogModel, partial: &Path, path: &Path) -> Result<(), Error> {
    // Before the rename, so that an installed folder is complete also after a power failure.
    for file in model.files {
        files::sync_to_disk(&partial.join(file.name))?;
    }
    files::remove_file(&partial.join(ARCHIVE_FILE))?;
    // Not part of an installed model; the open file still holds the lock.
    files::remove_lock(partial)?;
    files::sync_to_disk(partial)?;
    // An installed folder with a wrong file is replaced.
    files::remove_folder(path)?;
    fs::rename(partial, path).map_err(Error::io(path, "replaced"))
}

/// True if all files exist and have an accepted hash.
fn is_valid_model(model: &CatalogModel, folder: &Path) -> Result<bool, Error> {
    for file in model.files {
        if !is_valid_file(file, folder)? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn is_valid_file(file: &catalog::ModelFile, folder: &Path) -> Result<bool, Error> {
    let path = folder.join(file.name);
    // The length first, because hashing a large file takes long.
    Ok(files::file_length(&path)? == Some(file.bytes)
        && file.sha256.contains(&files::sha256(&path)?.as_str()))
}

impl Installation<'_> {
    fn collect_files(&mut self, source: &ModelSource) -> Result<(), Error> {
        match source {
            ModelSource::Default => self.download_files(self.model.address),
            ModelSource::Url(address) => self.download_url(address),
            ModelSource::Folder(folder) => self.copy_folder(folder),
            ModelSource::Archive(archive) => {
                self.copy_archive(archive, &archive.display().to_string())
            }
        }
    }

    /// Downloads the files from the folder of this address.
    fn download_files(&mut self, address: &str) -> Result<(), Error> {
        for file in self.model.files {
            // An earlier attempt has completed this file.
            if is_valid_file(file, &self.partial)? {
                continue;
            }
            let file_address = format!("{}/{}", address.trim_end_matches('/'), file.name);
            let path = self.partial.join(file.name);
            download::download_file(&file_address, &path, file.name, file.bytes, self.progress)?;
            self.verify_hash(file)?;
        }
        Ok(())
    }

    fn download_url(&mut self, address: &str) -> Result<(), Error> {
        if !is_archive_address(address) {
            return self.download_files(address);
        }
        // An archive is compressed: a much larger one has other content.
        let max_bytes = 2 * self.model.total_bytes() + (1 << 20);
        let archive = self.partial.join(ARCHIVE_FILE);
        download::download_file(address, &archive, ARCHIVE_FILE, max_bytes, self.progress)?;
        let result = self.copy_archive(&archive, address);
        // Also after an error: the next attempt must not resume a wrong archive.
        files::remove_file(&archive)?;
        result
    }

    fn copy_folder(&mut self, folder: &Path) -> Result<(), Error> {
        for file in self.model.files {
            let path = folder.join(file.name);
            if files::file_length(&path)?.is_none() {
                return Err(self.missing_file(&folder.display().to_string(), file));
            }
            let mut source = File::open(&path).map_err(Error::io(&path, "read"))?;
            self.copy_file(&mut source, folder, file)?;
        }
        Ok(())
    }

    /// Unpacks the files of an archive. `subject` is its name in errors.
    fn copy_archive(&mut self, path: &Path, subject: &str) -> Result<(), Error> {
        let file = File::open(path).map_err(Error::io(path, "read"))?;
        let mut archive = ZipArchive::new(BufReader::new(file))
            .map_err(|error| archive_error(subject, &error))?;
        for file in self.model.files {
            let Some(index) = find_entry(&mut archive, file) else {
                return Err(self.missing_file(subject, file));
            };
            let mut entry =
                archive.by_index(index).map_err(|error| archive_error(subject, &error))?;
            self.copy_file(&mut entry, path, file)?;
        }
        Ok(())
    }

    /// Copies a file and verifies it. Reads at most one byte too many.
    fn copy_file(
        &mut self,
        source: &mut dyn Read,
        source_path: &Path,
        file: &catalog::ModelFile,
    ) -> Result<(), Error> {
        let path = self.partial.join(file.name);
        let mut target = File::create(&path).map_err(Error::io(&path, "created"))?;
        let mut done_bytes = 0;
        let result = files::copy_chunks(&mut source.take(file.bytes + 1), |part| {
            done_bytes += part.len() as u64;
            (self.progress)(DownloadProgress {
                file: file.name,
                done_bytes,
                total_bytes: file.bytes,
            });
            target.write_all(part)
        });
        match result {
            Ok(()) => self.verify_hash(file),
            Err(CopyError::Read(error)) => Err(Error::io(source_path, "read")(error)),
            Err(CopyError::Write(error)) => Err(Error::io(&path, "written")(error)),
        }
    }

    /// Verifies the hash of a file. A wrong file is removed.
    fn verify_hash(&self, file: &catalog::ModelFile) -> Result<(), Error> {
        let path = self.partial.join(file.name);
        let actual = files::sha256(&path)?;
        if file.sha256.contains(&actual.as_str()) {
            return Ok(());
        }
        files::remove_file(&path)?;
        let expected = file.sha256.join(" or ");
        Err(Error::WrongHash { file: file.name.to_owned(), expected, actual })
    }

    fn missing_file(&self, subject: &str, file: &catalog::ModelFile) -> Error {
        let files: Vec<_> = self.model.files.iter().map(|file| file.name).collect();
        Error::Missing {
            subject: subject.to_owned(),
            file: file.name.to_owned(),
            files: files.join(" and "),
        }
    }
}

fn archive_error(subject: &str, error: &ZipError) -> Error {
    Error::Archive { subject: subject.to_owned(), why: error.to_string() }
}

fn is_archive_address(address: &str) -> bool {
    let path = match address.split_once(['?', '#']) {
        Some((path, _)) => path,
        None => address,
    };
    let extension = Path::new(path).extension().and_then(OsStr::to_str).unwrap_or_default();
    extension.eq_ignore_ascii_case("zip") || extension.eq_ignore_ascii_case("whl")
}

/// Returns the entry of this name in any folder; of several the first one of the expected length.
fn find_entry(
    archive: &mut ZipArchive<BufReader<File>>,
    file: &catalog::ModelFile,
) -> Option<usize> {
    let mut first = None;
    // A hostile archive may have millions of entries.
    for index in 0..archive.len().min(MAX_ARCHIVE_ENTRIES) {
        let Ok(entry) = archive.by_index_raw(index) else { continue };
        let has_name = entry.name().is_ok_and(|name| name.rsplit('/').next() == Some(file.name));
        if has_name && entry.size() == file.bytes {
            return Some(index);
        }
        if has_name {
            first = first.or(Some(index));
        }
    }
    first
}
