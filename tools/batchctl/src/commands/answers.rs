//! `batchctl answers`.

use std::fmt;

use clap::Args;
use futures::{StreamExt, TryStreamExt, stream};
use protocol::answer::{AnswerState, BatchAnswers};
use protocol::batch::Listing;
use protocol::ids::{BatchId, SourceArn};
use protocol::text::counted;
use protocol::time::Timestamp;
use serde::Serialize;

use crate::failure::{Done, Failure};
use crate::outcome::Output;
use crate::service::{REQUESTS_MAX, Service};
use crate::table::Table;
use crate::times::with_distance;

#[derive(Args)]
pub struct AnswersArgs {
    /// The whole id of a batch; without one, the batches with events that are awaited or silent
    #[arg(value_name = "BATCH")]
    pub batch: Option<BatchId>,
}

/// What `answers` prints.
#[derive(Debug, Serialize)]
struct Answers {
    batches: Vec<OfBatch>,
    #[serde(skip)]
    now: Timestamp,
}

/// The answers about a batch: how many of its events are what.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct OfBatch {
    batch_id: BatchId,
    #[serde(skip_serializing_if = "Option::is_none")]
    source: Option<SourceArn>,
    state: AnswerState,
    delivered: u64,
    accepted: u64,
    rejected: u64,
    silent: u64,
    awaited: u64,
    /// When the awaited ones fall silent.
    #[serde(skip_serializing_if = "Option::is_none")]
    due_at: Option<Timestamp>,
    /// Rejected events that may not be in the quarantine yet.
    pending: u64,
}

/// Prints what was answered about a batch, or which batches wait for answers.
pub async fn run(
    service: &Service,
    args: &AnswersArgs,
    output: Output<'_>,
) -> Result<Done, Failure> {
    let ids = match args.batch {
        Some(batch) => vec![batch],
        None => {
            let mut listed = service.catalogue.listed(Listing::Answers, None).await?;
            listed.sort_unstable_by_key(|one| (one.due_at, one.batch_id));
            listed.into_iter().map(|one| one.batch_id).collect()
        }
    };
    let read = stream::iter(ids).map(|batch| async move {
        let read = service.named_items.get::<BatchAnswers>(&batch).await?;
        Ok::<_, Failure>((batch, read))
    });
    let read: Vec<_> = read.buffered(REQUESTS_MAX).try_collect().await?;
    let known = read.into_iter().filter(|(_, read)| read.version > 0);
    let answers = Answers {
        batches: known
            .map(|(batch, read)| OfBatch::new(batch, &read.value))
            .collect(),
        now: service.now(),
    };
    if let (Some(batch), true) = (args.batch, answers.batches.is_empty()) {
        return Err(Failure::NotFound(format!(
            "batch `{batch}`: nothing was awaited about it: it was not delivered with `ANSWERS_FROM`, or long ago"
        )));
    }
    output.print(&answers, &answers);
    Ok(Done::Yes)
}

impl OfBatch {
    fn new(batch_id: BatchId, answers: &BatchAnswers) -> OfBatch {
        let awaited = answers.awaited().len();
        OfBatch {
            batch_id,
            source: answers.source.clone(),
            state: answers.state_of(&answers.delivered),
            delivered: answers.delivered.len(),
            accepted: answers.accepted.len(),
            rejected: answers.rejected.len(),
            silent: answers.silent.len(),
            awaited,
            due_at: (awaited > 0).then_some(answers.due_at),
            pending: answers
                .pending
                .as_ref()
                .map_or(0, |pending| pending.seats.len()),
        }
    }
}

impl fmt::Display for Answers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.batches.is_empty() {
            return writeln!(f, "no batch waits for answers, and none is silent");
        }
        let mut table = Table::new(&[
            "BATCH",
            "STATE",
            "DELIVERED",
            "ACCEPTED",
            "REJECTED",
            "SILENT",
            "AWAITED",
            "DUE",
        ]);
        for one in &self.batches {
            let due = one.due_at.map(|at| with_distance(at, self.now));
            table.row(vec![
                one.batch_id.to_string(),
                one.state.as_str().to_owned(),
                one.delivered.to_string(),
                one.accepted.to_string(),
                one.rejected.to_string(),
                one.silent.to_string(),
                one.awaited.to_string(),
                due.unwrap_or_default(),
            ]);
        }
        table.fmt(f)?;
        let pending: u64 = self.batches.iter().map(|one| one.pending).sum();
        match pending {
            0 => Ok(()),
            _ => writeln!(
                f,
                "{} on the way to the quarantine",
                counted(pending, "event")
            ),
        }
    }
}
