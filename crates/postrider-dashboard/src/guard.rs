//! What holds for every request: a known host, a change only from a page of this dashboard, and the headers of a response
//! that no browser may frame, sniff, store or extend.

use axum::extract::{Request, State};
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, HOST, HeaderMap, HeaderName, HeaderValue, ORIGIN,
    REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{Method, StatusCode};
use axum::middleware::Next;
use axum::response::Response;
use std::sync::Arc;

use crate::App;
use crate::respond;

/// Everything is first-party. There is no inline script and no inline style.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
                      form-action 'self'; frame-ancestors 'none'; base-uri 'none'";

const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// The outermost layer.
pub(crate) async fn guard(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    let refused = refusal(&app, &request);
    let mut response = match refused {
        Some((status, why)) => respond::plain(status, why),
        None => next.run(request).await,
    };
    let headers = response.headers_mut();
    for (name, value) in [
        (CONTENT_SECURITY_POLICY, POLICY),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        // Not `no-referrer`: with it a browser sends `Origin: null` with a form, and over plain HTTP to another machine it
        // sends no Sec-Fetch-Site either, so that nothing would show where a change came from. To other sites nothing is
        // sent (adr/0140-dashboard.md).
        (REFERRER_POLICY, "same-origin"),
        (HeaderName::from_static("x-frame-options"), "DENY"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    headers.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    response
}

fn refusal(app: &App, request: &Request) -> Option<(StatusCode, &'static str)> {
    let headers = request.headers();
    // HTTP/2 has the name in the URI.
    let host =
        request.uri().authority().map(|of| of.as_str()).or_else(|| text(headers, &HOST)).unwrap_or_default();
    if !app.login.allows_host(host) {
        return Some((
            StatusCode::MISDIRECTED_REQUEST,
            "this name is not one of the dashboard's: use the address that it printed, or add the name to its hosts\n",
        ));
    }
    let is_change = !matches!(*request.method(), Method::GET | Method::HEAD);
    if is_change && !is_own_page(headers, host) {
        return Some((StatusCode::FORBIDDEN, "the request does not come from a page of this dashboard\n"));
    }
    None
}

/// Whether a page of this dashboard sent the request. A browser says so in `Sec-Fetch-Site`, or, over plain HTTP to another
/// machine, only in `Origin`. A request with neither is refused.
fn is_own_page(headers: &HeaderMap, host: &str) -> bool {
    match (text(headers, &FETCH_SITE), text(headers, &ORIGIN)) {
        (Some(site), _) => site == "same-origin",
        (None, Some(origin)) => origin.split_once("://").is_some_and(|(_, of)| of.eq_ignore_ascii_case(host)),
        (None, None) => false,
    }
}

/// A header with one value that is text.
pub(crate) fn text<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    let mut values = headers.get_all(name).iter();
    let first = values.next()?;
    match values.next() {
        None => Some(first.to_str().unwrap_or("?")),
        // Two values: whichever a proxy believes, it is not this one.
        Some(_) => Some("?"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own(pairs: &[(&'static str, &'static str)]) -> bool {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(HeaderName::from_static(name), HeaderValue::from_static(value));
        }
        is_own_page(&headers, "ops.example:8080")
    }

    #[test]
    fn only_own_pages_change_something() {
        assert!(own(&[("sec-fetch-site", "same-origin"), ("origin", "http://ops.example:8080")]));
        assert!(own(&[("origin", "http://OPS.example:8080")]));
        for site in ["cross-site", "same-site", "none", ""] {
            assert!(!own(&[("sec-fetch-site", site), ("origin", "http://ops.example:8080")]), "{site}");
        }
        for origin in [
            "null",
            "http://evil.example",
            "http://ops.example",
            "http://ops.example:8080.evil",
            "ops.example:8080",
        ] {
            assert!(!own(&[("origin", origin)]), "{origin}");
        }
        assert!(!own(&[]), "a request that says nothing");
        assert!(!own(&[("origin", "http://ops.example:8080"), ("origin", "http://evil.example")]));
    }
}
