//! The console of `batch-local`: that of a burst without a browser, and every page of the one of `serve` in a browser.
//!
//! The pictures are in `target/tmp/console`.

mod incidents;
mod visitor;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tests::{root, runs_all_cases};

use self::visitor::{press, submit, until, write};
use crate::browser::{Browser, Look};
use crate::command_line::{SHORT, local};
use crate::executables::{command, end, signal, started};
use crate::interrupts::lines_until;
use crate::output::delivered;

const PHONE: Look = Look {
    width: 400,
    dark: false,
};
const WIDE: Look = Look {
    width: 1_400,
    dark: true,
};

/// Finds what keeps people from using a page.
const INACCESSIBLE: &str = r"
axe.run(document, { resultTypes: ['violations'] }).then(found => found.violations
  .filter(each => each.impact === 'serious' || each.impact === 'critical')
  .flatMap(each => each.nodes.map(node => `${each.id}: ${node.html}: ${node.failureSummary}`)))";

/// Returns what Tab must reach, in this order.
const STOPS: &str =
    "[...document.querySelectorAll('a, button, input, select, [tabindex=\"0\"]')].map(stopOf)";

/// Returns what Tab has reached, and whether that is seen.
const STOP: &str = "[stopOf(document.activeElement), getComputedStyle(document.activeElement).outlineStyle === 'solid']";

/// Names an element for both of the former.
const STOP_OF: &str =
    "globalThis.stopOf = one => `${one.tagName} ${one.name ?? ''} ${one.textContent}`; 0";

/// Returns the looks of a page: each width and each scheme once, or in a long run all pairs.
fn looks() -> Vec<Look> {
    match runs_all_cases() {
        false => vec![PHONE, WIDE],
        true => [PHONE.width, WIDE.width]
            .into_iter()
            .flat_map(|width| [false, true].map(|dark| Look { width, dark }))
            .collect(),
    }
}

/// Returns the address in what was printed on standard error.
fn address(printed: &str) -> &str {
    let lines = printed.lines();
    let address = lines.filter_map(|line| line.strip_prefix("console "));
    let address = address.map(str::trim).next();
    address.unwrap_or_else(|| panic!("no address of a console: {printed}"))
}

#[tokio::test]
async fn a_burst_names_its_console_on_standard_error_only() {
    let arguments = [&["burst", "--messages", "200"], &SHORT[..]].concat();
    let (code, out, err) = local(&arguments).await;
    assert_eq!(code, Some(0), "{out}\n{err}");
    let address = address(&err);
    assert!(address.starts_with("http://127.0.0.1:"), "{err}");
    assert!(address.contains("/?token="), "{err}");
    let beginning = "OK: nothing lost, nothing repeated\nsent        200 messages";
    assert!(out.starts_with(beginning), "{out}");
    assert!(!out.contains("console") && !out.contains("token"), "{out}");
}

#[tokio::test]
async fn a_person_with_a_browser_tries_a_burst_and_can_use_every_page() {
    let directory = tempfile::tempdir().expect("a temporary directory can be made");
    let out = directory.path().join("out");
    let path = out.to_str().expect("paths here are text");
    // Without the patience of a burst.
    let options = &SHORT[..SHORT.len() - 2];
    let mut serve = command("batch-local");
    serve.args(["serve", "--out", path]).args(options);
    let mut child = started(&mut serve);
    let errors = child.stderr.as_mut().expect("it is a pipe");
    let printed = lines_until(errors, "console ").await;
    let address = address(&printed).to_owned();
    // The browser blocks its thread.
    let visit = tokio::task::spawn_blocking(move || visit(&address, &out));
    if let Err(error) = visit.await {
        std::panic::resume_unwind(error.into_panic());
    }
    signal("-TERM", &child).await;
    let ended = end(child).await;
    assert_eq!(ended.code, Some(143), "{ended:?}");
}

fn visit(address: &str, out: &Path) {
    let (origin, _) = address.split_once("/?").expect("it has a token");
    // The names of pictures have ids in them, which are others each time.
    std::fs::remove_dir_all(folder()).expect("it is there");
    let mut browser = Browser::start();
    let mut page = browser.open(address, WIDE);
    until(&mut page, "location.pathname === '/overview'");
    let burst = sent(&mut browser, origin);
    let planned = planned(&mut browser, origin);
    let lines = delivered(out);
    let line = lines.first().expect("there are delivered events");
    let (batch, event) = (&line.batch_id, &line.event_id);
    let mut paths =
        Vec::from(["/batches?status=error", burst.as_str(), &planned].map(str::to_owned));
    paths.push(format!("/batch?id={batch}"));
    paths.push(format!("/event?id={event}"));
    paths.push("/runbook?section=batchesinerror".to_owned());
    for from in ["/overview", "/do"] {
        let mut page = browser.open(&format!("{origin}{from}"), WIDE);
        let links = "[...document.querySelectorAll('nav a, dl.verbs a')].map(link => link.getAttribute('href'))";
        let links: Vec<String> = serde_json::from_value(page.evaluate(links)).expect("paths");
        paths.extend(links);
    }
    let paths = BTreeSet::from_iter(paths);
    assert!(paths.len() >= 20, "{paths:?}");
    let axe = axe();
    trouble_is_found_out(&mut browser, &format!("{origin}/do"), &axe);
    for path in &paths {
        for look in looks() {
            is_well(&mut browser, origin, path, look, &axe);
        }
    }
    keys_reach_everything(&mut browser, &format!("{origin}/do/burst"));
    news_leave_the_focus(&mut browser, &format!("{origin}/overview"));
    confirmed(&mut browser, &format!("{origin}{planned}"));
}

/// Sends a burst with the form of the page `Try it`, and waits until the page says that it is audited. Returns the path of its job.
fn sent(browser: &mut Browser, origin: &str) -> String {
    let mut page = browser.open(&format!("{origin}/overview"), WIDE);
    let link = "[...document.querySelectorAll('nav a')].find(link => link.textContent === 'Try it').click()";
    page.follow(|page| drop(page.evaluate(link)));
    until(
        &mut page,
        "document.querySelector('main [name=messages]') !== null",
    );
    write(&mut page, "messages", "500");
    let path = submit(&mut page);
    let ended = "/^(Done|Failed)$/m.test(document.querySelector('main').innerText)";
    until(&mut page, ended);
    let text = page.evaluate("document.querySelector('main').innerText");
    let text = text.as_str().expect("a text");
    assert!(
        text.contains("OK: nothing lost, nothing repeated"),
        "{text}"
    );
    path
}

/// Has the console show what a pause would do. Returns the path of the job.
fn planned(browser: &mut Browser, origin: &str) -> String {
    let mut page = browser.open(&format!("{origin}/do/pause"), PHONE);
    page.evaluate("document.querySelector('main [name=all]').checked = true");
    write(&mut page, "length", "1m");
    let path = submit(&mut page);
    until(
        &mut page,
        "document.querySelector('main [name=why]') !== null",
    );
    path
}

/// Has the planned pause carried out.
fn confirmed(browser: &mut Browser, job: &str) {
    let mut page = browser.open(job, PHONE);
    write(&mut page, "by", "tester");
    write(&mut page, "why", "a test");
    submit(&mut page);
    until(
        &mut page,
        "document.querySelector('main h2')?.textContent === 'Done'",
    );
}

fn is_well(browser: &mut Browser, origin: &str, path: &str, look: Look, axe: &str) {
    let mut page = browser.open(&format!("{origin}{path}"), look);
    // What was not read in time follows.
    until(
        &mut page,
        "document.querySelector('h1').textContent !== 'Reading'",
    );
    page.evaluate(axe);
    let found = page.evaluate(INACCESSIBLE);
    assert_eq!(found, json!([]), "{path}, {look:?}");
    let width = page.evaluate("document.documentElement.scrollWidth");
    assert!(
        width.as_u64() <= Some(look.width.into()),
        "{path}, {look:?}: {width} wide"
    );
    let name = path.replace(|letter: char| !letter.is_ascii_alphanumeric(), "-");
    let scheme = if look.dark { "dark" } else { "light" };
    page.screenshot(&folder().join(format!("{}-{scheme}{name}.png", look.width)));
    let own = format!("{origin}/");
    assert_eq!(page.problems(&own), [""; 0], "{path}, {look:?}");
}

/// Checks the checks: a button without a name, and a request to another host, which the page's policy forbids.
fn trouble_is_found_out(browser: &mut Browser, url: &str, axe: &str) {
    let mut page = browser.open(url, WIDE);
    page.evaluate(axe);
    page.evaluate("document.querySelector('main').append(document.createElement('button'))");
    let found = page.evaluate(INACCESSIBLE);
    let found = found.as_array().and_then(|found| found.first());
    let found = found.and_then(Value::as_str).unwrap_or_default();
    assert!(found.starts_with("button-name"), "{found}");
    page.evaluate("fetch('http://127.0.0.2:9/').catch(() => 0)");
    assert_ne!(page.problems(url), [""; 0]);
}

/// Returns the script that knows what keeps people from using a page.
fn axe() -> String {
    let file = root().join("infra/cdk/node_modules/axe-core/axe.min.js");
    let script = std::fs::read_to_string(&file).unwrap_or_else(|error| {
        panic!(
            "{}: {error}: `cargo xtask test` installs it, as does `npm ci` in infra/cdk",
            file.display()
        )
    });
    // Its last value is a function, which cannot be returned.
    script + "\n;0"
}

fn folder() -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("console");
    std::fs::create_dir_all(&folder).expect("make the folder");
    folder
}

fn keys_reach_everything(browser: &mut Browser, url: &str) {
    let mut page = browser.open(url, PHONE);
    page.call(
        "Emulation.setFocusEmulationEnabled",
        json!({ "enabled": true }),
    );
    page.evaluate(STOP_OF);
    let expected = page.evaluate(STOPS);
    let expected = expected.as_array().expect("a list");
    assert!(expected.len() >= 15, "{expected:?}");
    for name in expected {
        press(&mut page, "Tab", 9, "");
        assert_eq!(page.evaluate(STOP), json!([name, true]));
    }
    let last = expected.last().and_then(Value::as_str);
    assert!(
        last.is_some_and(|name| name.contains("Send a burst")),
        "{last:?}"
    );
}

fn news_leave_the_focus(browser: &mut Browser, url: &str) {
    let mut page = browser.open(url, WIDE);
    let link = "document.querySelector('main a[href=\"/batches?status=error\"]')";
    until(&mut page, &format!("{link} !== null"));
    let mark = format!("document.querySelector('main h1').dataset.old = 1; {link}.focus()");
    page.evaluate(&mark);
    until(&mut page, "!document.querySelector('main h1').dataset.old");
    let focus = page.evaluate(&format!("document.activeElement === {link}"));
    assert_eq!(focus, true);
}
