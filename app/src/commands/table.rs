//! Lists for people: columns as wide as what stands in them, each row on one line.

/// The rows below their headings. What would break a line, or speak to a terminal, is a space.
pub(super) fn table<const COLUMNS: usize>(
    headings: [&str; COLUMNS],
    rows: impl Iterator<Item = [String; COLUMNS]>,
) -> String {
    let plain = |c: char| if c.is_control() { ' ' } else { c };
    let clean = |cell: String| cell.chars().map(plain).collect::<String>();
    let rows = rows.map(|row| row.map(clean));
    let all: Vec<_> = std::iter::once(headings.map(str::to_owned)).chain(rows).collect();
    let width = |column: usize| all.iter().map(|row| row[column].chars().count()).max();
    let widths: [usize; COLUMNS] = std::array::from_fn(|column| width(column).unwrap_or_default());
    let mut text = String::new();
    for row in &all {
        let cells = row.iter().zip(widths).map(|(cell, width)| format!("{cell:<width$}"));
        text.push_str(cells.collect::<Vec<_>>().join("  ").trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_lines_whatever_stands_in_them() {
        let rows = [["a", "x\n\x1b[2J"], ["bcd", ""]].map(|row| row.map(str::to_owned));
        let shown = table(["N", "REASON"], rows.into_iter());
        assert_eq!(shown, "N    REASON\na    x  [2J\nbcd\n");
    }
}
