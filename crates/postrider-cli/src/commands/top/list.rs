//! What is shown, and what keys do. It touches no terminal.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use crate::commands::status::{COLUMNS, Line};

/// What a key asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    Go,
    End,
}

/// What is in front of the list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) enum Front {
    #[default]
    Nothing,
    /// The keys.
    Help,
    /// One subscription.
    Detail,
    /// The filter is being written.
    Filter,
}

/// The subscriptions, and the place of the user in them.
#[derive(Debug, Default)]
pub(super) struct List {
    lines: Vec<Line>,
    pub(super) failed: Vec<String>,
    pub(super) front: Front,
    pub(super) filter: String,
    /// The name of the selected one: it stays selected when the order changes.
    selected: Option<String>,
    /// A column, and whether the largest comes first.
    pub(super) sort: Option<(usize, bool)>,
    /// There was a report.
    pub(super) has_read: bool,
}

impl List {
    pub(super) fn set(&mut self, lines: Vec<Line>, failed: Vec<String>) {
        (self.lines, self.failed, self.has_read) = (lines, failed, true);
    }

    /// The last lines stay.
    pub(super) fn fail(&mut self, failed: Vec<String>) {
        (self.failed, self.has_read) = (failed, true);
    }

    /// The lines that match the filter, in order.
    pub(super) fn shown(&self) -> Vec<&Line> {
        let wanted = self.filter.to_lowercase();
        let mut shown: Vec<&Line> =
            self.lines.iter().filter(|line| line.text().to_lowercase().contains(&wanted)).collect();
        if let Some((column, descending)) = self.sort {
            shown.sort_by(|a, b| match descending {
                true => b.compare(a, column),
                false => a.compare(b, column),
            });
        }
        shown
    }

    /// The index of the selected line among the shown ones.
    pub(super) fn at(&self) -> usize {
        let name = self.selected.as_deref();
        self.shown().iter().position(|line| name == Some(line.name())).unwrap_or(0)
    }

    /// The selected line.
    pub(super) fn line(&self) -> Option<&Line> {
        self.shown().get(self.at()).copied()
    }

    pub(super) fn press(&mut self, key: KeyEvent) -> Step {
        if key.modifiers.contains(KeyModifiers::CONTROL) && key.code == KeyCode::Char('c') {
            return Step::End;
        }
        match (&self.front, key.code) {
            (Front::Filter, KeyCode::Esc) => {
                self.filter.clear();
                self.front = Front::Nothing;
            }
            (Front::Filter, KeyCode::Enter) => self.front = Front::Nothing,
            (Front::Filter, KeyCode::Backspace) => _ = self.filter.pop(),
            (Front::Filter, KeyCode::Char(letter)) if self.filter.chars().count() < 100 => {
                self.filter.push(letter)
            }
            (Front::Filter, _) => {}
            (_, KeyCode::Char('q')) => return Step::End,
            (Front::Nothing, KeyCode::Esc) if self.filter.is_empty() => return Step::End,
            (Front::Nothing, KeyCode::Esc) => self.filter.clear(),
            (_, KeyCode::Esc) => self.front = Front::Nothing,
            (Front::Help | Front::Detail, KeyCode::Enter | KeyCode::Char('?')) => self.front = Front::Nothing,
            (_, KeyCode::Char('?')) => self.front = Front::Help,
            (_, KeyCode::Char('f' | '/')) => self.front = Front::Filter,
            (Front::Nothing, KeyCode::Enter) if self.line().is_some() => self.front = Front::Detail,
            (_, KeyCode::Char('j') | KeyCode::Down) => self.move_to(self.at() + 1),
            (_, KeyCode::Char('k') | KeyCode::Up) => self.move_to(self.at().saturating_sub(1)),
            (_, KeyCode::Char('g') | KeyCode::Home) => self.move_to(0),
            (_, KeyCode::Char('G') | KeyCode::End) => self.move_to(usize::MAX),
            (_, KeyCode::Char(digit @ '1'..='9')) => {
                let column = digit as usize - '1' as usize;
                if column < COLUMNS.len() {
                    let descending = !matches!(self.sort, Some((known, true)) if known == column);
                    self.sort = Some((column, descending));
                }
            }
            _ => {}
        }
        Step::Go
    }

    fn move_to(&mut self, at: usize) {
        let shown = self.shown();
        let name = shown.get(at.min(shown.len().saturating_sub(1))).map(|line| line.name().to_owned());
        self.selected = name;
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in super::super) fn line(name: &str, waiting: &str) -> Line {
        let texts = [name, "led by relay-1", "41", waiting, "2m 10s", "12.5/s", "3", "2 retry", "timeout"];
        let waiting = waiting.trim_start_matches("at least ").parse().ok();
        Line::new(texts.map(str::to_owned), [None, None, None, waiting, None, None, None, None, None])
    }

    fn list() -> List {
        let mut list = List::default();
        list.set(
            vec![line("shop/mail", "7"), line("shop/audit", "at least 100000"), line("shop/web", "30")],
            Vec::new(),
        );
        list
    }

    fn press(list: &mut List, keys: &str) {
        for key in keys.chars() {
            let code = match key {
                '\n' => KeyCode::Enter,
                '\u{1b}' => KeyCode::Esc,
                '\u{8}' => KeyCode::Backspace,
                key => KeyCode::Char(key),
            };
            assert_eq!(list.press(KeyEvent::from(code)), Step::Go, "{key:?}");
        }
    }

    fn names(list: &List) -> Vec<&str> {
        list.shown().iter().map(|line| line.name()).collect()
    }

    #[test]
    fn numbers_sort_as_numbers_and_the_selected_one_stays_selected() {
        let mut list = list();
        press(&mut list, "j");
        assert_eq!(list.line().unwrap().name(), "shop/audit");
        press(&mut list, "4");
        assert_eq!(names(&list), ["shop/audit", "shop/web", "shop/mail"]);
        press(&mut list, "4");
        assert_eq!(names(&list), ["shop/mail", "shop/web", "shop/audit"]);
        assert_eq!(list.line().unwrap().name(), "shop/audit");
        press(&mut list, "gGk");
        assert_eq!(list.line().unwrap().name(), "shop/web");
    }

    #[test]
    fn a_filter_narrows_the_list_and_escape_removes_it_before_it_ends() {
        let mut list = list();
        press(&mut list, "fWEBx\u{8}\n");
        assert_eq!(names(&list), ["shop/web"]);
        press(&mut list, "\u{1b}");
        assert_eq!(names(&list).len(), 3);
        press(&mut list, "?\u{1b}\n");
        assert_eq!(list.front, Front::Detail);
        press(&mut list, "\u{1b}");
        assert_eq!(list.press(KeyEvent::from(KeyCode::Esc)), Step::End);
    }

    #[test]
    fn keys_in_an_empty_list_do_nothing() {
        let mut list = List::default();
        press(&mut list, "jkgG\n1923456789");
        assert_eq!((list.at(), list.line().is_none(), list.front), (0, true, Front::Nothing));
    }
}
