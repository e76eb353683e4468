//! Checks that the tables of `docs/security.md` name every statement of the roles in the SAM template, with exactly its actions.

use std::collections::{BTreeMap, BTreeSet};

use crate::files::read;

/// The services whose actions the roles may have.
const SERVICES: [&str; 9] = [
    "dynamodb",
    "kms",
    "lambda",
    "logs",
    "s3",
    "secretsmanager",
    "sqs",
    "ssm",
    "states",
];

/// The actions of each statement, by its name.
type Statements = BTreeMap<String, BTreeSet<String>>;

/// Returns the text between two others.
fn between<'a>(text: &'a str, start: &str, end: &str) -> &'a str {
    let (_, rest) = text.split_once(start).expect("the text has the start");
    rest.split_once(end).expect("the text has the end").0
}

/// Returns the actions in a line: words such as `sqs:SendMessage`.
fn actions(line: &str) -> impl Iterator<Item = String> {
    let of_action = |c: char| c.is_ascii_alphanumeric() || ":*".contains(c);
    let words = line.split(move |c: char| !of_action(c));
    let action = |word: &&str| {
        word.split_once(':').is_some_and(|(service, action)| {
            SERVICES.contains(&service)
                && action.starts_with(|first: char| first.is_ascii_uppercase())
        })
    };
    words.filter(action).map(str::to_owned)
}

/// Returns the statements of a role in the template.
fn granted(template: &str, role: &str) -> Statements {
    // The resource after the role is its function.
    let (start, end) = (format!("\n  {role}Role:\n"), format!("\n  {role}:\n"));
    let policy = between(template, &start, &end);
    let mut statements = Statements::new();
    let mut open: Option<String> = None;
    for line in policy.lines() {
        let line = line.trim_start().trim_start_matches("- ");
        if let Some(name) = line.strip_prefix("Sid: ") {
            open = Some(name.to_owned());
        } else if line.starts_with("Resource:") {
            open = None;
        } else if let Some(name) = &open
            && !line.starts_with('#')
        {
            let granted = statements.entry(name.clone()).or_default();
            granted.extend(actions(line));
        }
    }
    statements
}

/// Returns the statements in a section of the page: one a row.
fn documented(page: &str, section: &str) -> Statements {
    let section = between(page, &format!("\n### {section}\n"), "\n### ");
    let rows = section.lines().filter_map(|line| line.strip_prefix("| `"));
    let statement = |row: &str| {
        let (name, rest) = row.split_once('`').expect("the name ends");
        let cells: Vec<&str> = rest.split('|').collect();
        (name.to_owned(), actions(cells[1]).collect())
    };
    rows.map(statement).collect()
}

#[test]
fn the_page_of_security_names_every_permission_of_each_role() {
    let (page, template) = (read("docs/security.md"), read("infra/sam/template.yaml"));
    for (role, section) in [
        ("Aggregator", "The aggregator"),
        ("BatchProcessor", "The batch-processor"),
        ("DeploymentCheck", "The check of a deployment"),
    ] {
        let granted = granted(&template, role);
        assert!(granted.len() > 1, "{role}: {granted:?}");
        let is_empty = granted.values().any(BTreeSet::is_empty);
        assert!(!is_empty, "{granted:?}");
        assert_eq!(documented(&page, section), granted, "{role}");
    }
}
