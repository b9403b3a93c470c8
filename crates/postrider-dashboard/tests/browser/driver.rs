//! A browser for a test: Chromium, driven over the WebDriver protocol by chromedriver, each in a process of its own.

use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use base64::Engine as _;
use postrider_testkit::servers::{cache, skipped};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// How long a condition may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// The key of an element in the protocol.
const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";

pub(crate) const TAB: &str = "\u{e004}";
pub(crate) const ENTER: &str = "\u{e007}";
pub(crate) const SPACE: &str = " ";

/// How the browser looks at pages.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Eyes {
    pub(crate) dark: bool,
    pub(crate) script: bool,
    pub(crate) width: u32,
}

pub(crate) const LIGHT: Eyes = Eyes { dark: false, script: true, width: 1280 };

/// The body of an answer, if all of it has arrived.
fn whole_body(answer: &[u8]) -> Option<&[u8]> {
    let end = answer.windows(4).position(|bytes| bytes == b"\r\n\r\n")?;
    let head = String::from_utf8_lossy(&answer[..end]).to_lowercase();
    let length: usize = head.split("content-length:").nth(1)?.lines().next()?.trim().parse().ok()?;
    answer.get(end + 4..end + 4 + length)
}

/// A browser with one window.
pub(crate) struct Browser {
    driver: Child,
    port: u16,
    session: String,
    folder: tempfile::TempDir,
}

impl Drop for Browser {
    fn drop(&mut self) {
        // Chromium ends with its driver's session; the driver ends its browsers when it is terminated.
        let _ = Command::new("kill").arg(self.driver.id().to_string()).status();
        let _ = self.driver.wait();
    }
}

impl Browser {
    /// `None` if there is no Chromium, which is printed.
    pub(crate) async fn open(eyes: Eyes) -> Option<Self> {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let folder = tempfile::tempdir().unwrap();
        let mut command = Command::new("chromedriver");
        command.arg(format!("--port={port}")).env("HOME", folder.path());
        let driver = match command.stdout(Stdio::null()).stderr(Stdio::null()).spawn() {
            Ok(driver) => driver,
            Err(_) => {
                skipped(
                    "chromium",
                    "chromedriver is not installed; as root: apt-get install chromium chromium-driver",
                );
                return None;
            }
        };
        let mut browser = Self { driver, port, session: String::new(), folder };
        browser.until_ready().await;
        let mut args = vec![
            "--headless=new".to_owned(),
            "--no-sandbox".to_owned(),
            "--disable-dev-shm-usage".to_owned(),
            "--disable-gpu".to_owned(),
            "--force-device-scale-factor=1".to_owned(),
            format!("--window-size={},900", eyes.width),
            format!("--user-data-dir={}", browser.folder.path().join("profile").display()),
        ];
        if eyes.dark {
            args.push("--force-dark-mode".to_owned());
            args.push("--blink-settings=preferredColorScheme=0".to_owned());
        }
        let mut options = json!({ "args": args });
        if !eyes.script {
            options["prefs"] = json!({ "profile.managed_default_content_settings.javascript": 2 });
        }
        let capabilities = json!({ "capabilities": { "alwaysMatch": {
            "browserName": "chrome",
            "goog:chromeOptions": options,
            "goog:loggingPrefs": { "browser": "ALL" },
        }}});
        let session = browser.call("POST", "/session", &capabilities).await;
        browser.session =
            session["sessionId"].as_str().unwrap_or_else(|| panic!("no session: {session}")).to_owned();
        Some(browser)
    }

    async fn until_ready(&self) {
        let ready = async {
            loop {
                let Ok(stream) = TcpStream::connect(("127.0.0.1", self.port)).await else {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                    continue;
                };
                drop(stream);
                if self.call("GET", "/status", &Value::Null).await["ready"] == true {
                    return;
                }
            }
        };
        tokio::time::timeout(PATIENCE, ready).await.expect("chromedriver does not start");
    }

    /// A command, and its value. An error of the protocol is a value with `error`.
    async fn call(&self, method: &str, path: &str, body: &Value) -> Value {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).await.unwrap();
        let head = format!(
            "{method} {path} HTTP/1.1\r\nhost: 127.0.0.1:{}\r\nconnection: close\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
            self.port,
            body.len()
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        stream.write_all(body.as_bytes()).await.unwrap();
        // The driver keeps the connection open whatever the request says.
        let (mut answer, mut part) = (Vec::new(), vec![0; 65_536]);
        let body = loop {
            let read = stream.read(&mut part).await.unwrap();
            answer.extend_from_slice(&part[..read]);
            if let Some(body) = whole_body(&answer) {
                break body;
            }
            assert!(read > 0, "{method} {path}: half an answer: {}", String::from_utf8_lossy(&answer));
        };
        let mut value: Value =
            serde_json::from_slice(body).unwrap_or_else(|e| panic!("{method} {path}: {e}"));
        value["value"].take()
    }

    async fn command(&self, method: &str, path: &str, body: Value) -> Value {
        let value = self.call(method, &format!("/session/{}{path}", self.session), &body).await;
        assert!(value.get("error").is_none(), "{method} {path}: {value}");
        value
    }

    pub(crate) async fn go(&self, url: &str) {
        self.command("POST", "/url", json!({ "url": url })).await;
    }

    pub(crate) async fn url(&self) -> String {
        self.command("GET", "/url", Value::Null).await.as_str().unwrap().to_owned()
    }

    /// The result of a function body.
    pub(crate) async fn run(&self, script: &str) -> Value {
        self.command("POST", "/execute/sync", json!({ "script": script, "args": [] })).await
    }

    /// The text that a person sees.
    pub(crate) async fn text(&self) -> String {
        self.run("return document.body.innerText").await.as_str().unwrap_or_default().to_owned()
    }

    /// Waits until the page contains a text.
    pub(crate) async fn until(&self, text: &str) {
        self.until_script(&format!("return document.body.innerText.includes({})", json!(text))).await;
    }

    /// Waits until a script returns true. A page that is being loaded is not an error.
    pub(crate) async fn until_script(&self, script: &str) {
        let body = json!({ "script": script, "args": [] });
        let path = format!("/session/{}/execute/sync", self.session);
        let wait = async {
            while self.call("POST", &path, &body).await != true {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        if tokio::time::timeout(PATIENCE, wait).await.is_err() {
            panic!("not within {PATIENCE:?}: {script}; the page is: {}", self.text().await);
        }
    }

    async fn find(&self, css: &str) -> String {
        let found = self.command("POST", "/element", json!({ "using": "css selector", "value": css })).await;
        found[ELEMENT].as_str().unwrap().to_owned()
    }

    pub(crate) async fn click(&self, css: &str) {
        let element = self.find(css).await;
        self.command("POST", &format!("/element/{element}/click"), json!({})).await;
    }

    pub(crate) async fn fill(&self, css: &str, text: &str) {
        let element = self.find(css).await;
        self.command("POST", &format!("/element/{element}/value"), json!({ "text": text })).await;
    }

    /// Presses keys one after another, wherever the focus is.
    pub(crate) async fn press(&self, keys: &str) {
        let actions: Vec<Value> = keys
            .chars()
            .flat_map(|key| {
                [
                    json!({ "type": "keyDown", "value": key.to_string() }),
                    json!({ "type": "keyUp", "value": key.to_string() }),
                ]
            })
            .collect();
        let body = json!({ "actions": [{ "type": "key", "id": "keyboard", "actions": actions }] });
        self.command("POST", "/actions", body).await;
    }

    /// Moves the focus with the tabulator until the focused element matches.
    pub(crate) async fn tab_to(&self, css: &str) {
        for _ in 0..200 {
            if self.run(&format!("return document.activeElement.matches({})", json!(css))).await == true {
                return;
            }
            self.press(TAB).await;
        }
        panic!("the tabulator does not reach {css}");
    }

    /// What the console and the network complained about since the last call.
    pub(crate) async fn complaints(&self) -> Vec<String> {
        let entries = self.command("POST", "/se/log", json!({ "type": "browser" })).await;
        entries.as_array().unwrap().iter().map(|entry| entry["message"].to_string()).collect()
    }

    /// The violations that axe finds on this page; `None` without axe, which is printed.
    pub(crate) async fn violations(&self) -> Option<Vec<String>> {
        let file = cache().join("axe-core-4.10.3/node_modules/axe-core/axe.min.js");
        let Ok(axe) = std::fs::read_to_string(file) else {
            skipped("axe-core", "not downloaded; run `cargo run -q -p xtask -- servers`");
            return None;
        };
        self.run(&axe).await;
        let script = "const done = arguments[0]; axe.run(document).then((found) => done(found.violations.map((of) => of.id + ': ' + of.nodes.map((node) => node.html + ' ' + node.failureSummary).slice(0, 3).join(' | '))))";
        let found = self.command("POST", "/execute/async", json!({ "script": script, "args": [] })).await;
        Some(found.as_array().unwrap().iter().map(ToString::to_string).collect())
    }

    /// Keeps a picture of the whole page under this name, if `KEEP_SCREENSHOTS` is set.
    pub(crate) async fn picture(&self, name: &str) {
        if std::env::var_os("KEEP_SCREENSHOTS").is_none() {
            return;
        }
        let height =
            self.run("return document.documentElement.scrollHeight").await.as_u64().unwrap().clamp(600, 1000);
        let width = self.run("return window.innerWidth").await.as_u64().unwrap();
        self.cdp(
            "Emulation.setDeviceMetricsOverride",
            json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": false }),
        )
        .await;
        let picture = self.command("GET", "/screenshot", Value::Null).await;
        self.width(u32::try_from(width).unwrap()).await;
        let bytes = base64::engine::general_purpose::STANDARD.decode(picture.as_str().unwrap()).unwrap();
        let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/src/dashboard");
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join(format!("{name}.png")), bytes).unwrap();
    }

    /// A command of Chromium's own protocol.
    pub(crate) async fn cdp(&self, command: &str, parameters: Value) -> Value {
        self.command("POST", "/goog/cdp/execute", json!({ "cmd": command, "params": parameters })).await
    }

    /// The theme that pages see, independent of the system.
    pub(crate) async fn theme(&self, dark: bool) {
        let value = if dark { "dark" } else { "light" };
        self.cdp(
            "Emulation.setEmulatedMedia",
            json!({ "features": [{ "name": "prefers-color-scheme", "value": value }] }),
        )
        .await;
    }

    /// The width of the window, in pixels.
    pub(crate) async fn width(&self, width: u32) {
        self.cdp(
            "Emulation.setDeviceMetricsOverride",
            json!({ "width": width, "height": 900, "deviceScaleFactor": 1, "mobile": false }),
        )
        .await;
    }
}
