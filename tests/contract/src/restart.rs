//! Close, open, read again. A store in memory has nothing to open.

use reqlore_domain::document::{DocumentId, Version};

use crate::Storage;

pub async fn what_was_committed_outlives_a_restart(s: &Storage) {
    let (kept, gone) = (DocumentId::section("kept"), DocumentId::section("gone"));
    s.put(&gone, "x").await;
    s.put(&kept, "y\r\n").await;
    s.delete(&gone).await;
    let Some(reopen) = &s.reopen else { return };
    let again = reopen().await.unwrap();
    let found = again.get(&s.project, &[kept, gone]).await.unwrap();
    assert_eq!(found[0].as_ref().map(|d| d.version), Some(Version::of(b"y\r\n")));
    assert_eq!(found[1], None);
}
