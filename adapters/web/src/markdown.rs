//! Renders stored Markdown, which is untrusted, as safe HTML.
//!
//! The result has no style or event attribute. Only the renderer writes images and buttons.

use std::borrow::Cow;
use std::cell::RefCell;
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

/// Keeps the IDs of a text apart from those of the page.
const ID_PREFIX: &str = "text-";
const ANCHOR_LABEL: &str = "Link to this heading";
const OPTIONS: Options =
    Options::ENABLE_TABLES.union(Options::ENABLE_STRIKETHROUGH).union(Options::ENABLE_TASKLISTS);

const TAGS: &str = "a b blockquote br button code dd del details dl dt em h2 h3 h4 h5 h6 hr i img \
                    ins kbd li ol p pre s strong sub summary sup table tbody td th thead tr ul";

/// Returns the URL of the page of an item or entity; `None` if it has no page.
pub(crate) type ItemUrl = Arc<dyn Fn(&str) -> Option<String> + Send + Sync>;

/// The context of all texts of a page.
pub(crate) struct TextContext {
    pub(crate) item_url: ItemUrl,
    /// Returns the URL of an image, from its path in a text; `None` if pages do not show it.
    pub(crate) image_url: ItemUrl,
    /// True if the boxes of tasks are buttons, whose value `task` is a number for [`toggle_task`].
    pub(crate) has_buttons: bool,
    /// How often each anchor was used.
    pub(crate) anchors: RefCell<HashMap<String, usize>>,
}

impl TextContext {
    /// The anchor of a heading, unique on the page.
    fn new_anchor(&self, heading: &str) -> String {
        let mut anchor = heading.trim().to_lowercase().replace(' ', "-");
        anchor.retain(|letter| letter.is_alphanumeric() || "-_".contains(letter));
        let count = *self.anchors.borrow().get(&anchor).unwrap_or(&0);
        self.anchors.borrow_mut().insert(anchor.clone(), count + 1);
        // The result may itself be the text of another heading.
        if count == 0 { anchor } else { self.new_anchor(&format!("{anchor}-{count}")) }
    }
}

/// The text with the box of a task checked or cleared. Tasks are counted from 0.
pub(crate) fn toggle_task(text: &str, task: usize) -> Option<String> {
    let events = Parser::new_ext(truncate_text(text), OPTIONS).into_offset_iter();
    let mut boxes = events.filter_map(|(event, range)| match event {
        Event::TaskListMarker(is_done) => Some((range, if is_done { "[ ]" } else { "[x]" })),
        _ => None,
    });
    let (range, toggled) = boxes.nth(task)?;
    Some([&text[..range.start], toggled, &text[range.end..]].concat())
}

/// Renders Markdown. `top_level` is the level of its highest heading, 2 to 6.
pub(crate) fn render_markdown(text: &str, top_level: usize, context: &TextContext) -> String {
    let text = truncate_text(text);
    let mut filter = EventFilter {
        context,
        top_level,
        open_tags: Vec::new(),
        open_headings: Vec::new(),
        links: 0,
        raw_as_text: text.matches('<').count() > MAX_RAW_TAGS,
        heading: None,
        tasks: 0,
        events: Vec::new(),
    };
    for event in TextMergeStream::new(Parser::new_ext(text, OPTIONS)) {
        filter.push(event);
    }
    let mut unsafe_html = String::with_capacity(text.len() * 3 / 2);
    html::push_html(&mut unsafe_html, filter.events.into_iter());
    let mut html = sanitize(&unsafe_html, context);
    // Pages have no inline styles. In a text, `<` is escaped.
    for (tag, side) in [("th", "right"), ("td", "right"), ("th", "center"), ("td", "center")] {
        let [style, class] = ["style=\"text-align: ", "class=\""];
        html = html.replace(&format!("<{tag} {style}{side}"), &format!("<{tag} {class}{side}"));
    }
    html
}

fn truncate_text(text: &str) -> &str {
    let mut end = text.len().min(MAX_BYTES);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

fn sanitize(unsafe_html: &str, context: &TextContext) -> String {
    let (item_url, image_url) = (Arc::clone(&context.item_url), Arc::clone(&context.image_url));
    let attributes = HashMap::from([
        ("a", HashSet::from(["href", "aria-label"])),
        ("button", HashSet::from(["role", "name", "value", "aria-checked", "aria-label"])),
        ("img", HashSet::from(["src", "alt"])),
        ("ol", HashSet::from(["start"])),
        ("td", HashSet::from(["style"])),
        ("th", HashSet::from(["style"])),
    ]);
    Builder::empty()
        .generic_attributes(HashSet::from(["class", "id"]))
        .tags(TAGS.split(' ').collect())
        .clean_content_tags(HashSet::from(["script", "style"]))
        .tag_attributes(attributes)
        .url_schemes(HashSet::from(["http", "https", "mailto", ITEM_SCHEME]))
        // The filter rejects relative URLs of the author; this is for those that it returns.
        .url_relative(UrlRelative::PassThrough)
        .link_rel(Some("noreferrer noopener nofollow"))
        .attribute_filter(move |tag, attribute, value| {
            let is_kept = match (attribute, item_of_url(value), value.strip_prefix('#')) {
                ("src", ..) => return image_url(value).map(Cow::Owned),
                ("href", Some(id), _) => return item_url(id).map(Cow::Owned),
                ("href", _, Some(id)) => return Some(format!("#{ID_PREFIX}{id}").into()),
                ("href", ..) => is_external(value),
                ("aria-label", ..) => tag == "button" || value == ANCHOR_LABEL,
                ("class", ..) => ["anchor", "check"].contains(&value),
                ("id", ..) => value.starts_with(ID_PREFIX),
                ("style", ..) => ["text-align: right", "text-align: center"].contains(&value),
                _ => true,
            };
            is_kept.then_some(Cow::Borrowed(value))
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
    context: &'a TextContext,
    top_level: usize,
    open_tags: Vec<OpenTag>,
    /// The source levels of the headings above the current one, outermost first.
    open_headings: Vec<HeadingLevel>,
    /// The number of open links.
    links: usize,
    raw_as_text: bool,
    /// The event that starts the open heading, and its text.
    heading: Option<(usize, String)>,
    /// The number of tasks so far.
    tasks: usize,
    events: Vec<Event<'a>>,
}

impl<'a> EventFilter<'a> {
    fn push(&mut self, event: Event<'a>) {
        match event {
            Event::Start(tag) => self.open(tag),
            Event::End(_) => self.close(),
            Event::Text(text) => self.push_text(text),
            Event::Html(html) | Event::InlineHtml(html)
                if self.raw_as_text || has_reserved_tag(&html) =>
            {
                self.events.push(Event::Text(html));
            }
            Event::TaskListMarker(is_done) if self.context.has_buttons => {
                self.events.push(task_button(self.tasks, is_done));
                self.tasks += 1;
            }
            Event::TaskListMarker(is_done) => {
                self.events.push(Event::Text(if is_done { "☑ " } else { "☐ " }.into()));
            }
            other => {
                if let (Event::Code(code), Some((_, heading))) = (&other, &mut self.heading) {
                    *heading += code;
                }
                self.events.push(other);
            }
        }
    }

    fn open(&mut self, tag: Tag<'a>) {
        let is_image = matches!(tag, Tag::Image { .. });
        let tag = match tag {
            Tag::Image { ref dest_url, .. } if (self.context.image_url)(dest_url).is_some() => tag,
            Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. } => {
                return self.open_link(&dest_url, is_image);
            }
            Tag::Heading { level, .. } => {
                let level = self.shifted_level(level);
                self.heading = Some((self.events.len(), String::new()));
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

    /// Opens a link. An image of another server becomes a link to it, because pages load nothing
    /// from there; one that the storage does not have, its path.
    fn open_link(&mut self, url: &str, is_image: bool) {
        let target = if is_external(url) || !is_image && url.starts_with('#') {
            Some(url.to_owned())
        } else {
            self.linked_item(url).map(|id| format!("{ITEM_SCHEME}:{id}"))
        };
        let Some(target) = target.filter(|_| self.links == 0) else {
            if is_image && !url.contains(':') {
                self.events.push(Event::Text(format!("Image {url}: ").into()));
            }
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
        (self.context.item_url)(&id).is_some().then_some(id)
    }

    fn close(&mut self) {
        match self.open_tags.pop() {
            Some(OpenTag::Kept(TagEnd::Heading(level))) => self.close_heading(level),
            Some(OpenTag::Kept(end)) => self.events.push(Event::End(end)),
            Some(OpenTag::Link) => {
                self.links -= 1;
                self.events.push(Event::End(TagEnd::Link));
            }
            Some(OpenTag::OmittedBlock) => self.events.push(Event::SoftBreak),
            Some(OpenTag::Omitted) | None => {}
        }
    }

    /// Gives the open heading its ID and a link to it.
    fn close_heading(&mut self, level: HeadingLevel) {
        if let Some((start, text)) = self.heading.take() {
            let anchor = self.context.new_anchor(&text);
            let id = Some(format!("{ID_PREFIX}{anchor}").into());
            let heading = Tag::Heading { level, id, classes: Vec::new(), attrs: Vec::new() };
            self.events[start] = Event::Start(heading);
            let link = format!(
                " <a class=\"anchor\" aria-label=\"{ANCHOR_LABEL}\" href=\"#{anchor}\">#</a>"
            );
            self.events.push(Event::InlineHtml(link.into()));
        }
        self.events.push(Event::End(TagEnd::Heading(level)));
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
        if let Some((_, heading)) = &mut self.heading {
            *heading += &text;
        }
        let is_in = |end| self.open_tags.contains(&OpenTag::Kept(end));
        if self.links > 0 || is_in(TagEnd::CodeBlock) || is_in(TagEnd::Image) {
            return self.events.push(Event::Text(text));
        }
        let mut end_of_last = 0;
        for (range, id) in scan_mentions(&text) {
            if (self.context.item_url)(&id).is_none() {
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

/// True for raw HTML with a tag that only the renderer may write.
fn has_reserved_tag(html: &str) -> bool {
    let html = html.to_ascii_lowercase();
    html.contains("<img") || html.contains("<button")
}

fn task_button<'a>(task: usize, is_done: bool) -> Event<'a> {
    let button = format!(
        "<button class=\"check\" id=\"{ID_PREFIX}task-{task}\" role=\"checkbox\" name=\"task\" \
         value=\"{task}\" aria-checked=\"{is_done}\" aria-label=\"Task {} is done\"></button> ",
        task + 1
    );
    Event::InlineHtml(button.into())
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
