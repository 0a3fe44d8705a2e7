//! The catalog of the models that can be installed, with the hashes of their files.

/// A published model.
#[derive(Debug)]
pub struct CatalogModel {
    pub name: &'static str,
    /// The license of the weights, as its publisher states it.
    pub license: &'static str,
    /// The address of the folder with the files.
    pub address: &'static str,
    pub files: &'static [ModelFile],
}

impl CatalogModel {
    pub(crate) fn total_bytes(&self) -> u64 {
        self.files.iter().map(|file| file.bytes).sum()
    }
}

#[derive(Debug)]
pub struct ModelFile {
    pub name: &'static str,
    pub bytes: u64,
    /// The accepted SHA-256 hashes: equivalent files may differ in irrelevant bytes.
    pub sha256: &'static [&'static str],
}

/// The models of `reqlore model`, the recommended one first.
pub static CATALOG: [CatalogModel; 2] = [
    CatalogModel {
        name: "all-minilm-l6-v2",
        license: "Apache-2.0",
        address: concat!(
            "https://huggingface.co/sentence-transformers/all-MiniLM-L6-v2/resolve/",
            "c9745ed1d9f207416be6d2e6f8de32d1f16199bf"
        ),
        files: &[
            ModelFile {
                name: "tokenizer.json",
                bytes: 466_247,
                sha256: &["be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037"],
            },
            ModelFile {
                name: "model.safetensors",
                bytes: 90_868_376,
                sha256: &["53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"],
            },
        ],
    },
    CatalogModel {
        name: "multilingual-e5-small",
        license: "MIT",
        address: concat!(
            "https://huggingface.co/intfloat/multilingual-e5-small/resolve/",
            "614241f622f53c4eeff9890bdc4f31cfecc418b3"
        ),
        files: &[
            ModelFile {
                name: "tokenizer.json",
                bytes: 17_082_913,
                sha256: &["0b44a9d7b51c3c62626640cda0e2c2f70fdacdc25bbbd68038369d14ebdf4c39"],
            },
            ModelFile {
                name: "model.safetensors",
                bytes: 470_637_416,
                sha256: &["1a55775f53449dac10a2bcbc312469fac40b96d53198c407081a831f81c98477"],
            },
        ],
    },
];
