//! Valid configurations, with their paths and instructions.

mod errors;
mod properties;

use super::*;

const FOLDER: &str = "/home/me/app";

fn parse_config(text: &str) -> DocsetConfig {
    DocsetConfig::parse(text, FOLDER)
        .unwrap_or_else(|diagnostics| panic!("{diagnostics:?}\n{text}"))
}

/// The path of the only docset.
fn docset_path(text: &str) -> String {
    parse_config(text).docsets[0].local_path.clone()
}

// S3: REQ-5.1, REQ-5.2, REQ-2.4
#[test]
fn docset_path_contains_docs_root_name_and_version() {
    let default = "/home/me/app/.knowledge/docs";
    assert_eq!(
        docset_path("docsets: {react: {version: '18.2'}}"),
        format!("{default}/react-18.2/")
    );
    assert_eq!(docset_path("docsets: {react: }"), format!("{default}/react/"));
    assert_eq!(
        docset_path("docsets: [{name: '@types-node', version: v1}]"),
        format!("{default}/@types-node-v1/")
    );
    assert_eq!(parse_config("docsets:").docs_root, format!("{default}/"));
}

// S3: REQ-5.3, REQ-5.4
#[test]
fn docs_root_is_resolved_and_normalized() {
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
        assert_eq!(docset_path(&text), format!("{resolved}/react-18.2/"), "{root}");
    }
    let windows = DocsetConfig::parse("docsets: {a: {}}", "C:/me/app").unwrap();
    assert_eq!(windows.docsets[0].local_path, "C:/me/app/.knowledge/docs/a/");
}

// S3: REQ-4.5
#[test]
fn docsets_as_map_or_list_are_equivalent() {
    let map = "docsets:\n  react:\n    version: 18.20\n    aliases: [reactjs, react.js]\n    \
               description: UI\n";
    let list = "docsets:\n  - name: react\n    version: 18.20\n    aliases: [reactjs, react.js]\n    \
                description: UI\n";
    let with_crlf = parse_config(&format!("\u{feff}{}", map.replace('\n', "\r\n")));
    let (map, list) = (parse_config(map), parse_config(list));
    assert_eq!((&map, &map), (&list, &with_crlf));
    let react = map.find("react.js").unwrap();
    assert_eq!((react.name.as_str(), react.version.as_deref()), ("react", Some("18.20")));
    assert_eq!(react.aliases, ["reactjs", "react.js"]);
    assert_eq!(map.find("react"), map.find("reactjs"));
    assert_eq!(map.find("React"), None, "case matters");
    assert_eq!(map.similar_name("React"), Some("react"));
    assert_eq!(map.similar_name("raect"), Some("react"));
    assert_eq!(map.similar_name("vue"), None);
}

// S3: REQ-4.3
#[test]
fn unknown_property_is_ignored_or_warned_about() {
    let text = "version: \"1.0\"\nother: [1, {a: .nan}]\ndocsets:\n  react:\n    alias: [r]\n    \
                owner: me\n    sources: hello\n    id: 7\n";
    let configuration = parse_config(text);
    assert_eq!(configuration.docsets[0].local_path, "/home/me/app/.knowledge/docs/react/");
    let hints: Vec<String> = configuration.warnings.iter().map(format_diagnostic).collect();
    assert_eq!(
        hints,
        [".knowledge/config.yaml:5:5: unknown property \"alias\"; did you mean `aliases`?"]
    );
}

#[test]
fn empty_docsets_section_is_valid() {
    for text in ["docsets:", "docsets: ~", "docsets: {}", "docsets: []", "---\ndocsets:\n...\n"] {
        assert!(parse_config(text).docsets.is_empty(), "{text}");
    }
}

fn config_with_path(path: &str) -> String {
    format!("docs_root: /srv/docs\ndocsets: {{a: {{local_path: '{path}', version: 1}}}}")
}

// Catalogue 44
#[test]
fn local_path_leaves_the_project_only_if_absolute() {
    for (written, resolved) in [
        ("docs", "/home/me/app/docs/"),
        ("./docs/../src/", "/home/me/app/src/"),
        (".", "/home/me/app/"),
        ("/home/me/app/x", "/home/me/app/x/"),
        ("docs\\api", "/home/me/app/docs/api/"),
    ] {
        assert_eq!(docset_path(&config_with_path(written)), resolved, "{written}");
    }
    for (outside, problem) in [
        ("..", "or write an absolute path"),
        ("docs/../../x", "or write an absolute path"),
        ("..\\x", "or write an absolute path"),
        ("/etc", "belongs to the system"),
        ("C:\\", "belongs to the system"),
    ] {
        let diagnostics = DocsetConfig::parse(&config_with_path(outside), FOLDER).unwrap_err();
        let message = format_diagnostic(&diagnostics[0]);
        assert!(message.starts_with(".knowledge/config.yaml:2:27: local_path: "), "{message}");
        assert!(message.contains(problem), "{message}");
    }
    for (outside, resolved) in
        [("/home/me/app2", "/home/me/app2/"), ("/srv//docs/a/", "/srv/docs/a/"), ("C:\\x", "C:/x/")]
    {
        let configuration = parse_config(&config_with_path(outside));
        assert_eq!(configuration.docsets[0].local_path, resolved);
        // `docs_root` is outside as well.
        let warning = format_diagnostic(&configuration.warnings[1]);
        assert!(warning.contains("local_path is outside of the project"), "{warning}");
    }
}

#[test]
fn fault_of_one_docset_leaves_the_others_usable() {
    let text = "docsets:\n  - {name: a, aliases: [x]}\n  - {name: b, aliases: [A]}\n  - {name: c, \
                version: 1/2}\n  - {name: d}\n  - {}\n  - 5\n";
    let configuration = parse_config(text);
    let names: Vec<&str> = configuration.docsets.iter().map(|docset| &*docset.name).collect();
    assert_eq!(names, ["a", "d"]);
    assert_eq!(configuration.find("x").map(|docset| &*docset.name), Some("a"));
    let lines: Vec<_> = configuration.docset_errors.iter().filter_map(|error| error.line).collect();
    assert_eq!(lines, [3, 4, 6, 7], "{:?}", configuration.docset_errors);
    assert_eq!(configuration.errors_of("b"), Some(&configuration.docset_errors[..1]));
    assert_eq!((configuration.find("c"), configuration.errors_of("a")), (None, None));
    // A problem of the file makes all docsets unusable.
    assert!(DocsetConfig::parse(&format!("docs_root: /etc\n{text}"), FOLDER).is_err());
}

// Catalogue 44
#[test]
fn docs_root_in_a_system_folder_is_rejected() {
    for system in ["/", "/etc", "../../../../etc/ssl", "/proc/self", "C:\\"] {
        let text = format!("docs_root: '{system}'\ndocsets: {{a: {{}}}}");
        let diagnostics = DocsetConfig::parse(&text, FOLDER).unwrap_err();
        assert!(
            format_diagnostic(&diagnostics[0]).contains("belongs to the system"),
            "{diagnostics:?}"
        );
    }
    let outside = parse_config("docs_root: ../shared\ndocsets: {a: {}}");
    let warning = format_diagnostic(&outside.warnings[0]);
    assert!(warning.contains("docs_root is outside of the project"), "{warning}");
}

// S3: REQ-6.2, REQ-6.3, REQ-6.4, REQ-6.5
#[test]
fn docset_template_overrides_and_substitutes_once() {
    let text = "template: 'all {docset}'\ndocsets:\n  a:\n    template: |\n      {docset} {version} {local_path}\n      \
                {keywords}; {generalized_keywords}; {other} {Keywords} { keywords } {} {{docset}} {docset\n  b: {version: 1}\n";
    let configuration = parse_config(text);
    let render =
        |at: usize| configuration.docsets[at].render_instruction(&["{local_path}", "b"], &[]);
    assert_eq!(
        render(0),
        "a  /home/me/app/.knowledge/docs/a/\n{local_path}, b; ; {other} {Keywords} { keywords } {} \
         {a} {docset\n"
    );
    assert_eq!(render(1), "all b");
}

#[test]
fn docset_in_format_v2_has_an_id_and_source_path() {
    for (sources, below_folder) in [
        ("sources: [{type: git_repo, url: u, paths: [README.md]}]", "/.knowledge/docsets/a/"),
        ("sources: [{type: local_folder, paths: [./docs]}]", "/docs/"),
        ("sources: [{type: local_folder, paths: [./docs, ./more]}]", "/.knowledge/docsets/a/"),
        ("sources: [{type: local_folder, paths: [../docs]}]", "/.knowledge/docsets/a/"),
        ("sources: nonsense", "/.knowledge/docsets/a/"),
        ("local_path: ./node_modules/react/docs", "/node_modules/react/docs/"),
    ] {
        let text = format!("docsets:\n  - id: a\n    name: The Docs\n    {sources}\n");
        assert_eq!(docset_path(&text), format!("{FOLDER}{below_folder}"), "{sources}");
        let docset = &parse_config(&text).docsets[0];
        assert_eq!((docset.name.as_str(), docset.title.as_deref()), ("a", Some("The Docs")));
    }
    let rooted = "docs_root: /srv\ndocsets: [{id: sdk, sources: [{type: git_repo}]}]";
    assert_eq!(docset_path(rooted), "/srv/sdk/");
}

#[test]
fn double_braces_are_variables_only_in_format_v2() {
    let template =
        "template: '{{docset_name}} {{docset_description}} {{keywords}} {keywords} {{x}}'";
    let later =
        parse_config(&format!("{template}\ndocsets: [{{id: a, name: A B, description: c}}]"));
    assert_eq!(later.docsets[0].render_instruction(&["k"], &[]), "A B c k k {{x}}");
    let plain = parse_config(&format!("{template}\ndocsets: {{a: {{description: c}}}}"));
    let expected = "{{docset_name}} {{docset_description}} {k} k {{x}}";
    assert_eq!(plain.docsets[0].render_instruction(&["k"], &[]), expected);
}
