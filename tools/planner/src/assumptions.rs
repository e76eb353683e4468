//! Uncalibrated assumptions of a plan, each with the experiment that would calibrate it.

use super::calibration::S3_BYTES_PER_SEC;
use super::settings::{Bodies, Scaling, Settings};

/// An assumption.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assumption {
    /// What is assumed, with its value in this plan.
    pub text: String,
    /// What would settle it, on an AWS account.
    pub experiment: &'static str,
}

impl Assumption {
    fn new(text: impl Into<String>, experiment: &'static str) -> Assumption {
        Assumption {
            text: text.into(),
            experiment,
        }
    }
}

/// Returns the assumptions that a plan with these settings rests on.
pub fn assumptions(settings: &Settings) -> Vec<Assumption> {
    let requests = &settings.requests;
    let bodies = settings.batches.bodies;
    let mut all = vec![
        Assumption::new(
            format!(
                "a message takes {:.1} µs of a whole processor in the aggregator and {:.1} µs in the batch-processor, as on the \
                 machine where it was measured",
                settings.aggregator.micros_per_message, settings.processor.micros_per_message
            ),
            "compare the billed time of 1.2 million messages with it (experiments 7 and 20)",
        ),
        Assumption::new(
            match bodies.is_log() {
                false => format!(
                    "a request with {} writes takes {:.0} ms",
                    requests.items,
                    requests.write_secs * 1e3
                ),
                true => format!(
                    "a request to DynamoDB takes {:.0} ms",
                    requests.control_secs * 1e3
                ),
            },
            "10,000 batches of 25 from Lambda, cold and warm: median and p99.9 (experiment 5)",
        ),
        Assumption::new(
            format!(
                "a cold start takes {:.0} ms",
                settings.aggregator.cold_start_secs * 1e3
            ),
            "deploy each architecture and invoke it with no records: init duration (experiment 2)",
        ),
        Assumption::new(
            format!(
                "a record has {} bytes besides its body",
                settings.input.record_bytes
            ),
            "received counts and sizes of 200,000 messages (experiment 6)",
        ),
        Assumption::new(
            format!(
                "a table and an index take {:.0} write units a second at first, and twice a peak only half an hour after it; while \
                 they throttle, writers get {:.0} % of it",
                settings.units_at_first(),
                settings.tables.paced_share * 100.0
            ),
            "a burst of 1.2 million into a fresh table: throttles, dead letters (experiment 7)",
        ),
        Assumption::new(
            "SQS returns messages in the order in which they were sent, each once, and no poll waits longer than its window",
            "a burst of 200,000 with each window and mode: received counts, receives (experiments 6 and 7)",
        ),
        Assumption::new(
            format!(
                "the sink takes {:.1} s for a part and {:.0} MB a second besides",
                settings.sink.secs_per_part,
                settings.sink.bytes_per_sec / 1e6
            ),
            "measure the sink, and give --sink-secs and --sink-mb-per-second",
        ),
    ];
    all.push(Assumption::new(
        "no two environments open a batch at the same moment",
        "write units of the batch table in a burst of 1.2 million (experiment 7)",
    ));
    if let Scaling::MaximumConcurrency(max) = settings.input.scaling {
        all.push(Assumption::new(
            format!(
                "a mapping with MaximumConcurrency={max} has a gatherer for each concurrent invocation, which receives {:.0} messages a \
                 second; AWS publishes no figure",
                settings.input.receive_rate
            ),
            "200,000 messages with windows of 1, 5 and 20 s: received counts (experiment 6)",
        ));
        all.push(Assumption::new(
            "the mapping exceeds its MaximumConcurrency by 7 %, as one measurement showed (128 with 120)",
            "concurrent executions against the setting, in a burst (experiment 18)",
        ));
    } else {
        all.push(Assumption::new(
            "a provisioned poller is one event poller unit, and pollers grow as long as messages wait",
            "200,000 messages with provisioned pollers: received counts, and the bill (experiments 6 and 20)",
        ));
    }
    match bodies {
        Bodies::Items => all.push(Assumption::new(
            format!(
                "the index shows a claim within {:.1} s",
                settings.tables.index_lag_secs
            ),
            "the metric IndexLagRetries in a burst of 1.2 million (experiment 9)",
        )),
        Bodies::LogTable | Bodies::LogS3 => all.push(Assumption::new(
            format!(
                "the CPU of a message with the log is an estimate; the index has {} entries at the start, and merges leave none out",
                settings.batches.index_entries
            ),
            "CPU of a burst of batch-local with --bodies log:table; the metric IndexEntries, given as --index-entries",
        )),
    }
    if bodies == Bodies::LogS3 {
        all.push(Assumption::new(
            format!(
                "a PUT or GET takes {:.0} ms, and {:.0} ms more for each MB",
                requests.s3_secs * 1e3,
                1e9 / S3_BYTES_PER_SEC
            ),
            "10,000 PUTs of 1 MB from Lambda (experiment 19)",
        ));
    }
    all
}
