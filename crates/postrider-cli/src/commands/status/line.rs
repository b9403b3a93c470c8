//! One subscription as a line, for `top`.

use std::cmp::Ordering;

/// The cells of a row of the table, and what they are sorted by.
#[derive(Debug, Clone)]
pub(in crate::commands) struct Line {
    cells: [String; 9],
    numbers: [Option<f64>; 9],
}

impl Line {
    pub(in crate::commands) fn new(cells: [String; 9], numbers: [Option<f64>; 9]) -> Self {
        Self { cells, numbers }
    }

    /// The subscription with its outbox.
    pub(in crate::commands) fn name(&self) -> &str {
        &self.cells[0]
    }

    pub(in crate::commands) fn cells(&self) -> &[String; 9] {
        &self.cells
    }

    /// All cells as one text.
    pub(in crate::commands) fn text(&self) -> String {
        let named = super::COLUMNS.iter().zip(&self.cells).skip(1).filter(|(_, cell)| !cell.is_empty());
        let rest = named.map(|(name, cell)| format!("  {name}: {}", cell.replace(char::is_control, " ")));
        format!("{}{}", self.cells[0].replace(char::is_control, " "), rest.collect::<String>())
    }

    /// The order of two lines in a column: as numbers where the column has some, a missing one first.
    pub(in crate::commands) fn compare(&self, other: &Self, column: usize) -> Ordering {
        let number = |line: &Self| line.numbers.get(column).copied().flatten();
        match (number(self), number(other)) {
            (Some(a), Some(b)) => a.total_cmp(&b),
            (None, None) => self.cells.get(column).cmp(&other.cells.get(column)),
            (a, b) => a.is_some().cmp(&b.is_some()),
        }
    }
}
