//! Search: which model ranks by meaning, and what is kept of the index.

use reqlore_domain::project::ProjectKey;
use reqlore_search::outside::{self, Kept};

use super::finding::{Area, Findings};
use super::shown;
use crate::composition;
use crate::config::Config;
use crate::models;

/// A model that a person may want.
const INSTALL: &str =
    "`reqlore model install` installs one that understands more; nothing needs it";

pub(super) fn look(config: &Config, findings: &mut Findings) {
    model(config, findings);
    let Some(cache) = &config.cache else {
        return findings.note(
            Area::Search,
            "no folder for caches: the index is built anew at every start",
            Some("set HOME, or name a folder with REQLORE_CACHE"),
        );
    };
    let store = composition::index_name(&config.storage);
    match outside::look(&cache.join("search"), &store, &ProjectKey::default()) {
        Ok(None) => findings.note(
            Area::Search,
            "there is no index yet",
            Some("the first search builds it; nothing is to be done"),
        ),
        Ok(Some(Kept { folder, words: false, .. })) => findings.note(
            Area::Search,
            format!("the index in {} is unfinished, old or damaged", shown(&folder)),
            Some("the next search builds it anew; nothing is to be done"),
        ),
        Ok(Some(Kept { folder, models, .. })) => {
            let vectors = match &*models {
                [] => "without meaning".to_owned(),
                models => format!("with meaning by {}", models.join(", ")),
            };
            findings.ok(Area::Search, format!("the index is in {}, {vectors}", shown(&folder)));
        }
        Err(error) => findings.warning(
            Area::Search,
            format!("the cache in {} can't be read: {error}", shown(cache)),
            "give yourself the right to it, or remove it: it is built anew",
        ),
    }
}

fn model(config: &Config, findings: &mut Findings) {
    match config.model.as_str() {
        "off" => {
            let next = "search.model = \"best\" ranks by meaning as well";
            return findings.note(Area::Search, "ranks by words alone", Some(next));
        }
        "static" => return findings.ok(Area::Search, "the built-in table ranks by meaning"),
        _ => {}
    }
    match models::open(config) {
        Ok(Some(model)) => {
            let name = &model.profile().name;
            findings.ok(Area::Search, format!("the model {name} ranks by meaning"));
        }
        Ok(None) if cfg!(feature = "semantic") => {
            findings.note(Area::Search, "the built-in table ranks by meaning", Some(INSTALL));
        }
        Ok(None) => findings.ok(Area::Search, "the built-in table ranks by meaning"),
        Err(failure) => {
            let next = "install the model, or set search.model to best";
            findings.problem(Area::Search, failure.message, next);
        }
    }
}
