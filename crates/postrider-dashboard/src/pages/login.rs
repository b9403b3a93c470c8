//! Logging in and out.

use askama::Template;
use axum::http::StatusCode;
use axum::http::header::{HeaderValue, SET_COOKIE};

use crate::request::Cx;
use crate::respond::{Answer, PageContext, html, page, see_other};
use crate::sessions::{COOKIE, SESSION_TIME_MAX};

#[derive(Template)]
#[template(path = "login.html")]
struct LoginPage {
    page: PageContext,
    next: String,
    has_tokens: bool,
    error: Option<&'static str>,
}

pub(crate) async fn form(cx: Cx) -> Answer {
    let next = own_path(cx.query("next"));
    page(&LoginPage { page: cx.page_context(), next, has_tokens: cx.app.login.has_tokens(), error: None })
}

pub(crate) async fn log_in(cx: Cx) -> Answer {
    let next = own_path(cx.form("next"));
    let refused = |status, error| {
        let has_tokens = cx.app.login.has_tokens();
        html(
            status,
            &LoginPage { page: cx.page_context(), next: next.clone(), has_tokens, error: Some(error) },
        )
    };
    if !cx.app.login.may_try(cx.from) {
        return refused(StatusCode::TOO_MANY_REQUESTS, "Too many failed logins. Wait a minute.");
    }
    let Some(person) = cx.app.login.person(cx.form("secret").unwrap_or_default()) else {
        cx.app.login.note_failure(cx.from);
        tracing::warn!(from = cx.from.map(|from| from.to_string()), "a login to the dashboard failed");
        let error = match cx.app.login.has_tokens() {
            true => "This is not a token of the dashboard.",
            false => {
                "This link does not work: it is not the last one that was printed, or it was used before."
            }
        };
        return refused(StatusCode::UNAUTHORIZED, error);
    };
    tracing::info!(name = person.name, role = person.role.as_str(), "login to the dashboard");
    if let Some(cookie) = &cx.cookie {
        cx.app.sessions.end(cookie);
    }
    let value = cx.app.sessions.begin(person)?;
    let target = if next == "/" { cx.app.home().to_owned() } else { format!("{}{next}", cx.app.prefix) };
    let mut response = see_other(&target);
    set_cookie(&cx, &mut response, &value, SESSION_TIME_MAX.as_secs());
    Ok(response)
}

pub(crate) async fn log_out(cx: Cx) -> Answer {
    if let Some(cookie) = &cx.cookie {
        cx.app.sessions.end(cookie);
    }
    let mut response = see_other(&format!("{}/login", cx.app.prefix));
    set_cookie(&cx, &mut response, "", 0);
    Ok(response)
}

fn set_cookie(cx: &Cx, response: &mut axum::response::Response, value: &str, seconds: u64) {
    let path = cx.app.home();
    let secure = if cx.app.login.is_https() { "; Secure" } else { "" };
    let cookie =
        format!("{COOKIE}={value}; Path={path}; HttpOnly; SameSite=Strict; Max-Age={seconds}{secure}");
    if let Ok(cookie) = HeaderValue::from_str(&cookie) {
        response.headers_mut().insert(SET_COOKIE, cookie);
    }
}

/// Where to go after the login: a path of this dashboard, never another site.
fn own_path(wanted: Option<&str>) -> String {
    let is_own = |path: &&str| {
        path.starts_with('/')
            && !path.starts_with("//")
            && !path.contains('\\')
            && path.bytes().all(|byte| (0x21..0x7f).contains(&byte))
    };
    wanted.filter(is_own).unwrap_or("/").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_login_leads_to_no_other_site() {
        assert_eq!(own_path(Some("/o/shop/dead?key=a%2Fb")), "/o/shop/dead?key=a%2Fb");
        for foreign in
            ["//evil.example", "https://evil.example", "/\\evil.example", "/a\r\nSet-Cookie: x", ""]
        {
            assert_eq!(own_path(Some(foreign)), "/", "{foreign}");
        }
    }
}
