//! The relation graph: columns by distance from the focus, incoming left and outgoing right.

use std::borrow::Cow;
use std::collections::BTreeMap;

use reqlore_domain::untrusted_text::encode_line;

use super::canvas::{
    LABEL_PX, MARGIN, PictureStyle, SMALL_PX, SvgCanvas, TEXT_PX, count_noun, cut_text, id_width,
    text_width,
};
use crate::svg::graph_walk::{GraphEdge, GraphNode, GraphWalk};

const NODE_HEIGHT: usize = 44;
const NODE_GAP: usize = 14;
const REMAINDER_HEIGHT: usize = 28;
const PADDING: usize = 10;
const MAX_NODE_PX: usize = 220;
const MAX_LABEL_PX: usize = 150;
/// Vertical space of an edge with a label.
const PORT_HEIGHT: usize = 16;
const ARROW_PX: usize = 7;
/// Rounds of barycentre sorting, outwards and back.
const SORT_ROUNDS: usize = 4;

/// Draws the nodes and links of a finished walk.
pub fn draw_graph(walk: &GraphWalk, style: PictureStyle) -> String {
    let edges = walk.edges();
    let layout = GraphLayout::new(walk, &edges);
    let mut canvas = SvgCanvas::default();
    for (edge, path) in edges.iter().zip(&layout.paths) {
        path.draw(&mut canvas, &edge_label(edge));
    }
    // Nodes come after all lines, which may cross them.
    for (index, node) in walk.nodes.iter().enumerate() {
        draw_node(&mut canvas, node, &layout.boxes[index], index == 0);
    }
    for (column, count) in &walk.hidden {
        if let Some(column) = layout.columns.get(column) {
            let (x, y) = (column.x + PADDING, column.bottom + 20);
            canvas.push_text(x, y, "muted", &format!("+ {count} more"));
        }
    }
    let focus = &walk.nodes[0].id;
    let description = format!(
        "{} and {}. Documents that link to {focus} are on the left, and those that it links to \
         are on the right.",
        count_noun(walk.nodes.len(), "document", "documents"),
        count_noun(edges.len(), "link", "links"),
    );
    canvas.finish(style, layout.size, "graph", &format!("Links of {focus}"), &description)
}

fn edge_label(edge: &GraphEdge) -> String {
    let relations: Vec<&str> = edge.relations.iter().map(String::as_str).collect();
    cut_text(&relations.join(", "), LABEL_PX, MAX_LABEL_PX).into_owned()
}

fn node_texts(node: &GraphNode) -> (String, Cow<'_, str>) {
    let max_px = MAX_NODE_PX - 2 * PADDING;
    let mut line = node.id.clone();
    if let Some(status) = &node.status {
        line.extend([" · ", status]);
    }
    let title = node.title.as_deref().unwrap_or("(missing)");
    (cut_text(&line, SMALL_PX + 1, max_px).into_owned(), encode_line(title))
}

fn draw_node(canvas: &mut SvgCanvas, node: &GraphNode, node_box: &NodeBox, is_focus: bool) {
    let NodeBox { x, y, width, height, .. } = *node_box;
    let (line, title) = node_texts(node);
    let class = match (&node.title, is_focus) {
        (None, _) => "node missing",
        (_, true) => "node focus",
        _ => "node",
    };
    canvas.open_link(node.href.as_ref());
    canvas.push(&format!(
        "<rect x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\" rx=\"4\" \
         class=\"{class}\"/>"
    ));
    let middle = y + height / 2;
    canvas.push_text(x + PADDING, middle - 5, "id", &line);
    let shown = cut_text(&title, TEXT_PX, width - 2 * PADDING);
    canvas.push_text(x + PADDING, middle + 13, "name", &shown);
    canvas.close_link(node.href.as_ref());
}

#[derive(Debug, Clone, Copy, Default)]
struct NodeBox {
    x: usize,
    y: usize,
    width: usize,
    height: usize,
}

#[derive(Debug, Default)]
struct GraphColumn {
    nodes: Vec<usize>,
    x: usize,
    width: usize,
    height: usize,
    bottom: usize,
}

struct GraphLayout {
    columns: BTreeMap<i32, GraphColumn>,
    boxes: Vec<NodeBox>,
    paths: Vec<EdgePath>,
    size: (usize, usize),
}

impl GraphLayout {
    fn new(walk: &GraphWalk, edges: &[GraphEdge]) -> Self {
        let nodes = &walk.nodes;
        let mut columns: BTreeMap<i32, GraphColumn> = BTreeMap::new();
        for (index, node) in nodes.iter().enumerate() {
            columns.entry(node.column).or_default().nodes.push(index);
        }
        sort_by_barycentre(&mut columns, nodes, edges);
        let mut boxes = vec![NodeBox::default(); nodes.len()];
        for (index, node) in nodes.iter().enumerate() {
            let (line, title) = node_texts(node);
            let width = id_width(&line).max(text_width(&title, TEXT_PX)) + 2 * PADDING;
            // Labels are at the outer end of their edge.
            let labels = edges.iter().filter(|edge| outer_end(edge, nodes) == index).count();
            let height = NODE_HEIGHT.max(labels * PORT_HEIGHT + 8);
            boxes[index] = NodeBox { width: width.min(MAX_NODE_PX), height, ..NodeBox::default() };
        }
        let mut label_px = 0;
        for edge in edges {
            label_px = label_px.max(text_width(&edge_label(edge), LABEL_PX));
        }
        let gap = label_px + 64;
        // The curves within an outer column need space at the border.
        let border = |outermost: Option<&i32>| {
            let is_loop = |edge: &GraphEdge| {
                let (from, to) = (nodes[edge.from].column, nodes[edge.to].column);
                from == to && Some(&from) == outermost
            };
            MARGIN + if edges.iter().any(is_loop) { LOOP_PX + label_px / 2 } else { 0 }
        };
        let borders = (border(columns.keys().next()), border(columns.keys().next_back()));
        let mut size = place_columns(&mut columns, &mut boxes, borders, gap);
        if !walk.hidden.is_empty() {
            size.1 += REMAINDER_HEIGHT;
        }
        let paths = route_edges(edges, nodes, &boxes);
        Self { columns, boxes, paths, size }
    }
}

/// The end of an edge at the larger distance; the target if both are equal.
fn outer_end(edge: &GraphEdge, nodes: &[GraphNode]) -> usize {
    let distance = |index: usize| nodes[index].column.unsigned_abs();
    if distance(edge.from) > distance(edge.to) { edge.from } else { edge.to }
}

/// Orders each column by the mean position of the neighbours in the previous one, which reduces
/// crossings. Stable, so that the result depends on the links alone.
fn sort_by_barycentre(
    columns: &mut BTreeMap<i32, GraphColumn>,
    nodes: &[GraphNode],
    edges: &[GraphEdge],
) {
    let mut neighbours = vec![Vec::new(); nodes.len()];
    for edge in edges {
        neighbours[edge.from].push(edge.to);
        neighbours[edge.to].push(edge.from);
    }
    let mut positions = vec![0_u32; nodes.len()];
    for column in columns.values() {
        set_positions(&mut positions, &column.nodes);
    }
    let mut order: Vec<i32> = columns.keys().copied().collect();
    order.sort_by_key(|column| (column.unsigned_abs(), *column));
    for round in 0..SORT_ROUNDS {
        for index in &order {
            let is_outwards = round % 2 == 0;
            let Some(column) = columns.get_mut(index) else { continue };
            column.nodes.sort_by(|a, b| {
                let mean = |node: &usize| {
                    let (mut sum, mut count) = (0.0, 0.0);
                    for other in &neighbours[*node] {
                        let distance = nodes[*other].column.unsigned_abs();
                        if (distance < index.unsigned_abs()) == is_outwards {
                            sum += f64::from(positions[*other]);
                            count += 1.0;
                        }
                    }
                    if count > 0.0 { sum / count } else { f64::from(positions[*node]) }
                };
                mean(a).total_cmp(&mean(b))
            });
            set_positions(&mut positions, &column.nodes);
        }
        order.reverse();
    }
}

fn set_positions(positions: &mut [u32], nodes: &[usize]) {
    for (position, node) in (0_u32..).zip(nodes) {
        positions[*node] = position;
    }
}

/// Centres all columns vertically. Returns the size of the picture.
fn place_columns(
    columns: &mut BTreeMap<i32, GraphColumn>,
    boxes: &mut [NodeBox],
    borders: (usize, usize),
    gap: usize,
) -> (usize, usize) {
    let mut tallest = 0;
    for column in columns.values_mut() {
        let heights: usize = column.nodes.iter().map(|node| boxes[*node].height).sum();
        column.height = heights + NODE_GAP * (column.nodes.len().saturating_sub(1));
        column.width = column.nodes.iter().map(|node| boxes[*node].width).max().unwrap_or(0);
        tallest = tallest.max(column.height);
    }
    let mut x = borders.0;
    for column in columns.values_mut() {
        column.x = x;
        let mut y = MARGIN + (tallest - column.height) / 2;
        for node in &column.nodes {
            let node_box = &mut boxes[*node];
            (node_box.x, node_box.y, node_box.width) = (x, y, column.width);
            y += node_box.height + NODE_GAP;
        }
        column.bottom = y - NODE_GAP;
        x += column.width + gap;
    }
    (x - gap + borders.1, tallest + 2 * MARGIN)
}

/// Width of an edge between two nodes of one column.
const LOOP_PX: usize = 28;

/// A curve between two points, with the position of its label.
struct EdgePath {
    from: PathEnd,
    to: PathEnd,
    /// Distance of the curve's control points from its ends.
    bend: usize,
    /// The end with the label; `None` for the middle of a loop.
    label_end: Option<PathEnd>,
}

/// A point at a side of a node.
#[derive(Debug, Clone, Copy, Default)]
struct PathEnd {
    x: usize,
    y: usize,
    is_right: bool,
}

impl PathEnd {
    /// The point at this distance from the node.
    fn away(self, by: usize) -> usize {
        if self.is_right { self.x + by } else { self.x.saturating_sub(by) }
    }
}

impl EdgePath {
    fn draw(&self, canvas: &mut SvgCanvas, label: &str) {
        let Self { from, to, bend, .. } = self;
        let tip = to.away(ARROW_PX);
        canvas.push(&format!(
            "<path d=\"M{} {}C{} {} {} {} {tip} {}\" class=\"line\"/>",
            from.x,
            from.y,
            from.away(*bend),
            from.y,
            to.away(*bend),
            to.y,
            to.y
        ));
        canvas.push(&format!(
            "<path d=\"M{} {}L{tip} {}V{}Z\" class=\"arrow\"/>",
            to.x,
            to.y,
            to.y - 4,
            to.y + 4
        ));
        let (x, y, anchor) = match self.label_end {
            Some(end) if end.is_right => (end.away(ARROW_PX + 5), end.y, "start"),
            Some(end) => (end.away(ARROW_PX + 5), end.y, "end"),
            None => (from.away(bend / 2), from.y.midpoint(to.y), "middle"),
        };
        canvas.push_anchored(x, y + 4, anchor, label);
    }
}

fn route_edges(edges: &[GraphEdge], nodes: &[GraphNode], boxes: &[NodeBox]) -> Vec<EdgePath> {
    // The edges of each side of a node (true is right), with the height of their other end.
    let mut ports: BTreeMap<(usize, bool), Vec<(usize, usize)>> = BTreeMap::new();
    for (index, edge) in edges.iter().enumerate() {
        let (from, to) = edge_sides(edge, nodes);
        let middle = |node: usize| boxes[node].y + boxes[node].height / 2;
        ports.entry(from).or_default().push((middle(edge.to), index));
        ports.entry(to).or_default().push((middle(edge.from), index));
    }
    for list in ports.values_mut() {
        list.sort_unstable();
    }
    let mut paths = Vec::with_capacity(edges.len());
    for (index, edge) in edges.iter().enumerate() {
        let end = |side: (usize, bool)| {
            let (node_box, list) = (&boxes[side.0], &ports[&side]);
            let position = list.iter().position(|(_, edge)| *edge == index).unwrap_or(0);
            let y = node_box.y + node_box.height * (position + 1) / (list.len() + 1);
            let x = if side.1 { node_box.x + node_box.width } else { node_box.x };
            PathEnd { x, y, is_right: side.1 }
        };
        let (from, to) = edge_sides(edge, nodes);
        let (from, to) = (end(from), end(to));
        let mut path = EdgePath { from, to, bend: 2 * LOOP_PX, label_end: None };
        if from.is_right != to.is_right {
            path.bend = from.x.abs_diff(to.x) / 2;
            path.label_end = Some(if outer_end(edge, nodes) == edge.to { to } else { from });
        }
        paths.push(path);
    }
    paths
}

/// The sides where an edge begins and ends. Nodes of one column meet at its outer side.
fn edge_sides(edge: &GraphEdge, nodes: &[GraphNode]) -> ((usize, bool), (usize, bool)) {
    let (from, to) = (nodes[edge.from].column, nodes[edge.to].column);
    if from == to {
        return ((edge.from, from >= 0), (edge.to, from >= 0));
    }
    ((edge.from, from < to), (edge.to, to < from))
}
