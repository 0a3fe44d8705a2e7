//! Sentence models of the BERT family, from a folder with `model.safetensors` and `tokenizer.json`.
//!
//! Everything is computed on the calling thread, so that embedding in the background occupies one
//! processor only.

mod bert;
mod error;
mod safetensors;
mod supported_models;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use reqlore_domain::error::{Error, ErrorKind, Result};
use reqlore_domain::ports::embedder::{Embedder, ModelProfile, TextRole};
use tokenizers::{Tokenizer, TruncationParams};

pub use error::LoadError;

use crate::bert::BertModel;
use crate::safetensors::TensorFile;
use crate::supported_models::SupportedModel;

/// Maximum pieces of a forward pass: enough for efficient matrix products, and small enough for the
/// processor's cache.
const BATCH_PIECES: usize = 256;

/// A text is truncated to this number of letters per piece before tokenization; pieces are seldom
/// longer.
const MAX_PIECE_LETTERS: usize = 32;

/// A loaded model.
pub struct SentenceModel {
    profile: ModelProfile,
    model: &'static SupportedModel,
    tokenizer: Tokenizer,
    /// The piece for text outside the vocabulary.
    unknown_piece: Option<u32>,
    bert: BertModel,
}

impl SentenceModel {
    /// Loads the model of this name, such as `all-minilm-l6-v2`, from its folder.
    pub fn open(name: &str, folder: &Path) -> std::result::Result<Self, LoadError> {
        let model = supported_models::find_model(name)?;
        let tokenizer = load_tokenizer(&folder.join("tokenizer.json"), model.max_pieces)?;
        let mut weights = TensorFile::open(&folder.join("model.safetensors"))?;
        Ok(Self {
            profile: model.profile(),
            model,
            unknown_piece: tokenizer.token_to_id(model.unknown_piece),
            tokenizer,
            bert: BertModel::load(&mut weights, model.vocabulary_size, model.layer_count)?,
        })
    }

    /// Returns the pieces of a text; none if all of them are unknown.
    fn encode_text(&self, prefix: &str, text: &str) -> Result<Vec<u32>> {
        let max_letters = self.model.max_pieces * MAX_PIECE_LETTERS;
        let text = match text.char_indices().nth(max_letters) {
            Some((end, _)) => &text[..end],
            None => text,
        };
        if text.trim().is_empty() {
            return Ok(Vec::new());
        }
        let encoding = self
            .tokenizer
            .encode_fast(format!("{prefix}{text}"), true)
            .map_err(|why| internal_error(&why.to_string()))?;
        let pieces = encoding.get_ids();
        // Checked here, because the forward pass would panic.
        if pieces.iter().any(|piece| *piece as usize >= self.bert.vocabulary_size()) {
            return Err(internal_error(
                "the tokenizer returns pieces that the model does not have",
            ));
        }
        for (piece, special) in pieces.iter().zip(encoding.get_special_tokens_mask()) {
            if *special == 0 && Some(*piece) != self.unknown_piece {
                return Ok(pieces.to_vec());
            }
        }
        Ok(Vec::new())
    }

    /// Embeds a batch of texts into their positions in `vectors`, and clears the batch.
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
        let prefix = self.model.prefix(role);
        let mut vectors = vec![vec![0.0; self.profile.dimension]; texts.len()];
        let mut batch = Vec::new();
        let mut batch_pieces = 0;
        for (index, text) in texts.iter().enumerate() {
            let pieces = self.encode_text(prefix, text)?;
            // A text is not split: the batch ends before the text that would exceed the limit.
            if batch_pieces + pieces.len() > BATCH_PIECES {
                self.embed_batch(&mut batch, &mut vectors);
                batch_pieces = 0;
            }
            // The vector of a text without known pieces stays zero.
            if !pieces.is_empty() {
                batch_pieces += pieces.len();
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

/// A model that is loaded by its first text, so that a start does not read 100 MB.
#[derive(Debug)]
pub struct LazyModel {
    name: String,
    folder: PathBuf,
    profile: ModelProfile,
    /// A failure is final, because the files were checked when they were installed.
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
        let model = self.model.get_or_init(|| {
            SentenceModel::open(&self.name, &self.folder).map_err(|error| error.to_string())
        });
        match model {
            Ok(model) => model.embed(role, texts),
            Err(reason) => Err(Error::new(ErrorKind::Unavailable, reason.clone())),
        }
    }
}

fn load_tokenizer(path: &Path, max_pieces: usize) -> std::result::Result<Tokenizer, LoadError> {
    let path_text = path.display().to_string();
    let bytes = std::fs::read(path)
        .map_err(|source| LoadError::Read { path: path_text.clone(), source })?;
    let truncation = TruncationParams { max_length: max_pieces, ..Default::default() };
    let tokenizer = Tokenizer::from_bytes(bytes).and_then(|mut tokenizer| {
        tokenizer.with_truncation(Some(truncation))?;
        // The forward pass needs no padding.
        tokenizer.with_padding(None);
        Ok(tokenizer)
    });
    tokenizer.map_err(|error| LoadError::Unfit { path: path_text, why: error.to_string() })
}

fn internal_error(why: &str) -> Error {
    let message = format!("embedding model: {why}; remove the model and install it again");
    Error::new(ErrorKind::Internal, message)
}
