//! A report as an SVG bar chart.

use std::fmt::Write;

use crate::Report;

const ROW_HEIGHT: usize = 34;
const LABEL_WIDTH: usize = 250;
const BAR_WIDTH: f64 = 460.0;

impl Report {
    /// The first measure of every contender as bars from zero; a thin line shows the range of the runs.
    pub fn svg(&self) -> String {
        let measures: Vec<_> =
            self.rows.iter().filter_map(|row| Some((row, row.measures.first()?))).collect();
        let most = measures.iter().map(|(_, measure)| measure.spread.max).fold(1e-9, f64::max);
        let (width, height) = (LABEL_WIDTH as f64 + BAR_WIDTH + 120.0, 60 + ROW_HEIGHT * measures.len());
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" font-family=\"sans-serif\" \
             font-size=\"13\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n\
             <text x=\"10\" y=\"22\" font-weight=\"bold\">{}</text>\n",
            escaped(&self.title)
        );
        for (at, (row, measure)) in measures.iter().enumerate() {
            let (y, scale) = (40 + at * ROW_HEIGHT, BAR_WIDTH / most);
            let (x, middle) = (LABEL_WIDTH as f64, y + ROW_HEIGHT / 2 - 5);
            let (low, high) = (x + measure.spread.min * scale, x + measure.spread.max * scale);
            // Writing to a String cannot fail.
            _ = writeln!(
                svg,
                "<text x=\"10\" y=\"{}\">{}</text>\n\
                 <rect x=\"{x}\" y=\"{y}\" width=\"{:.1}\" height=\"{}\" fill=\"#3b7dd8\"/>\n\
                 <line x1=\"{low:.1}\" y1=\"{middle}\" x2=\"{high:.1}\" y2=\"{middle}\" stroke=\"#222\" stroke-width=\"2\"/>\n\
                 <text x=\"{:.1}\" y=\"{}\">{:.0} {}</text>",
                middle + 5,
                escaped(&row.name),
                measure.spread.median * scale,
                ROW_HEIGHT - 10,
                high + 8.0,
                middle + 5,
                measure.spread.median,
                escaped(measure.name),
            );
        }
        svg.push_str("</svg>\n");
        svg
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use crate::{Measure, Row, Spread};

    use super::*;

    #[test]
    fn every_contender_has_a_bar_as_long_as_its_median() {
        let row = |name: &str, median| Row {
            name: name.to_owned(),
            measures: vec![Measure { name: "events/s", spread: Spread { median, min: median, max: median } }],
        };
        let rows = vec![row("fast & good", 100.0), row("slow", 50.0)];
        let svg = Report { title: "a < b".into(), rows, ratios: Vec::new() }.svg();
        assert!(svg.contains("width=\"460.0\"") && svg.contains("width=\"230.0\""), "{svg}");
        assert!(svg.contains("a &lt; b") && svg.contains("fast &amp; good"));
    }
}
