//! Downloads a file over HTTP, and resumes an earlier attempt.
//!
//! ureq reads the proxy from the environment: HTTPS_PROXY, HTTP_PROXY and NO_PROXY.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::path::Path;
use std::time::Duration;

use ureq::http::Response;
use ureq::{Agent, Body};

use crate::error::Error;
use crate::files;
use crate::files::CopyError;
use crate::model_source::DownloadProgress;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);
/// Maximum time without received data.
const SILENCE_TIMEOUT: Duration = Duration::from_secs(60);

const PARTIAL_CONTENT: u16 = 206;
const RANGE_NOT_SATISFIABLE: u16 = 416;

/// Downloads `address` to `path`, at most `max_bytes`. After a lost connection the bytes stay in
/// the file, and the next call requests the rest.
pub(crate) fn download_file(
    address: &str,
    path: &Path,
    file: &str,
    max_bytes: u64,
    progress: &mut dyn FnMut(DownloadProgress<'_>),
) -> Result<(), Error> {
    let start = match files::file_length(path)? {
        Some(length) if length <= max_bytes => length,
        Some(_) => {
            files::remove_file(path)?;
            0
        }
        None => 0,
    };
    let response = send_request(address, start)?;
    let status = response.status().as_u16();
    if status == RANGE_NOT_SATISFIABLE && start > 0 {
        // The earlier attempt received all bytes. The caller checks the hash.
        return Ok(());
    }
    if !response.status().is_success() {
        return Err(Error::Status { address: address.to_owned(), status });
    }
    // A server without ranges sends the whole file again.
    let start = if status == PARTIAL_CONTENT { start } else { 0 };
    let mut target = OpenOptions::new()
        .create(true)
        .append(start > 0)
        .write(true)
        .truncate(start == 0)
        .open(path)
        .map_err(Error::io(path, "written"))?;
    let total_bytes = match response.body().content_length() {
        Some(remaining) => start + remaining,
        None => 0,
    };
    if total_bytes > max_bytes {
        files::remove_file(path)?;
        return Err(Error::TooLarge { address: address.to_owned(), max_bytes });
    }
    let received = receive_body(response, &mut target, start, max_bytes, |done_bytes| {
        progress(DownloadProgress { file, done_bytes, total_bytes });
    });
    let (done, why) = match received {
        Ok(done) if done > max_bytes => {
            files::remove_file(path)?;
            return Err(Error::TooLarge { address: address.to_owned(), max_bytes });
        }
        // Without a content length `total_bytes` is 0: only the hash shows a lost end.
        Ok(done) if done >= total_bytes => return Ok(()),
        Ok(done) => (done, "the response ended early".to_owned()),
        Err((done, CopyError::Read(error))) => (done, error.to_string()),
        Err((_, CopyError::Write(error))) => return Err(Error::io(path, "written")(error)),
    };
    // The next attempt resumes after these bytes.
    target.sync_all().map_err(Error::io(path, "written"))?;
    Err(Error::Cut { file: file.to_owned(), done, why })
}

fn send_request(address: &str, start: u64) -> Result<Response<Body>, Error> {
    let agent: Agent = Agent::config_builder()
        // Status 416 means that the earlier attempt received all bytes, so it is not an error.
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

/// Appends the body to the file. Returns the length of the file, also with an error.
fn receive_body(
    response: Response<Body>,
    target: &mut File,
    start: u64,
    max_bytes: u64,
    mut progress: impl FnMut(u64),
) -> Result<u64, (u64, CopyError)> {
    let mut done = start;
    let mut body = response.into_body().into_with_config().limit(u64::MAX).reader();
    // One byte more than allowed is enough to detect a file that is too large.
    let mut body = body.by_ref().take(max_bytes + 1 - start);
    let result = files::copy_chunks(&mut body, |chunk| {
        target.write_all(chunk)?;
        done += chunk.len() as u64;
        progress(done);
        Ok(())
    });
    match result {
        Ok(()) => Ok(done),
        Err(error) => Err((done, error)),
    }
}
