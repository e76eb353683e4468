//! Checks that `infra/checks/calls.txt` lists every request that the functions send to AWS. Proxies in front of the
//! services record the requests, and `infra/checks/iam.py` compares the file with the permissions in the templates.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;
use std::{env, fs};

use aws::{DynamoBatchStore, SystemClock, SystemEntropy};
use aws_sdk_s3::config::{BehaviorVersion, Credentials, Region};
use local::bodies::BodiesKind;
use local::dynamodb::{BATCH_TABLE, LOCK_TABLE};
use local::ledger::Action;
use local::sink::SinkKind;
use local::stack::{BATCH_QUEUE, INPUT_QUEUE, QUARANTINE_QUEUE};
use protocol::batch::BatchRecord;
use serde_json::json;
use shared::memory::noise;
use shared::ports::{BatchStore, Clock, Entropy};

use crate::events::{body, order, process, ticket};
use crate::rig::{Rig, Setup};

/// If this variable is set, the test writes the file instead of comparing it.
const UPDATE: &str = "UPDATE_CALLS";
const HEAD: &str = "\
# What the functions called: function, action, resource, and the values of variables with which alone it is called. Written by
# UPDATE_CALLS=1 cargo test --workspace --test e2e calls
";
/// The variables that name a bucket, a function or a state machine.
const RESOURCE_VARIABLES: [&str; 6] = [
    "BODIES",
    "SINK_COLUMNS",
    "SINK_REJECTS",
    "SINK_PAYLOADS",
    "OVERFLOW_BUCKET",
    "SINK",
];

#[tokio::test]
async fn the_functions_send_exactly_the_requests_that_the_templates_are_checked_against() {
    let mut lines = BTreeSet::new();
    lines.extend(to_a_bucket("batch", "off").await);
    lines.extend(to_a_bucket("put", "on").await);
    lines.extend(for_the_log().await);
    for kind in [SinkKind::Lambda, SinkKind::States] {
        lines.extend(to_a_called_service(kind).await);
    }
    let lines = lines.into_iter().map(|line| line + "\n");
    let seen: String = std::iter::once(HEAD.to_owned()).chain(lines).collect();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../infra/checks/calls.txt");
    if env::var_os(UPDATE).is_some() {
        fs::write(&path, seen).expect("the file can be written");
        return;
    }
    let listed = fs::read_to_string(&path).unwrap_or_default();
    let only = |of: &str, other: &str| {
        let lines = of.lines();
        let lines = lines.filter(|line| !other.lines().any(|one| one == *line));
        Vec::from_iter(lines).join("\n  ")
    };
    assert!(
        seen == listed,
        "infra/checks/calls.txt: not what the functions call\nnot listed:\n  {}\nnot called:\n  {}\n\
         Set {UPDATE}=1 to write it anew, and let `cargo xtask infra` hold the templates against it.",
        only(&seen, &listed),
        only(&listed, &seen),
    );
}

/// Returns a body that does not fit an item.
fn large(id: &str) -> String {
    json!({ "id": id, "noise": noise(600_000) }).to_string()
}

/// Returns the requests for claims, duplicates, bodies in the overflow bucket and setting aside, with the sink `s3:`.
async fn to_a_bucket(write_mode: &str, seal_when_drained: &str) -> BTreeSet<String> {
    let mut setup = Setup::new()
        .var("WRITE_MODE", write_mode)
        .var("SEAL_WHEN_DRAINED", seal_when_drained)
        .var("OVERFLOW_BUCKET", "overflow")
        .var("MAX_SECONDARY_BATCHING_WINDOW", 2)
        .var("DEADLINE_MARGIN_MS", 3_000)
        .one_aggregator_environment()
        .redeliver(BATCH_QUEUE, 1_000);
    setup.options.sink = SinkKind::S3;
    setup.options.aggregator_timeout = Duration::from_secs(8);
    setup.options.batch_processor_timeout = Duration::from_secs(20);
    setup.options.sweep_every = Some(Duration::from_secs(1));
    let rig = setup.start().await;
    for message in [body("small"), large("large"), "{}".to_owned()] {
        rig.send(message);
    }
    rig.until_metric("Claimed", 2).await;
    rig.until_drained().await;
    // Within the dedup window, the messages are duplicates, whose bodies are stored and removed again. After the
    // window, they replace tombstones.
    rig.send(large("large"));
    rig.until_metric("Duplicates", 1).await;
    let small = ("messageId", "small");
    rig.set(LOCK_TABLE, small, "expiresAt", 5).await;
    rig.send(body("small"));
    rig.until_metric("Claimed", 3).await;
    rig.until_drained().await;
    rig.until_depth(QUARANTINE_QUEUE, 1).await;
    if seal_when_drained == "off" {
        set_aside(&rig).await;
    }
    open_without_a_ticket(&rig).await;
    rig.until_drained().await;
    ended(&rig).await
}

/// Opens a batch as an aggregator does whose ticket is lost. The sweep sends another one.
async fn open_without_a_ticket(rig: &Rig) {
    let now = SystemClock.now();
    let batch = SystemEntropy.batch_id(now);
    let source = rig.stack.sqs.arn(INPUT_QUEUE).parse().expect("an ARN");
    let record = BatchRecord::open(batch, source, None, 1, now, now);
    let store = DynamoBatchStore::new(rig.dynamodb(), BATCH_TABLE);
    store.create(&record).await.expect("the table takes it");
}

/// Returns the requests for loads and runs that are too large for the batch table.
async fn for_the_log() -> BTreeSet<String> {
    let rig = Setup::new().bodies(BodiesKind::LogS3).start().await;
    rig.send(json!({ "id": "large", "noise": noise(20_000) }).to_string());
    // A run of 40 bytes an event.
    for number in 0..500 {
        rig.send(body(&format!("e{number}")));
    }
    rig.until_drained().await;
    ended(&rig).await
}

/// Sends a ticket for an open batch, removes a body so that the batch goes into error, and sets the batch aside.
async fn set_aside(rig: &Rig) {
    let before = rig.batch_ids().await;
    let claimed = rig.stack.function_logs.sum("Claimed");
    rig.send(large("gone"));
    rig.until_metric("Claimed", claimed + 1).await;
    let batches = rig.batch_ids().await;
    let batch = batches.iter().find(|batch| !before.contains(*batch));
    let batch = batch.expect("a new event opens a batch");
    assert!(!process(rig, &ticket(batch)).await);
    let s3 = s3(rig);
    let objects = s3.list_objects_v2().bucket("overflow").send().await;
    for object in objects.expect("the bucket can be listed").contents() {
        let key = object.key().expect("an object has a key");
        let deleted = s3.delete_object().bucket("overflow").key(key).send().await;
        deleted.expect("the object can be deleted");
    }
    rig.until_in_error().await;
    rig.send_to(BATCH_QUEUE, order(batch, "quarantine"));
    rig.until_depth(QUARANTINE_QUEUE, 2).await;
    rig.until_drained().await;
}

/// Returns the requests for parts that no call carries, for rejects, and for columns in a bucket.
async fn to_a_called_service(kind: SinkKind) -> BTreeSet<String> {
    let mut setup = Setup::new()
        .without_sweep()
        .var("EVENT_ID", "message-id")
        .var("SINK_FORMAT", "csv")
        .var("SINK_COLUMNS", "s3://columns/legacy/orders.json")
        .var("SINK_COMPRESSION", "gzip")
        .var("SINK_REJECTS", "s3://rejects/lists");
    setup.options.sink = kind;
    let rig = setup.start().await;
    rig.stack.s3().create_bucket("columns");
    rig.stack.s3().create_bucket("rejects");
    let columns = json!([{ "name": "id", "json": "id" }]).to_string();
    let put = s3(&rig).put_object().bucket("columns");
    let put = put.key("legacy/orders.json");
    let put = put.body(columns.into_bytes().into()).send().await;
    put.expect("the bucket takes objects");
    rig.send(body("taken"));
    rig.send("no JSON");
    rig.until_drained().await;
    rig.until_metric("Rejected", 1).await;
    ended(&rig).await
}

/// Returns a client of the buckets.
pub fn s3(rig: &Rig) -> aws_sdk_s3::Client {
    let config = aws_sdk_s3::Config::builder()
        .behavior_version(BehaviorVersion::latest())
        .region(Region::from_static("us-east-1"))
        .credentials_provider(Credentials::new("local", "local", None, None, "local"))
        .http_client(aws_smithy_http_client::Builder::new().build_http())
        .endpoint_url(rig.stack.s3().endpoint())
        .force_path_style(true)
        .build();
    aws_sdk_s3::Client::from_conf(config)
}

/// Ends the run; returns a line for each action that a function called.
async fn ended(rig: &Rig) -> BTreeSet<String> {
    rig.stack.stop().await;
    let actions = rig.stack.actions();
    actions.iter().map(|action| line(rig, action)).collect()
}

/// Returns an action as a line of `calls.txt`.
fn line(rig: &Rig, action: &Action) -> String {
    let function = camel(&action.function);
    let resource = named_by_variable(rig, &action.resource).unwrap_or_else(|| {
        let (name, index) = match action.resource.split_once('/') {
            Some((table, index)) => (table, format!("/{index}")),
            None => (action.resource.as_str(), String::new()),
        };
        format!("{}{index}", camel(name))
    });
    let only_with = match (action.action.as_str(), resource.as_str()) {
        ("dynamodb:BatchGetItem" | "dynamodb:DescribeTable", _) => None,
        ("sqs:GetQueueUrl", _) => Some(("SEAL_WHEN_DRAINED", "off")),
        (_, "LockTable") => Some(("WRITE_MODE", "batch")),
        _ => None,
    };
    let condition = only_with.map_or_else(String::new, |(name, default)| {
        let value = rig.stack.variable(name).unwrap_or(default);
        format!(" {name}={value}")
    });
    format!("{function} {} {resource}{condition}", action.action)
}

/// Returns the variable that names a resource, followed by the path below it.
fn named_by_variable(rig: &Rig, resource: &str) -> Option<String> {
    RESOURCE_VARIABLES.iter().find_map(|name| {
        let value = rig.stack.variable(name)?;
        let value = value.strip_prefix("log:").unwrap_or(value);
        let value = value.strip_prefix("s3://").unwrap_or(value);
        let below = resource.strip_prefix(value).filter(|_| !value.is_empty())?;
        // One grant is for all objects of the log.
        let kinds = ["/load/*", "/run/*", "/runs/*"];
        let below = if kinds.contains(&below) { "/*" } else { below };
        Some(format!("{name}{below}"))
    })
}

/// Returns a name in the form of the templates: `lock-table` becomes `LockTable`.
fn camel(name: &str) -> String {
    let words = name.split('-').map(|word| {
        let (first, rest) = word.split_at(word.len().min(1));
        first.to_ascii_uppercase() + rest
    });
    words.collect()
}
