//! One part of the screen: a heading, a plot of its rate, and its figures next to it.

use std::time::Duration;

use super::line::{Line, Tone};
use super::number::{age, count, rate};
use super::plot::plot;
use crate::demo::snapshot::{Lane, Snapshot, State};
use crate::demo::time_series::TimeSeries;

/// Columns of the figures next to a plot.
pub(super) const FIGURES_WIDTH: usize = 25;

/// The content of a panel.
pub(super) struct Panel<'a> {
    tone: Tone,
    name: &'a str,
    state: Line,
    note: String,
    time_series: &'a TimeSeries,
    figures: Vec<(&'static str, String, Tone)>,
}

/// How plots are drawn, the same for all, so that they can be compared.
#[derive(Debug, Clone, Copy)]
pub(super) struct Scale {
    pub(super) now: Duration,
    /// Time per column.
    pub(super) step: Duration,
    /// Columns of the plot; none if there is no room for one.
    pub(super) columns: usize,
    pub(super) rows: usize,
    /// Events per second that fill a column.
    pub(super) top: f64,
}

impl<'a> Panel<'a> {
    /// The panel of the shop.
    pub(super) fn of_shop(snapshot: &'a Snapshot<'_>) -> Self {
        Self {
            tone: Tone::Shop,
            name: "shop",
            state: Line::new(),
            note: format!("{} writers on {}", snapshot.writers, snapshot.database),
            time_series: snapshot.commits,
            figures: vec![
                ("commits", rate(snapshot.commits.rate()), Tone::Strong),
                ("committed", count(snapshot.committed), Tone::Normal),
                ("rolled back", count(snapshot.rolled_back), Tone::Normal),
            ],
        }
    }

    /// The panel of a subscription.
    pub(super) fn of_lane(lane: &'a Lane<'_>, tone: Tone) -> Self {
        let (sign, state) = match lane.state {
            State::Starting => ("○", Tone::Faint),
            State::Flowing => ("●", Tone::Good),
            State::CatchingUp => ("◐", Tone::Warning),
            State::Down => ("✗", Tone::Bad),
            State::Done => ("✓", Tone::Good),
        };
        let behind = if matches!(lane.state, State::Down | State::CatchingUp) { state } else { Tone::Normal };
        let figures = vec![
            ("delivered", rate(lane.deliveries.rate()), Tone::Strong),
            ("backlog", count(lane.backlog), behind),
            ("oldest", lane.oldest.map_or_else(|| "–".into(), age), behind),
            ("retries, parked", format!("{}, {}", count(lane.retries), count(lane.parked)), Tone::Normal),
        ];
        Self {
            tone,
            name: lane.name,
            state: Line::new().then(state, format!("{sign} {}", lane.state.word())),
            note: lane.target.to_owned(),
            time_series: lane.deliveries,
            figures,
        }
    }

    /// The highest rate in the plot.
    pub(super) fn peak(&self, scale: &Scale) -> f64 {
        self.time_series.rates(scale.step, scale.columns, scale.now).into_iter().fold(0.0, f64::max)
    }

    /// Heading, then plot and figures side by side.
    pub(super) fn lines(&self, scale: &Scale, width: usize) -> Vec<Line> {
        let figures_at = if scale.columns == 0 { 0 } else { width.saturating_sub(FIGURES_WIDTH) };
        let left =
            Line::new().then(Tone::Strong, self.name).then(Tone::Normal, "  ").join(self.state.clone());
        let note = Line::new().then(Tone::Faint, &*self.note);
        let has_room = left.width() + 2 + note.width() <= width;
        let heading = if has_room { left.to(width - note.width()).join(note) } else { left };
        let mut lines = vec![heading];
        let rates = self.time_series.rates(scale.step, scale.columns, scale.now);
        let mut figures = self.figures.iter();
        for row in plot(&rates, scale.top, scale.rows) {
            let line = Line::new().then(self.tone, row).to(figures_at);
            lines.push(match figures.next() {
                Some((label, value, tone)) => {
                    let label = Line::new().then(Tone::Faint, *label);
                    let value = Line::new().then(*tone, value);
                    line.join(label.to(FIGURES_WIDTH.saturating_sub(value.width())).join(value))
                }
                None => line,
            });
        }
        lines
    }

    /// The same in two lines, for a small screen.
    pub(super) fn small(&self) -> [Line; 2] {
        let heading = Line::new().then(Tone::Strong, self.name).then(Tone::Normal, "  ");
        let mut figures = Line::new().then(Tone::Normal, "  ");
        for (label, value, tone) in &self.figures {
            figures = figures.then(Tone::Faint, format!("{label} ")).then(*tone, format!("{value}  "));
        }
        [heading.join(self.state.clone()), figures]
    }
}
