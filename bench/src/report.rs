//! The result of a benchmark.

use std::fmt;

use serde::Serialize;

use crate::Usage;

/// Median and range of several runs.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Spread {
    /// The median.
    pub median: f64,
    /// The lowest.
    pub min: f64,
    /// The highest.
    pub max: f64,
}

impl Spread {
    /// Median and range of the values; zeros if there are none.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Self {
        let mut values: Vec<f64> = values.into_iter().collect();
        values.sort_by(f64::total_cmp);
        let at = |index: usize| values.get(index).copied().unwrap_or(0.0);
        let middle = values.len() / 2;
        let even = values.len().is_multiple_of(2) && middle > 0;
        let median = if even { f64::midpoint(at(middle - 1), at(middle)) } else { at(middle) };
        Self { median, min: at(0), max: at(values.len().saturating_sub(1)) }
    }
}

/// One figure of a contender.
#[derive(Debug, Clone, Serialize)]
pub struct Measure {
    /// Its name with unit: `events/s`.
    pub name: &'static str,
    /// Over all runs.
    #[serde(flatten)]
    pub spread: Spread,
}

/// A contender and its figures; the first one is plotted.
#[derive(Debug, Clone, Serialize)]
pub struct Row {
    /// The name of the contender.
    pub name: String,
    /// The same measures for all rows of a report.
    pub measures: Vec<Measure>,
}

/// Two contenders compared run by run, so that noise that affects both cancels out.
#[derive(Debug, Clone, Serialize)]
pub struct Ratio {
    /// The name of the comparison.
    pub name: String,
    /// Over all runs.
    #[serde(flatten)]
    pub spread: Spread,
}

/// The result of a benchmark.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// A description of the benchmark, in one sentence.
    pub title: String,
    /// The contenders.
    pub rows: Vec<Row>,
    /// The comparisons.
    pub ratios: Vec<Ratio>,
}

impl Row {
    /// Rate and cost of runs with this many events each.
    pub(crate) fn of_runs(name: &str, events: u64, runs: &[Usage]) -> Self {
        let count = events as f64;
        let measure =
            |name, of: &dyn Fn(&Usage) -> f64| Measure { name, spread: Spread::of(runs.iter().map(of)) };
        let measures = vec![
            measure("events/s", &|run| count / run.wall.as_secs_f64().max(1e-9)),
            measure("CPU us/event", &|run| run.cpu.as_secs_f64() * 1e6 / count),
            measure("written B/event", &|run| run.written_bytes as f64 / count),
        ];
        Self { name: name.to_owned(), measures }
    }
}

impl Ratio {
    /// The ratio of paired runs.
    pub(crate) fn of(name: &str, pairs: impl IntoIterator<Item = (f64, f64)>) -> Self {
        let ratios = pairs.into_iter().map(|(one, other)| one / other.max(1e-12));
        Self { name: name.to_owned(), spread: Spread::of(ratios) }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.title)?;
        let width =
            self.rows.iter().map(|row| row.name.len()).chain(self.ratios.iter().map(|r| r.name.len()));
        let width = width.max().unwrap_or(0);
        let heads = self.rows.first().map(|row| row.measures.as_slice()).unwrap_or_default();
        let heads: String = heads.iter().map(|measure| format!("  {:>26}", measure.name)).collect();
        writeln!(f, "{:width$}{heads}", "")?;
        for row in &self.rows {
            let cells: String = row.measures.iter().map(|m| format!("  {:>26}", cell(m.spread))).collect();
            writeln!(f, "{:width$}{cells}", row.name)?;
        }
        for ratio in &self.ratios {
            writeln!(f, "{:width$}  {:>26}", ratio.name, cell(ratio.spread))?;
        }
        Ok(())
    }
}

/// `median (min..max)` with a suitable number of digits.
fn cell(spread: Spread) -> String {
    let Spread { median, min, max } = spread;
    let digits = if median.abs() >= 100.0 { 0 } else { 2 };
    if min == max {
        format!("{median:.digits$}")
    } else {
        format!("{median:.digits$} ({min:.digits$}..{max:.digits$})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle_of_the_runs() {
        assert_eq!(Spread::of([3.0, 1.0, 2.0]), Spread { median: 2.0, min: 1.0, max: 3.0 });
        assert_eq!(Spread::of([4.0, 1.0, 2.0, 3.0]).median, 2.5);
    }

    #[test]
    fn a_ratio_compares_the_runs_of_one_turn() {
        let ratio = Ratio::of("a / b", [(1.0, 2.0), (8.0, 4.0), (3.0, 3.0)]);
        assert_eq!(ratio.spread, Spread { median: 1.0, min: 0.5, max: 2.0 });
    }
}
