//! Every route, with every role and every kind of request that must be refused.

use postrider_dashboard::{Role, route_table};

use crate::client::{Client, serve};
use crate::outbox::{TestOutbox, dead};

/// What each route needs. A route that is missing here fails the test.
const EXPECTED: &[(&str, &str, Option<Role>)] = &[
    ("GET", "/assets/app.css", None),
    ("GET", "/assets/app.js", None),
    ("GET", "/assets/icon.svg", None),
    ("GET", "/login", None),
    ("POST", "/login", None),
    ("POST", "/logout", Some(Role::Viewer)),
    ("GET", "/", Some(Role::Viewer)),
    ("GET", "/live", Some(Role::Viewer)),
    ("GET", "/o/{outbox}/subscriptions/{subscription}", Some(Role::Viewer)),
    ("POST", "/o/{outbox}/subscriptions/{subscription}/pause", Some(Role::Operator)),
    ("POST", "/o/{outbox}/subscriptions/{subscription}/resume", Some(Role::Operator)),
    ("GET", "/o/{outbox}/subscriptions/{subscription}/replay", Some(Role::Operator)),
    ("POST", "/o/{outbox}/subscriptions/{subscription}/replay", Some(Role::Operator)),
    ("GET", "/o/{outbox}/events", Some(Role::Viewer)),
    ("GET", "/o/{outbox}/events/{event}", Some(Role::Viewer)),
    ("POST", "/o/{outbox}/events/{event}/payload", Some(Role::Reader)),
    ("GET", "/o/{outbox}/waiting", Some(Role::Viewer)),
    ("GET", "/o/{outbox}/dead", Some(Role::Viewer)),
    ("POST", "/o/{outbox}/changes", Some(Role::Operator)),
    ("GET", "/o/{outbox}/changes/{change}", Some(Role::Operator)),
    ("POST", "/o/{outbox}/changes/{change}", Some(Role::Operator)),
    ("GET", "/o/{outbox}/audit", Some(Role::Viewer)),
    ("GET", "/o/{outbox}/handlers", Some(Role::Viewer)),
    ("GET", "/o/{outbox}/inbox", Some(Role::Viewer)),
    ("GET", "/doctor", Some(Role::Viewer)),
];

/// A path of this route that exists.
fn path(route: &str) -> String {
    let parts =
        [("{outbox}", "shop"), ("{subscription}", "mail"), ("{event}", "1"), ("{change}", "no-such-change")];
    parts.iter().fold(route.to_owned(), |path, (name, value)| path.replace(name, value))
}

#[test]
fn every_route_has_an_entry_with_its_role() {
    assert_eq!(route_table(), EXPECTED);
}

#[test]
fn a_route_that_changes_something_is_a_post_of_a_role_above_viewer() {
    for (method, path, role) in route_table() {
        let changes = ["/pause", "/resume", "/payload", "/changes", "/changes/{change}"];
        if method == "POST" && changes.iter().any(|end| path.ends_with(end)) {
            assert!(role > Some(Role::Viewer), "{path}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_route_refuses_whoever_may_not_use_it() {
    let outbox = TestOutbox::sqlite().await;
    outbox.park("mail", dead(1)).await;
    let served = serve(outbox.source()).await;
    let host = served.address.to_string();
    let own: &[(&str, &str)] = &[("host", &host), ("sec-fetch-site", "same-origin")];
    let nobody = Client::new(&served);
    let mut people = Vec::new();
    for (role, ..) in crate::client::ROLES {
        people.push((role, Client::of(&served, role).await, Client::of(&served, role).await));
    }
    for (method, route, needed) in EXPECTED {
        let path = path(route);
        let is_change = *method == "POST";

        // Without a login.
        let answer = nobody.send(method, &path, own, "").await;
        match (needed, is_change) {
            (Some(_), false) if path != "/live" => {
                assert_eq!(answer.status, 303, "{path}");
                assert!(answer.location().starts_with("/login?next="), "{path}");
            }
            (Some(_), _) => assert_eq!(answer.status, 401, "{path}"),
            (None, true) => assert!(matches!(answer.status, 401 | 429), "{path}: a login without a token"),
            (None, false) => assert_eq!(answer.status, 200, "{path}"),
        }
        // With a cookie that no session has.
        let forged = Client { cookie: Some("postrider_session=00".to_owned()), ..nobody.clone() };
        let answer = forged.send(method, &path, own, "").await;
        assert!(needed.is_none() || matches!(answer.status, 303 | 401), "{path}: {}", answer.status);

        for (role, client, spare) in &mut people {
            let role = *role;
            let is_allowed = needed.is_none_or(|needed| role >= needed);
            // The host of another site, in all its forms.
            for host in ["evil.example", "evil.example:80", "127.0.0.1.evil.example", ""] {
                let headers: &[(&str, &str)] = &[("host", host), ("sec-fetch-site", "same-origin")];
                assert_eq!(client.send(method, &path, headers, "").await.status, 421, "{path} {host}");
            }
            if is_change {
                // From a page of another site, or from a program that does not say where it comes from.
                let foreign: [&[(&str, &str)]; 5] = [
                    &[("host", &host), ("sec-fetch-site", "cross-site")],
                    &[("host", &host), ("sec-fetch-site", "same-site")],
                    &[("host", &host), ("origin", "http://evil.example")],
                    &[("host", &host), ("origin", "null")],
                    &[("host", &host)],
                ];
                for headers in foreign {
                    assert_eq!(
                        client.send(method, &path, headers, "").await.status,
                        403,
                        "{path} {headers:?}"
                    );
                }
                // As a GET, unless there is such a page too.
                let has_get = EXPECTED.iter().any(|(method, other, _)| *method == "GET" && other == route);
                let answer = client.send("GET", &path, own, "").await;
                assert!(has_get || answer.status == 405, "GET {path}: {}", answer.status);
            }
            for method in ["PUT", "DELETE", "PATCH", "OPTIONS"] {
                assert_eq!(client.send(method, &path, own, "").await.status, 405, "{method} {path}");
            }
            if path == "/live" {
                client.stream_until(&path, "text/event-stream").await;
                continue;
            }
            let answer = client.send(method, &path, own, "").await;
            if path == "/logout" {
                // Failed logins have locked this address out.
                *client = spare.clone();
            }
            match is_allowed {
                false => assert_eq!(answer.status, 403, "{method} {path} {role:?}"),
                // What is missing in an empty form, or an unknown plan, is another matter.
                true => assert!(
                    !matches!(answer.status, 401 | 403 | 405 | 421) || path == "/login",
                    "{method} {path} {role:?}: {answer:?}"
                ),
            }
            for (name, value) in [
                ("x-content-type-options", "nosniff"),
                ("x-frame-options", "DENY"),
                ("referrer-policy", "same-origin"),
                ("cross-origin-resource-policy", "same-origin"),
            ] {
                assert_eq!(answer.header(name), Some(value), "{path}");
            }
            let policy = answer.header("content-security-policy").unwrap();
            for part in
                ["default-src 'none'", "frame-ancestors 'none'", "form-action 'self'", "base-uri 'none'"]
            {
                assert!(policy.contains(part) && !policy.contains("unsafe"), "{policy}");
            }
            let is_asset = path.starts_with("/assets/");
            assert_eq!(answer.header("cache-control") == Some("no-store"), !is_asset, "{path}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn unknown_names_are_not_found_and_hostile_paths_are_harmless() {
    let outbox = TestOutbox::sqlite().await;
    outbox.park("mail", dead(1)).await;
    let served = serve(outbox.source()).await;
    let client = Client::of(&served, Role::Operator).await;
    for path in [
        "/nothing",
        "/o/other/events",
        "/o/shop/subscriptions/other",
        "/o/shop/subscriptions/%3Cscript%3Ealert(1)%3C%2Fscript%3E",
        "/o/shop/dead?subscription=other",
        "/o/shop/changes/00000000000000000000000000000000",
        "/o/..%2F..%2Fetc/passwd",
    ] {
        let answer = client.get(path).await;
        assert_eq!(answer.status, 404, "{path}: {}", answer.body);
        assert!(!answer.body.contains("<script>alert"), "{path}");
    }
    for path in [
        "/o/shop/dead?since=yesterday",
        "/o/shop/dead?state=%27%20OR%201%3D1",
        "/o/shop/events?aggregate=x",
        "/o/shop/events?contains=%7B",
        "/o/shop/audit?before=x",
        "/o/shop/inbox?after=x",
    ] {
        assert_eq!(client.get(path).await.status, 400, "{path}");
    }
    for path in [
        "/o/shop/dead?key=%00%FF",
        "/o/shop/dead?error=%25_%27%22",
        "/o/shop/dead?after=x%2Fmail",
        "/o/shop/events?type=%F0%9F",
    ] {
        let status = client.get(path).await.status;
        assert!(matches!(status, 200 | 400), "{path}: {status}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn too_many_failed_logins_lock_the_address_out_and_a_login_leads_to_no_other_site() {
    let outbox = TestOutbox::sqlite().await;
    let served = serve(outbox.source()).await;
    let client = Client::new(&served);
    let token = crate::client::ROLES[0].2;
    let answer = client.post("/login", &[("secret", token), ("next", "//evil.example/")]).await;
    assert_eq!((answer.status, answer.location()), (303, "/"));
    for _ in 0..5 {
        assert_eq!(client.post("/login", &[("secret", "wrong")]).await.status, 401);
    }
    assert_eq!(client.post("/login", &[("secret", "wrong")]).await.status, 429);
    assert_eq!(client.post("/login", &[("secret", token)]).await.status, 429, "also with the right token");
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_logout_the_cookie_is_worth_nothing() {
    let outbox = TestOutbox::sqlite().await;
    let served = serve(outbox.source()).await;
    let client = Client::of(&served, Role::Viewer).await;
    client.page("/").await;
    let answer = client.post("/logout", &[]).await;
    assert!(answer.header("set-cookie").unwrap().contains("Max-Age=0"));
    assert_eq!(client.get("/").await.status, 303);
}
