//! The hierarchy of epics, user stories and requirements, one row for each item.

use std::collections::HashMap;

use super::canvas::{
    BAR_WIDTH, MARGIN, PictureStyle, SMALL_PX, STATUS_INDENT, SvgCanvas, TEXT_PX, count_noun,
    cut_text, id_width, text_width,
};
use crate::svg::picture_item::{MAX_NODES, PictureItem};

const ROW_HEIGHT: usize = 26;
const INDENT: usize = 22;
const GAP: usize = 20;
const MAX_TITLE_PX: usize = 420;

/// Keeps an item and the items below it, of all levels.
pub fn tree_focus(items: Vec<PictureItem>, focus: &str) -> Vec<PictureItem> {
    let tree = ItemTree::new(&items);
    let mut is_kept = vec![false; items.len()];
    let mut pending: Vec<usize> =
        (0..items.len()).filter(|index| items[*index].reference_id == focus).collect();
    while let Some(index) = pending.pop() {
        if !is_kept[index] {
            is_kept[index] = true;
            pending.extend(&tree.children[index]);
        }
    }
    let mut kept = Vec::new();
    for (item, is_kept) in items.into_iter().zip(is_kept) {
        if is_kept {
            kept.push(item);
        }
    }
    kept
}

/// Draws items below their parents, in the given order. An item without its parent is a root.
pub fn draw_tree(items: &[PictureItem], max_depth: usize, style: PictureStyle) -> String {
    let tree = ItemTree::new(items);
    let rows = tree.select_rows(max_depth);
    let mut names_px = 0;
    let mut status_px = 0;
    for row in &rows {
        let (id, title) = row.texts(items);
        let mut title_px = text_width(&title, TEXT_PX);
        if row.depth == 0 {
            // Roots are bold.
            title_px += title_px / 8;
        }
        names_px = names_px.max(row.depth * INDENT + id_width(id) + 8 + title_px);
        let status = items[row.item].status.as_deref().unwrap_or_default();
        status_px = status_px.max(text_width(status, SMALL_PX) + STATUS_INDENT);
    }
    let status_left = MARGIN + names_px + GAP;
    let bar_x = status_left + status_px + GAP;
    let mut canvas = SvgCanvas::default();
    for (index, row) in rows.iter().enumerate() {
        let y = MARGIN + index * ROW_HEIGHT + 18;
        let x = MARGIN + row.depth * INDENT;
        if let Some(parent) = row.parent_row {
            let top = MARGIN + parent * ROW_HEIGHT + 24;
            let (line_x, line_y) = (x - INDENT + 6, y - 5);
            canvas.push(&format!(
                "<path d=\"M{line_x} {top}V{line_y}H{}\" class=\"line branch\"/>",
                x - 4
            ));
        }
        let (id, title) = row.texts(items);
        if row.is_remainder {
            canvas.push_text(x, y, "muted", &title);
            continue;
        }
        let item = &items[row.item];
        canvas.open_link(item.href.as_ref());
        canvas.push_text(x, y, "id", id);
        let class = if row.depth == 0 { "name root" } else { "name" };
        canvas.push_text(x + id_width(id) + 8, y, class, &title);
        canvas.close_link(item.href.as_ref());
        if let Some(status) = &item.status {
            let text = cut_text(status, SMALL_PX, MAX_TITLE_PX);
            canvas.push_status(status_left, y, &text, item.mark());
        }
        if let Some(progress) = item.progress {
            canvas.push_bar(bar_x, y, &[("Done", progress.count())], progress.total);
            let text = format!("{}/{}", progress.count(), progress.total);
            canvas.push_text(bar_x + BAR_WIDTH + 8, y, "muted", &text);
        }
    }
    let size = (bar_x + BAR_WIDTH + 64 + MARGIN, 2 * MARGIN + rows.len().max(1) * ROW_HEIGHT);
    if rows.is_empty() {
        canvas.push_text(MARGIN, MARGIN + 18, "muted", "No items yet.");
    }
    let description =
        format!("{}, with status and progress.", count_noun(items.len(), "item", "items"));
    canvas.finish(style, size, "tree", "Hierarchy of the backlog", &description)
}

struct ItemTree {
    roots: Vec<usize>,
    children: Vec<Vec<usize>>,
}

struct TreeRow {
    item: usize,
    depth: usize,
    parent_row: Option<usize>,
    /// Items that the picture leaves out at this position.
    hidden: usize,
    /// True for the row that only counts them.
    is_remainder: bool,
}

impl TreeRow {
    fn texts<'a>(&self, items: &'a [PictureItem]) -> (&'a str, String) {
        let more = format!("+ {} more", self.hidden);
        if self.is_remainder {
            return ("", more);
        }
        let item = &items[self.item];
        let mut title = cut_text(&item.title, TEXT_PX, MAX_TITLE_PX).into_owned();
        if self.hidden > 0 {
            title = format!("{title}  ({more})");
        }
        (&item.reference_id, title)
    }
}

impl ItemTree {
    fn new(items: &[PictureItem]) -> Self {
        let mut by_reference = HashMap::new();
        for (index, item) in items.iter().enumerate() {
            by_reference.entry(item.reference_id.as_str()).or_insert(index);
        }
        let mut tree = Self { roots: Vec::new(), children: vec![Vec::new(); items.len()] };
        for (index, item) in items.iter().enumerate() {
            match item.parent.as_deref().and_then(|parent| by_reference.get(parent)) {
                Some(parent) if *parent != index => tree.children[*parent].push(index),
                _ => tree.roots.push(index),
            }
        }
        tree
    }

    /// Shows whole levels first. The level that does not fit gives every parent equally many.
    fn select_rows(&self, max_depth: usize) -> Vec<TreeRow> {
        let mut shown = vec![0; self.children.len()];
        let shown_roots = self.roots.len().min(MAX_NODES);
        let mut budget = MAX_NODES - shown_roots;
        let mut level = self.roots[..shown_roots].to_vec();
        for _ in 1..max_depth.max(1) {
            let mut next = Vec::new();
            let wanted: usize = level.iter().map(|item| self.children[*item].len()).sum();
            let quota = if wanted <= budget { wanted } else { budget / level.len().max(1) };
            for item in level {
                shown[item] = self.children[item].len().min(quota);
                next.extend(&self.children[item][..shown[item]]);
            }
            budget -= next.len();
            level = next;
        }
        let mut rows = Vec::new();
        for root in &self.roots[..shown_roots] {
            self.push_rows(&mut rows, &shown, *root, None);
        }
        let hidden = self.roots.len() - shown_roots;
        if hidden > 0 {
            let (item, depth) = (self.roots[0], 0);
            rows.push(TreeRow { item, depth, parent_row: None, hidden, is_remainder: true });
        }
        rows
    }

    fn push_rows(
        &self,
        rows: &mut Vec<TreeRow>,
        shown: &[usize],
        item: usize,
        parent_row: Option<usize>,
    ) {
        let depth = parent_row.map_or(0, |row| rows[row].depth + 1);
        let hidden = self.children[item].len() - shown[item];
        let own_row = rows.len();
        // A row of its own only after visible children.
        let own_hidden = if shown[item] == 0 { hidden } else { 0 };
        rows.push(TreeRow { item, depth, parent_row, hidden: own_hidden, is_remainder: false });
        for child in &self.children[item][..shown[item]] {
            self.push_rows(rows, shown, *child, Some(own_row));
        }
        if hidden > own_hidden {
            let parent_row = Some(own_row);
            let depth = depth + 1;
            rows.push(TreeRow { item, depth, parent_row, hidden, is_remainder: true });
        }
    }
}
