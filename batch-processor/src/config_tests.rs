//! Defaults and errors of the configuration.

use sinks::{Compression, Format};

use super::*;

pub(crate) fn read(extra: &[(&str, &str)]) -> Result<Config, ConfigError> {
    let base = [
        ("DDB_LOCK_TABLE", "lock-table"),
        ("DDB_BATCH_TABLE", "batch-table"),
        (
            "BATCH_QUEUE_URL",
            "https://sqs.eu-west-1.amazonaws.com/1/batch-queue",
        ),
        ("SINK", "log:"),
    ];
    Config::read(&|name: &str| {
        let set = extra.iter().chain(&base).find(|(key, _)| *key == name);
        set.map(|(_, value)| (*value).to_owned())
    })
}

#[test]
fn defaults_are_those_that_are_documented() {
    let config = read(&[]).unwrap();
    assert_eq!(config.index, "batchId-index");
    assert_eq!(config.verify_delay, Duration::from_secs(60));
    assert_eq!(config.part_bytes_max, 64 << 20);
    assert_eq!(config.completion, None);
    assert_eq!(config.sink.rendering.format, Format::Envelope);
    assert_eq!(config.sink.rendering.compression, Compression::None);
    assert_eq!(config.sink.timeout, Duration::from_secs(30));
    assert_eq!(config.sink.rejects, None);
    assert_eq!(config.sink.payloads, None);
    assert_eq!(config.sink.secret, None);
}

#[test]
fn parts_fit_the_calls_of_the_sink_unless_they_have_another_place() {
    let function = ("SINK", "arn:aws:lambda:eu-west-1:123456789012:function:f");
    let machine = "arn:aws:states:eu-west-1:123456789012:stateMachine:m";
    let machine = ("SINK", machine);
    let small = ("MAX_PART_BYTES", "4000000");
    let place = ("SINK_PAYLOADS", "s3://bucket/parts");
    for (extra, expected) in [
        (vec![function], 4_718_589),
        (vec![machine], 196_608),
        (vec![function, small], 4_000_000),
        (vec![function, place], 64 << 20),
    ] {
        let config = read(&extra).unwrap();
        assert_eq!(config.part_bytes_max, expected, "{extra:?}");
    }
}

#[test]
fn every_wrong_variable_is_named_in_one_message() {
    let error = read(&[
        ("DDB_BATCH_TABLE", ""),
        ("DDB_BATCH_INDEX", "!"),
        ("VERIFY_DELAY", "901"),
        ("MAX_PART_BYTES", "1k"),
        ("SINK", "ftp://host"),
        ("SINK_FORMAT", "xml"),
        ("SINK_COLUMNS", "id"),
        ("SINK_HEADER", "yes"),
        ("SINK_COMPRESSION", "zip"),
        ("SINK_TIMEOUT", "0"),
        ("SINK_REJECTS", "log:"),
        ("SINK_PAYLOADS", "log:"),
        ("COMPLETION", "default"),
    ])
    .unwrap_err();
    let text = error.to_string();
    assert_eq!(error.problems.len(), 13, "{text}");
    for words in [
        "`DDB_BATCH_TABLE`: not set",
        "`DDB_BATCH_INDEX`: wrong value: got `!`",
        "`VERIFY_DELAY`: wrong value: got `901`, expected a whole number of seconds from 1 to 900",
        "`MAX_PART_BYTES`: wrong value: got `1k`, expected a whole number of bytes from 1024 to 1073741824",
        "`COMPLETION`: wrong value: got `default`: expected the URL of a standard SQS queue, or the ARN of an event bus",
        "`SINK`: wrong value: got `ftp://host`: expected `file:///directory`, `s3://bucket/prefix`, `https://host/path`, ",
        "`SINK_FORMAT`: wrong value: got `xml`, expected `envelope`, `body`, `csv`, `fixed-width` or `parquet`",
        "`SINK_COLUMNS`: wrong value: got `id`: no JSON list of columns: ",
        "`SINK_HEADER`: wrong value: got `yes`, expected `on` or `off`",
        "`SINK_COMPRESSION`: wrong value: got `zip`, expected `none`, `gzip` or `zstd`",
        "`SINK_TIMEOUT`: wrong value: got `0`, expected a whole number of seconds from 1 to 900",
        "`SINK_REJECTS`: wrong value: got `log:`: expected `file:///directory` or `s3://bucket/prefix`",
        "`SINK_PAYLOADS`: wrong value: got `log:`: expected `s3://bucket/prefix`",
    ] {
        assert!(text.contains(words), "{words} in {text}");
    }
}

#[test]
fn notices_cannot_go_to_a_queue_of_the_service() {
    let url = "https://sqs.eu-west-1.amazonaws.com/1/batch-queue";
    let error = read(&[("COMPLETION", url)]).unwrap_err().to_string();
    let words = "`COMPLETION`: a queue that has another purpose: got `https://sqs.eu-west-1.amazonaws.com/1/batch-queue`, \
                 expected neither `BATCH_QUEUE_URL` nor `QUARANTINE_SQS_URL`";
    assert!(error.contains(words), "{error}");
    let quarantine = "https://sqs.eu-west-1.amazonaws.com/1/quarantine";
    let read_with = |url| read(&[("COMPLETION", url), ("QUARANTINE_SQS_URL", quarantine)]);
    assert!(read_with(quarantine).is_err());
    assert!(read_with("https://sqs.eu-west-1.amazonaws.com/1/notices").is_ok());
}

#[test]
fn the_sink_has_no_default_and_the_error_says_what_to_choose() {
    let error = read(&[("SINK", "")]).unwrap_err();
    assert_eq!(error.problems.len(), 1, "{error}");
    let problem = &error.problems[0];
    let start = "`SINK`: not set: expected `file:///directory`, ";
    let end = ", or `log:`, which delivers nowhere";
    let is_whole = problem.starts_with(start) && problem.ends_with(end);
    assert!(is_whole, "{problem}");
}
