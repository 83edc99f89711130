//! Aligned tables for people.

use std::fmt;

/// Rows under a header; leading columns are aligned left, the others right.
pub struct Table {
    header: Vec<String>,
    rows: Vec<Vec<String>>,
    left_columns: usize,
}

impl Table {
    /// An empty table whose first column holds names and whose others hold numbers.
    pub fn new<S: Into<String>>(header: impl IntoIterator<Item = S>) -> Self {
        Self { header: header.into_iter().map(Into::into).collect(), rows: Vec::new(), left_columns: 1 }
    }

    /// Aligns the first `columns` columns left.
    pub fn left(mut self, columns: usize) -> Self {
        self.left_columns = columns;
        self
    }

    /// Adds a row.
    pub fn row<S: Into<String>>(&mut self, cells: impl IntoIterator<Item = S>) -> &mut Self {
        self.rows.push(cells.into_iter().map(Into::into).collect());
        self
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines = || std::iter::once(&self.header).chain(&self.rows);
        let columns = lines().map(Vec::len).max().unwrap_or(0);
        let widths: Vec<usize> = (0..columns)
            .map(|column| {
                lines().filter_map(|line| line.get(column)).map(|c| c.chars().count()).max().unwrap_or(0)
            })
            .collect();
        for line in lines().filter(|line| line.iter().any(|cell| !cell.is_empty())) {
            let mut text = String::new();
            for ((column, cell), width) in line.iter().enumerate().zip(&widths) {
                text.push_str("  ");
                let padding = " ".repeat(width - cell.chars().count());
                if column < self.left_columns {
                    text.push_str(cell);
                    text.push_str(&padding);
                } else {
                    text.push_str(&padding);
                    text.push_str(cell);
                }
            }
            writeln!(f, "{}", text.trim_end())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_go_left_and_numbers_right() {
        let mut table = Table::new(["level", "bytes"]);
        table.row(["0", "12 B"]).row(["10", "1.0 MiB"]).row(["—"]);
        assert_eq!(table.to_string(), "  level    bytes\n  0         12 B\n  10     1.0 MiB\n  —\n");
    }

    #[test]
    fn an_empty_header_takes_no_line() {
        let mut table = Table::new(["", ""]);
        table.row(["a", "b"]);
        assert_eq!(table.to_string(), "  a  b\n");
    }
}
