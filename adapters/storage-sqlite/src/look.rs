//! Opening a database to look at it, so that nothing of it changes: it is not made, not brought up
//! to date, and its log is not moved.
//!
//! The trap: whoever reads a database with a log needs the file that processes share, and makes it
//! where it is missing. So without a log the file is read as if nobody wrote it; whoever begins to
//! write meanwhile may make this reader see nonsense once, and nothing worse.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use reqlore_domain::document::DocumentMeta;
use reqlore_domain::ports::documents::StoreResult;
use reqlore_group_commit::Writer;

use crate::check::Check;
use crate::connection::{Connector, Mode, Use};
use crate::error::{Failed, system};
use crate::place::Place;
use crate::pool::Pool;
use crate::schema::{MIGRATIONS, version_of};
use crate::write::Engine;
use crate::{Config, SqliteStore, read};

/// A database that is there.
#[derive(Debug)]
pub enum Looked {
    /// To read from.
    Open { store: SqliteStore, schema: usize },
    /// Who opens it next will first bring it up to date; schema 0 is a file with nothing in it.
    Older { schema: usize, newest: usize },
    /// Who had it last did not close it, and its log can't be read without putting it in order.
    Unsettled,
}

impl SqliteStore {
    /// Looks at a database; the file must be there.
    pub fn look(config: &Config) -> StoreResult<Looked> {
        let place = Arc::new(Place::prepare(&config.file)?);
        let shown = place.shown.clone();
        let mode = match place.has_log() {
            Some(true) => Mode::Looking,
            Some(false) => return Ok(Looked::Unsettled),
            None => Mode::Frozen,
        };
        let connector = Connector { place, mode };
        look(connector, &config.file).map_err(|failed| failed.into_store_error(&shown))
    }
}

fn look(connector: Connector, file: &Path) -> Result<Looked, Failed> {
    let newest = MIGRATIONS.len();
    let place = Arc::clone(&connector.place);
    let connection = connector.open(Use::Read)?;
    let schema = version_of(&place, &connection, newest)?;
    if schema < newest {
        return Ok(Looked::Older { schema, newest });
    }
    read::check_complete(&place.shown, &connection)?;
    let heads: u32 = connection.query_one("SELECT heads FROM store", [], |row| row.get(0))?;
    if heads != DocumentMeta::FORMAT {
        return Ok(Looked::Older { schema, newest });
    }
    place.remember();
    let damaged = Arc::new(AtomicBool::new(false));
    let engine =
        Engine { connection, place, damaged: Arc::clone(&damaged), schema: newest, lost: None };
    let thread = |error| system(&file.display().to_string(), "start a thread for it", error);
    let store = SqliteStore {
        writer: Writer::start("sqlite-writer", engine).map_err(thread)?,
        pool: Arc::new(Pool::new(connector.clone(), newest)),
        _check: Check::start(connector.clone(), false, damaged).map_err(thread)?,
        connector,
    };
    Ok(Looked::Open { store, schema })
}
