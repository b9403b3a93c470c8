//! Column plots of block characters.

const BLOCKS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// Draws a column per value, `rows` high, the topmost row first. `top` is the value that fills a column. A
/// value of zero still has a mark, to distinguish it from missing data.
pub(super) fn plot(values: &[f64], top: f64, rows: usize) -> Vec<String> {
    let eighths_max = rows * 8;
    let scale = if top > 0.0 { eighths_max as f64 / top } else { 0.0 };
    let heights: Vec<usize> =
        values.iter().map(|value| ((value * scale).round() as usize).clamp(1, eighths_max.max(1))).collect();
    let block = |row: usize, height: &usize| BLOCKS[height.saturating_sub(row * 8).min(8)];
    (0..rows).rev().map(|row| heights.iter().map(|height| block(row, height)).collect()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_stand_on_the_bottom_row() {
        assert_eq!(plot(&[0.0, 4.0, 8.0, 16.0], 16.0, 2), ["   █", "▁▄██"]);
    }

    #[test]
    fn nothing_to_draw_is_drawn_as_nothing() {
        assert_eq!(plot(&[], 0.0, 2), ["", ""]);
        assert_eq!(plot(&[0.0], 0.0, 1), ["▁"]);
        assert!(plot(&[1.0], 1.0, 0).is_empty());
    }
}
