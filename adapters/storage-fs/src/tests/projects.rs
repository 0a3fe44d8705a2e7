//! Projects that callers may name: any folder for the local user, else configured projects.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};

use reqlore_domain::error::{Error, ErrorKind};
use reqlore_domain::identity::{Access, Caller, ProjectScope};
use reqlore_domain::ports::project_resolver::{DocumentsFolder, ProjectResolver, Toolset};
use reqlore_domain::project_key::ProjectKey;
use tempfile::TempDir;

use super::config;
use crate::{Config, FsProjects};

fn local() -> Caller {
    Caller::local("me", Access::Write)
}

// S1: P.1
#[tokio::test]
async fn invalid_project_roots_are_rejected() {
    let outside = tempfile::tempdir().unwrap();
    let folder = |name: &str| {
        let folder = outside.path().join(name);
        fs::create_dir_all(folder.join("docs")).unwrap();
        folder
    };
    let (root, home, twin) = (folder("repo"), folder("home"), folder("repo-evil"));
    let file = outside.path().join("file");
    fs::write(&file, "").unwrap();
    let link = outside.path().join("link");
    symlink("/", &link).unwrap();
    let open = FsProjects::new(&Config { home: Some(home.clone()), ..config(&root) });
    let (root, twin) = (root.to_str().unwrap(), twin.to_str().unwrap());
    let (dots, again) = (format!("{root}/.."), format!("{root}/../repo"));
    let fixed = "repo ~ $HOME file:///repo ./ Default / /proc/self/root /proc /sys /dev/shm /no/such/folder";
    let caller = local();
    let paths = [home.as_path(), &file, &link].map(|path| path.to_str().unwrap());
    for name in fixed.split(' ').chain(["", &dots, &again]).chain(paths) {
        let error = open.resolve(&caller, Some(name), Toolset::Sections).await.expect_err(name);
        assert_eq!(
            (error.kind, error.field.as_deref()),
            (ErrorKind::InvalidArgument, Some("project_root"))
        );
    }
    let found = async |projects: &FsProjects, name: &str| {
        let found = projects.resolve(&caller, Some(name), Toolset::Sections).await;
        found.map(|key| key.as_str().to_owned()).ok()
    };
    for name in [root, &format!("{root}/./"), "default", "."] {
        assert_eq!(found(&open, name).await.as_deref(), Some("default"));
        let database = FsProjects::of_database(&config(Path::new(root)));
        let found = database.resolve(&caller, Some(name), Toolset::Sections).await.unwrap();
        assert!(found.is_default(), "{name}");
    }
    assert_eq!(found(&open, twin).await.as_deref(), Some(twin));

    let roots = vec![PathBuf::from(root)];
    let fenced = FsProjects::new(&Config { roots, ..config(&home) });
    assert!(found(&fenced, &format!("{root}/docs")).await.is_some());
    assert_eq!(found(&fenced, twin).await, None, "a twin by prefix is outside");
}

/// A server with projects: its own root; `one`, which is configured by a link to its folder; and
/// `two`, which is inside `one`. The folders around them belong to no project.
struct Server {
    outside: TempDir,
    config: Config,
}

impl Server {
    fn new() -> Self {
        let outside = tempfile::tempdir().unwrap();
        let at = |name: &str| outside.path().join(name);
        for folder in ["root/docs", "one/two/deep", "one/src", "foreign", ".ixchel", ".knowledge"] {
            fs::create_dir_all(at(folder)).unwrap();
        }
        // Below a project's folder, and above all projects.
        fs::create_dir(at("one/src/.ixchel")).unwrap();
        fs::write(at(".knowledge/config.yaml"), "docsets:\n").unwrap();
        symlink(at("one"), at("link-to-one")).unwrap();
        symlink(at("one"), at("foreign/way-to-one")).unwrap();
        let projects = [("one", at("link-to-one")), ("two", at("one/two"))];
        let projects = projects.map(|(key, folder)| (ProjectKey::new(key), folder));
        let config = Config { projects: projects.into_iter().collect(), ..config(&at("root")) };
        Self { outside, config }
    }

    fn path(&self, name: &str) -> String {
        self.outside.path().join(name).to_str().unwrap().to_owned()
    }

    /// The resolver of a file storage, and of a database.
    fn both(&self) -> [Box<dyn ProjectResolver>; 2] {
        [Box::new(FsProjects::new(&self.config)), Box::new(FsProjects::of_database(&self.config))]
    }
}

fn remote(project: &str, reach: ProjectScope) -> Caller {
    Caller { scope: reach, project: ProjectKey::new(project), ..local() }
}

fn only(keys: &[&str]) -> ProjectScope {
    ProjectScope::Only(keys.iter().map(|key| ProjectKey::new(*key)).collect())
}

/// The error with the name of the call replaced.
fn without(error: &Error, name: &str) -> (ErrorKind, Option<String>, String) {
    let name = format!("{name:?}");
    (error.kind, error.field.clone(), error.message.replace(&name, "NAMED"))
}

// S4: AC-003.1, AC-003.2
#[tokio::test]
async fn remote_caller_names_project_by_key_or_exact_folder() {
    let server = Server::new();
    let caller = remote("one", ProjectScope::Configured);
    for projects in server.both() {
        let keys: Vec<String> = projects.keys().iter().map(ToString::to_string).collect();
        assert_eq!(keys, ["default", "one", "two"]);
        for toolset in Toolset::ALL {
            let found = async |name: Option<&str>| {
                projects.resolve(&caller, name, toolset).await.ok().map(|key| key.to_string())
            };
            assert_eq!(
                found(None).await.as_deref(),
                Some("one"),
                "parent folders are not searched"
            );
            for (name, key) in [
                ("default".to_owned(), "default"),
                ("two".to_owned(), "two"),
                (server.path("root"), "default"),
                (server.path("root/"), "default"),
                (server.path("./root/."), "default"),
                (server.path("one"), "one"),
                (server.path("link-to-one"), "one"),
                (server.path("one/two"), "two"),
            ] {
                assert_eq!(found(Some(&name)).await.as_deref(), Some(key), "{name}");
            }
            for name in ["root/docs", "one/src", "one/src/no/such/file.md", "link-to-one/src"] {
                assert_eq!(found(Some(&server.path(name))).await, None, "{name}");
            }
        }
    }
}

// S5: 4.3
#[tokio::test]
async fn foreign_and_missing_projects_give_same_error() {
    let server = Server::new();
    let root = server.path("root");
    let fixed = "unknown . ~ root / /proc/self/root /no/such/folder".split(' ');
    let mut never: Vec<String> = fixed.map(str::to_owned).collect();
    never.extend([
        String::new(),
        format!("{root}-evil"),
        format!("{root}/.."),
        format!("{root}\0"),
    ]);
    never.extend([format!("{root}/../root"), format!("file://{root}")]);
    // These exist: a folder, one that holds projects, a link to a project.
    never.extend(["foreign", "", "foreign/way-to-one"].map(|name| server.path(name)));
    let others = ["default".to_owned(), "two".to_owned(), root, server.path("one/two")];
    for projects in server.both() {
        for toolset in Toolset::ALL {
            let error_of = async |caller: &Caller, name: &str| {
                let found = projects.resolve(caller, Some(name), toolset).await;
                without(&found.expect_err(name), name)
            };
            let caller = remote("one", only(&["one"]));
            let argument = toolset.argument();
            let refusal = format!(
                "{argument}: there is no project NAMED for you; the projects that you can use \
                 are: one."
            );
            let expected = (ErrorKind::NotFound, Some(argument.to_owned()), refusal);
            for name in never.iter().chain(&others) {
                assert_eq!(error_of(&caller, name).await, expected, "{name}");
            }
            let caller = remote("one", ProjectScope::Configured);
            let (.., of_all) = error_of(&caller, "unknown").await;
            assert!(of_all.ends_with("are: default, one, two."), "{of_all}");
            for name in &never {
                assert_eq!(error_of(&caller, name).await.2, of_all, "{name}");
            }
        }
    }
}

#[tokio::test]
async fn only_root_resolves_without_configured_projects() {
    let outside = tempfile::tempdir().unwrap();
    let config = config(outside.path());
    let caller = remote("default", ProjectScope::Configured);
    for projects in [
        Box::new(FsProjects::new(&config)) as Box<dyn ProjectResolver>,
        Box::new(FsProjects::of_database(&config)),
    ] {
        let found = async |name: &Path| {
            projects.resolve(&caller, name.to_str(), Toolset::Sections).await.map_err(|e| e.kind)
        };
        assert_eq!(found(outside.path()).await, Ok(ProjectKey::default()));
        let inside = outside.path().join("app");
        assert_eq!(found(&inside).await, Err(ErrorKind::NotFound));
        fs::create_dir_all(&inside).unwrap();
        assert_eq!(found(&inside).await, Err(ErrorKind::NotFound), "there or not");
        fs::remove_dir(&inside).unwrap();
    }
}

#[tokio::test]
async fn removed_project_key_does_not_resolve_to_a_folder() {
    let server = Server::new();
    let caller = remote("gone", only(&["gone"]));
    for projects in server.both() {
        let error = projects.resolve(&caller, None, Toolset::Docsets).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::NotFound);
    }
}

// Ruling 4
#[tokio::test]
async fn home_folder_has_docsets_but_no_knowledge_of_projects() {
    let home = tempfile::tempdir().unwrap();
    let home = home.path().canonicalize().unwrap();
    let root = home.join("work/app");
    for folder in [root.clone(), home.join(".knowledge"), home.join(".ixchel")] {
        fs::create_dir_all(folder).unwrap();
    }
    fs::write(home.join(".knowledge/config.yaml"), "docsets:\n").unwrap();
    let projects = FsProjects::new(&Config { home: Some(home.clone()), ..config(&root) });
    let resolved = projects.resolve(&local(), None, Toolset::Docsets).await.unwrap();
    assert_eq!(resolved, ProjectKey::new(home.to_str().unwrap()));
    let resolved = projects.resolve(&local(), None, Toolset::Knowledge).await.unwrap();
    assert_eq!(resolved, ProjectKey::default());
}

/// The folder with documents of `one/two`, which belongs to this process, relative to its parent.
fn find(outside: &Path, toolset: Toolset) -> String {
    let root = outside.join("one/two");
    let key = ProjectKey::default();
    let both: [Box<dyn ProjectResolver>; 2] = [
        Box::new(FsProjects::new(&config(&root))),
        Box::new(FsProjects::of_database(&config(&root))),
    ];
    let found = both.map(|projects| match projects.find_documents(&local(), &key, toolset) {
        DocumentsFolder::Found(key) if key.is_default() => "own".to_owned(),
        DocumentsFolder::Found(key) => key.as_str().to_owned(),
        DocumentsFolder::Unusable(reason) => reason,
        DocumentsFolder::Missing => "missing".to_owned(),
    });
    assert_eq!(found[0], found[1], "files and databases differ");
    found[0].replace(outside.to_str().unwrap(), "~")
}

// S3: REQ-3.2, REQ-3.4, REQ-7.3
// S4: AC-003.2
#[test]
fn unusable_documents_above_the_root_are_named() {
    const CONFIG: &str = ".knowledge/config.yaml";
    const FOREIGN: &str = "is not used, because ~/one belongs to another user (uid 4242); copy it \
                           to the project";
    const OPEN: &str = "is not used, because every user may write to ~/one; copy it to the \
                        project, or run `chmod o-w ~/one`";
    let is_superuser = rustix::process::geteuid().is_root();
    // The change of a place in `one`, and what is found for docsets and for entities.
    for (change, docsets, entities) in [
        ("none", "~/one", "~/one"),
        ("own", "own", "own"),
        ("absent", "missing", "missing"),
        ("without config", "missing", "~/one"),
        ("foreign", FOREIGN, FOREIGN),
        ("foreign in between", FOREIGN, FOREIGN),
        ("open", OPEN, OPEN),
        ("open in between", OPEN, OPEN),
        ("files", "is not a folder; remove or rename it", "is not a folder; remove or rename it"),
        ("dangling links", "is not a folder; remove or rename it", "is not a folder"),
        ("links to files", "is not a folder; remove or rename it", "is not a folder"),
        ("config is a folder", "~/one", "~/one"),
        ("config is a link", "~/one", "~/one"),
    ] {
        let outside = tempfile::tempdir().unwrap();
        let outside = outside.path().canonicalize().unwrap();
        let (one, two) = (outside.join("one"), outside.join("one/two"));
        fs::create_dir_all(&two).unwrap();
        let above = if change.ends_with("between") { &outside } else { &one };
        let place = if change == "own" { &two } else { above };
        let (knowledge, ixchel) = (place.join(".knowledge"), place.join(".ixchel"));
        for folder in [&knowledge, &ixchel] {
            match change {
                "absent" => {}
                "files" => fs::write(folder, "").unwrap(),
                "dangling links" => symlink("/no/such/folder", folder).unwrap(),
                "links to files" => symlink("/etc/hostname", folder).unwrap(),
                _ => fs::create_dir(folder).unwrap(),
            }
        }
        match change {
            "config is a folder" => fs::create_dir(outside.join("one").join(CONFIG)).unwrap(),
            "config is a link" => symlink("/no/such", outside.join("one").join(CONFIG)).unwrap(),
            _ if knowledge.is_dir() && change != "without config" => {
                fs::write(place.join(CONFIG), "docsets:\n").unwrap();
            }
            _ => {}
        }
        if change.starts_with("open") {
            fs::set_permissions(&one, fs::Permissions::from_mode(0o777)).unwrap();
        }
        if change.starts_with("foreign") {
            if !is_superuser {
                continue;
            }
            chown(&one, Some(4_242), None).unwrap();
        }
        for (toolset, expected) in [(Toolset::Docsets, docsets), (Toolset::Knowledge, entities)] {
            let found = find(&outside, toolset);
            assert!(found.contains(expected), "{change}, {toolset:?}: {found}");
            assert!(!found.contains(' ') || found.starts_with("~/"), "no path: {found}");
        }
    }
}

// S3: REQ-7.3
#[test]
fn config_without_rights_is_named_without_path_for_remotes() {
    // The superuser may read any file.
    if rustix::process::geteuid().is_root() {
        return;
    }
    let outside = tempfile::tempdir().unwrap();
    let outside = outside.path().canonicalize().unwrap();
    fs::create_dir_all(outside.join("one/two/.knowledge")).unwrap();
    let file = outside.join("one/two/.knowledge/config.yaml");
    fs::write(&file, "docsets:\n").unwrap();
    for (path, mode) in [(file.as_path(), 0o200), (file.parent().unwrap(), 0o600)] {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        let found = find(&outside, Toolset::Docsets);
        let problem = ".knowledge/config.yaml cannot be read: permission denied; give this user";
        assert!(found.contains(problem), "{found}");
        let projects = FsProjects::new(&config(&outside.join("one/two")));
        let caller = remote("default", ProjectScope::Configured);
        let found = projects.find_documents(&caller, &ProjectKey::default(), Toolset::Docsets);
        let DocumentsFolder::Unusable(reason) = found else { panic!("{found:?}") };
        assert!(reason.starts_with(problem), "{reason}");
        fs::set_permissions(path, fs::Permissions::from_mode(0o700)).unwrap();
    }
}
