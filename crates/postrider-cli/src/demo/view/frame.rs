//! The whole screen, for any size of it.

use std::time::Duration;

use super::line::{Line, Tone};
use super::panel::{FIGURES_WIDTH, Panel, Scale};
use crate::demo::picture::Picture;

/// Blanks left and right of everything.
const MARGIN: usize = 2;
/// Blanks between a plot and its figures.
const GAP: usize = 3;
/// A plot smaller than this tells nothing.
const PLOT_COLUMNS_MIN: usize = 16;
const PLOT_ROWS_MIN: usize = 4;
const PLOT_ROWS_MAX: usize = 8;
/// Lines that are neither plots nor inside panels.
const LINES_AROUND: usize = 7;
/// Time per column of a plot, where nothing better is known.
const STEP: Duration = Duration::from_millis(200);

/// Draws one moment in lines no more than fit.
pub(super) fn frame(picture: &Picture<'_>, columns: usize, rows: usize) -> Vec<Line> {
    let inner = columns.saturating_sub(2 * MARGIN);
    let tones = [Tone::Audit, Tone::Analytics];
    let lanes = picture.lanes.iter().zip(tones.into_iter().cycle());
    let panels: Vec<Panel<'_>> = std::iter::once(Panel::of_shop(picture))
        .chain(lanes.map(|(lane, tone)| Panel::of_lane(lane, tone)))
        .collect();
    let narration = Line::new().then(Tone::Normal, picture.act.narration());
    let mut lines = vec![title(picture, inner), bar(picture.progress, inner), narration];
    match scale(picture, &panels, inner, rows) {
        Some(scale) => {
            for panel in &panels {
                lines.push(Line::new());
                lines.extend(panel.lines(&scale, GAP));
            }
            lines.push(Line::new());
        }
        None => lines.extend(panels.iter().flat_map(Panel::small)),
    }
    lines.push(last_event(picture));
    lines.truncate(rows);
    lines.into_iter().map(|line| Line::new().to(MARGIN).join(line)).collect()
}

/// How large the plots can be; `None` if there is no room for them.
fn scale(picture: &Picture<'_>, panels: &[Panel<'_>], inner: usize, rows: usize) -> Option<Scale> {
    let columns = inner.checked_sub(GAP + FIGURES_WIDTH).filter(|columns| *columns >= PLOT_COLUMNS_MIN)?;
    let room = rows.checked_sub(LINES_AROUND)? / panels.len().max(1);
    let plot_rows = room.checked_sub(1).filter(|rows| *rows >= PLOT_ROWS_MIN)?.min(PLOT_ROWS_MAX);
    // A run of known length fills the plot; a longer one moves through it.
    let step = picture.expected.map_or(STEP, |whole| whole / u32::try_from(columns).unwrap_or(u32::MAX));
    let step = step.clamp(Duration::from_millis(50), Duration::from_secs(1));
    let scale = Scale { now: picture.elapsed, step, columns, rows: plot_rows, top: 0.0 };
    let top = panels.iter().map(|panel| panel.peak(&scale)).fold(0.0, f64::max);
    Some(Scale { top, ..scale })
}

fn title(picture: &Picture<'_>, inner: usize) -> Line {
    let elapsed = format!("{:.0} s", picture.elapsed.as_secs_f64());
    let time = match picture.expected {
        Some(whole) => format!("{elapsed} of {:.0} s", whole.as_secs_f64()),
        None => elapsed,
    };
    let time = Line::new().then(Tone::Normal, time).then(Tone::Faint, "  Ctrl-C to end");
    let name = Line::new().then(Tone::Strong, "postrider demo");
    let explained = name.clone().then(Tone::Faint, "  one outbox, two subscriptions");
    let name = if explained.width() + 2 + time.width() <= inner { explained } else { name };
    name.to(inner.saturating_sub(time.width())).join(time)
}

fn bar(progress: f64, inner: usize) -> Line {
    let done = ((inner as f64 * progress).round() as usize).min(inner);
    Line::new().then(Tone::Good, "━".repeat(done)).then(Tone::Faint, "─".repeat(inner - done))
}

fn last_event(picture: &Picture<'_>) -> Line {
    let Some(event) = &picture.last else { return Line::new().then(Tone::Faint, "no event yet") };
    Line::new()
        .then(Tone::Strong, &*event.event_type)
        .to("order.shipped  ".len())
        .then(Tone::Faint, String::from_utf8_lossy(&event.payload))
}
