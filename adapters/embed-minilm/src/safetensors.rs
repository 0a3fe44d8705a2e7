//! Reads tensors from a safetensors file.
//!
//! The file is a length (u64, little-endian), that many bytes of JSON telling where each tensor
//! lies, and the tensors. They are read one by one: mapping the file would need `unsafe`.

use std::collections::HashMap;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

use ndarray::{Array1, Array2, Axis, concatenate};
use serde::Deserialize;

use crate::LoadError;

/// No file that is meant has more to say about its tensors.
const MAX_HEADER_BYTES: u64 = 1 << 20;

pub(crate) struct TensorFile {
    file: File,
    path: String,
    data_start: u64,
    tensors: HashMap<String, TensorInfo>,
}

#[derive(Deserialize)]
struct TensorInfo {
    dtype: String,
    shape: Vec<usize>,
    data_offsets: (u64, u64),
}

/// `x` times a matrix, and something added.
pub(crate) struct LinearLayer {
    /// A row for each number that comes out.
    pub(crate) weight: Array2<f32>,
    pub(crate) bias: Array1<f32>,
}

pub(crate) struct LayerNorm {
    pub(crate) weight: Array1<f32>,
    pub(crate) bias: Array1<f32>,
}

impl TensorFile {
    pub(crate) fn open(path: &Path) -> Result<Self, LoadError> {
        let name = path.display().to_string();
        let read = || -> std::io::Result<(File, Option<Vec<u8>>)> {
            let mut file = File::open(path)?;
            let mut length = [0; 8];
            file.read_exact(&mut length)?;
            let length = u64::from_le_bytes(length);
            if length > MAX_HEADER_BYTES {
                return Ok((file, None));
            }
            let mut header = Vec::new();
            file.by_ref().take(length).read_to_end(&mut header)?;
            Ok((file, Some(header)))
        };
        let (file, header) =
            read().map_err(|source| LoadError::Read { path: name.clone(), source })?;
        let tensors = header.as_deref().and_then(parse_header);
        let (Some(header), Some(tensors)) = (header, tensors) else {
            return Err(LoadError::Unfit { path: name, why: "not a safetensors file".to_owned() });
        };
        Ok(Self { file, path: name, data_start: 8 + header.len() as u64, tensors })
    }

    pub(crate) fn read_matrix(
        &mut self,
        name: &str,
        shape: [usize; 2],
    ) -> Result<Array2<f32>, LoadError> {
        let flat = self.read_tensor(name, &shape)?;
        Array2::from_shape_vec(shape, flat).map_err(|_| self.missing_tensor(name))
    }

    pub(crate) fn read_vector(
        &mut self,
        name: &str,
        length: usize,
    ) -> Result<Array1<f32>, LoadError> {
        Ok(self.read_tensor(name, &[length])?.into())
    }

    /// The layers of these names side by side, as one.
    pub(crate) fn read_linear(
        &mut self,
        names: &[String],
        from: usize,
        to: usize,
    ) -> Result<LinearLayer, LoadError> {
        let mut weights = Vec::new();
        let mut biases = Vec::new();
        for name in names {
            weights.push(self.read_matrix(&format!("{name}.weight"), [to, from])?);
            biases.push(self.read_vector(&format!("{name}.bias"), to)?);
        }
        let weights: Vec<_> = weights.iter().map(|weight| weight.view()).collect();
        let biases: Vec<_> = biases.iter().map(|bias| bias.view()).collect();
        let weight = concatenate(Axis(0), &weights).map_err(|_| self.missing_tensor(&names[0]))?;
        let bias = concatenate(Axis(0), &biases).map_err(|_| self.missing_tensor(&names[0]))?;
        Ok(LinearLayer { weight, bias })
    }

    pub(crate) fn read_norm(&mut self, name: &str, length: usize) -> Result<LayerNorm, LoadError> {
        Ok(LayerNorm {
            weight: self.read_vector(&format!("{name}.weight"), length)?,
            bias: self.read_vector(&format!("{name}.bias"), length)?,
        })
    }

    fn read_tensor(&mut self, name: &str, shape: &[usize]) -> Result<Vec<f32>, LoadError> {
        let count: usize = shape.iter().product();
        let at = match self.tensors.get(name) {
            Some(tensor) if tensor.dtype == "F32" && tensor.shape == shape => tensor.data_offsets,
            _ => return Err(self.missing_tensor(name)),
        };
        if at.1.checked_sub(at.0) != Some(count as u64 * 4) {
            return Err(self.missing_tensor(name));
        }
        let start = self.data_start.saturating_add(at.0);
        let mut bytes = vec![0; count * 4];
        self.file
            .seek(SeekFrom::Start(start))
            .and_then(|_| self.file.read_exact(&mut bytes))
            .map_err(|source| LoadError::Read { path: self.path.clone(), source })?;
        let (numbers, _) = bytes.as_chunks();
        Ok(numbers.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect())
    }

    fn missing_tensor(&self, tensor: &str) -> LoadError {
        let why = format!("it has no fitting tensor {tensor}");
        LoadError::Unfit { path: self.path.clone(), why }
    }
}

fn parse_header(header: &[u8]) -> Option<HashMap<String, TensorInfo>> {
    let mut all: HashMap<String, serde_json::Value> = serde_json::from_slice(header).ok()?;
    all.remove("__metadata__");
    all.into_iter().map(|(name, about)| Some((name, serde_json::from_value(about).ok()?))).collect()
}

#[cfg(test)]
mod tests {
    use super::TensorFile;
    use crate::LoadError;

    /// A file with the matrix `a` of 1 by 2, and whatever else the header says.
    fn check(header: &str, body: &[u8], expected: Result<[f32; 2], &str>) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("model.safetensors");
        let length = (header.len() as u64).to_le_bytes();
        std::fs::write(&path, [&length, header.as_bytes(), body].concat()).unwrap();
        let read = TensorFile::open(&path).and_then(|mut weights| weights.read_matrix("a", [1, 2]));
        match (read, expected) {
            (Ok(found), Ok(expected)) => assert_eq!(found.as_slice().unwrap(), expected),
            (Err(LoadError::Unfit { why, .. }), Err(expected)) => assert_eq!(why, expected),
            (Err(LoadError::Read { .. }), Err("short")) => {}
            (found, _) => panic!("{header}: {found:?}"),
        }
    }

    #[test]
    fn a_tensor_is_read_and_what_does_not_fit_is_told() {
        let body = [1.5_f32.to_le_bytes(), (-2.0_f32).to_le_bytes()].concat();
        let a = r#"{"__metadata__":{"x":"y"},
            "a":{"dtype":"F32","shape":[1,2],"data_offsets":[0,8]}}"#;
        check(a, &body, Ok([1.5, -2.0]));
        check(a, &body[..7], Err("short"));
        let unfit = Err("it has no fitting tensor a");
        check(&a.replace("F32", "F16"), &body, unfit);
        check(&a.replace("[1,2]", "[2,1]"), &body, unfit);
        check(&a.replace("[0,8]", "[8,0]"), &body, unfit);
        check(&a.replace("[0,8]", "[0,4]"), &body, unfit);
        check(
            &a.replace("[0,8]", "[18446744073709551607,18446744073709551615]"),
            &body,
            Err("short"),
        );
        check("{}", &body, unfit);
        check("[]", &body, Err("not a safetensors file"));
        check(&" ".repeat(2 << 20), &body, Err("not a safetensors file"));
    }
}
