//! What of a client's file may be started.
//!
//! A project may be a repository that somebody just cloned, and its `.mcp.json` may say
//! `"command": "sh"`. Clients ask a person before they start that; to look at it must not be the
//! way around. So of a project's file only Reqlore itself is started: by its name as the PATH knows
//! it, by the path of this program, or as `npx -y reqlore`; and without the file's variables, since
//! `NODE_OPTIONS` starts whatever it likes. A person's own file is believed, as every client does.

use std::path::{Path, PathBuf};

use clap::Parser;
use reqlore_client_config::Scope;

use super::program::NAME;
use super::programs::Programs;
use crate::commands::{Cli, Command, Configured};
use crate::settings::{self, FILE_VARIABLE, Flags};
use crate::surroundings::is_program;

/// The words with which npm's own starter fetches and starts this package.
const NPX: [&str; 2] = ["npx", "npx.cmd"];
/// Settings that an entry may give its server.
const OURS: [&str; 2] = ["REQLORE_", "REQLIX_"];

/// What becomes of an entry's command.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It is Reqlore, after these words; the rest are its own arguments.
    Ours { program: PathBuf, before: Vec<String>, arguments: Vec<String> },
    /// It is something that the person chose.
    Theirs { program: PathBuf },
    /// There is no such program.
    Absent,
    /// It is not started, because of this.
    Refused(&'static str),
}

pub(super) fn judge(
    program: &str,
    arguments: &[String],
    scope: Scope,
    programs: &Programs,
) -> Verdict {
    let bare = program.strip_suffix(".exe").unwrap_or(program);
    let ours = |program: PathBuf, before: &[String], arguments: &[String]| Verdict::Ours {
        program,
        before: before.to_vec(),
        arguments: arguments.to_vec(),
    };
    if bare == NAME {
        return programs
            .named(program)
            .map_or(Verdict::Absent, |program| ours(program, &[], arguments));
    }
    if NPX.contains(&program)
        && let [yes, package, rest @ ..] = arguments
        && yes == "-y"
        && is_package(package)
    {
        let before = &arguments[..2];
        return programs.named(program).map_or(Verdict::Absent, |npx| ours(npx, before, rest));
    }
    let path = Path::new(program);
    if path.is_absolute() && is_same(path, programs) {
        return ours(path.to_owned(), &[], arguments);
    }
    if scope == Scope::Project {
        return Verdict::Refused("it is not Reqlore as this machine knows it");
    }
    let found = match path.components().count() {
        _ if path.is_absolute() => Some(path.to_owned()),
        1 => programs.named(program),
        _ => return Verdict::Refused("which program a relative path means, the project decides"),
    };
    match found {
        Some(found) if !is_program(&found) => Verdict::Absent,
        None => Verdict::Absent,
        Some(found) if !programs.is_safe(&found) => {
            Verdict::Refused("it lies in the project, which may be somebody else's")
        }
        Some(found) if found.file_stem().is_some_and(|stem| stem == NAME) => {
            ours(found, &[], arguments)
        }
        Some(program) => Verdict::Theirs { program },
    }
}

/// The variables of an entry that are no settings of this server.
pub(super) fn foreign(variables: &[(String, String)]) -> Vec<&str> {
    let is_ours = |name: &str| OURS.iter().any(|ours| name.starts_with(ours));
    variables.iter().map(|(name, _)| name.as_str()).filter(|name| !is_ours(name)).collect()
}

/// The settings of an entry, if they serve a client over standard input and output. Else what is
/// wrong with them.
pub(super) fn settings_of(
    arguments: &[String],
    variables: &[(String, String)],
) -> Result<Flags, String> {
    let words = [NAME.to_owned()].into_iter().chain(arguments.iter().cloned());
    let words = words.chain(as_flags(arguments, variables));
    let cli = Cli::try_parse_from(words).map_err(|error| {
        let text = error.to_string();
        text.lines().next().unwrap_or_default().trim_start_matches("error: ").to_owned()
    })?;
    if cli.print_config {
        return Err("--print-config serves nothing".to_owned());
    }
    if !matches!(cli.command, None | Some(Command::Configured(Configured::Serve))) {
        return Err("they are another command than `serve`".to_owned());
    }
    if cli.settings.transport.as_deref().is_some_and(|transport| transport != "stdio") {
        return Err("a client that starts a server speaks to it over --transport stdio".to_owned());
    }
    match &cli.settings.root {
        Some(root) if !root.to_string_lossy().contains("${") && !root.is_dir() => {
            Err(format!("--root {} is no folder", root.display()))
        }
        _ => Ok(cli.settings),
    }
}

/// Variables of settings as flags, but for those that a flag beats.
fn as_flags(arguments: &[String], variables: &[(String, String)]) -> Vec<String> {
    let flag = |name: &str| {
        if name == FILE_VARIABLE {
            return Some("--config");
        }
        let of = settings::all().find(|setting| setting.variable == Some(name));
        // One that takes no value leads nowhere.
        of?.flag.filter(|flag| *flag != "--read-only")
    };
    let is_beaten = |flag: &str| arguments.iter().any(|argument| argument.starts_with(flag));
    let as_flag = |(name, value): &(String, String)| {
        flag(name).filter(|flag| !is_beaten(flag)).map(|flag| format!("{flag}={value}"))
    };
    variables.iter().filter_map(as_flag).collect()
}

/// Is it told which project it serves?
pub(super) fn names_root(arguments: &[String], variables: &[(String, String)]) -> bool {
    arguments.iter().any(|argument| argument == "--root" || argument.starts_with("--root="))
        || variables.iter().any(|(name, _)| name == "REQLORE_ROOT")
}

/// `reqlore` or `reqlore@1.2.3`: a package may also be an address.
fn is_package(text: &str) -> bool {
    let Some(rest) = text.strip_prefix(NAME) else { return false };
    let is_version = |version: &str| {
        version.starts_with(|c: char| c.is_ascii_digit())
            && version.chars().all(|c| c.is_ascii_alphanumeric() || ".-+".contains(c))
    };
    rest.is_empty() || rest.strip_prefix('@').is_some_and(is_version)
}

/// Is it this program, or the one that the name starts?
fn is_same(path: &Path, programs: &Programs) -> bool {
    let is_named = || {
        let named = programs.named(NAME)?.canonicalize().ok()?;
        Some(path.canonicalize().ok()? == named)
    };
    programs.is_own(path) || is_named() == Some(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_package_is_named_and_never_an_address() {
        for good in ["reqlore", "reqlore@1", "reqlore@0.1.0-rc.1"] {
            assert!(is_package(good), "{good}");
        }
        for bad in [
            "reqlore2",
            "@evil/reqlore",
            "reqlore@npm:evil",
            "reqlore@https://example.org/x.tgz",
            "reqlore@file:.",
            "reqlore@latest",
            "reqlore@1 --registry=x",
            "reqlore@",
        ] {
            assert!(!is_package(bad), "{bad}");
        }
    }

    #[test]
    fn arguments_that_serve_nothing_are_told() {
        let check = |text: &str| {
            let words: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
            settings_of(&words, &[]).map(|_| ())
        };
        for good in ["", "serve", "--root ${workspaceFolder}", "--storage sqlite --read-only"] {
            assert_eq!(check(good), Ok(()), "{good}");
        }
        for (bad, why) in [
            ("--sotrage fs", "unexpected argument"),
            ("user add eve --role administrator", "another command"),
            ("--transport http", "--transport stdio"),
            ("--root /no/such/folder", "is no folder"),
            ("--print-config", "serves nothing"),
        ] {
            assert!(check(bad).is_err_and(|error| error.contains(why)), "{bad}");
        }
    }
}
