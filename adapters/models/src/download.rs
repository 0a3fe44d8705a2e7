//! Downloads a file over HTTP, and resumes an earlier attempt.
//!
//! The proxy comes from the environment (HTTPS_PROXY and its kin), as ureq reads it.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::path::Path;
use std::time::Duration;

use ureq::http::Response;
use ureq::{Agent, Body};

use crate::error::Error;
use crate::files::CopyError;
use crate::{Progress, files};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);
/// Maximum time without data.
const SILENCE_TIMEOUT: Duration = Duration::from_secs(60);

const PARTIAL_CONTENT: u16 = 206;
const RANGE_NOT_SATISFIABLE: u16 = 416;

/// Downloads `address` to `path`, at most `most` bytes.
pub(crate) fn download_file(
    address: &str,
    path: &Path,
    file: &str,
    most: u64,
    progress: &mut dyn FnMut(Progress<'_>),
) -> Result<(), Error> {
    let start = match files::file_length(path)? {
        Some(length) if length <= most => length,
        Some(_) => {
            files::remove_file(path)?;
            0
        }
        None => 0,
    };
    let response = send_request(address, start)?;
    let status = response.status().as_u16();
    if status == RANGE_NOT_SATISFIABLE && start > 0 {
        return Ok(()); // The file is complete; its hash is checked later.
    }
    if !response.status().is_success() {
        return Err(Error::Status { address: address.to_owned(), status });
    }
    let start = if status == PARTIAL_CONTENT { start } else { 0 };
    let mut to = OpenOptions::new()
        .create(true)
        .append(start > 0)
        .write(true)
        .truncate(start == 0)
        .open(path)
        .map_err(Error::io(path, "written"))?;
    let total_bytes = response.body().content_length().map_or(0, |rest| start + rest);
    if total_bytes > most {
        drop(to);
        files::remove_file(path)?;
        return Err(Error::TooLarge { address: address.to_owned(), most });
    }
    let done = receive_body(response, &mut to, start, most, |done_bytes| {
        progress(Progress { file, done_bytes, total_bytes });
    });
    let (done, why) = match done {
        Ok(done) if done > most => {
            files::remove_file(path)?;
            return Err(Error::TooLarge { address: address.to_owned(), most });
        }
        Ok(done) if done >= total_bytes => return Ok(()),
        Ok(done) => (done, "it ended early".to_owned()),
        Err((done, CopyError::Read(error))) => (done, error.to_string()),
        Err((_, CopyError::Write(error))) => return Err(Error::io(path, "written")(error)),
    };
    to.sync_all().map_err(Error::io(path, "written"))?;
    Err(Error::Cut { file: file.to_owned(), done, why })
}

fn send_request(address: &str, start: u64) -> Result<Response<Body>, Error> {
    let agent: Agent = Agent::config_builder()
        .http_status_as_error(false)
        .timeout_connect(Some(CONNECT_TIMEOUT))
        .timeout_recv_response(Some(SILENCE_TIMEOUT))
        .timeout_per_read(Some(SILENCE_TIMEOUT))
        .build()
        .into();
    let mut request = agent.get(address);
    if start > 0 {
        request = request.header("range", format!("bytes={start}-"));
    }
    request
        .call()
        .map_err(|error| Error::Unreachable { address: address.to_owned(), why: error.to_string() })
}

/// Returns the file's length at the end, also with an error.
fn receive_body(
    response: Response<Body>,
    to: &mut File,
    start: u64,
    most: u64,
    mut progress: impl FnMut(u64),
) -> Result<u64, (u64, CopyError)> {
    let mut done = start;
    let mut body = response.into_body().into_with_config().limit(u64::MAX).reader();
    let mut body = body.by_ref().take(most + 1 - start);
    let pumped = files::copy_chunks(&mut body, |part| {
        to.write_all(part)?;
        done += part.len() as u64;
        progress(done);
        Ok(())
    });
    pumped.map(|()| done).map_err(|error| (done, error))
}
