//! What the local person is called: as git calls them, else their login (rulings 7).
//!
//! git itself is not run; it may not be there. Its files are read as it reads them, as far as a
//! name goes: what `include` brings in is not.

use std::io::Read;
use std::path::{Path, PathBuf};

/// The longest name, in characters.
const MAX_NAME: usize = 100;
/// No configuration of git is longer; of a longer file the beginning counts.
const MAX_BYTES: u64 = 1024 * 1024;
/// Who is called nothing at all.
const NOBODY: &str = "local";

/// Where a name may come from.
#[derive(Debug, Default)]
pub(crate) struct Sources<'a> {
    /// `GIT_AUTHOR_NAME`.
    pub(crate) author: Option<&'a str>,
    /// The project's folder; git's files are in it or above.
    pub(crate) root: PathBuf,
    /// git's configuration of this user, the strongest first.
    pub(crate) files: Vec<PathBuf>,
    pub(crate) login: Option<&'a str>,
}

/// The first name that can be used.
pub(crate) fn name(sources: &Sources<'_>) -> String {
    let author = sources.author.and_then(usable);
    let files = || repository(&sources.root).into_iter().chain(sources.files.iter().cloned());
    let configured = || files().find_map(|file| usable(&user_name(&text(&file)?)?));
    let name = author.or_else(configured).or_else(|| sources.login.and_then(usable));
    name.unwrap_or_else(|| NOBODY.to_owned())
}

/// Names stand in lists, files and logs, so they are one line of a bounded length.
fn usable(name: &str) -> Option<String> {
    let name = name.trim();
    let fits = !name.is_empty() && name.chars().count() <= MAX_NAME;
    (fits && !name.contains(char::is_control)).then(|| name.to_owned())
}

/// The configuration of the repository that a folder is in.
fn repository(root: &Path) -> Option<PathBuf> {
    let git = root.ancestors().map(|folder| folder.join(".git"));
    let git = git.into_iter().find(|git| git.symlink_metadata().is_ok())?;
    if git.is_dir() {
        return Some(git.join("config"));
    }
    // A work tree of its own, or a submodule: a file that names the folder.
    let place = text(&git)?;
    let folder = git.parent()?.join(place.trim().strip_prefix("gitdir:")?.trim());
    let common = text(&folder.join("commondir"));
    let common = common.map(|common| folder.join(common.trim()));
    Some(common.unwrap_or(folder).join("config"))
}

fn text(file: &Path) -> Option<String> {
    // A pipe would be waited for.
    if !file.metadata().ok()?.is_file() {
        return None;
    }
    let mut bytes = Vec::new();
    std::fs::File::open(file).ok()?.take(MAX_BYTES).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// `name` in the section `[user]`; of several the last one, as in git.
fn user_name(text: &str) -> Option<String> {
    let mut lines = text.trim_start_matches('\u{feff}').lines();
    let (mut found, mut in_user) = (None, false);
    while let Some(line) = lines.next() {
        let mut line = line.trim_start();
        if let Some((section, rest)) = line.strip_prefix('[').and_then(|line| line.split_once(']'))
        {
            in_user = section.trim().eq_ignore_ascii_case("user");
            line = rest.trim_start();
        }
        let Some((key, start)) = line.split_once('=') else { continue };
        if key.starts_with(['#', ';']) {
            continue;
        }
        // A value may go on over lines, so that of any key is read.
        let value = value(start, &mut lines);
        if in_user && key.trim().eq_ignore_ascii_case("name") {
            found = Some(value);
        }
    }
    found
}

/// A value without its quotes, its escapes and the comment behind it.
fn value<'a>(start: &'a str, lines: &mut impl Iterator<Item = &'a str>) -> String {
    let (mut value, mut spaces, mut quoted) = (String::new(), String::new(), false);
    let mut chars = start.chars();
    while let Some(char) = chars.next() {
        let plain = match char {
            '"' => {
                quoted = !quoted;
                continue;
            }
            '#' | ';' if !quoted => break,
            '\\' => match chars.next() {
                Some('n') => '\n',
                Some('t') => '\t',
                Some('b') => '\u{8}',
                Some(escaped) => escaped,
                None => {
                    chars = lines.next().unwrap_or_default().chars();
                    continue;
                }
            },
            space if space.is_whitespace() && !quoted => {
                spaces.push(space);
                continue;
            }
            plain => plain,
        };
        if !value.is_empty() {
            value.push_str(&spaces);
        }
        spaces.clear();
        value.push(plain);
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(config: &str, expected: Option<&str>) {
        assert_eq!(user_name(config).as_deref(), expected, "{config:?}");
    }

    #[test]
    fn a_name_is_read_as_git_reads_it() {
        check("[user]\n\tname = Ada Lovelace\n\temail = a@b\n", Some("Ada Lovelace"));
        check("[USER]\r\nNAME=Ada\r\n", Some("Ada"));
        check("\u{feff}[user] name = Ada ; the first\n", Some("Ada"));
        check("[ user ]\nname = \"Ada # Lovelace \" # no more\n", Some("Ada # Lovelace "));
        check("[user]\nname = Ada  \"the \\\"first\\\"\"  \n", Some("Ada  the \"first\""));
        check("[user]\nname = Ada \\\nLovelace\n", Some("Ada Lovelace"));
        check("[user]\nname = One\n[core]\nname = x\n[user]\nname = Two\n", Some("Two"));
        check("[user]\nname = \n", Some(""));
    }

    #[test]
    fn what_is_no_name_is_passed_over() {
        for config in [
            "",
            "nonsense",
            "[user",
            "[user]\nname\n",
            "[user]\n# name = Ada\n",
            "[user \"work\"]\nname = Ada\n",
            "[author]\nname = Ada\n",
            "[user]\nemail = x \\\nname = Ada\n",
            "name = Ada\n",
        ] {
            check(config, None);
        }
        check("[user]\nname = \"open", Some("open"));
        check("[user]\nname = end\\", Some("end"));
    }

    fn write(file: &Path, text: &str) {
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, text).unwrap();
    }

    fn called(name: &str) -> String {
        format!("[user]\nname = {name}\n")
    }

    #[test]
    fn the_strongest_source_that_names_somebody_wins() {
        let folder = tempfile::tempdir().unwrap();
        let at = |path: &str| folder.path().join(path);
        let mut sources = Sources {
            author: Some("Author"),
            root: at("project/inside"),
            files: vec![at("home/.gitconfig"), at("home/.config/git/config")],
            login: Some("login"),
        };
        write(&at("project/inside/file"), "");
        write(&at("project/.git/config"), &called("Repository"));
        write(&at("home/.gitconfig"), &called("Home"));
        write(&at("home/.config/git/config"), &called("Config"));
        assert_eq!(name(&sources), "Author");
        let long = "x".repeat(MAX_NAME + 1);
        for refused in ["two\nlines", "  ", long.as_str()] {
            sources.author = Some(refused);
            assert_eq!(name(&sources), "Repository");
        }
        write(&at("project/.git/config"), "[core]\nbare = false\n");
        assert_eq!(name(&sources), "Home");
        write(&at("home/.gitconfig"), &called("\"a\\nb\""));
        assert_eq!(name(&sources), "Config");
        std::fs::remove_dir_all(at("home")).unwrap();
        assert_eq!(name(&sources), "login");
        sources.login = None;
        assert_eq!(name(&sources), NOBODY);
    }

    #[test]
    fn a_work_tree_has_the_configuration_of_its_repository() {
        let folder = tempfile::tempdir().unwrap();
        let at = |path: &str| folder.path().join(path);
        let sources = Sources { root: at("tree"), ..Sources::default() };
        write(&at("main/.git/config"), &called("Main"));
        write(&at("main/.git/worktrees/tree/commondir"), "../..\n");
        write(&at("tree/.git"), "gitdir: ../main/.git/worktrees/tree\n");
        assert_eq!(name(&sources), "Main");
        write(&at("main/.git/modules/sub/config"), &called("Sub"));
        write(&at("tree/.git"), &format!("gitdir: {}\n", at("main/.git/modules/sub").display()));
        assert_eq!(name(&sources), "Sub");
        write(&at("tree/.git"), "nonsense");
        assert_eq!(name(&sources), NOBODY);
    }
}
