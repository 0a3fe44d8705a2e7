//! Heads made anew when another version of this program made those that are stored.
//!
//! The trap: it may be killed in the middle. The new format is written last, so the next start does
//! all of it again.

use reqlore_domain::document::{Document, DocumentMeta, Kind};
use reqlore_domain::ports::documents::StoreResult;

use crate::base::{Base, Batch, DOCUMENTS, LINKS, META, PROJECTS, REFERENCES};
use crate::error::{damaged, of_sled};
use crate::values::{ProjectRow, Row, decode, encode};
use crate::{read, write};

/// In [`META`]: the [`DocumentMeta::FORMAT`] of the heads.
pub(crate) const FORMAT: &[u8] = b"heads";

/// So many documents are one transaction, or those that make so many changes.
const AT_ONCE: usize = 500;
const CHANGES_AT_ONCE: usize = 5000;

impl Base {
    pub(crate) fn bring_heads_up_to_date(&self) -> StoreResult<()> {
        let stored = self.tree(META).get(FORMAT).map_err(of_sled)?;
        if stored.and_then(|value| decode(FORMAT, &value)) == Some(DocumentMeta::FORMAT) {
            return Ok(());
        }
        // From here on, whoever made the old ones makes all of them anew as well.
        let mut batch = Batch::default();
        batch.put(META, FORMAT, encode(FORMAT, &0_u32));
        self.write(batch)?;
        // Those that are there follow from heads that can't be read any more.
        self.tree(LINKS).clear().map_err(of_sled)?;
        for entry in &self.trees[PROJECTS] {
            let (key, value) = entry.map_err(of_sled)?;
            let project: Option<ProjectRow> = decode(&key, &value);
            let project = project.ok_or_else(|| damaged("a project's row"))?;
            for kind in Kind::ALL {
                self.make_heads(project.id, kind)?;
            }
        }
        let mut batch = Batch::default();
        batch.put(META, FORMAT, encode(FORMAT, &DocumentMeta::FORMAT));
        self.write(batch)?;
        self.settle()
    }

    fn make_heads(&self, project: u32, kind: Kind) -> StoreResult<()> {
        let mut after: Option<String> = None;
        loop {
            let mut batch = Batch::default();
            let entries = self.entries(project, kind, after.as_deref());
            for entry in entries.take(AT_ONCE) {
                let (key, value) = entry.map_err(of_sled)?;
                let id = read::id(project, kind, &key)?;
                after = Some(id.name.clone());
                // A damaged document keeps its fault.
                let Some(mut row) = decode::<Row>(&key, &value) else { continue };
                let Ok(body) = self.body(&key, &row, &id) else { continue };
                if let Some(old) = write::reference(project, &id, &row) {
                    batch.remove(REFERENCES, old);
                }
                let document = Document { id: id.clone(), body, version: row.version };
                let head = DocumentMeta::of(&document, row.modified);
                row.set_head(&head);
                if let Some(new) = write::reference(project, &id, &row) {
                    batch.put(REFERENCES, new, &[][..]);
                }
                for link in write::links(project, &head) {
                    batch.put(LINKS, link, &[][..]);
                }
                let value = encode(&key, &row);
                batch.put(DOCUMENTS, key, value);
                if batch.len() >= CHANGES_AT_ONCE {
                    break;
                }
            }
            if batch.is_empty() {
                return Ok(());
            }
            self.write(batch)?;
        }
    }
}
