//! Charts as SVG, without styles or scripts of their own. Colours come from the style sheet.

use std::fmt::Write as _;
use std::time::Duration;

use crate::history::Sample;
use crate::words::age;

/// Points of a line at most: more than the pixels of a chart show nothing new.
const POINTS_MAX: usize = 240;

/// A line without axes, in a table. `None`: nothing is known yet.
pub(crate) fn sparkline(samples: &[Sample]) -> Option<String> {
    const WIDTH: f64 = 96.0;
    const HEIGHT: f64 = 24.0;
    let values: Vec<Option<f64>> = samples.iter().map(|sample| sample.rate).collect();
    let known = values.iter().flatten().count();
    if known < 2 {
        return None;
    }
    let top = values.iter().flatten().copied().fold(0.0_f64, f64::max).max(1.0);
    let x = |at: usize| at as f64 * WIDTH / (values.len() - 1).max(1) as f64;
    let y = |value: f64| HEIGHT - 2.0 - value / top * (HEIGHT - 4.0);
    let lines = lines(&values, x, y);
    Some(format!(
        r#"<svg class="spark" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" aria-hidden="true" focusable="false">{lines}</svg>"#
    ))
}

/// What a chart shows.
pub(crate) struct Chart<'a> {
    pub(crate) title: &'a str,
    /// A value of a sample.
    pub(crate) value: fn(&Sample) -> Option<f64>,
    /// A value as text.
    pub(crate) text: fn(f64) -> String,
}

impl Chart<'_> {
    /// The chart with its axes, as a figure with a caption: its last and its highest value in words.
    pub(crate) fn figure(&self, samples: &[Sample], span: Duration) -> String {
        const WIDTH: f64 = 560.0;
        const HEIGHT: f64 = 160.0;
        const LEFT: f64 = 70.0;
        const BOTTOM: f64 = 22.0;
        let samples = thinned(samples);
        let values: Vec<Option<f64>> = samples.iter().map(self.value).collect();
        let top = values.iter().flatten().copied().fold(0.0_f64, f64::max);
        let scale = nice_top(top);
        let now = samples.last().map(|sample| sample.at);
        let ago = |at: usize| match (samples.get(at), now) {
            (Some(sample), Some(now)) => sample.at.until(now).as_secs_f64(),
            _ => 0.0,
        };
        let seconds = span.as_secs_f64();
        let x = |at: usize| LEFT + (1.0 - (ago(at) / seconds).min(1.0)) * (WIDTH - LEFT - 8.0);
        let y = |value: f64| 8.0 + (1.0 - value / scale) * (HEIGHT - BOTTOM - 8.0);
        let last = values.iter().rev().find_map(|value| *value);
        let said = match last {
            Some(last) => format!("now {}, at most {}", (self.text)(last), (self.text)(top)),
            None => "nothing is known yet".to_owned(),
        };
        let mut svg = format!(
            r#"<figure class="chart"><figcaption><strong>{}</strong> <span>{said}</span></figcaption><svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{}: {said}">"#,
            self.title, self.title
        );
        for part in [0.0, 0.5, 1.0] {
            let (at, value) = (y(scale * part), (self.text)(scale * part));
            let _ = write!(
                svg,
                r#"<line class="grid" x1="{LEFT}" x2="{:.1}" y1="{at:.1}" y2="{at:.1}"/><text class="axis" x="{:.1}" y="{:.1}" text-anchor="end">{value}</text>"#,
                WIDTH - 8.0,
                LEFT - 8.0,
                at + 4.0
            );
        }
        let base = HEIGHT - 4.0;
        let _ = write!(
            svg,
            r#"<text class="axis" x="{LEFT}" y="{base}">{} ago</text><text class="axis" x="{:.1}" y="{base}" text-anchor="end">now</text>"#,
            age(span),
            WIDTH - 8.0
        );
        svg.push_str(&areas(&values, x, y, y(0.0)));
        svg.push_str(&lines(&values, x, y));
        svg.push_str("</svg></figure>");
        svg
    }
}

/// The runs of known values.
fn runs(values: &[Option<f64>]) -> Vec<Vec<(usize, f64)>> {
    let mut runs: Vec<Vec<(usize, f64)>> = vec![Vec::new()];
    for (at, value) in values.iter().enumerate() {
        match (value, runs.last_mut()) {
            (Some(value), Some(run)) => run.push((at, *value)),
            (None, Some(run)) if !run.is_empty() => runs.push(Vec::new()),
            _ => {}
        }
    }
    runs.retain(|run| !run.is_empty());
    runs
}

fn points(run: &[(usize, f64)], x: impl Fn(usize) -> f64, y: impl Fn(f64) -> f64) -> String {
    run.iter().map(|(at, value)| format!("{:.1},{:.1}", x(*at), y(*value))).collect::<Vec<_>>().join(" ")
}

/// A line per run; a gap where nothing is known.
fn lines(values: &[Option<f64>], x: impl Fn(usize) -> f64, y: impl Fn(f64) -> f64) -> String {
    runs(values)
        .iter()
        .map(|run| format!(r#"<polyline class="line" points="{}"/>"#, points(run, &x, &y)))
        .collect()
}

fn areas(values: &[Option<f64>], x: impl Fn(usize) -> f64, y: impl Fn(f64) -> f64, base: f64) -> String {
    let area = |run: &Vec<(usize, f64)>| {
        let (first, last) = (run.first().map_or(0, |of| of.0), run.last().map_or(0, |of| of.0));
        format!(
            r#"<polygon class="area" points="{:.1},{base:.1} {} {:.1},{base:.1}"/>"#,
            x(first),
            points(run, &x, &y),
            x(last)
        )
    };
    runs(values).iter().map(area).collect()
}

/// 1, 2 or 5 times a power of ten, and at least 1.
fn nice_top(top: f64) -> f64 {
    if !top.is_finite() || top <= 1.0 {
        return 1.0;
    }
    let power = 10_f64.powf(top.log10().floor());
    [1.0, 2.0, 5.0, 10.0].into_iter().map(|step| step * power).find(|step| *step >= top).unwrap_or(top)
}

/// At most `POINTS_MAX` samples, with the last one.
fn thinned(samples: &[Sample]) -> Vec<Sample> {
    let step = samples.len().div_ceil(POINTS_MAX).max(1);
    let mut thin: Vec<Sample> = samples.iter().rev().step_by(step).copied().collect();
    thin.reverse();
    thin
}

#[cfg(test)]
mod tests {
    use super::*;
    use postrider::Timestamp;

    fn samples(rates: &[Option<f64>]) -> Vec<Sample> {
        let sample = |(second, rate): (usize, &Option<f64>)| Sample {
            at: Timestamp::from_micros(second as i64 * 5_000_000),
            rate: *rate,
            oldest: 0.0,
            backlog: 0,
            parked: 0,
        };
        rates.iter().enumerate().map(sample).collect()
    }

    #[test]
    fn a_gap_is_drawn_where_no_relay_ran() {
        let samples = samples(&[Some(1.0), Some(2.0), None, None, Some(3.0)]);
        let chart = Chart { title: "Rate", value: |of| of.rate, text: |value| format!("{value}/s") };
        let figure = chart.figure(&samples, Duration::from_secs(3_600));
        assert_eq!(figure.matches("<polyline").count(), 2, "{figure}");
        assert!(figure.contains("now 3/s, at most 3/s"), "{figure}");
        assert!(!figure.contains("style") && !figure.contains("NaN") && !figure.contains("inf"), "{figure}");
    }

    #[test]
    fn nothing_known_draws_no_line() {
        assert_eq!(sparkline(&samples(&[None, Some(1.0)])), None);
        let chart = Chart { title: "Rate", value: |of| of.rate, text: |value| format!("{value}") };
        let figure = chart.figure(&[], Duration::from_secs(3_600));
        assert!(figure.contains("nothing is known yet") && !figure.contains("<polyline"), "{figure}");
    }

    #[test]
    fn the_scale_is_round_and_a_line_has_few_points() {
        assert_eq!([0.0, 1.0, 3.0, 70.0, 1_234.0].map(nice_top), [1.0, 1.0, 5.0, 100.0, 2_000.0]);
        let many = samples(&vec![Some(1.0); 1_440]);
        assert!(thinned(&many).len() <= POINTS_MAX);
        assert_eq!(thinned(&many).last(), many.last());
    }
}
