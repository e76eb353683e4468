//! Resolves the deployed template, and refuses wrong ones.

use std::time::Duration;

use super::*;

fn resolve(text: &str, parameters: &[(&str, &str)]) -> anyhow::Result<Resources> {
    let parameters = parameters
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect();
    Template::parse(text)?.resolve(&parameters, &|queue| format!("http://sqs/{queue}"))
}

#[test]
fn the_deployed_template_has_what_the_stack_needs() {
    let resources = resolve(DEPLOYED, &[("OnDuplicate", "requeue")]).unwrap();
    let names: Vec<&String> = resources.queues.keys().collect();
    assert_eq!(
        names,
        [
            "batch-dead-letter-queue",
            "batch-queue",
            "input-dead-letter-queue",
            "input-queue",
            "quarantine-queue",
            "sweep-dead-letter-queue"
        ]
    );
    let redrive = resources.queues["input-queue"].redrive_policy.as_ref();
    let redrive = redrive.expect("the input queue has dead letters");
    assert_eq!(redrive.max_receive_count, 1_000);
    assert_eq!(
        redrive.dead_letter_target_arn,
        queue_arn("input-dead-letter-queue")
    );
    let lock_table = &resources.tables["lock-table"];
    assert_eq!(
        lock_table.global_secondary_indexes[0]
            .projection
            .projection_type,
        "KEYS_ONLY"
    );
    let aggregator = &resources.functions["aggregator"];
    assert_eq!(aggregator.memory_mb, 1_769);
    assert_eq!(aggregator.architecture, "x86_64");
    assert_eq!(aggregator.mapping.window, Duration::from_secs(1));
    assert_eq!(
        aggregator.variables["BATCH_QUEUE_URL"],
        "http://sqs/batch-queue"
    );
    assert_eq!(aggregator.variables["ON_DUPLICATE"], "requeue");
    assert_eq!(aggregator.variables["DDB_LOCK_TABLE"], "lock-table");
}

/// The stack uses this rule for timeouts that the template does not allow.
#[test]
fn the_visibility_timeout_of_every_allowed_timeout_is_six_times_it_and_the_window() {
    let template = Template::deployed().unwrap();
    let allowed = |parameter: &str| -> Vec<u64> {
        let values = &template.root["Parameters"][parameter]["AllowedValues"];
        let numbers = values.as_array().into_iter().flatten();
        numbers.filter_map(Value::as_u64).collect()
    };
    let mut seen = 0;
    for timeout in allowed("AggregatorTimeout") {
        for window in allowed("InputBatchingWindow") {
            let (timeout_text, window_text) = (timeout.to_string(), window.to_string());
            let parameters = [
                ("AggregatorTimeout", timeout_text.as_str()),
                ("InputBatchingWindow", window_text.as_str()),
            ];
            let resources = resolve(DEPLOYED, &parameters).unwrap();
            let queue = &resources.queues["input-queue"];
            let visibility = Duration::from_secs(6 * timeout + window);
            assert_eq!(queue.visibility_timeout, Some(visibility));
            assert_eq!(
                resources.functions["aggregator"].mapping.window.as_secs(),
                window
            );
            seen += 1;
        }
    }
    assert_eq!(seen, 35);
}

#[test]
fn a_variable_chooses_its_parameter_where_the_template_allows_the_value() {
    let variables = [
        ("ON_DUPLICATE", "requeue"),
        ("WRITE_MODE", "other"),
        ("MAX_BATCH_SIZE", "7"),
        ("DDB_LOCK_TABLE", "mine"),
        ("UNKNOWN", "value"),
    ]
    .map(|(name, value)| (name.to_owned(), value.to_owned()));
    let parameters = Template::deployed()
        .unwrap()
        .parameters_for(&variables.into());
    let expected = [("MaxBatchSize", "7"), ("OnDuplicate", "requeue")]
        .map(|(name, value)| (name.to_owned(), value.to_owned()));
    assert_eq!(parameters, expected.into());
}

#[test]
fn a_wrong_template_is_refused_with_the_place_and_the_reason() {
    let queue = |properties: &str| {
        format!("Resources:\n  Jobs:\n    Type: AWS::SQS::Queue\n    Properties: {properties}\n")
    };
    let cases = [
        ("[", "while"),
        ("a: 1", "`Resources`: missing"),
        (
            &queue("{ VisibilityTimeout: !Ref Nothing }"),
            "`Nothing`: neither a parameter nor a resource",
        ),
        (
            &queue("{ VisibilityTimeout: !Cidr [1] }"),
            "{\"Fn::Cidr\":[1]}`: not supported",
        ),
        (
            &queue("{ VisibilityTimeout: soon }"),
            "resource `Jobs` of the template: `soon`: invalid digit",
        ),
        (
            &queue("{ VisibilityTimeout: !If [Hurry, 1, 2] }"),
            "condition `Hurry`: not in the template",
        ),
    ];
    for (text, expected) in cases {
        let error = format!("{:#}", resolve(text, &[]).unwrap_err());
        assert!(error.contains(expected), "{error}");
    }
    let error = resolve(DEPLOYED, &[("Colour", "blue")]).unwrap_err();
    assert_eq!(error.to_string(), "parameter `Colour`: not in the template");
}
