//! Puts a model together in `NAME.partial`, checks it, and renames it to `NAME`.

use std::fs::{self, File};
use std::io::{BufReader, Read, Write};
use std::path::{Path, PathBuf};

use zip::ZipArchive;
use zip::result::ZipError;

use crate::error::Error;
use crate::files::CopyError;
use crate::known::{self, Model};
use crate::{Installed, Progress, Source, download, files};

/// The name of a downloaded archive.
const ARCHIVE_FILE: &str = "archive";
const MAX_ARCHIVE_ENTRIES: usize = 10_000;

/// An installation.
struct Installation<'a> {
    model: &'a Model,
    partial: PathBuf,
    progress: &'a mut dyn FnMut(Progress<'_>),
}

pub(crate) fn install_model(
    model: &Model,
    folder: &Path,
    source: &Source,
    progress: &mut dyn FnMut(Progress<'_>),
) -> Result<Installed, Error> {
    let partial = files::partial_folder(folder, model);
    let path = folder.join(model.name);
    let lock = files::lock_folder(&partial, model)?;
    if is_valid_model(model, &path)? {
        files::remove_folder(&partial)?;
        return Ok(Installed { path, already: true });
    }

    let mut work = Installation { model, partial, progress };
    if let Err(error) = work.collect_files(source) {
        // Partial files stay to be resumed; an empty folder does not.
        files::remove_lock(&work.partial)?;
        fs::remove_dir(&work.partial).ok();
        return Err(error);
    }
    move_into_place(model, &work.partial, &path)?;
    files::sync_to_disk(folder)?;
    drop(lock);
    Ok(Installed { path, already: false })
}

fn move_into_place(model: &Model, partial: &Path, path: &Path) -> Result<(), Error> {
    for file in model.files {
        files::sync_to_disk(&partial.join(file.name))?;
    }
    files::remove_file(&partial.join(ARCHIVE_FILE))?;
    files::remove_lock(partial)?;
    files::sync_to_disk(partial)?;
    files::remove_folder(path)?;
    fs::rename(partial, path).map_err(Error::io(path, "put in place"))
}

/// All files are there and have a known hash.
fn is_valid_model(model: &Model, folder: &Path) -> Result<bool, Error> {
    for file in model.files {
        if !is_valid_file(file, folder)? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn is_valid_file(file: &known::File, folder: &Path) -> Result<bool, Error> {
    let path = folder.join(file.name);
    Ok(files::file_length(&path)? == Some(file.bytes)
        && file.sha256.contains(&files::sha256(&path)?.as_str()))
}

impl Installation<'_> {
    fn collect_files(&mut self, source: &Source) -> Result<(), Error> {
        match source {
            Source::Default => self.fetch_files(self.model.address),
            Source::Url(address) => self.fetch_url(address),
            Source::Folder(folder) => self.copy_folder(folder),
            Source::Archive(archive) => self.copy_archive(archive, &archive.display().to_string()),
        }
    }

    /// Each file lies under the address by its name.
    fn fetch_files(&mut self, address: &str) -> Result<(), Error> {
        for file in self.model.files {
            if is_valid_file(file, &self.partial)? {
                continue;
            }
            let from = format!("{}/{}", address.trim_end_matches('/'), file.name);
            let path = self.partial.join(file.name);
            download::download_file(&from, &path, file.name, file.bytes, self.progress)?;
            self.verify_hash(file)?;
        }
        Ok(())
    }

    fn fetch_url(&mut self, address: &str) -> Result<(), Error> {
        let path = Path::new(address.split(['?', '#']).next().unwrap_or(address));
        let is = |what| path.extension().is_some_and(|found| found.eq_ignore_ascii_case(what));
        if !is("zip") && !is("whl") {
            return self.fetch_files(address);
        }
        // Compressed it can't be much larger than its files, whatever else it holds.
        let most = 2 * self.model.files.iter().map(|file| file.bytes).sum::<u64>() + (1 << 20);
        let archive = self.partial.join(ARCHIVE_FILE);
        download::download_file(address, &archive, ARCHIVE_FILE, most, self.progress)?;
        let unpacked = self.copy_archive(&archive, address);
        files::remove_file(&archive)?;
        unpacked
    }

    fn copy_folder(&mut self, folder: &Path) -> Result<(), Error> {
        for file in self.model.files {
            let from = folder.join(file.name);
            if files::file_length(&from)?.is_none() {
                return Err(self.missing_file(&folder.display().to_string(), file));
            }
            let mut from = File::open(&from).map_err(Error::io(&from, "read"))?;
            self.copy_file(&mut from, folder, file)?;
        }
        Ok(())
    }

    /// Errors name `place`.
    fn copy_archive(&mut self, path: &Path, place: &str) -> Result<(), Error> {
        let unreadable =
            |error: ZipError| Error::Archive { place: place.to_owned(), why: error.to_string() };
        let file = File::open(path).map_err(Error::io(path, "read"))?;
        let mut archive = ZipArchive::new(BufReader::new(file)).map_err(unreadable)?;
        for file in self.model.files {
            let Some(index) = find_entry(&mut archive, file) else {
                return Err(self.missing_file(place, file));
            };
            let mut entry = archive.by_index(index).map_err(unreadable)?;
            self.copy_file(&mut entry, path, file)?;
        }
        Ok(())
    }

    /// Writes a file and checks it. At most one byte too many is read.
    fn copy_file(
        &mut self,
        from: &mut dyn Read,
        place: &Path,
        file: &known::File,
    ) -> Result<(), Error> {
        let path = self.partial.join(file.name);
        let mut to = File::create(&path).map_err(Error::io(&path, "made"))?;
        let mut done_bytes = 0;
        let pumped = files::copy_chunks(&mut from.take(file.bytes + 1), |part| {
            done_bytes += part.len() as u64;
            (self.progress)(Progress { file: file.name, done_bytes, total_bytes: file.bytes });
            to.write_all(part)
        });
        pumped.map_err(|error| match error {
            CopyError::Read(error) => Error::io(place, "read")(error),
            CopyError::Write(error) => Error::io(&path, "written")(error),
        })?;
        self.verify_hash(file)
    }

    /// The file has a known hash; else it is removed.
    fn verify_hash(&self, file: &known::File) -> Result<(), Error> {
        let path = self.partial.join(file.name);
        let actual = files::sha256(&path)?;
        if file.sha256.contains(&actual.as_str()) {
            return Ok(());
        }
        files::remove_file(&path)?;
        let expected = file.sha256.join(" or ");
        Err(Error::WrongHash { file: file.name.to_owned(), expected, actual })
    }

    fn missing_file(&self, place: &str, file: &known::File) -> Error {
        let files: Vec<_> = self.model.files.iter().map(|file| file.name).collect();
        Error::Missing {
            place: place.to_owned(),
            file: file.name.to_owned(),
            files: files.join(" and "),
        }
    }
}

/// The entry of this name in any folder; of several the one of the right length.
fn find_entry(archive: &mut ZipArchive<BufReader<File>>, file: &known::File) -> Option<usize> {
    let mut found = None;
    for index in 0..archive.len().min(MAX_ARCHIVE_ENTRIES) {
        let Ok(entry) = archive.by_index_raw(index) else { continue };
        let named = entry.name().is_ok_and(|name| name.rsplit('/').next() == Some(file.name));
        if named && entry.size() == file.bytes {
            return Some(index);
        }
        if named {
            found = found.or(Some(index));
        }
    }
    found
}
