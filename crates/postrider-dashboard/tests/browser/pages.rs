//! Every page in both themes: nothing in the console, no violation, nothing wider than the window.

use postrider::Event;
use postrider::ledger::ParkedState;
use postrider_dashboard::{Finding, Role, Severity};

use crate::client::{ROLES, Served, serve_with};
use crate::driver::{Browser, Eyes, LIGHT};
use crate::outbox::{TestOutbox, order};

const PAGES: [(&str, &str); 11] = [
    ("overview", "/"),
    ("subscription", "/o/shop/subscriptions/mail"),
    ("event", "/o/shop/events/1"),
    ("events", "/o/shop/events"),
    ("waiting", "/o/shop/waiting"),
    ("dead", "/o/shop/dead"),
    ("audit", "/o/shop/audit"),
    ("inbox", "/o/shop/inbox"),
    ("handlers", "/o/shop/handlers"),
    ("replay", "/o/shop/subscriptions/mail/replay"),
    ("doctor", "/doctor"),
];

/// An outbox with everything that a page can show, long names included.
pub(crate) async fn filled() -> TestOutbox {
    let outbox = TestOutbox::sqlite().await;
    let long = "a-subscription-with-a-very-long-name-that-must-not-break-the-table-".repeat(3);
    let wide = Event::new("customer.address.changed.".repeat(8), "{}").with_key("Customer/".repeat(20));
    let states = [ParkedState::Retry, ParkedState::Held, ParkedState::Behind, ParkedState::Unrouted];
    let mut events: Vec<_> = (1..40).map(|number| (order(number), ParkedState::Dead)).collect();
    events.extend((40..60).map(|number| (order(number), states[number % 4])));
    events.push((wide, ParkedState::Dead));
    outbox.park("mail", events).await;
    outbox.park(&long, vec![(order(70), ParkedState::Dead)]).await;
    outbox.park("analytics", vec![(order(71), ParkedState::Retry)]).await;
    outbox
}

pub(crate) async fn served(outbox: &TestOutbox) -> Served {
    let finding = |severity, what: &str, fix: Option<&str>| Finding {
        severity,
        code: "D-01".to_owned(),
        subject: "outbox shop".to_owned(),
        what: what.to_owned(),
        meaning: "Why it matters.".to_owned(),
        fix: fix.map(str::to_owned),
    };
    let findings = vec![
        finding(Severity::Ok, "it can be read", None),
        finding(Severity::Warn, "the clocks differ by 90 s", Some("synchronise them with NTP")),
        finding(Severity::Fail, "there is no key", Some("create it")),
    ];
    serve_with(outbox.source(), |dashboard| {
        dashboard.checks(move || {
            let findings = findings.clone();
            async move { findings }
        })
    })
    .await
}

/// A browser that has logged in with this role.
pub(crate) async fn logged_in(served: &Served, role: Role, eyes: Eyes) -> Option<(Browser, String)> {
    let browser = Browser::open(eyes).await?;
    let base = format!("http://{}", served.address);
    browser.go(&format!("{base}/login")).await;
    let (_, _, token) = ROLES.iter().find(|(known, ..)| *known == role).unwrap();
    browser.fill("#secret", token).await;
    browser.click("button.primary").await;
    browser.until("Overview").await;
    Some((browser, base))
}

/// Whether something is wider than the window.
const OVERFLOWS: &str = "return document.documentElement.scrollWidth > document.documentElement.clientWidth";

#[tokio::test(flavor = "multi_thread")]
async fn every_page_is_accessible_in_both_themes_and_silent() {
    let outbox = filled().await;
    let served = served(&outbox).await;
    let Some((browser, base)) = logged_in(&served, Role::Operator, LIGHT).await else { return };
    for dark in [false, true] {
        browser.theme(dark).await;
        for (name, path) in PAGES {
            browser.go(&format!("{base}{path}")).await;
            browser.until_script("return document.readyState === 'complete'").await;
            assert_eq!(browser.run(OVERFLOWS).await, false, "{path} is wider than the window");
            let violations = browser.violations().await.unwrap_or_default();
            assert!(violations.is_empty(), "{path}, dark {dark}: {violations:#?}");
            assert_eq!(browser.complaints().await, Vec::<String>::new(), "{path}");
            browser.picture(&format!("{name}-{}", if dark { "dark" } else { "light" })).await;
        }
    }
    browser.theme(false).await;
    browser.width(390).await;
    for (name, path) in PAGES {
        browser.go(&format!("{base}{path}")).await;
        assert_eq!(browser.run(OVERFLOWS).await, false, "{path} is wider than a telephone");
        browser.picture(&format!("{name}-narrow")).await;
    }
    let violations = browser.violations().await.unwrap_or_default();
    assert!(violations.is_empty(), "{violations:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_without_data_and_failures_are_accessible_too() {
    let outbox = TestOutbox::sqlite().await;
    let served = served(&outbox).await;
    let Some((browser, base)) = logged_in(&served, Role::Viewer, LIGHT).await else { return };
    for (name, path) in [
        ("empty", "/"),
        ("empty-dead", "/o/shop/dead"),
        ("empty-events", "/o/shop/events"),
        ("failure", "/o/shop/subscriptions/none"),
    ] {
        browser.go(&format!("{base}{path}")).await;
        let violations = browser.violations().await.unwrap_or_default();
        assert!(violations.is_empty(), "{path}: {violations:#?}");
        browser.picture(name).await;
    }
    browser.go(&format!("{base}/login")).await;
    let violations = browser.violations().await.unwrap_or_default();
    assert!(violations.is_empty(), "{violations:#?}");
    browser.picture("login").await;
}
