//! Statements without the values in them.

use std::iter::Peekable;
use std::str::Chars;

/// Maximum number of characters that are shown.
const CHARS_MAX: usize = 200;

/// What differs between the databases between values and names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum SqlFlavor {
    /// PostgreSQL: names in double quotes, strings between dollars, comments within comments.
    Postgres,
    /// MySQL and MariaDB: names in backticks, strings in double quotes, comments after `#`.
    MySql,
}

/// A statement of another program that may be shown: on one line, with `?` in place of each literal, without comments, and at
/// most 200 characters. Where it is not certain that a literal has ended, the rest is left out.
#[must_use]
pub fn without_values(statement: &str, flavor: SqlFlavor) -> String {
    let mut shown = Shown { text: String::new(), chars: 0 };
    let mut rest = statement.chars().peekable();
    while shown.chars < CHARS_MAX {
        let Some(char) = rest.next() else { return shown.end() };
        let is_certain = match char {
            '\'' => literal(&mut shown, &mut rest, '\''),
            '"' if flavor == SqlFlavor::MySql => literal(&mut shown, &mut rest, '"'),
            '"' => name(&mut shown, &mut rest, '"'),
            '`' if flavor == SqlFlavor::MySql => name(&mut shown, &mut rest, '`'),
            '$' if !shown.ends_in_name() => dollar(&mut shown, &mut rest),
            '-' if is_line_comment(&rest, flavor) => line_comment(&mut shown, &mut rest),
            '#' if flavor == SqlFlavor::MySql => line_comment(&mut shown, &mut rest),
            '/' if rest.peek() == Some(&'*') => block_comment(&mut shown, &mut rest, flavor),
            digit if digit.is_ascii_digit() && !shown.ends_in_name() => {
                number(&mut shown, &mut rest);
                true
            }
            char => {
                shown.push(char);
                true
            }
        };
        if !is_certain {
            break;
        }
    }
    shown.text.push_str("...");
    shown.end()
}

struct Shown {
    text: String,
    chars: usize,
}

impl Shown {
    fn push(&mut self, char: char) {
        let char = if char.is_whitespace() || char.is_control() { ' ' } else { char };
        if !(char == ' ' && (self.text.is_empty() || self.text.ends_with(' '))) {
            self.text.push(char);
            self.chars += 1;
        }
    }

    /// A digit after this belongs to a name.
    fn ends_in_name(&self) -> bool {
        self.text.ends_with(|char: char| char.is_alphanumeric() || char == '_' || char == '$')
    }

    fn end(self) -> String {
        self.text.trim_end().to_owned()
    }
}

type Rest<'a> = Peekable<Chars<'a>>;

/// After its opening quote. A backslash before a quote escapes it or not, which depends on settings: then the end is not
/// certain.
fn literal(shown: &mut Shown, rest: &mut Rest<'_>, quote: char) -> bool {
    shown.push('?');
    let mut after_backslash = false;
    while let Some(char) = rest.next() {
        if char == quote {
            if after_backslash {
                return false;
            }
            if rest.next_if_eq(&quote).is_none() {
                return true;
            }
        }
        after_backslash = char == '\\' && !after_backslash;
    }
    false
}

fn name(shown: &mut Shown, rest: &mut Rest<'_>, quote: char) -> bool {
    shown.push(quote);
    for char in rest.by_ref() {
        if shown.chars >= CHARS_MAX {
            return false;
        }
        shown.push(char);
        if char == quote {
            return true;
        }
    }
    false
}

/// A parameter such as `$1`, or a string such as `$tag$...$tag$`.
fn dollar(shown: &mut Shown, rest: &mut Rest<'_>) -> bool {
    let mut tag = String::from('$');
    while let Some(char) = rest.next_if(|char| char.is_alphanumeric() || *char == '_') {
        tag.push(char);
    }
    if rest.next_if_eq(&'$').is_none() {
        let is_parameter = tag.len() > 1 && tag.chars().skip(1).all(|char| char.is_ascii_digit());
        tag.chars().filter(|_| is_parameter).for_each(|char| shown.push(char));
        return is_parameter;
    }
    tag.push('$');
    shown.push('?');
    let mut found = String::new();
    for char in rest.by_ref() {
        found.push(char);
        if found.ends_with(&tag) {
            return true;
        }
        // Only the end is compared.
        if found.len() > 4 * tag.len() + 64 {
            found = found.chars().skip(found.chars().count() - tag.chars().count()).collect();
        }
    }
    false
}

/// After its first character. MySQL wants a space after the two of them: `5--3` is 8.
fn is_line_comment(rest: &Rest<'_>, flavor: SqlFlavor) -> bool {
    let mut next = rest.clone();
    let is_dash = next.next() == Some('-');
    let is_followed = next.next().is_none_or(|char| char.is_whitespace() || char.is_control());
    is_dash && (flavor == SqlFlavor::Postgres || is_followed)
}

fn line_comment(shown: &mut Shown, rest: &mut Rest<'_>) -> bool {
    shown.push(' ');
    rest.by_ref().any(|char| char == '\n')
}

/// After its first character.
fn block_comment(shown: &mut Shown, rest: &mut Rest<'_>, flavor: SqlFlavor) -> bool {
    rest.next();
    shown.push(' ');
    // MySQL executes what is in `/*! ... */` and `/*M! ... */`.
    if flavor == SqlFlavor::MySql && matches!(rest.peek(), Some('!' | 'M')) {
        return false;
    }
    let mut depth = 1_usize;
    while let Some(char) = rest.next() {
        if char == '*' && rest.next_if_eq(&'/').is_some() {
            depth -= 1;
            if depth == 0 {
                return true;
            }
        } else if char == '/' && flavor == SqlFlavor::Postgres && rest.next_if_eq(&'*').is_some() {
            depth += 1;
        }
    }
    false
}

/// After its first digit: also `0xFF`, `1.5` and `1e10`.
fn number(shown: &mut Shown, rest: &mut Rest<'_>) {
    shown.push('?');
    while rest.next_if(|char| char.is_alphanumeric() || matches!(char, '.' | '_')).is_some() {}
}

#[cfg(test)]
mod tests {
    use super::SqlFlavor::{MySql, Postgres};
    use super::*;

    #[test]
    fn values_of_every_kind_are_left_out_and_names_stay() {
        for (flavor, statement, wanted) in [
            (
                Postgres,
                "INSERT INTO \"a b\".t1\n (c)  VALUES ('x', 'it''s', 7, -1.5e3, 0xFF, $1)\u{1b}",
                "INSERT INTO \"a b\".t1 (c) VALUES (?, ?, ?, -?, ?, $1)",
            ),
            (Postgres, "SELECT E'a', $$x ' y$$, $b$ $$ $c$ $b$, u&'z', a.b2", "SELECT E?, ?, ?, u&?, a.b2"),
            (Postgres, "SELECT 1 /* a /* 'b' */ c */ , 2 -- d\n, 3", "SELECT ? , ? , ?"),
            (
                MySql,
                "UPDATE `o'k` SET a = \"x\"\"y\", b = x'41', c = 0x41 # d\nWHERE e = 5",
                "UPDATE `o'k` SET a = ?, b = x?, c = ? WHERE e = ?",
            ),
            (MySql, "/* a /* */ SELECT 'b' */", "SELECT ? */"),
            (MySql, "SELECT 5--3, 'a\nb'", "SELECT ?--?, ?"),
        ] {
            assert_eq!(without_values(statement, flavor), wanted, "{statement}");
        }
    }

    #[test]
    fn nothing_is_shown_after_a_literal_whose_end_is_not_certain() {
        for (flavor, statement, wanted) in [
            (Postgres, r"SELECT 'a\', 'secret'", "SELECT ?..."),
            (MySql, r"SELECT 'it\'s', 'secret'", "SELECT ?..."),
            (MySql, r"SELECT 'a\\', 'b'", "SELECT ?, ?"),
            (Postgres, "SELECT 'cut off by the serv", "SELECT ?..."),
            (Postgres, "SELECT $x$ secret", "SELECT ?..."),
            (Postgres, "SELECT /* secret", "SELECT..."),
            (Postgres, "SELECT -- secret", "SELECT..."),
            (MySql, "SELECT /*! 'a*/ secret' */", "SELECT..."),
            (Postgres, "SELECT \"x", "SELECT \"x..."),
            (MySql, "SELECT `x", "SELECT `x..."),
        ] {
            let shown = without_values(statement, flavor).replace(" ...", "...");
            assert_eq!(shown, wanted, "{statement}");
            assert!(!shown.contains("secret"), "{shown}");
        }
    }

    #[test]
    fn any_text_is_shortened_and_has_no_control_characters() {
        for flavor in [Postgres, MySql] {
            let mut random: u32 = 7;
            for length in 0..2_000 {
                let text: String = (0..length % 400)
                    .map(|_| {
                        random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                        let chars = [
                            '\'', '"', '`', '$', '/', '*', '-', '#', '\\', '\n', '7', 'é', 'a', '\u{1b}', ' ',
                        ];
                        chars[(random >> 16) as usize % chars.len()]
                    })
                    .collect();
                let shown = without_values(&text, flavor);
                assert!(shown.chars().count() <= CHARS_MAX + 3, "{text:?}");
                assert!(!shown.contains(char::is_control), "{text:?}");
            }
        }
    }
}
