use std::sync::Arc;

use shared::config::{Common, Completion};
use shared::ports::{NoticeTarget, Ports, QuarantineQueue, SourceQueues};
use shared::retry::attempt_timeout;

use crate::AwsOverflowStore;
use crate::dynamo_batch_store::DynamoBatchStore;
use crate::dynamo_lock_store::DynamoLockStore;
use crate::dynamo_named_items::DynamoNamedItems;
use crate::dynamo_object_store::DynamoObjectStore;
use crate::sdk::Sdk;
use crate::sqs_batch_queue::SqsBatchQueue;
use crate::sqs_notice_queue::SqsNoticeQueue;
use crate::sqs_quarantine::SqsQuarantineQueue;
use crate::sqs_source_queues::SqsSourceQueues;
use crate::system::{StdoutMetricLog, SystemClock, SystemEntropy};
#[cfg(feature = "full")]
use crate::{EventBus, S3ObjectStore};

/// Returns the ports of a function on AWS. `index` is the name of the lock table's index, which only the
/// batch-processor reads.
pub fn aws_ports(sdk: &Sdk, common: &Common, index: &str, quarantine_url: Option<&str>) -> Ports {
    let attempt = attempt_timeout(common.deadline_margin);
    let (dynamodb, sqs) = (sdk.dynamodb(attempt), sdk.sqs(attempt));
    let batch_store = DynamoBatchStore::new(dynamodb.clone(), &common.batch_table);
    let named_items = DynamoNamedItems::new(dynamodb.clone(), &common.batch_table);
    let object_store = DynamoObjectStore::new(dynamodb.clone(), &common.batch_table);
    // Without the cargo feature `full`, a load in S3 is refused with the reason.
    #[cfg(feature = "full")]
    let object_store = S3ObjectStore::of(sdk.s3(attempt), object_store);
    let lock_store = DynamoLockStore::new(dynamodb, &common.lock_table, index, common.write_mode);
    let quarantine_queue = quarantine_url
        .map(|url| Arc::new(SqsQuarantineQueue::new(sqs.clone(), url)) as Arc<dyn QuarantineQueue>);
    Ports {
        lock_store: Arc::new(lock_store),
        batch_store: Arc::new(batch_store),
        batch_queue: Arc::new(SqsBatchQueue::new(sqs, &common.batch_queue_url)),
        quarantine_queue,
        duplicates_queue: None,
        notice_target: None,
        overflow_store: Arc::new(AwsOverflowStore::new(sdk, attempt)),
        object_store: Arc::new(object_store),
        named_items: Arc::new(named_items),
        clock: Arc::new(SystemClock),
        entropy: Arc::new(SystemEntropy),
        metric_log: Arc::new(StdoutMetricLog),
    }
}

/// Returns the queue for reports of dropped duplicates.
pub fn aws_duplicates_queue(sdk: &Sdk, common: &Common, url: &str) -> Arc<dyn QuarantineQueue> {
    let attempt = attempt_timeout(common.deadline_margin);
    Arc::new(SqsQuarantineQueue::new(sdk.sqs(attempt), url))
}

/// Returns where notices go, if `COMPLETION` is set.
pub fn aws_notice_target(
    sdk: &Sdk,
    common: &Common,
    completion: Option<&Completion>,
) -> Option<Arc<dyn NoticeTarget>> {
    let attempt = attempt_timeout(common.deadline_margin);
    Some(match completion? {
        Completion::Queue { url, region } => {
            let client = sdk.sqs_in(region.as_deref(), attempt);
            Arc::new(SqsNoticeQueue::new(client, url))
        }
        #[cfg(feature = "full")]
        Completion::EventBus { arn, region } => {
            Arc::new(EventBus::new(sdk.eventbridge(region, attempt), arn))
        }
        // The configuration refuses an event bus in this build.
        #[cfg(not(feature = "full"))]
        Completion::EventBus { .. } => return None,
    })
}

pub fn aws_source_queues(sdk: &Sdk, common: &Common) -> Arc<dyn SourceQueues> {
    let attempt = attempt_timeout(common.deadline_margin);
    Arc::new(SqsSourceQueues::new(sdk.sqs(attempt)))
}
