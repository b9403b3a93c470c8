//! Several runs of one contender, boiled down.

use serde::Serialize;

use crate::Usage;

/// The middle of several runs and how far they lie apart.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Spread {
    /// Half of the runs were below.
    pub median: f64,
    /// The lowest.
    pub min: f64,
    /// The highest.
    pub max: f64,
}

impl Spread {
    /// Of at least one value; of none, zeros.
    pub fn of(mut values: Vec<f64>) -> Self {
        values.sort_by(f64::total_cmp);
        let at = |index: usize| values.get(index).copied().unwrap_or(0.0);
        let middle = values.len() / 2;
        let median = if values.len().is_multiple_of(2) && middle > 0 {
            f64::midpoint(at(middle - 1), at(middle))
        } else {
            at(middle)
        };
        Self { median, min: at(0), max: at(values.len().saturating_sub(1)) }
    }
}

/// What one contender did, over all its runs.
#[derive(Debug, Clone, Serialize)]
pub struct Figure {
    /// Which contender.
    pub name: &'static str,
    /// Events per run.
    pub events: u64,
    /// Events per second.
    pub events_per_second: Spread,
    /// CPU of this process per event, in microseconds. On SQLite that is both sides.
    pub cpu_us_per_event: Spread,
    /// Bytes handed to write calls per event: log, checkpoints and all.
    pub written_bytes_per_event: Spread,
}

impl Figure {
    pub(crate) fn of(name: &'static str, events: u64, runs: &[Usage]) -> Self {
        let per = |f: &dyn Fn(&Usage) -> f64| Spread::of(runs.iter().map(f).collect());
        let count = events as f64;
        Self {
            name,
            events,
            events_per_second: per(&|u| count / u.wall.as_secs_f64().max(1e-9)),
            cpu_us_per_event: per(&|u| u.cpu.as_secs_f64() * 1e6 / count),
            written_bytes_per_event: per(&|u| u.written_bytes as f64 / count),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle_of_the_runs() {
        assert_eq!(Spread::of(vec![3.0, 1.0, 2.0]).median, 2.0);
        assert_eq!(Spread::of(vec![4.0, 1.0, 2.0, 3.0]).median, 2.5);
        let spread = Spread::of(vec![3.0, 1.0, 2.0]);
        assert_eq!((spread.min, spread.max), (1.0, 3.0));
    }
}
