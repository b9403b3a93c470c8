//! As much of URLs as masking needs. Where the rules of URLs leave doubt, more is masked, not less.

use std::borrow::Cow;

use super::secret::MASK;

/// Parameters that carry secrets have one of these in their name.
const SECRET_PARAMETERS: [&str; 7] = ["pass", "pwd", "secret", "token", "key", "auth", "credential"];

/// The scheme, if this is a URL at all: `scheme:something`, without blanks.
pub fn scheme(url: &str) -> Option<&str> {
    let (scheme, rest) = url.split_once(':')?;
    let letters = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.');
    let valid = scheme.starts_with(|c: char| c.is_ascii_alphabetic()) && scheme.chars().all(letters);
    (valid && !rest.is_empty() && !url.contains(|c: char| c.is_whitespace() || c.is_control()))
        .then_some(scheme)
}

/// The URL for people: user, password, parameters and fragment are masked. A path of `sqlite:` is no secret.
pub fn masked(url: &str) -> String {
    let Some(scheme) = scheme(url) else { return MASK.to_owned() };
    if scheme == "sqlite" {
        return url.to_owned();
    }
    let Some((_, rest)) = url.split_once("://") else { return format!("{scheme}:{MASK}") };
    let (user, rest) = user_and_rest(rest);
    let mark = if user.is_some() { format!("{MASK}@") } else { String::new() };
    match rest.find(['?', '#']) {
        Some(end) => format!("{scheme}://{mark}{}{}{MASK}", &rest[..end], &rest[end..=end]),
        None => format!("{scheme}://{mark}{rest}"),
    }
}

/// Any text for people: as it is, unless a URL with a password stands in it.
pub fn masked_if_secret(text: &str) -> Cow<'_, str> {
    if text_has_password(text) { masked(text).into() } else { text.into() }
}

/// Whether the URL carries a password, as its user's or as a parameter.
pub fn has_password(url: &str) -> bool {
    let Some((_, rest)) = url.split_once("://") else { return false };
    let (user, rest) = user_and_rest(rest);
    let parameters = rest.split_once('?').map_or("", |(_, parameters)| parameters).to_ascii_lowercase();
    let names = parameters.split(['&', ';']).filter_map(|parameter| Some(parameter.split_once('=')?.0));
    user.is_some_and(|user| user.contains(':'))
        || names.into_iter().any(|name| SECRET_PARAMETERS.iter().any(|secret| name.contains(secret)))
}

/// Whether a URL with a password stands anywhere in a text.
pub fn text_has_password(text: &str) -> bool {
    let ends = |c: char| c.is_whitespace() || matches!(c, '"' | '\'' | '<' | '>');
    text.split(ends).filter(|word| word.contains("://")).any(has_password)
}

/// Splits at the last `@`: a password may hold an unescaped `/` or `@`, and half of it must not be shown.
fn user_and_rest(rest: &str) -> (Option<&str>, &str) {
    rest.rsplit_once('@').map_or((None, rest), |(user, rest)| (Some(user), rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_be_secret_is_masked() {
        for (url, shown) in [
            ("postgres://u:pw@h:5432/db", "postgres://***@h:5432/db"),
            ("postgres://u:p/w@x@h/db", "postgres://***@h/db"),
            ("https://token@h", "https://***@h"),
            ("postgres://h/db?password=pw", "postgres://h/db?***"),
            ("https://h/a#pw", "https://h/a#***"),
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
