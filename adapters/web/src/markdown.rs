//! Renders stored Markdown, which is untrusted, as safe HTML.
//!
//! The result has no style, class, id or event attribute, no image and no form control.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use ammonia::{Builder, UrlRelative};
use pulldown_cmark::{
    CowStr, Event, HeadingLevel, Options, Parser, Tag, TagEnd, TextMergeStream, html,
};
use reqlore_domain::backlog::{Reference, scan_mentions};
use reqlore_domain::knowledge::is_entity_id;

/// The rest of a longer text is left out.
const MAX_BYTES: usize = 200_000;
/// Deeper elements are left out and their text is kept, because the sanitizer needs quadratic
/// time for deep trees.
const MAX_DEPTH: usize = 24;
/// Raw HTML in a text with more tags is shown as text, for the same reason.
const MAX_RAW_TAGS: usize = 500;
/// Longer URLs become text.
const MAX_URL_BYTES: usize = 2_000;
/// The scheme of links to items between the parser and the end of the sanitizer.
const ITEM_SCHEME: &str = "reqlore";

const TAGS: [&str; 33] = [
    "a",
    "b",
    "blockquote",
    "br",
    "code",
    "dd",
    "del",
    "details",
    "dl",
    "dt",
    "em",
    "h2",
    "h3",
    "h4",
    "h5",
    "h6",
    "hr",
    "i",
    "ins",
    "kbd",
    "li",
    "ol",
    "p",
    "pre",
    "s",
    "strong",
    "sub",
    "summary",
    "sup",
    "table",
    "tbody",
    "td",
    "ul",
];
const TABLE_TAGS: [&str; 3] = ["th", "thead", "tr"];

/// Returns the URL of the page of an item or entity; `None` if it has no page.
pub(crate) type ItemUrl = Arc<dyn Fn(&str) -> Option<String> + Send + Sync>;

/// Renders Markdown. `top_level` is the level of its highest heading, 2 to 6.
pub(crate) fn render_markdown(text: &str, top_level: usize, item_url: &ItemUrl) -> String {
    let text = truncate_text(text);
    let options =
        Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS;
    let mut filter = EventFilter {
        item_url,
        top_level,
        open_tags: Vec::new(),
        open_headings: Vec::new(),
        links: 0,
        raw_as_text: text.matches('<').count() > MAX_RAW_TAGS,
        events: Vec::new(),
    };
    for event in TextMergeStream::new(Parser::new_ext(text, options)) {
        filter.push(event);
    }
    let mut unsafe_html = String::with_capacity(text.len() * 3 / 2);
    html::push_html(&mut unsafe_html, filter.events.into_iter());
    sanitize(&unsafe_html, item_url)
}

fn truncate_text(text: &str) -> &str {
    let mut end = text.len().min(MAX_BYTES);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

fn sanitize(unsafe_html: &str, item_url: &ItemUrl) -> String {
    let item_url = Arc::clone(item_url);
    let mut tags = HashSet::from(TAGS);
    tags.extend(TABLE_TAGS);
    let attributes =
        HashMap::from([("a", HashSet::from(["href"])), ("ol", HashSet::from(["start"]))]);
    Builder::empty()
        .tags(tags)
        .clean_content_tags(HashSet::from(["script", "style"]))
        .tag_attributes(attributes)
        .url_schemes(HashSet::from(["http", "https", "mailto", ITEM_SCHEME]))
        // The filter rejects relative URLs of the author; this is for those that it returns.
        .url_relative(UrlRelative::PassThrough)
        .link_rel(Some("noreferrer noopener nofollow"))
        .attribute_filter(move |_, attribute, value| match item_of_url(value) {
            _ if attribute != "href" => Some(Cow::Borrowed(value)),
            Some(id) => item_url(id).map(Cow::Owned),
            None => is_external(value).then_some(Cow::Borrowed(value)),
        })
        .clean(unsafe_html)
        .to_string()
}

fn item_of_url(url: &str) -> Option<&str> {
    let (scheme, id) = url.split_once(':')?;
    scheme.eq_ignore_ascii_case(ITEM_SCHEME).then_some(id)
}

/// True for a URL that a link may open.
fn is_external(url: &str) -> bool {
    let scheme = url.split_once(':').map_or("", |(scheme, _)| scheme);
    url.len() <= MAX_URL_BYTES
        && ["http", "https", "mailto"].iter().any(|known| scheme.eq_ignore_ascii_case(known))
}

/// An element that is open in the source.
#[derive(Clone, Copy, PartialEq, Eq)]
enum OpenTag {
    Kept(TagEnd),
    Link,
    /// Left out, with its text kept.
    Omitted,
    /// Left out, with a space after its text.
    OmittedBlock,
}

/// Turns the events of the parser into those that are rendered.
struct EventFilter<'a> {
    item_url: &'a ItemUrl,
    top_level: usize,
    open_tags: Vec<OpenTag>,
    /// The source levels of the headings above the current one, outermost first.
    open_headings: Vec<HeadingLevel>,
    /// The number of open links.
    links: usize,
    raw_as_text: bool,
    events: Vec<Event<'a>>,
}

impl<'a> EventFilter<'a> {
    fn push(&mut self, event: Event<'a>) {
        match event {
            Event::Start(tag) => self.open(tag),
            Event::End(_) => self.close(),
            Event::Text(text) => self.push_text(text),
            Event::Html(html) | Event::InlineHtml(html) if self.raw_as_text => {
                self.events.push(Event::Text(html));
            }
            // A check box would be a form control.
            Event::TaskListMarker(is_done) => {
                self.events.push(Event::Text(if is_done { "☑ " } else { "☐ " }.into()));
            }
            other => self.events.push(other),
        }
    }

    fn open(&mut self, tag: Tag<'a>) {
        let is_image = matches!(tag, Tag::Image { .. });
        let tag = match tag {
            Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. } => {
                return self.open_link(&dest_url, is_image);
            }
            Tag::Heading { level, .. } => {
                let level = self.shifted_level(level);
                Tag::Heading { level, id: None, classes: Vec::new(), attrs: Vec::new() }
            }
            other => other,
        };
        let open = if self.open_tags.len() < MAX_DEPTH {
            let end = tag.to_end();
            self.events.push(Event::Start(tag));
            OpenTag::Kept(end)
        } else if matches!(tag, Tag::Emphasis | Tag::Strong | Tag::Strikethrough) {
            OpenTag::Omitted
        } else {
            OpenTag::OmittedBlock
        };
        self.open_tags.push(open);
    }

    /// Opens a link. An image becomes a link to it, because pages load nothing from other servers.
    fn open_link(&mut self, url: &str, is_image: bool) {
        let target = if is_external(url) {
            Some(url.to_owned())
        } else {
            self.linked_item(url).map(|id| format!("{ITEM_SCHEME}:{id}"))
        };
        let Some(target) = target.filter(|_| self.links == 0) else {
            return self.open_tags.push(OpenTag::Omitted);
        };
        self.links += 1;
        self.open_tags.push(OpenTag::Link);
        self.events.push(link_start(target));
        if is_image {
            self.events.push(Event::Text("Image: ".into()));
        }
    }

    /// The item or entity whose file a relative link names, such as `../REQ-001-login.md`.
    fn linked_item(&self, url: &str) -> Option<String> {
        if url.contains(':') {
            return None;
        }
        let name = url.rsplit('/').next()?.strip_suffix(".md")?;
        let id = match Reference::from_document_name(name) {
            Some(reference) => reference.to_string(),
            None => is_entity_id(name).then(|| name.to_owned())?,
        };
        (self.item_url)(&id).is_some().then_some(id)
    }

    fn close(&mut self) {
        match self.open_tags.pop() {
            Some(OpenTag::Kept(end)) => self.events.push(Event::End(end)),
            Some(OpenTag::Link) => {
                self.links -= 1;
                self.events.push(Event::End(TagEnd::Link));
            }
            Some(OpenTag::OmittedBlock) => self.events.push(Event::SoftBreak),
            Some(OpenTag::Omitted) | None => {}
        }
    }

    /// Numbers headings without gaps, for any levels of the author.
    fn shifted_level(&mut self, level: HeadingLevel) -> HeadingLevel {
        while self.open_headings.last().is_some_and(|open| *open >= level) {
            self.open_headings.pop();
        }
        self.open_headings.push(level);
        let shifted = self.top_level + self.open_headings.len() - 1;
        HeadingLevel::try_from(shifted.clamp(2, 6)).unwrap_or(HeadingLevel::H6)
    }

    /// Pushes a text with its references as links.
    fn push_text(&mut self, text: CowStr<'a>) {
        let is_code = self.open_tags.contains(&OpenTag::Kept(TagEnd::CodeBlock));
        if self.links > 0 || is_code {
            return self.events.push(Event::Text(text));
        }
        let mut end_of_last = 0;
        for (range, id) in scan_mentions(&text) {
            if (self.item_url)(&id).is_none() {
                continue;
            }
            self.events.push(Event::Text(text[end_of_last..range.start].to_owned().into()));
            end_of_last = range.end;
            self.events.push(link_start(format!("{ITEM_SCHEME}:{id}")));
            self.events.push(Event::Text(text[range].to_owned().into()));
            self.events.push(Event::End(TagEnd::Link));
        }
        let rest = if end_of_last == 0 { text } else { text[end_of_last..].to_owned().into() };
        self.events.push(Event::Text(rest));
    }
}

fn link_start<'a>(url: String) -> Event<'a> {
    Event::Start(Tag::Link {
        link_type: pulldown_cmark::LinkType::Inline,
        dest_url: url.into(),
        title: "".into(),
        id: "".into(),
    })
}

#[cfg(test)]
mod tests;
