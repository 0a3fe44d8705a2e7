//! Joins and splits comma-separated lists with quoting.

/// Joins texts with commas. A text that a reader could split or trim is quoted.
pub fn join_list<T: AsRef<str>>(texts: &[T]) -> String {
    let mut list = Vec::new();
    for text in texts {
        let text = text.as_ref();
        let is_plain = !text.is_empty() && text.trim() == text && !text.contains(',');
        if is_plain && !text.starts_with('"') {
            list.push(text.to_owned());
        } else {
            list.push(format!("\"{}\"", text.replace('"', "\"\"")));
        }
    }
    list.join(", ")
}

/// Splits what [`join_list`] returns, or a list that a user typed.
pub fn split_list(list: &str) -> Vec<String> {
    let (mut texts, mut rest) = (Vec::new(), list);
    while !rest.is_empty() {
        let has_quotes = rest.trim_start().starts_with('"');
        let mut is_open = false;
        let is_end = |letter| {
            is_open ^= has_quotes && letter == '"';
            letter == ',' && !is_open
        };
        let (text, after) = rest.split_at(rest.find(is_end).unwrap_or(rest.len()));
        rest = after.strip_prefix(',').unwrap_or_default();
        let text = text.trim();
        match text.strip_prefix('"').and_then(|text| text.strip_suffix('"')) {
            Some(quoted) => texts.push(quoted.replace("\"\"", "\"")),
            None if text.is_empty() => {}
            None => texts.push(text.to_owned()),
        }
    }
    texts
}
