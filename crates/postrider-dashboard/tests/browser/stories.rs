//! What a person does: with the mouse, with the keyboard only, without JavaScript, and while a broker is down.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use postrider::relay::{Policy, Relay, Subscription};
use postrider::sink::{Failure, Message, Outcome, Receipt, Sink};
use postrider::store::Start;
use postrider::{BoxFuture, Event};
use postrider_dashboard::{Dashboard, Login, Role};
use tokio::net::{TcpListener, TcpStream};

use crate::driver::{Browser, ENTER, Eyes, LIGHT, SPACE};
use crate::outbox::{TestOutbox, dead, order};
use crate::pages::{filled, logged_in, served};

#[tokio::test(flavor = "multi_thread")]
async fn the_link_logs_in_once_and_leaves_no_trace_in_the_address() {
    let outbox = TestOutbox::sqlite().await;
    let socket = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = socket.local_addr().unwrap();
    let (login, secret) = Login::link("alice@host", Role::Viewer).unwrap();
    let router = Dashboard::new(login.address(address)).outbox("shop", outbox.source()).router();
    let task = tokio::spawn(async move { postrider_dashboard::serve(socket, router).await });
    let link = format!("http://{address}/login#link={secret}");
    let Some(browser) = Browser::open(LIGHT).await else { return };
    browser.go(&link).await;
    browser.until("No subscription yet").await;
    assert_eq!(browser.url().await, format!("http://{address}/"));
    assert!(browser.text().await.contains("alice@host"));
    let Some(second) = Browser::open(LIGHT).await else { return };
    second.go(&link).await;
    second.until("This link does not work").await;
    assert!(!second.url().await.contains(&secret));
    task.abort();
}

/// From the overview to the result, with the tabulator, space and enter only.
#[tokio::test(flavor = "multi_thread")]
async fn dead_events_are_retried_with_the_keyboard() {
    let outbox = filled().await;
    let served = served(&outbox).await;
    let Some((browser, base)) = logged_in(&served, Role::Operator, LIGHT).await else { return };
    browser.go(&format!("{base}/")).await;
    browser.tab_to("a[href$='dead?subscription=mail']").await;
    browser.press(ENTER).await;
    browser.until("events match").await;
    browser.tab_to("[data-tick-all]").await;
    browser.press(SPACE).await;
    browser.until("(40)").await;
    browser.tab_to("a.brand").await;
    browser.tab_to("button[value=retry]").await;
    browser.press(ENTER).await;
    browser.until("Retry them").await;
    // The field of the reason has the focus.
    browser.press("the consumer is fixed").await;
    browser.picture("change-confirm").await;
    browser.press(ENTER).await;
    browser.until("40 retried, 40 counted").await;
    assert!(browser.violations().await.unwrap_or_default().is_empty());
    browser.picture("change-done").await;
    assert_eq!(browser.complaints().await, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn dead_events_are_discarded_without_javascript() {
    let outbox = TestOutbox::sqlite().await;
    outbox.park("mail", dead(3)).await;
    let served = served(&outbox).await;
    let eyes = Eyes { script: false, ..LIGHT };
    let Some((browser, base)) = logged_in(&served, Role::Operator, eyes).await else { return };
    browser.go(&format!("{base}/o/shop/dead")).await;
    browser.click("input[name=row]").await;
    browser.click("button[value=discard]").await;
    browser.until("Discard them").await;
    browser.fill("#reason", "test data").await;
    browser.click("button.primary").await;
    browser.until("1 discarded, 1 counted").await;
    browser.click("a.button.primary").await;
    browser.until("2 events match").await;
}

/// A broker that takes whole messages over TCP, and can be killed.
struct Broker {
    address: std::net::SocketAddr,
    accepting: Mutex<Option<tokio::task::JoinHandle<()>>>,
}

impl Broker {
    async fn start() -> Arc<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let broker = Arc::new(Self { address: listener.local_addr().unwrap(), accepting: Mutex::new(None) });
        broker.accept(listener);
        broker
    }

    fn accept(&self, listener: TcpListener) {
        let task = tokio::spawn(async move { while listener.accept().await.is_ok() {} });
        *self.accepting.lock().unwrap() = Some(task);
    }

    async fn kill(&self) {
        let task = self.accepting.lock().unwrap().take().unwrap();
        task.abort();
        let _ = task.await;
    }

    async fn restart(&self) {
        self.accept(TcpListener::bind(self.address).await.unwrap());
    }
}

/// Sends to that broker.
struct ToBroker(Arc<Broker>);

impl Sink for ToBroker {
    fn publish<'a>(&'a self, batch: &'a [Message]) -> BoxFuture<'a, Vec<Outcome>> {
        Box::pin(async move {
            match TcpStream::connect(self.0.address).await {
                Ok(_) => batch.iter().map(|_| Outcome::Acknowledged(Receipt::default())).collect(),
                Err(error) => batch.iter().map(|_| Outcome::Down(Failure::new(error.to_string()))).collect(),
            }
        })
    }
}

/// The page is opened once; it shows the outage and the recovery by itself.
#[tokio::test(flavor = "multi_thread")]
async fn an_open_page_tells_that_the_broker_was_killed_and_is_back() {
    let outbox = Arc::new(TestOutbox::sqlite().await);
    let broker = Broker::start().await;
    let policy = Policy::default()
        .probe_min(Duration::from_millis(50))
        .probe_max(Duration::from_millis(200))
        .lease(Duration::from_secs(2));
    let subscription =
        Subscription::new("kafka", ToBroker(broker.clone())).start(Start::Beginning).policy(policy);
    let relay = Relay::builder().outbox(outbox.store().await, [subscription]).spawn().await.unwrap();
    let served = served(&outbox).await;
    let writers = tokio::spawn({
        let outbox = outbox.clone();
        async move {
            for number in 0.. {
                outbox.write(vec![order(number), Event::new("order.paid", "{}")]).await;
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    });
    let Some((browser, _)) = logged_in(&served, Role::Viewer, LIGHT).await else { return };
    browser.until_script("return /Up to date|Delivering/.test(document.body.innerText)").await;
    browser.run("window.sameDocument = true").await;
    broker.kill().await;
    browser.until("Destination down").await;
    browser.until("Connection refused").await;
    browser.until("No attempt of an event is used up").await;
    browser.picture("overview-outage").await;
    broker.restart().await;
    browser.until_script("return /Up to date|Delivering/.test(document.body.innerText)").await;
    assert_eq!(browser.run("return window.sameDocument").await, true, "it was never loaded again");
    let complaints = browser.complaints().await;
    assert!(complaints.is_empty(), "{complaints:?}");
    writers.abort();
    relay.shutdown().await.unwrap();
}
