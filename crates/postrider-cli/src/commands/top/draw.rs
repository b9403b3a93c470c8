//! Draws the list.

use postrider::Timestamp;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line as Text, Span};
use ratatui::widgets::{Block, Cell, Clear, Paragraph, Row, Table, TableState, Wrap};

use super::list::{Front, List};
use crate::commands::status::{COLUMNS, Line};

/// The widths of the columns; those of states, parked events and errors share the rest.
const WIDTHS: [Constraint; 9] = [
    Constraint::Min(16),
    Constraint::Min(14),
    Constraint::Length(11),
    Constraint::Length(10),
    Constraint::Length(8),
    Constraint::Length(9),
    Constraint::Length(9),
    Constraint::Min(10),
    Constraint::Min(10),
];

const KEYS: &str = "\
j k  or arrows   move
g G              first, last
1 to 9           sort by a column; again: the other direction
f or /           filter by name, state or error
Enter            one subscription
Esc              back; at the list: end
q or Ctrl-C      end";

pub(super) fn draw(frame: &mut Frame<'_>, list: &mut List, now: Timestamp) {
    let failed = u16::try_from(list.failed.len().min(3)).unwrap_or(0);
    let [head, errors, body, foot] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(failed),
        Constraint::Min(1),
        Constraint::Length(1),
    ])
    .areas(frame.area());
    let shown = list.shown();
    let bold = Style::new().add_modifier(Modifier::BOLD);
    let count = match shown.len() {
        1 => "1 subscription".to_owned(),
        count => format!("{count} subscriptions"),
    };
    let filter =
        if list.filter.is_empty() { String::new() } else { format!("  filter: {}", plain(&list.filter)) };
    let time = now.to_string();
    let time = time.get(..19).unwrap_or(&time).replace('T', " ");
    let title = Text::from(vec![
        Span::styled("postrider top", bold),
        Span::raw(format!("  {time} UTC  {count}{filter}")),
    ]);
    frame.render_widget(Paragraph::new(title), head);
    let lines: Vec<Text<'_>> = list.failed.iter().map(|error| Text::raw(plain(error))).collect();
    frame.render_widget(Paragraph::new(lines).style(Style::new().fg(Color::Red)), errors);
    table(frame, body, &shown, list);
    let hint = match list.front {
        Front::Filter => format!("filter: {}_   Enter keeps it, Esc removes it", plain(&list.filter)),
        _ => "q end   ? keys   Enter one subscription   f filter   1-9 sort".to_owned(),
    };
    frame.render_widget(Paragraph::new(hint).style(Style::new().add_modifier(Modifier::DIM)), foot);
    match list.front {
        Front::Help => window(frame, body, " keys ", vec![Text::raw(""), Text::raw("")], KEYS),
        Front::Detail => {
            if let Some(line) = list.line() {
                detail(frame, body, line);
            }
        }
        Front::Nothing | Front::Filter => {}
    }
}

fn table(frame: &mut Frame<'_>, area: Rect, shown: &[&Line], list: &List) {
    if shown.is_empty() {
        let text = match (list.has_read, list.filter.is_empty()) {
            (false, _) => "reading ...",
            (true, true) => "there is no subscription in the configuration or in the database",
            (true, false) => "no subscription matches the filter",
        };
        frame.render_widget(Paragraph::new(text), area);
        return;
    }
    let name = |(at, name): (usize, &&str)| match list.sort {
        Some((column, true)) if column == at => Cell::from(format!("{name} v")),
        Some((column, false)) if column == at => Cell::from(format!("{name} ^")),
        _ => Cell::from((*name).to_owned()),
    };
    let bold = Style::new().add_modifier(Modifier::BOLD | Modifier::UNDERLINED);
    let header = Row::new(COLUMNS.iter().enumerate().map(name)).style(bold);
    let row = |line: &&Line| Row::new(line.cells().iter().map(|cell| plain(cell))).style(colour(line));
    let table = Table::new(shown.iter().map(row), WIDTHS)
        .header(header)
        .column_spacing(1)
        .row_highlight_style(Style::new().add_modifier(Modifier::REVERSED));
    let mut state = TableState::default().with_selected(Some(list.at()));
    frame.render_stateful_widget(table, area, &mut state);
}

/// The state is a word too: the colour only helps to find it.
fn colour(line: &Line) -> Style {
    let state = &line.cells()[1];
    match () {
        () if state.starts_with("halted") || state.contains("DOWN") => Style::new().fg(Color::Red),
        () if state.starts_with("paused") || state.starts_with("no relay") => Style::new().fg(Color::Yellow),
        () => Style::new(),
    }
}

fn detail(frame: &mut Frame<'_>, area: Rect, line: &Line) {
    let bold = Style::new().add_modifier(Modifier::BOLD);
    let fields = COLUMNS.iter().zip(line.cells()).skip(1);
    let lines = fields
        .map(|(name, value)| {
            Text::from(vec![Span::styled(format!("{name}: "), bold), Span::raw(plain(value))])
        })
        .collect();
    window(frame, area, &format!(" {} ", plain(line.name())), lines, "");
}

fn window(frame: &mut Frame<'_>, area: Rect, title: &str, mut lines: Vec<Text<'_>>, text: &str) {
    let [_, middle, _] = Layout::horizontal([
        Constraint::Percentage(10),
        Constraint::Percentage(80),
        Constraint::Percentage(10),
    ])
    .areas(area);
    let height = u16::try_from(text.lines().count() + lines.len() * 2 + 2).unwrap_or(u16::MAX);
    let place = Rect { height: height.min(middle.height), ..middle };
    if !text.is_empty() {
        lines = text.lines().map(|line| Text::raw(line.to_owned())).collect();
    }
    frame.render_widget(Clear, place);
    let block = Block::bordered().title(title.to_owned());
    frame.render_widget(Paragraph::new(lines).wrap(Wrap { trim: false }).block(block), place);
}

/// A text of a database without characters that could act on the terminal.
fn plain(text: &str) -> String {
    text.replace(char::is_control, " ")
}

#[cfg(test)]
mod tests {
    use super::super::list::tests::line;
    use super::*;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;
    use ratatui::crossterm::event::{KeyCode, KeyEvent};

    fn drawn(list: &mut List, width: u16, height: u16) -> String {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| draw(frame, list, Timestamp::from_micros(0))).unwrap();
        let buffer = terminal.backend().buffer();
        let row = |y| (0..width).map(|x| buffer[(x, y)].symbol()).collect::<String>().trim_end().to_owned();
        (0..height).map(row).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn the_list_is_drawn_as_a_table() {
        let mut list = List::default();
        list.set(
            vec![line("shop/mail", "7"), line("shop/\u{1b}[2Jevil", "30")],
            vec!["archive: it is down".to_owned()],
        );
        list.press(KeyEvent::from(KeyCode::Char('4')));
        let expected = "\
postrider top  1970-01-01 00:00:00 UTC  2 subscriptions
archive: it is down
subscription     state          done up to  waiting v  oldest   rate      in flight parked         errors, newes
shop/ [2Jevil    led by relay-1 41          30         2m 10s   12.5/s    3         2 retry        timeout
shop/mail        led by relay-1 41          7          2m 10s   12.5/s    3         2 retry        timeout

q end   ? keys   Enter one subscription   f filter   1-9 sort";
        assert_eq!(drawn(&mut list, 112, 7), expected);
    }

    #[test]
    fn every_size_of_terminal_can_be_drawn() {
        let mut list = List::default();
        list.set((0..50).map(|n| line(&format!("shop/{n}"), "1")).collect(), vec!["e".to_owned(); 9]);
        for front in [Front::Nothing, Front::Help, Front::Detail, Front::Filter] {
            list.front = front;
            for (width, height) in [(1, 1), (3, 2), (20, 5), (80, 24), (300, 100)] {
                drawn(&mut list, width, height);
            }
        }
    }

    #[test]
    fn one_subscription_is_shown_with_every_field() {
        let mut list = List::default();
        list.set(vec![line("shop/mail", "7")], Vec::new());
        list.press(KeyEvent::from(KeyCode::Enter));
        let drawn = drawn(&mut list, 80, 24);
        for text in ["shop/mail", "waiting: 7", "errors, newest first: timeout", "parked: 2 retry"] {
            assert!(drawn.contains(text), "{drawn}");
        }
    }
}
