//! `batchctl list`.

use std::fmt;

use aws::BatchSummary;
use clap::Args;
use futures::{StreamExt, TryStreamExt, stream};
use protocol::ids::BatchKey;
use protocol::text::counted;
use protocol::time::Timestamp;
use serde::Serialize;
use shared::ports::PortError;

use super::views::{BatchView, last_failure, undecided_seats};
use crate::failure::{Done, Failure};
use crate::filter::Filter;
use crate::listing::{Listed, list};
use crate::outcome::Output;
use crate::service::{REQUESTS_MAX, Service};
use crate::table::{Table, cut};
use crate::times::{brief, short};
use crate::waiting::{Waiting, Waits};

/// Characters of a line below a row; `show` prints all of it.
const LINE_CHARS_MAX: usize = 118;
/// Characters of the name of a queue, and of a batch key, in the table.
const SOURCE_CHARS_MAX: usize = 15;
const KEY_CHARS_MAX: usize = 10;

#[derive(Args)]
pub struct ListArgs {
    #[command(flatten)]
    pub filter: Filter,
    /// Print at most so many batches, the oldest first
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub limit: usize,
}

/// What `list` prints.
#[derive(Debug, Serialize)]
pub struct Batches {
    /// How many batches are selected.
    pub matching: usize,
    pub batches: Vec<ListedBatch>,
    /// Errors about records that cannot be read.
    pub malformed: Vec<String>,
    #[serde(skip)]
    pub now: Timestamp,
}

/// A batch of the list. Only its whole record says what it waits for, and what its last failure was.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ListedBatch {
    #[serde(flatten)]
    batch: BatchView,
    /// Reserved seats, until it is known what became of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    reserved: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    waits: Option<Waiting>,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_failure: Option<protocol::batch::Failure>,
}

/// Prints the selected batches.
pub async fn run(service: &Service, args: &ListArgs, output: Output<'_>) -> Result<Done, Failure> {
    let listing = list(service, &args.filter, args.limit).await?;
    let batches = Batches::read(service, &listing).await?;
    output.print(&batches, &batches);
    Ok(Done::Yes)
}

impl Batches {
    /// Reads what the batches of a listing wait for.
    pub async fn read(service: &Service, listing: &Listed) -> Result<Batches, Failure> {
        let waits = Waits::of(service).await?;
        let now = service.now();
        let batches = listing.batches.iter();
        let listed = stream::iter(batches.map(|batch| listed(service, &waits, batch, now)));
        Ok(Batches {
            matching: listing.matching,
            batches: listed.buffered(REQUESTS_MAX).try_collect().await?,
            malformed: listing.malformed.clone(),
            now,
        })
    }
}

async fn listed(
    service: &Service,
    waits: &Waits,
    batch: &BatchSummary,
    now: Timestamp,
) -> Result<ListedBatch, Failure> {
    let mut listed = ListedBatch::of(batch.clone(), now);
    // Nothing more is known of it.
    if batch.status.is_none() {
        return Ok(listed);
    }
    let record = match service.record(batch.batch_id).await {
        Ok(Some(record)) => record,
        // It has expired since, or a part of it that the list does not need is malformed: `show` says which.
        Ok(None) | Err(PortError::Refused { .. }) => return Ok(listed),
        Err(error) => return Err(error.into()),
    };
    listed.reserved = undecided_seats(&record);
    listed.waits = waits.waiting(service, &record).await?;
    listed.last_failure = last_failure(&record);
    Ok(listed)
}

impl fmt::Display for Batches {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut table = Table::new(&[
            "BATCH",
            "STATUS",
            "AGE",
            "DUE",
            "SOURCE",
            "KEY",
            "DELIVERED",
            "TRIES",
        ]);
        for listed in &self.batches {
            table.row(listed.row(self.now));
        }
        let table = table.to_string();
        let mut rows = table.lines();
        if let Some(head) = rows.next().filter(|_| !self.batches.is_empty()) {
            writeln!(f, "{head}")?;
        }
        for (row, listed) in rows.zip(&self.batches) {
            writeln!(f, "{row}")?;
            for line in listed.lines(self.now) {
                writeln!(f, "  {}", cut(&line.replace('\n', " "), LINE_CHARS_MAX))?;
            }
        }
        let all = counted(self.matching, "batch");
        match self.matching - self.batches.len().min(self.matching) {
            0 => writeln!(f, "{all}")?,
            more => writeln!(f, "{all}, {more} of them not shown")?,
        }
        let mut malformed = self.malformed.iter();
        malformed.try_for_each(|error| writeln!(f, "not readable: {error}"))
    }
}

impl ListedBatch {
    /// Returns a batch without what only its whole record says.
    pub(crate) fn of(batch: BatchSummary, now: Timestamp) -> ListedBatch {
        ListedBatch {
            batch: BatchView::of(batch, now),
            reserved: None,
            waits: None,
            last_failure: None,
        }
    }

    fn row(&self, now: Timestamp) -> Vec<String> {
        let BatchView {
            summary, status, ..
        } = &self.batch;
        let due = match *status {
            "error" | "complete" => "-".to_owned(),
            _ if summary.due_at < now => format!("{} ago", brief(summary.due_at.until(now))),
            _ => format!("in {}", brief(now.until(summary.due_at))),
        };
        let source = summary.source.as_str().rsplit(':').next();
        let key = summary.batch_key.as_ref().map_or("-", BatchKey::as_str);
        vec![
            summary.batch_id.to_string(),
            (*status).to_owned(),
            brief(summary.created_at.until(now)),
            due,
            cut(source.unwrap_or_default(), SOURCE_CHARS_MAX),
            cut(key, KEY_CHARS_MAX),
            match self.reserved {
                Some(reserved) => format!("{reserved} reserved"),
                None => format!("{} of {}", summary.delivered, summary.confirmed),
            },
            summary.attempts.to_string(),
        ]
    }

    /// Returns the lines below the row: why the batch makes no progress.
    fn lines(&self, now: Timestamp) -> Vec<String> {
        let summary = &self.batch.summary;
        let error = summary.error.as_ref();
        let reason = summary.quarantine.as_ref();
        let waits = self.waits.as_ref();
        let failure = self.last_failure.as_ref();
        let rejected = Some(summary.rejected).filter(|count| *count > 0);
        let lines = [
            rejected.map(|count| format!("rejected {}", counted(count, "event"))),
            error.map(|error| format!("error: {error}")),
            reason.map(|reason| format!("being set aside: {reason}")),
            waits.map(|waits| format!("waits {}: {waits}", short(now.until(waits.until)))),
            failure.map(|last| format!("failed {} ago: {}", short(last.at.until(now)), last.text)),
        ];
        lines.into_iter().flatten().collect()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use protocol::batch::Status;

    use super::*;
    use crate::filter::summary;
    use crate::waiting::Reason;

    const NOW: Timestamp = Timestamp::from_ms(70_000);

    #[test]
    fn a_table_has_a_row_for_each_batch_and_says_how_many_are_not_shown() {
        let mut batch = summary(Some(Status::Error));
        batch.error = Some("sink refused the part".to_owned());
        let listed = Batches {
            batches: vec![ListedBatch::of(batch, NOW)],
            matching: 7,
            malformed: vec!["table `b`".to_owned()],
            now: NOW,
        };
        let text = listed.to_string();
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[0].starts_with("BATCH "), "{text}");
        assert!(lines[1].contains("error   1 min  -"), "{text}");
        assert_eq!(lines[2], "  error: sink refused the part");
        assert_eq!(lines[3], "7 batches, 6 of them not shown");
        assert_eq!(lines[4], "not readable: table `b`");
    }

    #[test]
    fn what_a_batch_waits_for_and_its_last_failure_are_below_its_row_in_120_columns() {
        let mut batch = summary(Some(Status::Processing));
        let source = format!("arn:aws:sqs:eu-west-1:1:{}", "q".repeat(80));
        batch.source = source.parse().unwrap();
        batch.batch_key = Some("k".repeat(50).parse().unwrap());
        (batch.confirmed, batch.delivered, batch.attempts) = (500_000, 500_000, 99);
        batch.due_at = NOW + Duration::from_secs(3_599);
        let mut batch = ListedBatch::of(batch, NOW);
        batch.waits = Some(Waiting {
            reason: Reason::Retry,
            until: NOW + Duration::from_secs(12),
            behind: None,
        });
        batch.last_failure = Some(protocol::batch::Failure {
            at: Timestamp::from_ms(65_000),
            text: format!("HTTP 503\n{}", "x".repeat(200)),
        });
        let listed = Batches {
            batches: vec![batch],
            matching: 1,
            malformed: Vec::new(),
            now: NOW,
        };
        let text = listed.to_string();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[2], "  waits 12 s: its next try");
        let failed = "  failed 5 s ago: HTTP 503 xxx";
        assert!(lines[3].starts_with(failed), "{text}");
        assert_eq!(lines[4], "1 batch");
        let width = lines.iter().map(|line| line.chars().count()).max();
        assert!(width <= Some(120), "{text}");
        let json = serde_json::to_value(&listed).unwrap();
        let batch = &json["batches"][0];
        assert_eq!(batch["waits"]["for"], "retry", "{json}");
        assert_eq!(batch["lastFailure"]["at"], 65_000, "{json}");
        assert!(batch.get("reserved").is_none(), "{json}");
    }

    #[test]
    fn a_batch_whose_claims_are_not_counted_has_reserved_seats() {
        let mut batch = ListedBatch::of(summary(Some(Status::Open)), NOW);
        batch.reserved = Some(12);
        assert!(batch.row(NOW).contains(&"12 reserved".to_owned()));
        assert_eq!(serde_json::to_value(&batch).unwrap()["reserved"], 12);
    }
}
