//! The style sheet, the script and the icon, compiled in.

use axum::http::StatusCode;
use axum::http::header::{CACHE_CONTROL, HeaderValue};

use crate::request::Cx;
use crate::respond::{Answer, with_type};

pub(crate) const STYLE: &[u8] = include_bytes!("../../assets/app.css");
pub(crate) const SCRIPT: &[u8] = include_bytes!("../../assets/app.js");
const ICON: &[u8] = include_bytes!("../../assets/icon.svg");

pub(crate) async fn style(_: Cx) -> Answer {
    asset("text/css; charset=utf-8", STYLE)
}

pub(crate) async fn script(_: Cx) -> Answer {
    asset("text/javascript; charset=utf-8", SCRIPT)
}

pub(crate) async fn icon(_: Cx) -> Answer {
    asset("image/svg+xml", ICON)
}

fn asset(content: &'static str, bytes: &'static [u8]) -> Answer {
    let mut response = with_type(StatusCode::OK, content, bytes);
    // Long enough for a visit, short enough for an update.
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("private, max-age=300"));
    Ok(response)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_browser_loads_is_small() {
        let lines = String::from_utf8_lossy(SCRIPT).lines().count();
        assert!(lines <= 400, "{lines} lines of JavaScript");
        assert!(STYLE.len() + SCRIPT.len() < 60_000, "{} bytes", STYLE.len() + SCRIPT.len());
    }
}
