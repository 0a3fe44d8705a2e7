//! Sentence models: where they are installed, and which one ranks.

use std::sync::Arc;

use reqlore_domain::ports::embedder::Embedder;

use crate::config::Config;
use crate::exit::CommandError;

#[cfg(feature = "semantic")]
pub(crate) use with::{open, store};

#[cfg(feature = "semantic")]
mod with {
    use super::{Arc, CommandError, Config, Embedder};
    use reqlore_embed_minilm::lazy::LazyModel;
    use reqlore_models::{Store, known};

    /// The user's models.
    pub(crate) fn store(config: &Config) -> Result<Store, CommandError> {
        let cache = config.cache.as_ref().ok_or_else(|| {
            CommandError::refused("there is no folder for models; name one with REQLORE_CACHE")
        })?;
        Ok(Store::new(&known::MODELS, cache.join("models")))
    }

    /// The model that ranks: the one that is named, or the best that is installed. Many languages
    /// are better than one: who wants English alone installs nothing else.
    pub(crate) fn open(config: &Config) -> Result<Option<Arc<dyn Embedder>>, CommandError> {
        let named = Some(config.model.as_str()).filter(|name| *name != "best");
        let Ok(store) = store(config) else {
            return named.map_or(Ok(None), |name| Err(absent(name)));
        };
        let found = match named {
            Some(name) => Some((name, store.open(name).ok_or_else(|| absent(name))?)),
            None => known::MODELS.iter().rev().find_map(|m| Some((m.name, store.open(m.name)?))),
        };
        let Some((name, folder)) = found else { return Ok(None) };
        let model = LazyModel::new(name, folder);
        model
            .map(|model| Some(Arc::new(model) as _))
            .map_err(|e| CommandError::refused(e.to_string()))
    }

    fn absent(name: &str) -> CommandError {
        let names = known::MODELS.each_ref().map(|model| model.name).join(", ");
        CommandError::usage(format!(
            "search.model: {name:?} is not installed; `reqlore model install {}` installs it, if \
             it is one of {names}. `best`, `static` and `off` need none",
            name.escape_debug()
        ))
    }
}

/// Without the feature there are no such models.
#[cfg(not(feature = "semantic"))]
pub(crate) fn open(config: &Config) -> Result<Option<Arc<dyn Embedder>>, CommandError> {
    match config.model.as_str() {
        "best" => Ok(None),
        name => Err(CommandError::usage(format!(
            "search.model: {name:?}: this program was built without the feature `semantic`; use \
             best, static or off"
        ))),
    }
}
