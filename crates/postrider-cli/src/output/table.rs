//! Tables as text.

use comfy_table::{Attribute, Cell, CellAlignment, ContentArrangement, Table as Drawn, presets};

use super::Paint;

/// The alignment of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Align {
    /// Text.
    Left,
    /// Numbers.
    Right,
}

/// Rows under a heading. A table without rows prints one line instead.
#[derive(Debug, Clone)]
pub struct Table {
    columns: Vec<(&'static str, Align)>,
    rows: Vec<Vec<String>>,
    empty: &'static str,
}

impl Table {
    /// A table with these columns, and the line to print if it has no rows.
    pub fn new(columns: impl Into<Vec<(&'static str, Align)>>, empty: &'static str) -> Self {
        Self { columns: columns.into(), rows: Vec::new(), empty }
    }

    /// Adds a row, one cell per column. Control characters are removed.
    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        let printable = |cell: String| cell.replace(char::is_control, " ");
        self.rows.push(cells.into_iter().map(printable).collect());
    }

    /// As wide as its content, at most as wide as the terminal; not wrapped if the output is a pipe.
    pub(super) fn render(&self, paint: Paint) -> String {
        if self.rows.is_empty() {
            return self.empty.to_owned();
        }
        let mut drawn = Drawn::new();
        drawn.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Dynamic);
        if paint.is_on() {
            drawn.enforce_styling();
        } else {
            drawn.force_no_tty();
        }
        drawn.set_header(self.columns.iter().map(|(name, _)| Cell::new(name).add_attribute(Attribute::Bold)));
        drawn.add_rows(&self.rows);
        for (column, (_, align)) in drawn.column_iter_mut().zip(&self.columns) {
            column.set_padding((0, 2));
            if *align == Align::Right {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        drawn.trim_fmt()
    }
}
