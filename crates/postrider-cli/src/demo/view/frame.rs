//! The complete screen, for any size.

use std::time::Duration;

use super::line::{Line, Tone};
use super::panel::{FIGURES_WIDTH, Panel, Scale};
use crate::demo::snapshot::Snapshot;

/// Blanks left and right of everything.
const MARGIN: usize = 2;
/// Blanks between a plot and its figures.
const GAP: usize = 3;
/// Minimum size of a plot.
const PLOT_COLUMNS_MIN: usize = 16;
const PLOT_ROWS_MIN: usize = 4;
const PLOT_ROWS_MAX: usize = 12;
/// Lines that are neither plots nor inside panels.
const LINES_AROUND: usize = 7;
/// Default time per column of a plot.
const STEP: Duration = Duration::from_millis(200);

/// Draws the state in as many lines as fit.
pub(super) fn frame(snapshot: &Snapshot<'_>, columns: usize, rows: usize) -> Vec<Line> {
    let inner = columns.saturating_sub(2 * MARGIN);
    let tones = [Tone::Audit, Tone::Analytics];
    let lanes = snapshot.lanes.iter().zip(tones.into_iter().cycle());
    let panels: Vec<Panel<'_>> = std::iter::once(Panel::of_shop(snapshot))
        .chain(lanes.map(|(lane, tone)| Panel::of_lane(lane, tone)))
        .collect();
    let narration = Line::new().then(Tone::Normal, snapshot.act.narration());
    let mut lines = vec![title(snapshot, inner), bar(snapshot.progress, inner), narration];
    match scale(snapshot, &panels, inner, rows) {
        Some(scale) => {
            for panel in &panels {
                lines.push(Line::new());
                lines.extend(panel.lines(&scale, inner));
            }
            lines.push(Line::new());
        }
        None => lines.extend(panels.iter().flat_map(Panel::small)),
    }
    lines.push(last_event(snapshot));
    lines.truncate(rows);
    lines.into_iter().map(|line| Line::new().to(MARGIN).join(line)).collect()
}

/// How large the plots can be: without columns on a narrow screen; `None` if the screen is not even high
/// enough for the figures.
fn scale(snapshot: &Snapshot<'_>, panels: &[Panel<'_>], inner: usize, rows: usize) -> Option<Scale> {
    let columns = inner.checked_sub(GAP + FIGURES_WIDTH).filter(|columns| *columns >= PLOT_COLUMNS_MIN);
    let columns = columns.unwrap_or(0);
    let room = rows.checked_sub(LINES_AROUND)? / panels.len().max(1);
    let plot_rows = room.checked_sub(1).filter(|rows| *rows >= PLOT_ROWS_MIN)?.min(PLOT_ROWS_MAX);
    // A run of known length fills the plot; a longer one moves through it.
    let step = snapshot.expected.map_or(STEP, |whole| whole.div_f64(columns.max(1) as f64));
    let step = step.clamp(Duration::from_millis(50), Duration::from_secs(1));
    let scale = Scale { now: snapshot.elapsed, step, columns, rows: plot_rows, top: 0.0 };
    let top = panels.iter().map(|panel| panel.peak(&scale)).fold(0.0, f64::max);
    Some(Scale { top, ..scale })
}

fn title(snapshot: &Snapshot<'_>, inner: usize) -> Line {
    let elapsed = format!("{:.0} s", snapshot.elapsed.as_secs_f64());
    let time = match snapshot.expected {
        Some(whole) => format!("{elapsed} of {:.0} s", whole.as_secs_f64()),
        None => elapsed,
    };
    let time = Line::new().then(Tone::Normal, time).then(Tone::Faint, "  Ctrl-C to end");
    let name = Line::new().then(Tone::Strong, "postrider demo");
    let explained = name.clone().then(Tone::Faint, "  one outbox, two subscriptions");
    let name = if explained.width() + 2 + time.width() <= inner { explained } else { name };
    let gap = inner.saturating_sub(time.width()).max(name.width() + 2);
    name.to(gap).join(time)
}

fn bar(progress: f64, inner: usize) -> Line {
    let done = ((inner as f64 * progress).round() as usize).min(inner);
    Line::new().then(Tone::Strong, "━".repeat(done)).then(Tone::Faint, "─".repeat(inner - done))
}

fn last_event(snapshot: &Snapshot<'_>) -> Line {
    let Some(event) = &snapshot.last else { return Line::new().then(Tone::Faint, "no event yet") };
    Line::new()
        .then(Tone::Strong, &*event.event_type)
        .to("order.shipped  ".len())
        .then(Tone::Faint, String::from_utf8_lossy(&event.payload))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demo::snapshot::{Act, Lane, State};
    use crate::demo::time_series::TimeSeries;

    fn snapshot<'a>(time_series: &'a TimeSeries, expected: Option<Duration>) -> Snapshot<'a> {
        let lane = |name, state| Lane {
            name,
            target: "to somewhere",
            state,
            backlog: 1_234,
            oldest: Some(Duration::from_millis(1_500)),
            retries: 7,
            parked: 1,
            deliveries: time_series,
        };
        Snapshot {
            elapsed: Duration::from_secs(9),
            expected,
            progress: 0.6,
            act: Act::Outage,
            database: "/tmp/shop.db".into(),
            writers: 4,
            committed: 12_345,
            rolled_back: 678,
            commits: time_series,
            lanes: vec![lane("audit", State::Flowing), lane("analytics", State::Down)],
            last: None,
        }
    }

    fn time_series() -> TimeSeries {
        let mut time_series = TimeSeries::default();
        (0..90).for_each(|tick| time_series.sample(Duration::from_millis(tick * 100), tick * tick));
        time_series
    }

    #[test]
    fn a_frame_fits_every_screen() {
        let time_series = time_series();
        for expected in [None, Some(Duration::from_secs(15))] {
            let snapshot = snapshot(&time_series, expected);
            for (columns, rows) in (1..220).step_by(3).flat_map(|c| (1..60).map(move |r| (c, r))) {
                assert!(frame(&snapshot, columns, rows).len() <= rows, "{columns} x {rows}");
            }
        }
    }

    #[test]
    fn the_usual_terminal_shows_everything_and_wastes_no_column() {
        let time_series = time_series();
        let lines = frame(&snapshot(&time_series, None), 80, 24);
        assert_eq!((lines.len(), lines.iter().map(Line::width).max()), (23, Some(78)));
    }
}
