//! The progress of each epic: done, in progress and other user stories as a bar.

use std::collections::HashMap;

use reqlore_domain::backlog::Status;

use super::canvas::{
    BAR_WIDTH, MARGIN, PictureStyle, SMALL_PX, SvgCanvas, TEXT_PX, cut_text, id_width, text_width,
};
use crate::svg::picture_item::{MAX_NODES, PictureItem};

const ROW_HEIGHT: usize = 28;
const MAX_TITLE_PX: usize = 360;
const GAP: usize = 20;

/// Draws a bar for each epic, in the given order. The stories give the part in progress.
pub fn draw_progress(
    epics: &[PictureItem],
    stories: &[PictureItem],
    style: PictureStyle,
) -> String {
    let mut active: HashMap<&str, usize> = HashMap::new();
    for story in stories {
        if let Some(parent) = &story.parent
            && story.mark() == Status::InProgress.name()
        {
            *active.entry(parent).or_default() += 1;
        }
    }
    let shown = &epics[..epics.len().min(MAX_NODES)];
    let (mut id_px, mut title_px) = (0, 0);
    for epic in shown {
        id_px = id_px.max(id_width(&epic.reference_id));
        let title = cut_text(&epic.title, TEXT_PX, MAX_TITLE_PX);
        title_px = title_px.max(text_width(&title, TEXT_PX));
    }
    let title_left = MARGIN + id_px + 8;
    let bar_x = title_left + title_px + GAP;
    let mut canvas = SvgCanvas::default();
    let (mut all_done, mut all_total, mut longest) = (0_usize, 0_usize, 0);
    let mut y = MARGIN + 18;
    for epic in shown {
        let progress = epic.progress.unwrap_or_default();
        let active = active.get(epic.reference_id.as_str()).copied().unwrap_or_default();
        all_done = all_done.saturating_add(progress.count());
        all_total = all_total.saturating_add(progress.total);
        canvas.open_link(epic.href.as_ref());
        canvas.push_text(MARGIN, y, "id", &epic.reference_id);
        canvas.push_text(title_left, y, "name", &cut_text(&epic.title, TEXT_PX, MAX_TITLE_PX));
        canvas.close_link(epic.href.as_ref());
        let segments = [("Done", progress.count()), ("In Progress", active)];
        canvas.push_bar(bar_x, y, &segments, progress.total);
        let mut text = match progress.total {
            0 => "no user stories".to_owned(),
            total => format!("{}/{total} done", progress.count()),
        };
        if active > 0 {
            text.extend([", ", &active.to_string(), " in progress"]);
        }
        longest = longest.max(text_width(&text, SMALL_PX));
        canvas.push_text(bar_x + BAR_WIDTH + 10, y, "muted", &text);
        y += ROW_HEIGHT;
    }
    let summary = match (epics.len(), epics.len() - shown.len()) {
        (0, _) => "No epics yet.".to_owned(),
        (_, 0) => format!("{all_done} of {all_total} user stories are done."),
        (_, hidden) => format!("+ {hidden} more"),
    };
    canvas.push_text(MARGIN, y, "muted", &summary);
    let width = bar_x + BAR_WIDTH + 10 + longest + MARGIN;
    let width = width.max(2 * MARGIN + text_width(&summary, SMALL_PX));
    canvas.finish(style, (width, y + MARGIN), "progress", "Progress of each epic", &summary)
}
