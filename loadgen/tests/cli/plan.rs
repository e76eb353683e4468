//! `loadgen plan`.

use planner::{Record, RecordKind};

use super::{json, loadgen, stderr};

#[test]
fn the_published_run_is_printed_beside_each_place_of_bodies() {
    let output = loadgen(&["plan", "--published-run"]);
    assert!(output.status.success(), "{}", stderr(&output));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    for line in [
        "| batches | 26 | ",
        "| full batches | 22 | ",
        "| all done, minutes | 21 | ",
        "no value was fitted",
        "| defaults, items, cold table | ",
        "| defaults, items, warm table | ",
        "| defaults, log:table | ",
        "| defaults, log:s3 | ",
    ] {
        assert!(text.contains(line), "{line} in {text}");
    }
}

#[test]
fn the_record_in_the_file_is_what_json_prints() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("plan.json");
    let path = file.to_str().unwrap();
    let output = loadgen(&["plan", "--messages=5000", "--json", "--record", path]);
    let record = Record::from_json(&std::fs::read_to_string(file).unwrap()).unwrap();
    assert_eq!(json(&output), serde_json::to_value(&record).unwrap());
    assert_eq!(
        (record.kind, record.outcome.sent),
        (RecordKind::Plan, 5_000)
    );
    assert!(!record.costs.is_empty() && !record.samples.is_empty() && !record.latencies.is_empty());
}

#[test]
fn parameters_of_the_file_count_unless_a_flag_overrides_them() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("parameters.json");
    let parameters = r#"[{"ParameterKey":"Bodies","ParameterValue":"log:table"},{"ParameterKey":"MaxBatchSize","ParameterValue":"1000"}]"#;
    std::fs::write(&file, parameters).unwrap();
    let parameters = format!("--parameters={}", file.display());
    let burst = ["plan", "--messages=5000", "--json"];
    let args = [&burst[..], &["--set=MaxBatchSize=500", &parameters]].concat();
    let settings = json(&loadgen(&args))["settings"].clone();
    let settings = settings.as_array().unwrap();
    for setting in [("Bodies", "log:table"), ("MaxBatchSize", "500")] {
        let setting = serde_json::json!({"name": setting.0, "value": setting.1});
        assert!(settings.contains(&setting), "{settings:?}");
    }
}

#[test]
fn one_error_lists_all_invalid_options() {
    let output = loadgen(&[
        "plan",
        "--messages=0",
        "--set=MemorySize=1",
        "--set=Memory=2",
        "--set=Bodies=s3://b",
        "--set=InputBatchSize=x",
        "--key-limit=0",
    ]);
    assert_eq!(output.status.code(), Some(2));
    let errors = stderr(&output);
    assert_eq!(
        Vec::from_iter(errors.lines()),
        [
            "the burst: wrong number of messages: got `0`, expected 1 to 1000000000",
            "parameter `MemorySize`: not allowed: got `1`, expected 512 to 10240",
            "parameter `InputBatchSize`: not allowed: got `x`, expected 1 to 10000",
            "parameter `Bodies`: not allowed: got `s3://b`, expected items, log:table, log:s3 or log:s3://<bucket>/<prefix>",
            "parameter `Memory`: unknown: got `2`, expected a parameter of infra/sam/template.yaml",
            "`--key-limit`: not allowed: got `0`, expected a number above 0",
        ]
    );
}

#[test]
fn what_if_names_each_limit_and_every_plan_names_its_assumptions() {
    let output = loadgen(&["plan", "--messages=5000", "--what-if"]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    for line in [
        "write units of the lock table",
        "MaxBatchSize",
        "held up by",
        "(experiment 6)",
        "price  ",
    ] {
        assert!(text.contains(line), "{line} in {text}");
    }
}

#[test]
fn other_prices_change_the_price_and_a_wrong_file_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("prices.json");
    let path = file.to_str().unwrap();
    let ours = include_str!("../../../tools/planner/prices.json");
    let free = ours.replace("0.625", "0");
    std::fs::write(&file, free.replace("us-east-1", "eu-north-9")).unwrap();
    let output = loadgen(&["plan", "--messages=5000", "--prices", path]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        text.contains("list prices of eu-north-9") && !text.contains("claims and releases"),
        "{text}"
    );
    std::fs::write(&file, "{}").unwrap();
    let output = loadgen(&["plan", "--messages=5000", "--prices", path]);
    assert_eq!(output.status.code(), Some(2));
    let errors = stderr(&output);
    let why = "the prices: not a price file: missing field";
    assert!(errors.contains(why), "{errors}");
}
