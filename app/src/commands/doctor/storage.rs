//! The storage: which one, whether it opens, what is in it, and what `reqlore check` would say.

use std::sync::Arc;

use reqlore_application::check::check;
use reqlore_domain::document::Kind;
use reqlore_domain::ports::Store;
use reqlore_domain::ports::documents::Filter;
use reqlore_domain::project::ProjectKey;
use reqlore_storage_sled::outside::Outside;

use super::finding::{Area, Findings};
use crate::composition::{self, Found};
use crate::config::Config;
use crate::storage::Storage;

const COUNTED: [(&str, &[Kind]); 4] = [
    ("sections", &[Kind::Section]),
    ("items in the backlog", &Kind::ITEMS),
    ("entities", &[Kind::Entity]),
    ("configurations of docsets", &[Kind::Docsets]),
];

/// The storage, if it could be opened to be read.
pub(super) fn look(config: &Config, findings: &mut Findings) -> Option<Arc<dyn Store>> {
    let storage = &config.storage;
    match composition::look(config) {
        Err(failure) => {
            // What says where it is, and what to do, needs no more than another way.
            let place = format!("{}: ", storage.place().display());
            let message = failure.message.strip_prefix(&place).unwrap_or(&failure.message);
            let next = "until then no server can use it; --storage names another place";
            findings.problem(Area::Storage, format!("{storage}: {message}"), next);
        }
        Ok(Found::Absent) => findings.note(
            Area::Storage,
            format!("{storage} is not there yet"),
            Some("the server makes it when it starts; nothing is to be done"),
        ),
        Ok(Found::Older { schema, newest }) => findings.note(
            Area::Storage,
            format!(
                "{storage} has schema {schema}, or was written by an older version; what is in it \
                 was not looked at"
            ),
            Some(&format!(
                "the next server or command that opens it brings it to schema {newest}, and keeps \
                 a copy beside it where the schema changes"
            )),
        ),
        Ok(Found::Unsettled) => findings.note(
            Area::Storage,
            format!("{storage} was not looked at: a change is being made, or was cut short"),
            Some("the next server or command that opens it puts it in order"),
        ),
        Ok(Found::Closed(outside)) => closed(storage, outside, findings),
        Ok(Found::Open { store, schema }) => {
            inside(config, &store, schema, findings);
            return Some(store);
        }
    }
    None
}

fn closed(storage: &Storage, outside: Outside, findings: &mut Findings) {
    match outside {
        Outside::Served { process } => {
            let process =
                process.map_or("another process".to_owned(), |id| format!("process {id}"));
            findings.note(
                Area::Storage,
                format!("{storage} is served by {process}; what is in it was not looked at"),
                Some(
                    "sled is for one process: a second client can't use it meanwhile; `--storage \
                     sqlite` serves several",
                ),
            );
        }
        Outside::Free => {
            findings.ok(Area::Storage, format!("{storage} is there, and nobody has it open"));
            findings.note(
                Area::Storage,
                "what is in it was not looked at, since opening sled changes its files",
                Some("`reqlore check` looks"),
            );
        }
        Outside::Unfinished => findings.note(
            Area::Storage,
            format!("{storage} was not finished being made"),
            Some("the server finishes it when it starts; nothing is to be done"),
        ),
    }
}

fn inside(config: &Config, store: &Arc<dyn Store>, schema: Option<usize>, findings: &mut Findings) {
    let storage = &config.storage;
    let schema = schema.map_or_else(String::new, |schema| format!(", schema {schema}"));
    let looked = composition::run(async {
        let mut counts = Vec::new();
        for (what, kinds) in COUNTED {
            let mut total = 0;
            for kind in kinds {
                let filter = Filter { limit: Some(1), ..Filter::all(*kind) };
                total += store.find(&ProjectKey::default(), &filter).await?.total;
            }
            counts.push(format!("{what}: {total}"));
        }
        Ok::<_, reqlore_domain::ports::documents::StoreError>(counts.join(", "))
    });
    let counted = match looked {
        Ok(Ok(counted)) => counted,
        Ok(Err(error)) => {
            let next = "mend that, and run `reqlore doctor` again";
            return findings.problem(Area::Storage, format!("{storage}: {error}"), next);
        }
        Err(failure) => return findings.problem(Area::Storage, failure.message, "try again"),
    };
    findings.ok(Area::Storage, format!("{storage}{schema}; {counted}"));
    let checked = composition::ports_over(config, store, false).and_then(|ports| {
        composition::run(check(&ports))?.map_err(crate::exit::CommandError::from)
    });
    match checked {
        Ok(found) if found.is_empty() => {
            findings.ok(Area::Storage, "`reqlore check` finds nothing to mend");
        }
        Ok(found) => findings.warning(
            Area::Storage,
            format!("`reqlore check` finds {} to mend", found.len()),
            "run `reqlore check` to see them",
        ),
        Err(failure) => findings.problem(Area::Storage, failure.message, "mend that"),
    }
}
