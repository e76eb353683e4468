//! Sending messages to the quarantine queue: in requests of ten, each repeated while there is time.

use std::borrow::Cow;

use protocol::limits::SQS_BATCH_ENTRIES_MAX;
use protocol::retry::RetryPolicy;
use tracing::warn;

use crate::calls::{Budget, bounded};
use crate::ports::{PortError, QuarantineQueue, Quarantined};

/// Why a message is not known to be in the quarantine.
#[derive(Debug)]
pub enum Unsent {
    /// The queue refuses it: it would again.
    Refused(PortError),
    /// There was no time left.
    OutOfTime,
}

/// Sends messages to the quarantine, `concurrency` requests at once; returns what became of each, in order. One whose
/// reply was lost is sent again, and may be there twice.
pub async fn send_to_quarantine(
    quarantine: &dyn QuarantineQueue,
    messages: &[Quarantined],
    concurrency: usize,
    budget: &Budget<'_>,
) -> Vec<Result<(), Unsent>> {
    let chunks = messages.chunks(SQS_BATCH_ENTRIES_MAX).enumerate();
    let sends = chunks
        .map(|(index, chunk)| async move { (index, send(quarantine, chunk, budget).await) })
        .collect();
    let mut sent: Vec<(usize, Vec<Result<(), Unsent>>)> = bounded(sends, concurrency).await;
    sent.sort_unstable_by_key(|(index, _)| *index);
    sent.into_iter().flat_map(|(_, sent)| sent).collect()
}

async fn send(
    quarantine: &dyn QuarantineQueue,
    messages: &[Quarantined],
    budget: &Budget<'_>,
) -> Vec<Result<(), Unsent>> {
    let unsent = || Err(Unsent::OutOfTime);
    let mut sent: Vec<Result<(), Unsent>> = messages.iter().map(|_| unsent()).collect();
    let mut open: Vec<usize> = (0..messages.len()).collect();
    let mut attempt = 0;
    while !open.is_empty() && budget.open() {
        let chunk: Vec<Quarantined> = open.iter().map(|index| messages[*index].clone()).collect();
        let mut repeat = Vec::new();
        for (index, reply) in open.into_iter().zip(quarantine.send(&chunk).await) {
            match reply {
                Ok(()) => sent[index] = Ok(()),
                Err(error) if error.retryable() => repeat.push(index),
                Err(error) => {
                    warn!(sqs_message_id = %messages[index].sqs_message_id, %error, "message not quarantined");
                    sent[index] = Err(Unsent::Refused(error));
                }
            }
        }
        open = repeat;
        attempt += 1;
        if !open.is_empty() && !budget.pause(RetryPolicy::CONTROL, attempt).await {
            break;
        }
    }
    sent
}

/// A text with what SQS refuses in texts replaced.
///
/// Source: <https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_SendMessage.html> (2026-08).
pub fn sqs_text(text: &str) -> Cow<'_, str> {
    let accepted = |c: char| matches!(c, '\t' | '\n' | '\r' | ' '..='\u{d7ff}' | '\u{e000}'..='\u{fffd}' | '\u{10000}'..='\u{10ffff}');
    if text.chars().all(accepted) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(
        text.chars()
            .map(|c| if accepted(c) { c } else { '\u{fffd}' })
            .collect(),
    )
}
