//! The summary: a table, one sentence, and next steps.

use std::time::Duration;

use super::line::{Line, Tone};
use super::number::{age, count};
use crate::demo::report::{Report, Tested};
use crate::output::Paint;

const LABEL_WIDTH: usize = 16;
const CELL_WIDTH: usize = 12;

/// Next steps: a command and its description.
const NEXT: [(&str, &str); 5] = [
    ("postrider demo --keep", "run it again and keep shop.db and audit.jsonl"),
    ("postrider config init", "write a starter postrider.toml"),
    ("postrider migrate up", "create the outbox in your database"),
    ("postrider write --help", "write your own event"),
    ("postrider relay", "deliver it to its destination"),
];

/// A row of the table: its label, a subscription's figure, and whether every value except 0 is an error.
type Row = (&'static str, fn(&Tested) -> String, fn(&Tested) -> Tone);

const ROWS: [Row; 8] = [
    ("committed", |t| count(t.figures.written), |_| Tone::Normal),
    ("delivered", |t| count(t.figures.delivered), |_| Tone::Normal),
    ("lost", |t| count(t.figures.lost), |t| zero(t.figures.lost)),
    ("phantom", |t| count(t.figures.phantom), |t| zero(t.figures.phantom)),
    ("out of order", |t| count(t.figures.out_of_order), |t| zero(t.figures.out_of_order)),
    ("duplicates", |t| count(t.figures.duplicates), |t| few(t.figures.duplicates)),
    ("retries", |t| count(t.retries), |_| Tone::Normal),
    ("longest wait", |t| age(Duration::from_millis(t.oldest_max_ms)), |_| Tone::Normal),
];

fn zero(number: usize) -> Tone {
    if number == 0 { Tone::Good } else { Tone::Bad }
}

fn few(number: usize) -> Tone {
    if number == 0 { Tone::Good } else { Tone::Warning }
}

/// The summary of a report.
pub(crate) fn summary(report: &Report, paint: Paint) -> String {
    let mut lines = vec![Line::new(), heading(report)];
    for (label, figure, tone) in ROWS {
        let mut line = Line::new().then(Tone::Faint, label).to(LABEL_WIDTH);
        for tested in &report.subscriptions {
            line = line.then(tone(tested), format!("{:>CELL_WIDTH$}", figure(tested)));
        }
        lines.push(line);
    }
    lines.extend([Line::new(), verdict(report), aside(report), Line::new()]);
    lines.push(Line::new().then(Tone::Strong, "Next"));
    for (command, what) in NEXT {
        lines.push(Line::new().then(Tone::Shop, format!("  {command:<24}")).then(Tone::Faint, what));
    }
    let lines = lines.iter().map(|line| Line::new().to(2).join(line.clone()).render(paint, usize::MAX));
    lines.map(|line| line.trim_end().to_owned() + "\n").collect()
}

fn heading(report: &Report) -> Line {
    let mut line = Line::new().then(Tone::Faint, format!("{:.1} s", report.seconds)).to(LABEL_WIDTH);
    for tested in &report.subscriptions {
        line = line.then(Tone::Strong, format!("{:>CELL_WIDTH$}", tested.name));
    }
    line
}

fn verdict(report: &Report) -> Line {
    match (report.ok, report.worst.duplicates) {
        (true, 0) => Line::new().then(Tone::Good, "✓ ").then(
            Tone::Strong,
            "Every committed event arrived exactly once and in order, and nothing else arrived.",
        ),
        (true, _) => Line::new()
            .then(Tone::Good, "✓ ")
            .then(Tone::Strong, "Every committed event arrived in order, some of them more than once."),
        (false, _) => Line::new().then(Tone::Bad, "✗ ").then(
            Tone::Strong,
            "This breaks Postrider's guarantees. Please report it with the figures above.",
        ),
    }
}

fn aside(report: &Report) -> Line {
    let closed = if report.interrupted { "closed early; " } else { "" };
    let rolled_back = count(report.rolled_back);
    let kept = match &report.folder {
        Some(folder) => format!("the files are in {folder}"),
        None => "the files were removed".into(),
    };
    Line::new().then(Tone::Faint, format!("  {closed}{rolled_back} transactions were rolled back; {kept}"))
}
