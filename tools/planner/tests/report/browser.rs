//! A headless Chromium, driven by the Chrome DevTools Protocol over its pipes.
//!
//! `tests/e2e/console.rs` includes this file too.
//!
//! Source: <https://chromedevtools.github.io/devtools-protocol/> (2026-11). With `--remote-debugging-pipe`, the browser reads
//! messages from file descriptor 3 and writes them to 4, each ended by a zero byte.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

/// How long the browser may take for a reply. It only ends a test that would hang.
const REPLY_WITHIN: Duration = Duration::from_secs(120);

/// The names under which the browser is found in the search path.
const NAMES: [&str; 4] = [
    "chromium-headless-shell",
    "chromium",
    "chromium-browser",
    "google-chrome",
];

/// Returns the browser's executable: that of the variable `CHROMIUM_BIN`, the one that `cargo xtask test` has unpacked, or one in
/// the path.
fn executable() -> PathBuf {
    if let Some(path) = std::env::var_os("CHROMIUM_BIN") {
        return path.into();
    }
    let unpacked = Path::new(env!("CARGO_TARGET_TMPDIR")).join("../tools/chromium/chromium");
    if unpacked.is_file() {
        return unpacked;
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let directories = Vec::from_iter(std::env::split_paths(&path));
    let files = directories
        .iter()
        .flat_map(|each| NAMES.map(|name| each.join(name)));
    files.into_iter().find(|file| file.is_file()).expect(
        "no Chromium: `cargo xtask test` unpacks one, or install the package `chromium`, or set CHROMIUM_BIN to its executable",
    )
}

/// The file in the profile to which the browser writes its own output.
const LOG: &str = "output.log";

/// Waits until everything that changed is drawn.
pub const TWO_FRAMES: &str =
    "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))";

/// A running browser.
pub struct Browser {
    process: Child,
    to: ChildStdin,
    messages: Receiver<Value>,
    last_id: u64,
    /// Events that were read while waiting for something else.
    events: Vec<Value>,
    /// The open page.
    target: Option<Value>,
    profile: tempfile::TempDir,
}

/// How a page is looked at.
#[derive(Clone, Copy, Debug)]
pub struct Look {
    pub width: u32,
    pub dark: bool,
}

/// An open page.
pub struct Page<'b> {
    browser: &'b mut Browser,
    session: String,
    look: Look,
}

impl Browser {
    pub fn start() -> Browser {
        let profile = tempfile::tempdir().expect("a temporary directory");
        // A shell moves the pipes to the file descriptors that the browser uses.
        let mut process = Command::new("sh")
            .args([
                "-c",
                "exec \"$0\" \"$@\" 3<&0 4>&1 0</dev/null 1>\"$LOG\" 2>&1",
            ])
            .arg(executable())
            .args([
                "--headless",
                "--remote-debugging-pipe",
                "--no-sandbox",
                "--disable-gpu",
            ])
            .args(["--hide-scrollbars", "--force-color-profile=srgb"])
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .env("LOG", profile.path().join(LOG))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("`sh` starts the browser");
        let to = process.stdin.take().expect("its input is a pipe");
        let mut from = BufReader::new(process.stdout.take().expect("its output is a pipe"));
        let (sender, messages) = channel();
        std::thread::spawn(move || {
            let mut message = Vec::new();
            while from.read_until(0, &mut message).is_ok_and(|read| read > 0) {
                let json = serde_json::from_slice(message.strip_suffix(&[0]).unwrap_or(&message));
                if sender
                    .send(json.expect("a message of the browser is JSON"))
                    .is_err()
                {
                    break;
                }
                message.clear();
            }
        });
        Browser {
            process,
            to,
            messages,
            last_id: 0,
            events: Vec::new(),
            target: None,
            profile,
        }
    }

    /// Opens a page, closes the one before, and waits until it is loaded.
    pub fn open(&mut self, url: &str, look: Look) -> Page<'_> {
        if let Some(target) = self.target.take() {
            self.call(None, "Target.closeTarget", json!({ "targetId": target }));
        }
        self.events.clear();
        let target = self.call(None, "Target.createTarget", json!({ "url": "about:blank" }));
        let target = self.target.insert(target["targetId"].clone());
        let attach = json!({ "targetId": target, "flatten": true });
        let attached = self.call(None, "Target.attachToTarget", attach);
        let session = attached["sessionId"]
            .as_str()
            .expect("a session")
            .to_owned();
        let mut page = Page {
            browser: self,
            session,
            look,
        };
        for domain in ["Page", "Runtime", "Log", "Network"] {
            page.call(&format!("{domain}.enable"), json!({}));
        }
        page.set_height(900);
        let scheme = if look.dark { "dark" } else { "light" };
        let feature = json!({ "name": "prefers-color-scheme", "value": scheme });
        page.call(
            "Emulation.setEmulatedMedia",
            json!({ "features": [feature] }),
        );
        page.follow(|page| drop(page.call("Page.navigate", json!({ "url": url }))));
        page
    }

    /// Calls a method, and returns its result.
    fn call(&mut self, session: Option<&str>, method: &str, parameters: Value) -> Value {
        self.last_id += 1;
        let id = self.last_id;
        let mut message = json!({ "id": id, "method": method, "params": parameters });
        if let Some(session) = session {
            message["sessionId"] = session.into();
        }
        let mut bytes = message.to_string().into_bytes();
        bytes.push(0);
        self.to.write_all(&bytes).expect("the browser reads");
        loop {
            let message = self.next(method);
            if message["id"] == id {
                assert!(message["error"].is_null(), "{method}: {}", message["error"]);
                return message["result"].clone();
            }
            self.events.push(message);
        }
    }

    fn next(&mut self, waiting_for: &str) -> Value {
        let message = self.messages.recv_timeout(REPLY_WITHIN);
        message.unwrap_or_else(|error| {
            let output = std::fs::read_to_string(self.profile.path().join(LOG));
            let output = output.unwrap_or_default();
            panic!("{waiting_for}: the browser does not reply: {error}\n{output}")
        })
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // The tests that ran decide; a browser that is gone already is no failure.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Page<'_> {
    /// Calls a method, and returns its result.
    pub fn call(&mut self, method: &str, parameters: Value) -> Value {
        let session = self.session.clone();
        self.browser.call(Some(&session), method, parameters)
    }

    /// Does what leads to another page, and waits until that is loaded.
    pub fn follow(&mut self, act: impl FnOnce(&mut Self)) {
        let before = self.loads();
        act(self);
        while self.loads() == before {
            let message = self.browser.next("a page that loads");
            self.browser.events.push(message);
        }
    }

    fn loads(&self) -> usize {
        let events = self.browser.events.iter();
        let of_page = events.filter(|each| each["sessionId"] == *self.session);
        of_page
            .filter(|each| each["method"] == "Page.loadEventFired")
            .count()
    }

    fn set_height(&mut self, height: u64) {
        let Look { width, .. } = self.look;
        let screen = json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600 });
        self.call("Emulation.setDeviceMetricsOverride", screen);
    }

    /// Returns the value of an expression of JavaScript.
    pub fn evaluate(&mut self, expression: &str) -> Value {
        let parameters =
            json!({ "expression": expression, "returnByValue": true, "awaitPromise": true });
        let result = self.call("Runtime.evaluate", parameters);
        let exception = &result["exceptionDetails"];
        assert!(exception.is_null(), "{expression}: {exception}");
        result["result"]["value"].clone()
    }

    /// Returns what went wrong so far: errors and warnings in the console, exceptions, and requests for anything whose address does
    /// not begin with `own`.
    pub fn problems(&mut self, own: &str) -> Vec<String> {
        // All earlier events come before this reply.
        self.evaluate("0");
        let of_page = self
            .browser
            .events
            .iter()
            .filter(|each| each["sessionId"] == *self.session);
        of_page
            .filter(|event| match event["method"].as_str().unwrap_or_default() {
                "Runtime.exceptionThrown" | "Log.entryAdded" | "Runtime.consoleAPICalled" => true,
                "Network.requestWillBeSent" => {
                    let url = event["params"]["request"]["url"].as_str();
                    !url.is_some_and(|url| url.starts_with(own))
                }
                _ => false,
            })
            .map(Value::to_string)
            .collect()
    }

    /// Writes a picture of the whole page.
    pub fn screenshot(&mut self, file: &Path) {
        let height = self.evaluate("document.documentElement.scrollHeight");
        self.set_height(height.as_u64().expect("a height"));
        self.evaluate(TWO_FRAMES);
        let picture = self.call("Page.captureScreenshot", json!({ "format": "png" }));
        let picture = STANDARD.decode(picture["data"].as_str().expect("a picture"));
        std::fs::write(file, picture.expect("it is base64")).expect("write the picture");
    }
}
