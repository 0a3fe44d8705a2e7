//! `reqlore site`: the pages as files with relative links.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::client::{project, reqlore};
use crate::init::output;
use crate::pictures::fill;

fn run(root: &Path, folder: &str) -> (i32, String, String) {
    output(reqlore().args(["site", folder]).current_dir(root))
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
fn site_links_lead_to_files_or_other_hosts() {
    let project = project();
    let root = project.path();
    fill(root);
    let files = write_site(root);
    let pages = ["index.html", "tree.html", "pictures.html", "item/REQ-001.html"];
    for page in pages.iter().chain(&["table-kind-requirement.html", "board-kind-epic.html"]) {
        assert!(files.contains_key(&root.join("out").join(page)), "{page}: {:?}", files.keys());
    }
    let mut links = 0;
    for (path, html) in &files {
        if path.extension().is_none_or(|extension| extension != "html") {
            continue;
        }
        assert!(!html.contains("<form") && !html.contains("/p/default"), "{}", path.display());
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
