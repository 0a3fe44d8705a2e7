//! A damaged or forged dump is refused, or its records survive another dump unchanged.
//!
//! Input: with a first byte `r`, records, to which the target adds a valid header and end.
//! Otherwise a complete file.

#![no_main]

use std::fmt::Write;
use std::path::Path;

use libfuzzer_sys::fuzz_target;
use reqlore_domain::ports::archive::{Archive, ArchiveRecord};
use reqlore_domain::ports::documents::{StoreError, StoreResult};
use reqlore_dump::DumpFile;
use sha2::{Digest, Sha256};

const HEADER: &[u8] = b"{\"format\":\"reqlore-dump\",\"version\":1,\"reqlore\":\"0\"}\n";

fuzz_target!(|bytes: &[u8]| {
    let Some((first, rest)) = bytes.split_first() else { return };
    let file = if *first == b'r' { with_header_and_end(rest) } else { rest.to_vec() };
    let folder = tempfile::tempdir().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(check_dump(&file, folder.path()));
});

async fn check_dump(file: &[u8], folder: &Path) {
    let (input, copy) = (folder.join("input"), folder.join("copy"));
    std::fs::write(&input, file).unwrap();
    match read_records(&DumpFile::new(input)).await {
        Err(StoreError::Unreadable { reason, .. }) => {
            assert!(reason.starts_with("line ") && reason.ends_with("nothing was changed"));
        }
        Err(error) => assert!(matches!(error, StoreError::Refused { .. }), "{error}"),
        Ok(records) => {
            let copy = DumpFile::new(copy);
            let mut writer = copy.import().await.unwrap();
            writer.write_batch(records.clone()).await.unwrap();
            writer.finish().await.unwrap();
            assert_eq!(read_records(&copy).await.unwrap(), records);
        }
    }
}

async fn read_records(dump: &DumpFile) -> StoreResult<Vec<ArchiveRecord>> {
    let mut reader = dump.export().await?;
    let mut read = Vec::new();
    loop {
        let records = reader.next_batch().await.expect("a validated dump is readable");
        if records.is_empty() {
            assert_eq!(reader.total_documents(), Some(read.len()));
            return Ok(read);
        }
        read.extend(records);
    }
}

fn with_header_and_end(records: &[u8]) -> Vec<u8> {
    let mut file = [HEADER, records].concat();
    let mut digits = String::new();
    for byte in Sha256::digest(&file) {
        write!(digits, "{byte:02x}").unwrap();
    }
    let count = records.split_inclusive(|byte| *byte == b'\n').count();
    file.extend_from_slice(format!("{{\"records\":{count},\"sha256\":\"{digits}\"}}\n").as_bytes());
    file
}
