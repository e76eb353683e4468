//! A person at a page of the console.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::browser::Page;
use crate::executables::CAP;

/// Waits until an expression is true.
pub fn until(page: &mut Page<'_>, expression: &str) {
    let began = Instant::now();
    while page.evaluate(expression) != true {
        let shown = "`${location}: ${document.body.innerText}`";
        let waits = began.elapsed() < CAP;
        assert!(waits, "{expression}: {}", page.evaluate(shown));
        std::thread::sleep(Duration::from_millis(100));
    }
}

pub fn press(page: &mut Page<'_>, key: &str, code: u32, text: &str) {
    for kind in ["keyDown", "keyUp"] {
        let mut event =
            json!({ "type": kind, "key": key, "code": key, "windowsVirtualKeyCode": code });
        if kind == "keyDown" && !text.is_empty() {
            event["text"] = text.into();
        }
        page.call("Input.dispatchKeyEvent", event);
    }
}

/// Writes into a field of the page's form.
pub fn write(page: &mut Page<'_>, field: &str, value: &str) {
    page.evaluate(&format!(
        "(() => {{ const field = document.querySelector('main [name={field}]'); field.focus(); field.value = '{value}'; }})()"
    ));
}

/// Submits the form whose field was written last, and waits for the page of the job. Returns its path.
pub fn submit(page: &mut Page<'_>) -> String {
    page.evaluate("document.documentElement.dataset.left = 1; 0");
    page.follow(|page| press(page, "Enter", 13, "\r"));
    until(
        page,
        "document.readyState === 'complete' && !document.documentElement.dataset.left",
    );
    let path = page.evaluate("location.pathname");
    let path = path.as_str().expect("a path");
    assert!(path.starts_with("/jobs/"), "{path}");
    path.to_owned()
}

/// Follows the first link of the page whose words begin like this, once it is there.
pub fn click(page: &mut Page<'_>, words: &str) {
    let link = format!(
        "[...document.querySelectorAll('a')].find(link => link.textContent.trim().startsWith({}))",
        Value::from(words)
    );
    until(page, &format!("{link} !== undefined"));
    page.follow(|page| drop(page.evaluate(&format!("{link}.click()"))));
}

/// Submits the form that has a field, and waits until its job has ended. Returns the text of the page.
fn job(page: &mut Page<'_>, field: &str) -> String {
    page.evaluate(&format!(
        "document.querySelector('main form [name={field}]').focus()"
    ));
    submit(page);
    until(
        page,
        "document.querySelector('main [role=status]') === null",
    );
    let text = page.evaluate("document.querySelector('main').innerText");
    let text = text.as_str().expect("a text");
    assert!(!text.contains("\nFailed\n"), "{text}");
    text.to_owned()
}

/// Has the form that is open shown what it would do. Returns what the page says.
pub fn look(page: &mut Page<'_>) -> String {
    let field = page.evaluate("document.querySelector('main form input[type=text]').name");
    job(page, field.as_str().expect("a name"))
}

/// Has done what the page shows, for a reason.
pub fn carry_out(page: &mut Page<'_>, why: &str) {
    write(page, "by", "on-call");
    write(page, "why", why);
    let done = job(page, "why");
    assert!(done.contains("\nDone\n"), "{done}");
}
