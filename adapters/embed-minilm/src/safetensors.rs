//! Reads tensors from a safetensors file.
//!
//! The file has the length of its header (u64, little-endian), the header in JSON with the offsets
//! of the tensors, and the tensors. They are read one by one, as mapping the file would need
//! `unsafe`.

use std::collections::HashMap;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

use ndarray::{Array1, Array2, Axis, concatenate};
use serde::Deserialize;

use crate::error::LoadError;

/// The headers of the supported models are smaller.
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

pub(crate) struct LinearLayer {
    /// One row for each output.
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
        let (file, header) = match read_header(path) {
            Ok(read) => read,
            Err(source) => return Err(LoadError::Read { path: name, source }),
        };
        let Some(tensors) = parse_header(&header) else {
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

    /// Reads the layers of these names and concatenates their outputs into one layer.
    pub(crate) fn read_linear(
        &mut self,
        names: &[String],
        input_size: usize,
        output_size: usize,
    ) -> Result<LinearLayer, LoadError> {
        let mut weights = Vec::new();
        let mut biases = Vec::new();
        for name in names {
            weights.push(self.read_matrix(&format!("{name}.weight"), [output_size, input_size])?);
            biases.push(self.read_vector(&format!("{name}.bias"), output_size)?);
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
        let (start, end) = match self.tensors.get(name) {
            Some(tensor) if tensor.dtype == "F32" && tensor.shape == shape => tensor.data_offsets,
            _ => return Err(self.missing_tensor(name)),
        };
        // The file may be damaged: the offsets must match the shape.
        if end.checked_sub(start) != Some(count as u64 * 4) {
            return Err(self.missing_tensor(name));
        }
        let mut bytes = vec![0; count * 4];
        let position = SeekFrom::Start(self.data_start.saturating_add(start));
        let result = self.file.seek(position).and_then(|_| self.file.read_exact(&mut bytes));
        if let Err(source) = result {
            return Err(LoadError::Read { path: self.path.clone(), source });
        }
        let (numbers, _) = bytes.as_chunks();
        Ok(numbers.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect())
    }

    fn missing_tensor(&self, tensor: &str) -> LoadError {
        let why = format!("no tensor {tensor} of the expected shape");
        LoadError::Unfit { path: self.path.clone(), why }
    }
}

/// Returns the open file and its header; an empty header if it would be too long.
fn read_header(path: &Path) -> std::io::Result<(File, Vec<u8>)> {
    let mut file = File::open(path)?;
    let mut length = [0; 8];
    file.read_exact(&mut length)?;
    let length = u64::from_le_bytes(length);
    let mut header = Vec::new();
    if length <= MAX_HEADER_BYTES {
        file.by_ref().take(length).read_to_end(&mut header)?;
    }
    Ok((file, header))
}

fn parse_header(header: &[u8]) -> Option<HashMap<String, TensorInfo>> {
    let mut entries: HashMap<String, serde_json::Value> = serde_json::from_slice(header).ok()?;
    // Notes of the publisher, not a tensor.
    entries.remove("__metadata__");
    let mut tensors = HashMap::with_capacity(entries.len());
    for (name, entry) in entries {
        tensors.insert(name, serde_json::from_value(entry).ok()?);
    }
    Some(tensors)
}

#[cfg(test)]
mod tests {
    use super::TensorFile;
    use crate::error::LoadError;

    /// Reads the 1 by 2 matrix `a` from a file with this header and body.
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
    fn tensor_is_read_and_invalid_files_are_rejected() {
        let body = [1.5_f32.to_le_bytes(), (-2.0_f32).to_le_bytes()].concat();
        let a = r#"{"__metadata__":{"x":"y"},
            "a":{"dtype":"F32","shape":[1,2],"data_offsets":[0,8]}}"#;
        check(a, &body, Ok([1.5, -2.0]));
        check(a, &body[..7], Err("short"));
        let unfit = Err("no tensor a of the expected shape");
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
