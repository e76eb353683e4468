//! Stands in for what notices go to: a queue, or an event bus.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use anyhow::Context;
use clap::ValueEnum;
use emulators::eventbridge::EventBridge;
use emulators::lambda::ACCOUNT_ID;
use emulators::sqs::{QueueAttributes, Sqs};
use protocol::text::counted;
use serde::Serialize;
use serde_json::Value;

pub const NOTICE_QUEUE: &str = "notice-queue";
/// The ARN of the event bus, for `COMPLETION`.
const EVENT_BUS: &str = "arn:aws:events:us-east-1:000000000000:event-bus/notices";

/// Where notices go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum CompletionKind {
    /// An SQS queue
    Queue,
    /// An event bus of EventBridge
    EventBus,
}

/// The running stand-in.
pub enum NoticeHost {
    Queue(Sqs),
    EventBus(EventBridge),
}

impl NoticeHost {
    /// Starts the stand-in of this kind.
    pub async fn start(kind: CompletionKind, sqs: &Sqs) -> anyhow::Result<NoticeHost> {
        Ok(match kind {
            CompletionKind::Queue => {
                sqs.create_queue(NOTICE_QUEUE, QueueAttributes::default())?;
                NoticeHost::Queue(sqs.clone())
            }
            CompletionKind::EventBus => NoticeHost::EventBus(EventBridge::start().await?),
        })
    }

    /// Returns the variables of the batch-processor. `sqs` is the endpoint of SQS.
    pub(crate) fn variables(&self, sqs: &str) -> Vec<(&'static str, String)> {
        match self {
            NoticeHost::Queue(_) => variables(CompletionKind::Queue, sqs),
            NoticeHost::EventBus(bus) => {
                let endpoint = ("AWS_ENDPOINT_URL_EVENTBRIDGE", bus.endpoint());
                let mut variables = variables(CompletionKind::EventBus, sqs);
                variables.push(endpoint);
                variables
            }
        }
    }

    /// Returns the manifests of all notices so far. Those in the queue are removed from it.
    pub async fn manifests(&self) -> anyhow::Result<Vec<Value>> {
        let texts: Vec<String> = match self {
            NoticeHost::Queue(sqs) => {
                let mut texts = Vec::new();
                loop {
                    let received = sqs.receive(NOTICE_QUEUE, 10, Duration::ZERO, None).await?;
                    if received.is_empty() {
                        break texts;
                    }
                    for message in received {
                        texts.push(message.body.to_string());
                        sqs.delete(NOTICE_QUEUE, &message.receipt_handle)?;
                    }
                }
            }
            NoticeHost::EventBus(bus) => {
                bus.events().into_iter().map(|event| event.detail).collect()
            }
        };
        let parsed = texts.iter().map(|text| serde_json::from_str(text));
        parsed
            .collect::<Result<_, _>>()
            .context("a notice is not JSON")
    }
}

/// Returns the variables for notices of this kind, without the endpoint of EventBridge.
pub(crate) fn variables(kind: CompletionKind, sqs: &str) -> Vec<(&'static str, String)> {
    let target = match kind {
        CompletionKind::Queue => format!("{sqs}/{ACCOUNT_ID}/{NOTICE_QUEUE}"),
        CompletionKind::EventBus => EVENT_BUS.to_owned(),
    };
    vec![("COMPLETION", target)]
}

/// What the notices say, against what was delivered.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct NoticeReport {
    /// Messages.
    pub sent: usize,
    /// Batches with a notice that they are complete.
    pub complete: usize,
    /// Notices that batches went into error.
    pub errors: usize,
    /// Messages of a notice that had been sent before, with the same content.
    pub repeated: usize,
    /// Messages of a notice that had been sent before, with other content.
    pub changed: usize,
    /// Events that were delivered, as the notices of complete batches say.
    pub delivered: u64,
}

impl NoticeReport {
    pub fn of(manifests: &[Value]) -> NoticeReport {
        let mut report = NoticeReport {
            sent: manifests.len(),
            ..NoticeReport::default()
        };
        let mut seen: BTreeMap<&str, &Value> = BTreeMap::new();
        let mut changed = BTreeSet::new();
        for manifest in manifests {
            let id = manifest["id"].as_str().unwrap_or_default();
            match seen.get(id) {
                Some(first) if *first == manifest => report.repeated += 1,
                Some(_) => {
                    changed.insert(id);
                }
                None => {
                    seen.insert(id, manifest);
                    if manifest["kind"] == "complete" {
                        report.complete += 1;
                        report.delivered += manifest["counts"]["delivered"].as_u64().unwrap_or(0);
                    } else {
                        report.errors += 1;
                    }
                }
            }
        }
        report.changed = changed.len();
        report
    }

    /// Returns whether the notices say that exactly `delivered` events were delivered, and none changed.
    pub fn agrees(&self, delivered: u64) -> bool {
        self.changed == 0 && self.delivered == delivered
    }

    /// Returns what is wrong if the notices do not [`agree`](Self::agrees) with the audit.
    pub fn problem(&self, delivered: u64) -> Option<String> {
        (!self.agrees(delivered)).then(|| {
            format!(
                "notices of {} delivered events instead of {delivered}, and {} that changed",
                self.delivered, self.changed
            )
        })
    }
}

impl fmt::Display for NoticeReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "notices     {} sent: {} complete with {}, {}, {} repeated, {} changed",
            self.sent,
            counted(self.complete, "batch"),
            counted(self.delivered, "event"),
            counted(self.errors, "error"),
            self.repeated,
            self.changed
        )
    }
}
