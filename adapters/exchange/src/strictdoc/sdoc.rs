//! The syntax of SDoc files: blocks of fields, such as `[REQUIREMENT]`.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BlockForm {
    Leaf,
    /// Blocks follow up to the close.
    Open,
    Close,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Block {
    pub(crate) line: usize,
    pub(crate) tag: String,
    pub(crate) form: BlockForm,
    /// Names and values in their order.
    pub(crate) fields: Vec<(String, String)>,
    /// A field with indented values, such as `RELATIONS`, once for each of its entries.
    pub(crate) groups: Vec<(String, Vec<(String, String)>)>,
}

/// Passes on the blocks of a file. The error names the line.
pub(crate) fn read_blocks(
    path: &str,
    text: &str,
    mut add: impl FnMut(Block) -> Result<(), String>,
) -> Result<(), String> {
    let mut last: Option<Block> = None;
    let mut lines = text.lines().zip(1..);
    while let Some((line, number)) = lines.next() {
        let problem = |text: &str| Err(format!("{path}:{number}: {text}"));
        // The value up to the line of its end.
        let mut read_value = |end: &str| {
            let (mut value, mut is_open) = (Vec::new(), true);
            while is_open && let Some((line, _)) = lines.next() {
                is_open = !line.starts_with(end);
                value.extend(Some(line).filter(|_| is_open));
            }
            let missing = || format!("{path}:{number}: unterminated value; add a line `{end}`");
            if is_open { Err(missing()) } else { Ok(value.join("\n")) }
        };
        if let Some((tag, form)) = parse_tag(line) {
            let fields = match &*tag {
                "FREETEXT" => vec![("STATEMENT".to_owned(), read_value("[/FREETEXT]")?)],
                _ => Vec::new(),
            };
            let block = Block { line: number, tag, form, fields, groups: Vec::new() };
            last.replace(block).map_or(Ok(()), &mut add)?;
            continue;
        }
        let block = last.as_mut().filter(|block| block.form != BlockForm::Close);
        match (block, line) {
            (_, line) if line.trim().is_empty() => {}
            (None, _) => return problem("it is not in a block; begin one, such as [DOCUMENT]"),
            // It has the types of fields, which are not imported.
            (Some(block), _) if block.tag == "GRAMMAR" => {}
            (Some(block), line) if line.starts_with(['-', ' ']) => {
                let Some((name, entries)) = block.groups.last_mut() else {
                    return problem("it is not a field; write NAME: value");
                };
                let (key, value) = line.split_once(':').unwrap_or((line, ""));
                let entry = (key.trim_matches(['-', ' ']).to_owned(), value.trim().to_owned());
                if line.starts_with('-') && !entries.is_empty() {
                    let group = (name.clone(), vec![entry]);
                    block.groups.push(group);
                } else {
                    entries.push(entry);
                }
            }
            (Some(block), line) => match line.split_once(':').filter(|(name, _)| is_name(name)) {
                Some((name, " >>>")) => block.fields.push((name.to_owned(), read_value("<<<")?)),
                Some((name, "")) => block.groups.push((name.to_owned(), Vec::new())),
                Some((name, value)) => {
                    let value = value.strip_prefix(' ').unwrap_or(value);
                    block.fields.push((name.to_owned(), value.to_owned()));
                }
                None => return problem("it is not a field; write NAME: value"),
            },
        }
    }
    last.map_or(Ok(()), add)
}

fn is_name(name: &str) -> bool {
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    name.starts_with(|c: char| c.is_ascii_uppercase()) && name.chars().all(is_part)
}

/// Parses `[TAG]`, `[[TAG]]` and `[[/TAG]]`, and the older `[SECTION]` and `[/SECTION]`.
fn parse_tag(line: &str) -> Option<(String, BlockForm)> {
    let inside = line.trim_end().strip_prefix('[')?.strip_suffix(']')?;
    let double = inside.strip_prefix('[').and_then(|inside| inside.strip_suffix(']'));
    let name = double.unwrap_or(inside);
    let tag = name.strip_prefix('/').unwrap_or(name);
    let is_older = matches!(tag, "SECTION" | "COMPOSITE_REQUIREMENT");
    let form = match name.len() > tag.len() {
        true => BlockForm::Close,
        false if double.is_some() || is_older => BlockForm::Open,
        false => BlockForm::Leaf,
    };
    let is_tag = !tag.is_empty() && tag.chars().all(|c| c.is_ascii_uppercase() || c == '_');
    is_tag.then(|| (tag.to_owned(), form))
}

/// Writes a field that is not empty.
pub(crate) fn write_field(out: &mut String, name: &str, value: &str) {
    let value = with_marks(value, true);
    let is_block = value.contains(['\n', '\r']) || value.starts_with(char::is_whitespace);
    match is_block || value == ">>>" {
        _ if value.is_empty() => {}
        true => out.extend([name, ": >>>\n", &value, "\n<<<\n"]),
        false => out.extend([name, ": ", &value, "\n"]),
    }
}

/// Removes the marks that [`write_field`] adds.
pub(crate) fn without_marks(value: &str) -> String {
    with_marks(value, false)
}

/// Adds or removes a backslash in texts that would end a value or be a link of StrictDoc.
fn with_marks(value: &str, is_added: bool) -> String {
    const MARKED: [&str; 3] = ["<<<", "LINK: ", "ANCHOR: "];
    let mut marked = String::with_capacity(value.len());
    for part in value.split_inclusive(['\n', '[']) {
        let is_marked = MARKED.iter().any(|word| part.trim_start_matches('\\').starts_with(word));
        let rest = part.strip_prefix('\\').filter(|_| is_marked && !is_added);
        marked.push_str(if is_marked && is_added { "\\" } else { "" });
        marked.push_str(rest.unwrap_or(part));
    }
    marked
}
