//! Links in the HTML of pages. The templates and the sanitizer quote all attributes and escape `<`.

/// Replaces each `href` and `src` by the answer of `on_link`, or removes it if that is `None`.
/// Leaves out forms, which need a server.
pub(super) fn rewrite_links(html: &str, mut on_link: impl FnMut(&str) -> Option<String>) -> String {
    let mut rewritten = String::with_capacity(html.len());
    let mut rest = html;
    while let Some(start) = rest.find('<') {
        rewritten += &rest[..start];
        rest = &rest[start..];
        if rest.starts_with("<form") {
            let end = rest.find("</form>").map_or(rest.len(), |end| end + "</form>".len());
            rest = &rest[end..];
            continue;
        }
        let (tag, after) = rest.split_at(tag_length(rest));
        rewrite_tag(tag, &mut rewritten, &mut on_link);
        rest = after;
    }
    rewritten + rest
}

/// The bytes of a tag. A quoted value may contain `>`.
fn tag_length(html: &str) -> usize {
    let mut is_quoted = false;
    for (index, byte) in html.bytes().enumerate() {
        match byte {
            b'"' => is_quoted = !is_quoted,
            b'>' if !is_quoted => return index + 1,
            _ => {}
        }
    }
    html.len()
}

fn rewrite_tag(
    tag: &str,
    rewritten: &mut String,
    on_link: &mut impl FnMut(&str) -> Option<String>,
) {
    let mut rest = tag;
    // Values are at the odd positions between the quotes.
    while let Some((before, after)) = rest.split_once('"') {
        let (value, after) = after.split_once('"').unwrap_or((after, ""));
        rest = after;
        let Some(name) = [" href=", " src="].into_iter().find(|name| before.ends_with(name)) else {
            rewritten.extend([before, "\"", value, "\""]);
            continue;
        };
        let link = value.replace("&amp;", "&").replace("&#38;", "&");
        match on_link(&link) {
            Some(link) => rewritten.extend([before, "\"", &link.replace('&', "&amp;"), "\""]),
            None => *rewritten += &before[..before.len() - name.len()],
        }
    }
    *rewritten += rest;
}

#[cfg(test)]
mod tests {
    use super::rewrite_links;

    #[test]
    fn links_are_replaced_in_tags_only() {
        let html = "<p title=\" href=\">a href=\"x\" &lt;a</p><a class=\"b\" href=\"/x?a=1&amp;b=2\">x</a>\
                    <a href=\"gone\">y</a><FORM></FORM><form action=\"/z\"><a href=\"in\">z</a></form>!";
        let mut seen = Vec::new();
        let rewritten = rewrite_links(html, |link| {
            seen.push(link.to_owned());
            (link != "gone").then(|| "p?c&d".to_owned())
        });
        assert_eq!(seen, ["/x?a=1&b=2", "gone"]);
        assert_eq!(
            rewritten,
            "<p title=\" href=\">a href=\"x\" &lt;a</p><a class=\"b\" href=\"p?c&amp;d\">x</a>\
             <a>y</a><FORM></FORM>!"
        );
    }
}
