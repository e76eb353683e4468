//! Checks that the runbook has a page for every alarm and a rehearsal for every incident.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use emulators::sam::Template;
use tests::{files_below, root};

use crate::files::read;

/// The heading of the runbook that is no alarm.
const NOT_AN_ALARM: &str = "Before an incident";
/// Headings below alarms that are no incidents: they explain something, mostly an error of a batch.
pub const NO_INCIDENTS: [&str; 4] = [
    "A batch that is too old",
    "A lost load",
    "Commits to the index are refused",
    "The index and the records differ",
];
/// The number of incidents.
const INCIDENTS: usize = 14;

/// Returns the headings of a level of the runbook: `## ` or `### `.
fn headings(level: &str) -> BTreeSet<String> {
    let runbook = read("docs/runbook.md");
    let titles = runbook.lines().filter_map(|line| line.strip_prefix(level));
    titles.map(str::to_owned).collect()
}

#[test]
fn every_alarm_has_a_page_and_every_page_is_about_an_alarm() {
    let template = Template::parse(&read("infra/sam/template.yaml")).expect("a template");
    let alarms = template.alarms(&BTreeMap::new()).expect("it resolves");
    let alarms: BTreeSet<String> = alarms.into_keys().collect();
    assert!(alarms.len() >= 16, "{alarms:?}");
    let mut pages = headings("## ");
    assert!(pages.remove(NOT_AN_ALARM), "`{NOT_AN_ALARM}`: missing");
    assert_eq!(pages, alarms);
}

#[test]
fn every_incident_of_the_runbook_is_rehearsed() {
    let tests = files_below(&root().join("tests/e2e/runbook"), ".rs").into_iter();
    let tests = tests.map(|path| fs::read_to_string(path).expect("a source file"));
    let tests: String = tests.collect();
    let calls = tests.split("Rehearsal::of(&rig, \"").skip(1);
    let rehearsed: BTreeSet<&str> = calls.filter_map(|call| call.split('"').next()).collect();
    let mut incidents = headings("### ");
    for title in NO_INCIDENTS {
        assert!(incidents.remove(title), "`{title}`: missing");
    }
    let incidents: BTreeSet<&str> = incidents.iter().map(String::as_str).collect();
    assert_eq!(incidents.len(), INCIDENTS, "{incidents:?}");
    assert_eq!(incidents, rehearsed);
}
