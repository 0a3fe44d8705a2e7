//! Sentence models of the BERT family, from a folder with `model.safetensors` and `tokenizer.json`.
//!
//! Everything is computed on the calling thread, so that a background embedder leaves the other
//! processors free.

mod bert;
mod safetensors;
mod supported_models;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use reqlore_domain::error::{Error, ErrorKind, Result};
use reqlore_domain::ports::embedder::{Embedder, ModelProfile, TextRole};
use tokenizers::{Tokenizer, TruncationParams};

use crate::bert::BertModel;
use crate::safetensors::TensorFile;
use crate::supported_models::SupportedModel;

/// Pieces that go through the layers together: enough to keep the processor busy, few enough to
/// stay in its cache.
const BATCH_PIECES: usize = 256;

/// Pieces are seldom longer. A text is truncated to this number of letters for each piece.
const MAX_PIECE_LETTERS: usize = 32;

/// A model in memory.
pub struct SentenceModel {
    profile: ModelProfile,
    known: &'static SupportedModel,
    tokenizer: Tokenizer,
    /// The piece for unknown text.
    unknown: Option<u32>,
    bert: BertModel,
}

impl SentenceModel {
    /// Loads the model of this name, such as `all-minilm-l6-v2`, from its folder.
    pub fn open(name: &str, folder: &Path) -> std::result::Result<Self, LoadError> {
        let known = supported_models::find_model(name)?;
        let path = folder.join("tokenizer.json");
        let shown = path.display().to_string();
        let bytes = std::fs::read(&path)
            .map_err(|source| LoadError::Read { path: shown.clone(), source })?;
        let unfit =
            |why: tokenizers::Error| LoadError::Unfit { path: shown.clone(), why: why.to_string() };
        let mut tokenizer = Tokenizer::from_bytes(bytes).map_err(unfit)?;
        let cut = TruncationParams { max_length: known.max_pieces, ..Default::default() };
        tokenizer.with_truncation(Some(cut)).map_err(unfit)?;
        tokenizer.with_padding(None);

        let mut weights = TensorFile::open(&folder.join("model.safetensors"))?;
        Ok(Self {
            profile: known.profile(),
            known,
            unknown: tokenizer.token_to_id(known.unknown_piece),
            tokenizer,
            bert: BertModel::load(&mut weights, known.vocabulary_size, known.layer_count)?,
        })
    }

    /// The pieces of a text, or none if the model knows nothing of it.
    fn encode_text(&self, prefix: &str, text: &str) -> Result<Vec<u32>> {
        let most = self.known.max_pieces * MAX_PIECE_LETTERS;
        let text = text.char_indices().nth(most).map_or(text, |(end, _)| &text[..end]);
        if text.trim().is_empty() {
            return Ok(Vec::new());
        }
        let encoding = self
            .tokenizer
            .encode_fast(format!("{prefix}{text}"), true)
            .map_err(|why| internal_error(&why.to_string()))?;
        let pieces = encoding.get_ids();
        if pieces.iter().any(|piece| *piece as usize >= self.bert.vocabulary_size()) {
            return Err(internal_error("the tokenizer gives pieces that the model does not have"));
        }
        let special = encoding.get_special_tokens_mask();
        let knows = pieces
            .iter()
            .zip(special)
            .any(|(piece, special)| *special == 0 && Some(*piece) != self.unknown);
        Ok(if knows { pieces.to_vec() } else { Vec::new() })
    }

    /// Moves a batch of texts, with their positions in `vectors`, through the layers.
    fn embed_batch(&self, batch: &mut Vec<(usize, Vec<u32>)>, vectors: &mut [Vec<f32>]) {
        let texts: Vec<&[u32]> = batch.iter().map(|(_, pieces)| pieces.as_slice()).collect();
        for ((index, _), vector) in batch.iter().zip(self.bert.embed(&texts)) {
            vectors[*index] = vector;
        }
        batch.clear();
    }
}

impl Embedder for SentenceModel {
    fn profile(&self) -> &ModelProfile {
        &self.profile
    }

    fn embed(&self, role: TextRole, texts: &[&str]) -> Result<Vec<Vec<f32>>> {
        let prefix = self.known.prefix(role);
        let mut vectors = vec![vec![0.0; self.profile.dimension]; texts.len()];
        let mut batch = Vec::new();
        let mut size = 0;
        for (index, text) in texts.iter().enumerate() {
            let pieces = self.encode_text(prefix, text)?;
            if size + pieces.len() > BATCH_PIECES {
                self.embed_batch(&mut batch, &mut vectors);
                size = 0;
            }
            if !pieces.is_empty() {
                size += pieces.len();
                batch.push((index, pieces));
            }
        }
        self.embed_batch(&mut batch, &mut vectors);
        Ok(vectors)
    }
}

impl fmt::Debug for SentenceModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SentenceModel").field("id", &self.profile.id).finish_non_exhaustive()
    }
}

/// A model that is loaded with its first text, so that a start does not wait for 100 megabytes.
#[derive(Debug)]
pub struct LazyModel {
    name: String,
    folder: PathBuf,
    profile: ModelProfile,
    /// A failure is final: the files were checked when they were installed.
    model: OnceLock<std::result::Result<SentenceModel, String>>,
}

impl LazyModel {
    pub fn new(name: &str, folder: PathBuf) -> std::result::Result<Self, LoadError> {
        let profile = supported_models::find_model(name)?.profile();
        Ok(Self { name: name.to_owned(), folder, profile, model: OnceLock::new() })
    }
}

impl Embedder for LazyModel {
    fn profile(&self) -> &ModelProfile {
        &self.profile
    }

    fn embed(&self, role: TextRole, texts: &[&str]) -> Result<Vec<Vec<f32>>> {
        let open = || SentenceModel::open(&self.name, &self.folder).map_err(|e| e.to_string());
        match self.model.get_or_init(open) {
            Ok(model) => model.embed(role, texts),
            Err(reason) => Err(Error::new(ErrorKind::Unavailable, reason.clone())),
        }
    }
}

/// The error of loading a model.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    #[error("no model is called {name}; known are {known}")]
    Unknown { name: String, known: String },
    #[error("{path} could not be read ({source}); remove the model and install it again")]
    Read { path: String, source: std::io::Error },
    #[error("{path} does not fit this model: {why}; remove the model and install it again")]
    Unfit { path: String, why: String },
}

fn internal_error(why: &str) -> Error {
    let message = format!("the text could not be embedded: {why}; install the model again");
    Error::new(ErrorKind::Internal, message)
}
