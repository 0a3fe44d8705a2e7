//! `reqlore site`: the pages as files with relative links.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::client::{project, reqlore};
use crate::init::output;
use crate::pictures::fill;

fn run(root: &Path, folder: &str) -> (i32, String, String) {
    output(
        reqlore()
            .env("PATH", "/usr/bin:/bin")
            .args(["site", "--history", folder])
            .current_dir(root),
    )
}

#[track_caller]
fn write_site(root: &Path) -> BTreeMap<PathBuf, String> {
    let (code, printed, errors) = run(root, "out");
    assert_eq!((code, errors.as_str()), (0, ""));
    assert!(printed.ends_with("Open out/index.html.\n"), "{printed}");
    let mut files = BTreeMap::new();
    read_folder(&root.join("out"), &mut files);
    files
}

fn read_folder(folder: &Path, files: &mut BTreeMap<PathBuf, String>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            read_folder(&path, files);
        } else {
            files.insert(path.clone(), std::fs::read_to_string(&path).unwrap());
        }
    }
}

/// The values of an attribute in the tags of a page.
fn attributes(html: &str, name: &str) -> Vec<String> {
    let mut values = Vec::new();
    for tag in html.split('<').skip(1) {
        for part in tag.split(&format!(" {name}=\"")).skip(1) {
            values.push(part.split('"').next().unwrap().to_owned());
        }
    }
    values
}

#[test]
fn site_has_the_images_of_its_texts() {
    let project = project();
    let root = project.path();
    fill(root);
    let png = b"\x89PNG\r\n\x1a\n\xff";
    std::fs::create_dir_all(root.join("docs/in")).unwrap();
    std::fs::write(root.join("docs/in/a.png"), png).unwrap();
    let text = "---\ntitle: Images\n---\n\n![a](/docs/in/a.png) ![b](/docs/b.png)\n";
    std::fs::write(root.join(".reqlore/backlog/epics/EP-900.md"), text).unwrap();
    let (code, _, errors) = run(root, "out");
    assert_eq!((code, errors.as_str()), (0, ""));
    let page = std::fs::read_to_string(root.join("out/item/EP-900.html")).unwrap();
    assert!(
        page.contains("<img src=\"../files/docs~2Fin~2Fa.png\" alt=\"a\"> <img alt=\"b\">"),
        "{page}"
    );
    assert_eq!(std::fs::read(root.join("out/files/docs~2Fin~2Fa.png")).unwrap(), png);
}

#[test]
fn site_links_lead_to_files_or_other_hosts() {
    let project = project();
    let root = project.path();
    fill(root);
    let files = write_site(root);
    let pages = ["index.html", "tree.html", "pictures.html", "item/REQ-001.html"];
    let lists = ["table-kind-requirement.html", "board-kind-epic.html"];
    for page in pages.iter().chain(&lists).chain(&["graph/REQ-001.html", "history/US-001.html"]) {
        assert!(files.contains_key(&root.join("out").join(page)), "{page}: {:?}", files.keys());
    }
    let graph = &files[&root.join("out/graph/REQ-001.html")];
    assert!(graph.contains("<svg") && graph.contains("../item/US-001.html"), "{graph}");
    let mut links = 0;
    for (path, html) in &files {
        if path.extension().is_none_or(|extension| extension != "html") {
            continue;
        }
        assert!(!html.contains("<form") && !html.contains("/p/default"), "{}", path.display());
        // Those of the layout need no server.
        for button in html.split("<button").skip(1) {
            let is_local = button.contains("popovertarget") || button.contains("data-copy");
            assert!(is_local, "{}: {button}", path.display());
        }
        assert!(!html.contains("<input") && !html.contains("<select"), "{}", path.display());
        assert!(!html.contains("<script>") && !html.contains("data-events"), "{}", path.display());
        for link in [attributes(html, "href"), attributes(html, "src")].concat() {
            if link.starts_with('#') {
                continue;
            }
            assert!(!link.starts_with('/') && !link.contains(':'), "{}: {link}", path.display());
            let target = link.split(['#', '?']).next().unwrap();
            let target = path.parent().unwrap().join(target);
            assert!(target.is_file(), "{}: {link}", path.display());
            links += 1;
        }
    }
    assert!(links > 100, "{links}");
}

#[test]
fn site_has_the_commits_and_the_last_change_of_an_item() {
    let project = project();
    let root = project.path();
    let git = |folder: &Path, arguments: &[&str]| {
        let mut git = Command::new("git");
        git.args(["-c", "user.name=Ada", "-c", "user.email=a@example.org"]).args(arguments);
        assert_eq!(output(git.current_dir(folder)).0, 0, "git {arguments:?}");
    };
    git(root, &["init", "--quiet"]);
    let epic = root.join(".reqlore/backlog/epics/EP-001.md");
    std::fs::create_dir_all(epic.parent().unwrap()).unwrap();
    for (title, text) in [("Old", "Same.\n"), ("Pay", "Same.\n\nAdded <words>.\n")] {
        std::fs::write(&epic, format!("---\ntitle: {title}\n---\n\n{text}")).unwrap();
        git(root, &["add", "."]);
        git(root, &["commit", "--quiet", "--message", &format!("Call it <{title}>")]);
    }
    let page = root.join("out/history/EP-001.html");
    let html = write_site(root).remove(&page).unwrap();
    for part in [
        "<dd><del>Old</del> → <ins>Pay</ins></dd>",
        "<ins>Added &#60;words&#62;.</ins>",
        "Call it &#60;Old&#62;",
        "Call it &#60;Pay&#62;",
        "<a href=\"../item/EP-001.html\">Text</a>",
    ] {
        assert!(html.contains(part), "{part} is missing in {html}");
    }
    assert!(!html.contains("shallow"), "{html}");
    let origin = format!("file://{}", root.display());
    git(root, &["clone", "--quiet", "--depth=1", &origin, "shallow"]);
    let clone = root.join("shallow");
    let html = write_site(&clone).remove(&clone.join("out/history/EP-001.html")).unwrap();
    assert!(
        html.contains("The clone is shallow") && html.contains("Call it &#60;Pay&#62;"),
        "{html}"
    );
    assert!(!html.contains("Call it &#60;Old&#62;"), "{html}");
}

#[test]
fn site_is_equal_on_each_run_and_removes_old_pages() {
    let project = project();
    let root = project.path();
    fill(root);
    let first = write_site(root);
    assert_eq!(first, write_site(root));
    std::fs::write(root.join("out/notes.txt"), "mine").unwrap();
    let mut server = crate::client::Server::start(root);
    server.data("delete_item", serde_json::json!({ "reference": "REQ-002", "cascade": true }));
    let third = write_site(root);
    let old_page = root.join("out/item/REQ-002.html");
    assert!(first.contains_key(&old_page) && !third.contains_key(&old_page));
    assert_eq!(third[&root.join("out/notes.txt")], "mine");
}

#[test]
fn site_replaces_no_files_of_the_user() {
    let project = project();
    let root = project.path();
    std::fs::create_dir(root.join("out")).unwrap();
    std::fs::write(root.join("out/index.html"), "mine").unwrap();
    let (code, _, errors) = run(root, "out");
    assert_eq!(code, 2, "{errors}");
    assert!(errors.contains("DIR: out is not empty and not an earlier site"), "{errors}");
    // A marker from elsewhere.
    let outside = root.join("outside.html");
    std::fs::write(&outside, "mine").unwrap();
    std::fs::write(root.join("out/.reqlore-site"), "../outside.html\n/etc/x\nold.html\n").unwrap();
    let (code, _, errors) = run(root, "out");
    assert_eq!(code, 1, "{errors}");
    assert!(errors.contains("out/index.html is not a file of an earlier site"), "{errors}");
    std::fs::remove_file(root.join("out/index.html")).unwrap();
    std::os::unix::fs::symlink(&outside, root.join("out/old.html")).unwrap();
    write_site(root);
    assert_eq!(std::fs::read_to_string(&outside).unwrap(), "mine");
    std::fs::remove_dir_all(root.join("out/assets")).unwrap();
    std::os::unix::fs::symlink(root, root.join("out/assets")).unwrap();
    let (code, _, errors) = run(root, "out");
    assert!(code == 1 && errors.contains("out/assets is not a file"), "{errors}");
}

/// Damages the file at the path.
type Damage = fn(&Path);

const DAMAGES: [(&str, Damage); 9] = [
    ("Latin-1", |path| std::fs::write(path, b"---\ntitle: Gr\xf6\xdfe\n---\nx\n").unwrap()),
    ("NUL", |path| std::fs::write(path, "# T\n\na\0b\n").unwrap()),
    ("UTF-16", |path| std::fs::write(path, b"\xff\xfe#\0 \0T\0\n\0").unwrap()),
    ("binary", |path| std::fs::write(path, [0x89, b'P', b'N', b'G', 0xd, 0xa, 0x1a, 0xa]).unwrap()),
    ("UTF-8 cut in a letter", |path| std::fs::write(path, b"# T\n\n**1.** \xe2\x82").unwrap()),
    ("larger than a document", |path| {
        std::fs::File::create(path).unwrap().set_len(200 << 20).unwrap();
    }),
    ("folder", |path| {
        std::fs::remove_file(path).unwrap();
        std::fs::create_dir(path).unwrap();
    }),
    ("broken link", |path| {
        std::fs::remove_file(path).unwrap();
        std::os::unix::fs::symlink("nowhere", path).unwrap();
    }),
    ("link to itself", |path| {
        std::fs::remove_file(path).unwrap();
        std::os::unix::fs::symlink(path, path).unwrap();
    }),
];

#[test]
fn site_with_a_damaged_file_has_all_other_pages() {
    let project = project();
    let root = project.path();
    fill(root);
    let section = root.join("docs/development/requirements/general.md");
    std::fs::create_dir_all(section.parent().unwrap()).unwrap();
    std::fs::write(&section, "# General\n\n**1.** a\n").unwrap();
    let agents = "# R\n\n## Sections\n\n- General (key: general)\n";
    std::fs::write(section.with_file_name("AGENTS.md"), agents).unwrap();
    let whole = write_site(root);
    let entities = root.join(".ixchel/decisions");
    std::fs::create_dir_all(&entities).unwrap();
    let entity = entities.join("dec-1d2c8f.md");
    for (damaged, page) in [(&section, "sections/general.html"), (&entity, "item/dec-1d2c8f.html")]
    {
        for (name, damage) in DAMAGES {
            std::fs::write(&entity, "---\nid: dec-1d2c8f\ntitle: D\n---\n\nWhy\n").unwrap();
            let before = std::fs::read(damaged).unwrap();
            damage(damaged);
            let (code, printed, errors) = run(root, "out");
            let mut files = BTreeMap::new();
            read_folder(&root.join("out"), &mut files);
            let missing = whole.keys().find(|path| !files.contains_key(*path));
            // The damaged page has no links.
            let is_linked = |path: &PathBuf| {
                let path = path.to_string_lossy();
                path.contains("general~3A") || path.ends_with("history/general.html")
            };
            assert!(missing.is_none_or(is_linked), "{name}: {missing:?}");
            assert!(printed.contains("Open out/index.html"), "{name}: {printed}");
            // A folder is no entity, so nothing links to it.
            if !(name == "folder" && page.starts_with("item")) {
                assert_eq!(code, 1, "{name}: {errors}");
                assert!(
                    errors.starts_with(&format!("{page} shows an error: ")),
                    "{name}: {errors}"
                );
                let reason = errors.split_once("error: ").unwrap().1.trim_end();
                let html = files[&root.join("out").join(page)].replace("&#39;", "'");
                assert!(html.contains(reason), "{name}: {reason}: {html}");
                let tolerant =
                    output(reqlore().args(["site", "out", "--tolerant"]).current_dir(root));
                assert_eq!((tolerant.0, tolerant.2), (0, errors), "{name}");
            }
            let show = output(reqlore().args(["show", "dec-1d2c8f"]).current_dir(root));
            if damaged == &entity {
                assert!(show.0 == 1 && show.2.contains("dec-1d2c8f.md"), "{name}: {}", show.2);
            }
            if damaged.is_dir() {
                std::fs::remove_dir(damaged).unwrap();
            } else {
                std::fs::remove_file(damaged).unwrap();
            }
            std::fs::write(damaged, before).unwrap();
        }
    }
}

#[test]
fn site_with_damaged_docsets_has_all_other_pages() {
    let project = project();
    let root = project.path();
    fill(root);
    let config = root.join(".knowledge/config.yaml");
    std::fs::create_dir_all(root.join(".knowledge")).unwrap();
    for (name, damage) in DAMAGES.into_iter().chain([
        ("broken YAML", (|path| std::fs::write(path, "docsets: [").unwrap()) as Damage),
        ("other YAML", |path| std::fs::write(path, "docsets: 1").unwrap()),
    ]) {
        std::fs::write(&config, "docsets: []\n").unwrap();
        damage(&config);
        let (code, printed, errors) = run(root, "out");
        assert!(printed.contains("Open out/index.html"), "{name}: {printed} {errors}");
        assert_eq!(code, 1, "{name}: {errors}");
        assert!(errors.starts_with("docsets.html shows an error: "), "{name}: {errors}");
        assert!(errors.contains("config.yaml"), "{name}: {errors}");
        if config.is_dir() {
            std::fs::remove_dir(&config).unwrap();
        } else {
            std::fs::remove_file(&config).unwrap();
        }
    }
}
