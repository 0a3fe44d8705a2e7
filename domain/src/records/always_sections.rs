//! `always` of `[context]` in `.reqlore/project.toml`: the sections whose rules every context has.

use toml::Spanned;
use toml::de::DeValue;

use crate::bounded_types::truncate_echo;
use crate::document::DocumentId;
use crate::untrusted_text::is_hidden;

const MAX_SECTIONS: usize = 20;

/// The keys of the sections, without duplicates.
pub(super) fn parse_always(key: &str, value: &Spanned<DeValue<'_>>) -> Result<Vec<String>, String> {
    if key != "always" {
        return Err(format!("context: {:?} is unknown; use always", truncate_echo(key)));
    }
    section_keys(value).map_err(|problem| format!("context: always {problem}"))
}

fn section_keys(value: &Spanned<DeValue<'_>>) -> Result<Vec<String>, String> {
    let list = value.get_ref().as_array();
    let names: Option<Vec<&str>> =
        list.and_then(|names| names.iter().map(|name| name.get_ref().as_str()).collect());
    let Some(names) = names else {
        return Err("is not a list of texts; write it like [\"general\"]".to_owned());
    };
    if names.len() > MAX_SECTIONS {
        return Err(format!("has {} sections; write at most {MAX_SECTIONS}", names.len()));
    }
    let mut keys: Vec<String> = Vec::new();
    for name in names {
        if name.contains(is_hidden) {
            let name = truncate_echo(name);
            return Err(format!("names {name:?}; remove the control and hidden characters"));
        }
        let check = DocumentId::section(name).check();
        check.map_err(|problem| format!("names {:?}: {problem}", truncate_echo(name)))?;
        if !keys.iter().any(|key| key == name) {
            keys.push(name.to_owned());
        }
    }
    Ok(keys)
}

#[cfg(test)]
mod tests {
    use crate::records::schema::RecordSchema;

    #[test]
    fn always_lists_sections() {
        let text = "[context]\nalways = [\"general\", \"code style\", \"general\"]\n";
        let schema = RecordSchema::parse(text);
        assert_eq!(schema.always, ["general", "code style"]);
        assert_eq!(schema.diagnostics, []);
        assert_eq!(RecordSchema::parse("").always, Vec::<String>::new());
    }

    #[test]
    fn always_refuses_hostile_values() {
        let many = format!("always = [{}]", "\"a\", ".repeat(21));
        let long = format!("always = [\"{}\"]", "a".repeat(10_000));
        for (line, problem) in [
            ("always = \"general\"", "always is not a list of texts;"),
            ("always = [1]", "always is not a list of texts;"),
            (&many, "always has 21 sections; write at most 20"),
            (&long, "always names \"aaa"),
            ("always = [\"../x\"]", "always names \"../x\": "),
            ("always = [\"a\\u0007b\"]", "always names \"a\\u{7}b\"; remove"),
            ("always = [\"a\\u202eb\"]", "always names \"a\\u{202e}b\"; remove"),
            ("always = [\"\"]", "always names \"\": "),
            ("never = []", "\"never\" is unknown; use always"),
        ] {
            let schema = RecordSchema::parse(&format!("[context]\n{line}\n"));
            let [diagnostic] = &schema.diagnostics[..] else { panic!("{line}") };
            let message = &diagnostic.message;
            assert!(message.starts_with(&format!("context: {problem}")), "{message}");
            assert!(message.len() < 600, "{message}");
            assert_eq!(schema.always, Vec::<String>::new());
        }
        let schema = RecordSchema::parse("context = 1\n");
        assert_eq!(schema.diagnostics[0].message, "context is not a table; write [context]");
    }
}
