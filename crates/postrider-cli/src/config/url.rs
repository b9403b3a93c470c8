//! Masks secrets in URLs. In doubtful cases it masks more rather than less.

use std::borrow::Cow;

use super::secret::MASK;

/// Parameters whose name contains one of these are secrets.
const SECRET_PARAMETERS: [&str; 7] = ["pass", "pwd", "secret", "token", "key", "auth", "credential"];

/// The scheme, if this is a URL: `scheme:something`, without blanks.
pub fn scheme(url: &str) -> Option<&str> {
    let (scheme, rest) = url.split_once(':')?;
    let letters = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.');
    let valid = scheme.starts_with(|c: char| c.is_ascii_alphabetic()) && scheme.chars().all(letters);
    (valid && !rest.is_empty() && !url.contains(|c: char| c.is_whitespace() || c.is_control()))
        .then_some(scheme)
}

/// Schemes whose path is the name of a database; the path of other URLs may be a token.
const DATABASES: [&str; 4] = ["postgres", "postgresql", "mysql", "mariadb"];

/// The URL with user, password, parameters and fragment masked, and the path unless it is the name of a database. The
/// path of `sqlite:` is not a secret.
pub fn masked(url: &str) -> String {
    let Some(scheme) = scheme(url) else { return MASK.to_owned() };
    if scheme == "sqlite" {
        return url.to_owned();
    }
    let Some((_, rest)) = url.split_once("://") else { return format!("{scheme}:{MASK}") };
    let (user, rest) = user_and_rest(rest);
    let mark = if user.is_some() { format!("{MASK}@") } else { String::new() };
    let marks = if DATABASES.contains(&scheme) { &['?', '#'][..] } else { &['/', '?', '#'] };
    match rest.find(marks).filter(|end| rest[*end..] != *"/") {
        Some(end) => format!("{scheme}://{mark}{}{}{MASK}", &rest[..end], &rest[end..=end]),
        None => format!("{scheme}://{mark}{rest}"),
    }
}

/// Whether the URL may contain a secret that is masked: a password, or the path or parameters of an endpoint.
pub fn may_be_secret(url: &str) -> bool {
    let is_endpoint = matches!(scheme(url), Some("http" | "https"));
    has_password(url) || is_endpoint && masked(url) != url
}

/// Server and database of a masked URL.
pub fn without_scheme_and_user(masked: &str) -> &str {
    let rest = masked.split_once("://").map_or(masked, |(_, rest)| rest);
    let rest = rest.split_once('@').map_or(rest, |(_, rest)| rest);
    rest.split(['?', '#']).next().unwrap_or(rest)
}

/// The server of a masked URL.
pub fn server(masked: &str) -> &str {
    let rest = without_scheme_and_user(masked);
    rest.split_once('/').map_or(rest, |(server, _)| server)
}

/// A text for output: unchanged, unless it contains a URL with a password.
pub fn masked_if_secret(text: &str) -> Cow<'_, str> {
    if text_has_password(text) { masked(text).into() } else { text.into() }
}

/// Whether the URL contains a password, for its user or as a parameter.
pub fn has_password(url: &str) -> bool {
    let Some((_, rest)) = url.split_once("://") else { return false };
    let (user, rest) = user_and_rest(rest);
    let parameters = rest.split_once('?').map_or("", |(_, parameters)| parameters).to_ascii_lowercase();
    let names = parameters.split(['&', ';']).filter_map(|parameter| Some(parameter.split_once('=')?.0));
    user.is_some_and(|user| user.contains(':'))
        || names.into_iter().any(|name| SECRET_PARAMETERS.iter().any(|secret| name.contains(secret)))
}

/// Whether a text contains a URL with a password.
pub fn text_has_password(text: &str) -> bool {
    text.split(is_around_url).filter(|word| word.contains("://")).any(has_password)
}

fn is_around_url(c: char) -> bool {
    c.is_whitespace() || matches!(c, '"' | '\'' | '<' | '>')
}

/// A text with every URL with a password masked. This is the last safeguard: code that creates a text must not put
/// secrets into it, but messages of libraries and paths pass through here.
pub fn without_passwords(text: &str) -> Cow<'_, str> {
    if !text.contains("://") || !text_has_password(text) {
        return text.into();
    }
    let words = text.split_inclusive(is_around_url).map(|word| {
        let (url, end) = match word.char_indices().next_back() {
            Some((at, last)) if is_around_url(last) => word.split_at(at),
            _ => (word, ""),
        };
        if url.contains("://") && has_password(url) {
            format!("{}{end}", masked(url))
        } else {
            word.to_owned()
        }
    });
    words.collect::<String>().into()
}

/// Splits at the last `@`: a password may contain an unescaped `/` or `@`, and no part of it may be shown.
fn user_and_rest(rest: &str) -> (Option<&str>, &str) {
    rest.rsplit_once('@').map_or((None, rest), |(user, rest)| (Some(user), rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_place_of_a_url_is_its_server_and_database() {
        for (url, is, on) in [
            ("postgres://u:pw@h:5433/db?sslmode=disable", "h:5433/db", "h:5433"),
            ("postgresql://h/db", "h/db", "h"),
            ("mysql://u@h:3307", "h:3307", "h:3307"),
        ] {
            let masked = masked(url);
            assert_eq!((without_scheme_and_user(&masked), server(&masked)), (is, on));
        }
    }

    #[test]
    fn possible_secrets_are_masked() {
        for (url, shown) in [
            ("postgres://u:pw@h:5432/db", "postgres://***@h:5432/db"),
            ("postgres://u:p/w@x@h/db", "postgres://***@h/db"),
            ("https://token@h", "https://***@h"),
            ("postgres://h/db?password=pw", "postgres://h/db?***"),
            ("https://h/a#pw", "https://h/***"),
            ("https://h/services/T0KEN", "https://h/***"),
            ("https://h/", "https://h/"),
            ("https://h", "https://h"),
            ("https://h?key=pw", "https://h?***"),
            ("redis:pw", "redis:***"),
            ("sqlite:shop.db", "sqlite:shop.db"),
            ("sqlite:///var/shop.db", "sqlite:///var/shop.db"),
            ("pw", "***"),
            ("host=h password=pw", "***"),
        ] {
            assert_eq!(masked(url), shown);
        }
    }

    #[test]
    fn only_urls_with_passwords_are_masked_in_a_text() {
        for (text, shown) in [
            ("cannot open 'https://u:pw@h/a' and\nb", "cannot open 'https://***@h/***' and\nb"),
            ("x=https://u:pw@h amqp://h?password=pw\n", "*** amqp://h?***\n"),
            ("see https://toml.io now", "see https://toml.io now"),
            ("", ""),
        ] {
            assert_eq!(without_passwords(text), shown);
        }
    }

    #[test]
    fn a_password_is_found_wherever_it_stands() {
        for text in [
            "postgres://u:pw@h/db",
            "outbox.x.url=postgres://u:p/w@h/db",
            "{\"url\": \"amqp://u:pw@h\"}",
            "postgres://h/db?sslmode=require&PASSWORD=pw",
        ] {
            assert!(text_has_password(text), "{text}");
        }
        for text in
            ["postgres://u@h/db", "http://h:80/a", "a:b@c", "sqlite:///a", "postgres://h/db?sslmode=require"]
        {
            assert!(!text_has_password(text), "{text}");
        }
    }
}
