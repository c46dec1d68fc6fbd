//! Text table with aligned cells.

/// Minimum width of a cell.
const MINIMUM_WIDTH: usize = 8;
/// Columns between a cell's text and the next cell.
const PADDING: usize = 1;

/// A table whose cells end with commas, so that it is read by people and programs.
pub(super) struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    pub(super) fn new(headers: &[&str]) -> Self {
        Table { rows: vec![headers.iter().map(|&header| header.to_owned()).collect()] }
    }

    /// Adds a line with as many cells as there are headers. Control characters in names are replaced, since they could
    /// end a line or a cell.
    pub(super) fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        let clean = |cell: String| match cell.contains(char::is_control) {
            true => cell.replace(char::is_control, "?"),
            false => cell,
        };
        self.rows.push(cells.into_iter().map(clean).collect());
    }

    pub(super) fn text(&self) -> String {
        // The comma is part of the cell.
        let width = |cell: &String| cell.chars().count() + 1;
        let mut widths = Vec::new();
        for row in &self.rows {
            widths.resize(row.len().max(widths.len()), MINIMUM_WIDTH);
            for (cell, widest) in row.iter().zip(&mut widths) {
                *widest = (*widest).max(width(cell) + PADDING);
            }
        }
        let mut text = String::new();
        for row in &self.rows {
            let last = row.len().saturating_sub(1);
            for (place, (cell, widest)) in row.iter().zip(&widths).enumerate() {
                text.push_str(cell);
                if place < last {
                    text.push(',');
                    text.extend(std::iter::repeat_n(' ', widest - width(cell)));
                }
            }
            text.push('\n');
        }
        text
    }
}
