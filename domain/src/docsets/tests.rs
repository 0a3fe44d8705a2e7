//! Valid configurations, and their paths and instructions.

mod errors;
mod properties;

use super::*;

const FOLDER: &str = "/home/me/app";

fn read(text: &str) -> DocsetConfig {
    DocsetConfig::read(text, FOLDER).unwrap_or_else(|faults| panic!("{faults:?}\n{text}"))
}

/// The only docset's path.
fn path(text: &str) -> String {
    read(text).docsets[0].local_path.clone()
}

// S3: REQ-5.1, REQ-5.2, REQ-2.4
#[test]
fn a_path_is_made_of_docs_root_name_and_version() {
    let default = "/home/me/app/.knowledge/docs";
    assert_eq!(path("docsets: {react: {version: '18.2'}}"), format!("{default}/react-18.2/"));
    assert_eq!(path("docsets: {react: }"), format!("{default}/react/"));
    assert_eq!(
        path("docsets: [{name: '@types-node', version: v1}]"),
        format!("{default}/@types-node-v1/")
    );
    assert_eq!(read("docsets:").docs_root, format!("{default}/"));
}

// S3: REQ-5.3, REQ-5.4
#[test]
fn docs_root_is_resolved_from_the_folder_that_holds_knowledge_and_normalised() {
    for (root, resolved) in [
        (".knowledge/docs", "/home/me/app/.knowledge/docs"),
        ("docs", "/home/me/app/docs"),
        ("./docs//manuals/.", "/home/me/app/docs/manuals"),
        ("docs/../manuals/", "/home/me/app/manuals"),
        ("../shared", "/home/me/shared"),
        ("docs\\manuals", "/home/me/app/docs/manuals"),
        ("/srv//docs/", "/srv/docs"),
        ("C:\\docs\\all", "C:/docs/all"),
        ("my docs", "/home/me/app/my docs"),
    ] {
        let text = format!("docs_root: '{root}'\ndocsets: {{react: {{version: 18.2}}}}");
        assert_eq!(path(&text), format!("{resolved}/react-18.2/"), "{root}");
    }
    let windows = DocsetConfig::read("docsets: {a: {}}", "C:/me/app").unwrap();
    assert_eq!(windows.docsets[0].local_path, "C:/me/app/.knowledge/docs/a/");
}

// S3: REQ-4.5
#[test]
fn docsets_may_be_a_map_or_a_list_and_say_the_same() {
    let map = "docsets:\n  react:\n    version: 18.20\n    aliases: [reactjs, react.js]\n    \
               description: UI\n";
    let list = "docsets:\n  - name: react\n    version: 18.20\n    aliases: [reactjs, react.js]\n    \
                description: UI\n";
    let with_crlf = read(&format!("\u{feff}{}", map.replace('\n', "\r\n")));
    let (map, list) = (read(map), read(list));
    assert_eq!((&map, &map), (&list, &with_crlf));
    let react = map.find("react.js").unwrap();
    assert_eq!((react.name.as_str(), react.version.as_deref()), ("react", Some("18.20")));
    assert_eq!(react.aliases, ["reactjs", "react.js"]);
    assert_eq!(map.find("react"), map.find("reactjs"));
    assert_eq!(map.find("React"), None, "case matters");
    assert_eq!(map.nearest("React"), Some("react"));
    assert_eq!(map.nearest("raect"), Some("react"));
    assert_eq!(map.nearest("vue"), None);
}

// S3: REQ-4.3
#[test]
fn unknown_properties_are_ignored_and_likely_slips_can_be_told() {
    let text = "version: \"1.0\"\nother: [1, {a: .nan}]\ndocsets:\n  react:\n    alias: [r]\n    \
                owner: me\n    sources: hello\n    id: 7\n";
    let configuration = read(text);
    assert_eq!(configuration.docsets[0].local_path, "/home/me/app/.knowledge/docs/react/");
    let hints: Vec<String> = configuration.hints.iter().map(located).collect();
    assert_eq!(
        hints,
        [".knowledge/config.yaml:5:5: unknown property \"alias\"; did you mean `aliases`?"]
    );
}

#[test]
fn an_empty_section_is_no_docsets() {
    for text in ["docsets:", "docsets: ~", "docsets: {}", "docsets: []", "---\ndocsets:\n...\n"] {
        assert!(read(text).docsets.is_empty(), "{text}");
    }
}

// Catalogue 44
#[test]
fn an_override_stays_in_the_project_and_docs_root_out_of_the_system() {
    let over = |path: &str| {
        format!("docs_root: /srv/docs\ndocsets: {{a: {{local_path: '{path}', version: 1}}}}")
    };
    for (written, resolved) in [
        ("docs", "/home/me/app/docs/"),
        ("./docs/../src/", "/home/me/app/src/"),
        (".", "/home/me/app/"),
        ("/home/me/app/x", "/home/me/app/x/"),
        ("docs\\api", "/home/me/app/docs/api/"),
    ] {
        assert_eq!(path(&over(written)), resolved, "{written}");
    }
    for outside in
        ["..", "../x", "docs/../../x", "/etc", "/home/me/app2", "/srv/docs/a", "C:\\x", "..\\x"]
    {
        let faults = DocsetConfig::read(&over(outside), FOLDER).unwrap_err();
        let shown = located(&faults[0]);
        assert!(shown.starts_with(".knowledge/config.yaml:2:27: local_path: "), "{shown}");
        assert!(shown.contains("outside of the project's folder"), "{shown}");
    }
    for system in ["/", "/etc", "../../../../etc/ssl", "/proc/self", "C:\\"] {
        let text = format!("docs_root: '{system}'\ndocsets: {{a: {{}}}}");
        let faults = DocsetConfig::read(&text, FOLDER).unwrap_err();
        assert!(located(&faults[0]).contains("belongs to the system"), "{faults:?}");
    }
    let outside = read("docs_root: ../shared\ndocsets: {a: {}}");
    assert!(located(&outside.hints[0]).contains("leads out of the project"), "for `check`");
}

// S3: REQ-6.2, REQ-6.3, REQ-6.4, REQ-6.5
#[test]
fn a_template_of_its_own_beats_the_top_levels_and_substitutes_in_one_pass() {
    let text = "template: 'all {docset}'\ndocsets:\n  a:\n    template: |\n      {docset} {version} {local_path}\n      \
                {keywords}; {generalized_keywords}; {other} {Keywords} { keywords } {} {{docset}} {docset\n  b: {version: 1}\n";
    let configuration = read(text);
    let render = |at: usize| configuration.docsets[at].instruction(&["{local_path}", "b"], &[]);
    assert_eq!(
        render(0),
        "a  /home/me/app/.knowledge/docs/a/\n{local_path}, b; ; {other} {Keywords} { keywords } {} \
         {a} {docset\n"
    );
    assert_eq!(render(1), "all b");
}

#[test]
fn docsets_of_the_later_format_have_an_id_and_the_path_of_their_sources() {
    for (sources, below_folder) in [
        ("sources: [{type: git_repo, url: u, paths: [README.md]}]", "/.knowledge/docsets/a/"),
        ("sources: [{type: local_folder, paths: [./docs]}]", "/docs/"),
        ("sources: [{type: local_folder, paths: [./docs, ./more]}]", "/.knowledge/docsets/a/"),
        ("sources: [{type: local_folder, paths: [../docs]}]", "/.knowledge/docsets/a/"),
        ("sources: nonsense", "/.knowledge/docsets/a/"),
        ("local_path: ./node_modules/react/docs", "/node_modules/react/docs/"),
    ] {
        let text = format!("docsets:\n  - id: a\n    name: The Docs\n    {sources}\n");
        assert_eq!(path(&text), format!("{FOLDER}{below_folder}"), "{sources}");
        let docset = &read(&text).docsets[0];
        assert_eq!((docset.name.as_str(), docset.title.as_deref()), ("a", Some("The Docs")));
    }
    let rooted = "docs_root: /srv\ndocsets: [{id: sdk, sources: [{type: git_repo}]}]";
    assert_eq!(path(rooted), "/srv/sdk/");
}

#[test]
fn doubled_braces_are_variables_there_and_there_alone() {
    let template =
        "template: '{{docset_name}} {{docset_description}} {{keywords}} {keywords} {{x}}'";
    let later = read(&format!("{template}\ndocsets: [{{id: a, name: A B, description: c}}]"));
    assert_eq!(later.docsets[0].instruction(&["k"], &[]), "A B c k k {{x}}");
    let plain = read(&format!("{template}\ndocsets: {{a: {{description: c}}}}"));
    let expected = "{{docset_name}} {{docset_description}} {k} k {{x}}";
    assert_eq!(plain.docsets[0].instruction(&["k"], &[]), expected);
}
