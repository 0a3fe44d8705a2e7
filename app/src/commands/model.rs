//! `reqlore model`: installs models of semantic search, which happens only on request.

use std::io::IsTerminal;

use reqlore_models::{Progress, Source, State};
use serde_json::json;

use super::{print, print_json};
use crate::composition;
use crate::config::Config;
use crate::exit::CommandError;

const DEFAULT: &str = "all-minilm-l6-v2";

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// Install a model, which search then uses
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

pub(crate) fn run(config: &Config, command: &Command) -> Result<u8, CommandError> {
    match command {
        Command::Install { name, from } => install(config, name, from.as_deref()),
        Command::List { json } => list(config, *json),
        Command::Remove { name } => remove(config, name),
    }
}

fn install(config: &Config, name: &str, from: Option<&str>) -> Result<u8, CommandError> {
    if let Some((scheme, _)) = from.and_then(|from| from.split_once("://"))
        && !matches!(scheme, "http" | "https")
    {
        return Err(CommandError::usage(format!(
            "--from: addresses begin with https:// or http://, not {scheme}://; or name a file or \
             folder"
        )));
    }
    let source = from.map_or(Source::Default, Source::parse);
    let shows = std::io::stderr().is_terminal();
    let mut show = |progress: Progress<'_>| {
        if shows {
            let Progress { file, done_bytes, total_bytes } = progress;
            let of =
                if total_bytes == 0 { String::new() } else { format!(" of {}", mib(total_bytes)) };
            eprint!("\r{file}: {}{of} MiB\x1b[K", mib(done_bytes));
        }
    };
    let installed = composition::model_store(config)?.install(name, &source, &mut show);
    if shows {
        eprintln!();
    }
    let installed = installed.map_err(CommandError::refused)?;
    let place = installed.path.display();
    print(&if installed.already {
        format!("{name} is already installed in {place}.\n")
    } else {
        format!("{name} is installed in {place}. Servers use it after a restart.\n")
    })
}

fn list(config: &Config, as_json: bool) -> Result<u8, CommandError> {
    let listed = composition::model_store(config)?.list();
    if as_json {
        let model = |model: &reqlore_models::Listed| {
            let (state, path) = match &model.state {
                State::Absent => ("absent", None),
                State::Partial { .. } => ("partial", None),
                State::Installed { path } => ("installed", Some(path)),
            };
            json!({ "name": model.name, "license": model.license, "bytes": model.bytes,
                    "state": state, "path": path })
        };
        let models: Vec<_> = listed.iter().map(model).collect();
        return print_json(&json!({ "models": models }));
    }
    let mut text = String::new();
    for model in listed {
        let state = match model.state {
            State::Absent => "not installed".to_owned(),
            State::Partial { bytes } => {
                format!("partly installed, {} MiB; install it again to continue", mib(bytes))
            }
            State::Installed { path } => format!("installed in {}", path.display()),
        };
        let (name, license, bytes) = (model.name, model.license, mib(model.bytes));
        text += &format!("{name:<24} {bytes:>4} MiB  {license:<12} {state}\n");
    }
    print(&text)
}

fn remove(config: &Config, name: &str) -> Result<u8, CommandError> {
    let removed = composition::model_store(config)?.remove(name);
    if removed.map_err(CommandError::refused)? {
        return print(&format!("{name} is removed.\n"));
    }
    Err(CommandError::refused(format!("{name} is not installed; nothing was removed")))
}

fn mib(bytes: u64) -> u64 {
    bytes.div_ceil(1 << 20)
}
