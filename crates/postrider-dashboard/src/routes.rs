//! The one table of all routes. The role is checked here and nowhere else, so a page cannot forget it.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use axum::Router;
use axum::extract::{ConnectInfo, RawPathParams, Request};
use axum::http::header::{COOKIE, LOCATION};
use axum::http::{Method, StatusCode};
use axum::middleware::from_fn_with_state;
use axum::response::Response;
use axum::routing::{MethodFilter, on};
use futures_util::future::BoxFuture;

use crate::login::Role;
use crate::request::{Cx, encoded, pairs};
use crate::respond::{self, Answer};
use crate::{App, guard, pages, sessions};

/// A form is at most this long.
const FORM_BYTES_MAX: usize = 256 * 1024;

type Handler = fn(Cx) -> BoxFuture<'static, Answer>;

/// One route.
#[derive(Clone, Copy)]
pub(crate) struct Route {
    pub(crate) method: &'static str,
    pub(crate) path: &'static str,
    /// The least role that may use it; `None`: everyone, before a login.
    pub(crate) role: Option<Role>,
    handler: Handler,
}

macro_rules! routes {
    ($($method:ident $path:literal $role:ident $handler:path;)*) => {
        &[$(Route {
            method: stringify!($method),
            path: $path,
            role: routes!(@role $role),
            handler: |cx| Box::pin($handler(cx)),
        }),*]
    };
    (@role anyone) => { None };
    (@role $role:ident) => { Some(Role::$role) };
}

/// Every route. A route that changes something is a POST.
pub(crate) const ROUTES: &[Route] = routes! {
    GET "/assets/app.css" anyone pages::assets::style;
    GET "/assets/app.js" anyone pages::assets::script;
    GET "/assets/icon.svg" anyone pages::assets::icon;
    GET "/login" anyone pages::login::form;
    POST "/login" anyone pages::login::log_in;
    POST "/logout" Viewer pages::login::log_out;
    GET "/" Viewer pages::overview::show;
    GET "/live" Viewer pages::live::stream;
    GET "/o/{outbox}/subscriptions/{subscription}" Viewer pages::subscription::show;
    POST "/o/{outbox}/subscriptions/{subscription}/pause" Operator pages::subscription::pause;
    POST "/o/{outbox}/subscriptions/{subscription}/resume" Operator pages::subscription::resume;
    GET "/o/{outbox}/subscriptions/{subscription}/replay" Operator pages::replay::form;
    POST "/o/{outbox}/subscriptions/{subscription}/replay" Operator pages::replay::count;
    GET "/o/{outbox}/events" Viewer pages::events::list;
    GET "/o/{outbox}/events/{event}" Viewer pages::event::show;
    POST "/o/{outbox}/events/{event}/payload" Reader pages::event::payload;
    GET "/o/{outbox}/waiting" Viewer pages::parked::waiting;
    GET "/o/{outbox}/dead" Viewer pages::parked::dead;
    POST "/o/{outbox}/changes" Operator pages::changes::count;
    GET "/o/{outbox}/changes/{change}" Operator pages::changes::show;
    POST "/o/{outbox}/changes/{change}" Operator pages::changes::confirm;
    GET "/o/{outbox}/audit" Viewer pages::audit::list;
    GET "/o/{outbox}/handlers" Viewer pages::handlers::list;
    GET "/o/{outbox}/inbox" Viewer pages::inbox::list;
    GET "/doctor" Viewer pages::doctor::show;
};

/// Method, path and role of every route, for tests.
#[doc(hidden)]
pub fn route_table() -> Vec<(&'static str, &'static str, Option<Role>)> {
    ROUTES.iter().map(|route| (route.method, route.path, route.role)).collect()
}

/// The routes, guarded.
pub(crate) fn router(app: Arc<App>) -> Router {
    let mut router = Router::new();
    for route in ROUTES {
        let (route, app) = (*route, app.clone());
        let filter = if route.method == "GET" { MethodFilter::GET } else { MethodFilter::POST };
        let answer =
            move |params: RawPathParams, request: Request| answer(app.clone(), route, params, request);
        router = router.route(route.path, on(filter, answer));
    }
    let unknown = app.clone();
    router
        .fallback(move || {
            let app = unknown.clone();
            async move { respond::not_found(&app) }
        })
        .layer(from_fn_with_state(app, guard::guard))
}

/// Answers a request that the guard let pass.
async fn answer(app: Arc<App>, route: Route, params: RawPathParams, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let cookie = session_cookie(&parts.headers);
    let person = cookie.as_deref().and_then(|cookie| app.sessions.person(cookie));
    match (&person, route.role) {
        (_, None) => {}
        (Some(person), Some(needed)) if person.role >= needed => {}
        (Some(person), Some(needed)) => return respond::forbidden(&app, person, needed),
        (None, Some(_)) if parts.method == Method::GET && route.path != "/live" => {
            let wanted = parts.uri.path_and_query().map_or("/", |of| of.as_str());
            return to_login(&app, wanted);
        }
        (None, Some(_)) => return respond::plain(StatusCode::UNAUTHORIZED, "log in first\n"),
    }
    let form = match parts.method {
        Method::POST => match axum::body::to_bytes(body, FORM_BYTES_MAX).await {
            Ok(bytes) => pairs(&bytes),
            Err(_) => return respond::plain(StatusCode::PAYLOAD_TOO_LARGE, "the form is too long\n"),
        },
        _ => Vec::new(),
    };
    let from: Option<IpAddr> =
        parts.extensions.get::<ConnectInfo<SocketAddr>>().map(|ConnectInfo(address)| address.ip());
    let cx = Cx {
        params: params.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect(),
        query: pairs(parts.uri.query().unwrap_or_default().as_bytes()),
        path: parts.uri.path().to_owned(),
        form,
        person,
        cookie,
        from,
        app: app.clone(),
    };
    let shown = cx.page_context();
    match (route.handler)(cx).await {
        Ok(response) => response,
        Err(failure) => respond::failure(shown, failure),
    }
}

/// To the login, and back afterwards.
fn to_login(app: &App, wanted: &str) -> Response {
    let mut response = respond::plain(StatusCode::SEE_OTHER, "");
    let target = format!("{}/login?next={}", app.prefix, encoded(wanted));
    if let Ok(target) = target.parse() {
        response.headers_mut().insert(LOCATION, target);
    }
    response
}

fn session_cookie(headers: &axum::http::HeaderMap) -> Option<String> {
    let all = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
    let mut values = all.flat_map(|value| value.split(';')).filter_map(|pair| pair.trim().split_once('='));
    values.find(|(name, _)| *name == sessions::COOKIE).map(|(_, value)| value.to_owned())
}
