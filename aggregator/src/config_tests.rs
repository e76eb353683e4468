//! Tests of the configuration.

use super::tests_support::read;
use super::*;

#[test]
fn defaults_are_those_that_are_documented() {
    let config = read(&[]).unwrap();
    assert_eq!(config.window, Duration::from_secs(300));
    let limits = BatchLimits {
        items_max: 50_000,
        bytes_max: 134_217_728,
    };
    assert_eq!((config.shards, config.keys_max), (10, 1_000));
    assert_eq!(config.limits, limits);
    assert_eq!(config.rule, DuplicateRule::Drop);
    assert_eq!(config.batch_key, None);
    assert!(!config.seal_when_drained);
}

#[test]
fn a_place_of_bodies_names_a_bucket_that_can_exist() {
    let problems = |bodies| {
        let quarantine = ("QUARANTINE_SQS_URL", "http://sqs/q");
        let config = read(&[("BODIES", bodies), quarantine]);
        config.map_or_else(|error| error.to_string(), |_| String::new())
    };
    for wrong in ["log:s3://Bodies/a", "log:s3://b", "log:s3://my_bucket/a"] {
        let text = problems(wrong);
        let words = format!(
            "`BODIES`: wrong value: got `{wrong}`: expected, as the bucket, the name of a bucket, 3 to 63"
        );
        assert!(text.contains(&words), "{text}");
    }
    assert!(problems("loads").contains("got `loads`: expected `items`, `log:table`"));
    for right in ["items", "log:table", "log:s3://bodies", "log:s3://bodies/a"] {
        assert!(!problems(right).contains("wrong value"), "{right}");
    }
    for wrong in ["log:", "log:items", "log:s3://b"] {
        assert!(problems(wrong).contains("wrong value"), "{wrong}");
    }
}

#[test]
fn a_place_of_the_chunks_of_former_versions_is_refused() {
    for former in ["table", "s3://bodies/a"] {
        let error = read(&[("BODIES", former)]).unwrap_err().to_string();
        let words = format!(
            "`BODIES`: wrong value: got `{former}`: expected `items`, `log:table` or `log:s3://<bucket>/<prefix>`"
        );
        assert!(error.contains(&words), "{error}");
    }
}

#[test]
fn the_log_needs_a_quarantine_and_takes_no_requeue() {
    let error = read(&[
        ("BODIES", "log:table"),
        ("MAX_BATCH_SIZE", "100001"),
        ("ON_DUPLICATE", "requeue"),
    ]);
    let text = error.unwrap_err().to_string();
    for words in [
        "`QUARANTINE_SQS_URL`: not set",
        "`MAX_BATCH_SIZE`: too large: got 100001",
        "`ON_DUPLICATE`: not with the log: got `requeue`",
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
}

#[test]
fn a_quota_needs_the_log() {
    let with = |bodies| {
        let quarantine = (
            "QUARANTINE_SQS_URL",
            "https://sqs.eu-west-1.amazonaws.com/1/q",
        );
        let quota = [("QUOTA", "key"), ("QUOTA_MAX", "5")];
        read(&[("BODIES", bodies), quarantine, quota[0], quota[1]])
    };
    let text = with("items").unwrap_err().to_string();
    assert!(text.contains("`QUOTA`: only with the log"), "{text}");
    assert_eq!(with("log:table").unwrap().quota.unwrap().events_max, 5);
}

#[test]
fn every_wrong_variable_is_named_in_one_message() {
    let error = read(&[
        ("DDB_LOCK_TABLE", ""),
        ("MAX_SECONDARY_BATCHING_WINDOW", "0"),
        ("MAX_BATCH_SIZE", "many"),
        ("MAX_BATCH_BYTES", "1"),
        ("INDEX_SHARDS", "101"),
        ("EVENT_ID", "json:a["),
        ("BATCH_KEY", "]"),
        ("SEAL_WHEN_DRAINED", "yes"),
        ("ON_DUPLICATE", "ignore"),
        ("QUARANTINE_SQS_URL", "here"),
        ("OVERFLOW_BUCKET", "Here"),
    ])
    .unwrap_err();
    let text = error.to_string();
    assert_eq!(error.problems.len(), 11, "{text}");
    for words in [
        "`DDB_LOCK_TABLE`: not set",
        "`MAX_SECONDARY_BATCHING_WINDOW`: wrong value: got `0`, expected a whole number of seconds from 1 to 897",
        "`MAX_BATCH_SIZE`: wrong value: got `many`",
        "`MAX_BATCH_BYTES`: wrong value: got `1`, expected a whole number of bytes from 409600",
        "`INDEX_SHARDS`: wrong value: got `101`, expected a whole number of shards from 1 to 100",
        "`EVENT_ID`: wrong value: got `json:a[`: ",
        "`BATCH_KEY`: wrong value: got `]`: ",
        "`SEAL_WHEN_DRAINED`: wrong value: got `yes`, expected `on` or `off`",
        "`ON_DUPLICATE`: wrong value: got `ignore`, expected `drop` or `requeue`",
        "`QUARANTINE_SQS_URL`: wrong value: got `here`",
        "`OVERFLOW_BUCKET`: wrong value: got `Here`: expected the name of a bucket",
    ] {
        assert!(text.contains(words), "{words} in {text}");
    }
}

#[test]
fn the_event_id_has_no_default_and_the_error_says_what_to_choose() {
    let error = read(&[("EVENT_ID", "")]).unwrap_err();
    let expected = "`EVENT_ID`: not set: expected `json:EXPRESSION`, `attribute:NAME`, `body-hash`, or `message-id`, which misses messages that a producer \
                    sends again";
    assert_eq!(error.problems, [expected]);
}
