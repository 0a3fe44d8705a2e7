//! A dump that was damaged or made up: it is refused, or everything in it can be dumped again and
//! is the same. Behind a first byte `r` come records, and the right header and end are put around
//! them; behind any other one comes a whole file.

#![no_main]

use std::fmt::Write;
use std::path::Path;

use libfuzzer_sys::fuzz_target;
use reqlore_domain::ports::archive::{Archive, Record};
use reqlore_domain::ports::documents::{StoreError, StoreResult};
use reqlore_dump::Dump;
use sha2::{Digest, Sha256};

const HEADER: &[u8] = b"{\"format\":\"reqlore-dump\",\"version\":1,\"reqlore\":\"0\"}\n";

fuzz_target!(|bytes: &[u8]| {
    let Some((first, rest)) = bytes.split_first() else { return };
    let file = if *first == b'r' { around(rest) } else { rest.to_vec() };
    let folder = tempfile::tempdir().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(check(&file, folder.path()));
});

async fn check(file: &[u8], folder: &Path) {
    let (given, again) = (folder.join("given"), folder.join("again"));
    std::fs::write(&given, file).unwrap();
    match read(&Dump::new(given)).await {
        Err(StoreError::Unreadable { reason, .. }) => {
            assert!(reason.starts_with("line ") && reason.ends_with("nothing was changed"));
        }
        Err(error) => assert!(matches!(error, StoreError::Refused { .. }), "{error}"),
        Ok(records) => {
            let again = Dump::new(again);
            let mut sink = again.fill().await.unwrap();
            sink.put(records.clone()).await.unwrap();
            sink.finish().await.unwrap();
            assert_eq!(read(&again).await.unwrap(), records);
        }
    }
}

async fn read(dump: &Dump) -> StoreResult<Vec<Record>> {
    let mut source = dump.read().await?;
    let mut all = Vec::new();
    loop {
        let records = source.next().await.expect("what was found sound comes out");
        if records.is_empty() {
            assert_eq!(source.total(), Some(all.len()));
            return Ok(all);
        }
        all.extend(records);
    }
}

fn around(records: &[u8]) -> Vec<u8> {
    let mut file = [HEADER, records].concat();
    let mut digits = String::new();
    for byte in Sha256::digest(&file) {
        write!(digits, "{byte:02x}").unwrap();
    }
    let count = records.split_inclusive(|byte| *byte == b'\n').count();
    file.extend_from_slice(format!("{{\"records\":{count},\"sha256\":\"{digits}\"}}\n").as_bytes());
    file
}
