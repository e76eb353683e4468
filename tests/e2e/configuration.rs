//! A wrong configuration is refused at the cold start, with all problems at once.

use crate::events::init_failure;
use crate::rig::Setup;

/// A function and its wrong variables.
type Case = (&'static str, &'static [Wrong]);

/// A variable, its wrong value, and the error about it.
type Wrong = (&'static str, &'static str, &'static str);

const WRONG_TABLE: &str = "`DDB_BATCH_TABLE`: wrong value: got `x`";
const WRONG_MARGIN: &str = "`DEADLINE_MARGIN_MS`: wrong value: got `0`";
const UNKNOWN: &str = "`MAX_BATCH_BYTE`: unknown variable: expected `MAX_BATCH_BYTES`";
const NO_FILE: &str = "`SINK_COLUMNS`: wrong value: got `file:///nonexistent`: No such file";

/// Every other variable is checked by the unit tests of the configurations.
const CASES: [Case; 2] = [
    (
        "aggregator",
        &[
            ("DDB_LOCK_TABLE", "", "`DDB_LOCK_TABLE`: not set"),
            ("DDB_BATCH_TABLE", "x", WRONG_TABLE),
            ("DEADLINE_MARGIN_MS", "0", WRONG_MARGIN),
            ("MAX_BATCH_BYTE", "1000000", UNKNOWN),
        ],
    ),
    (
        "batch-processor",
        &[
            ("DDB_LOCK_TABLE", "", "`DDB_LOCK_TABLE`: not set"),
            ("SNIK", "log:", "`SNIK`: unknown variable: expected `SINK`"),
            ("SINK_COLUMNS", "file:///nonexistent", NO_FILE),
        ],
    ),
];

/// Returns whether a text has the errors about all variables.
fn names_all(variables: &[Wrong], text: &str) -> bool {
    variables.iter().all(|(_, _, words)| text.contains(words))
}

#[tokio::test]
async fn a_function_with_wrong_variables_fails_its_init_and_the_log_says_why() {
    for (name, variables) in CASES {
        let mut setup = Setup::new();
        for (variable, value, _) in variables {
            setup = setup.var(variable, value);
        }
        let rig = setup.start().await;
        let function = match name {
            "aggregator" => &rig.stack.aggregator,
            _ => &rig.stack.batch_processor,
        };
        let (error_type, message) = init_failure(function).await;
        assert_eq!(error_type, "Configuration", "{message}");
        assert!(names_all(variables, &message), "{message}");
        rig.until("one line names all", async || {
            let lines = rig.logged(variables[0].2);
            lines.iter().any(|line| names_all(variables, line))
        })
        .await;
        // Lambda starts one more process for the invocation, and the sweep may start others.
        assert!(function.stats().init_failures >= 2);
        rig.stack.stop().await;
    }
}
