//! `batchctl list`.

use std::fmt;

use clap::Args;
use protocol::time::Timestamp;
use serde::Serialize;

use super::views::BatchView;
use crate::failure::{Done, Failure};
use crate::filter::Filter;
use crate::listing::{Listed, list};
use crate::outcome::Output;
use crate::service::Service;
use crate::table::{Table, cut};
use crate::times::short;

/// Characters of an error in the table; `show` prints all of it.
const ERROR_CHARS_MAX: usize = 60;

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
    pub batches: Vec<BatchView>,
    /// Errors about records that cannot be read.
    pub malformed: Vec<String>,
    #[serde(skip)]
    pub now: Timestamp,
}

/// Prints the selected batches.
pub async fn run(service: &Service, args: &ListArgs, output: Output) -> Result<Done, Failure> {
    let listing = list(service, &args.filter, args.limit).await?;
    let batches = Batches::of(&listing, service.now());
    output.print(&batches, &batches);
    Ok(Done::Yes)
}

impl Batches {
    pub fn of(listing: &Listed, now: Timestamp) -> Batches {
        let batches = listing.batches.iter();
        Batches {
            matching: listing.matching,
            batches: batches.map(|batch| BatchView::of(batch, now)).collect(),
            malformed: listing.malformed.clone(),
            now,
        }
    }
}

impl fmt::Display for Batches {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.batches.is_empty() {
            let columns = [
                "BATCH",
                "STATUS",
                "AGE",
                "DUE",
                "SOURCE",
                "KEY",
                "EVENTS",
                "DELIVERED",
                "REJECTED",
                "PARTS",
                "TRIES",
                "ERROR",
            ];
            let mut table = Table::new(&columns);
            for batch in &self.batches {
                table.row(row(batch, self.now));
            }
            write!(f, "{table}")?;
        }
        match self.matching - self.batches.len().min(self.matching) {
            0 => writeln!(f, "{} batches", self.matching)?,
            more => writeln!(f, "{} batches, {more} of them not shown", self.matching)?,
        }
        let malformed = &self.malformed;
        malformed
            .iter()
            .try_for_each(|error| writeln!(f, "not readable: {error}"))
    }
}

fn row(batch: &BatchView, now: Timestamp) -> Vec<String> {
    let due = match batch.status {
        "error" | "complete" => "-".to_owned(),
        _ if batch.due_at < now => format!("{} ago", short(batch.due_at.until(now))),
        _ => format!("in {}", short(now.until(batch.due_at))),
    };
    let source = batch.source.rsplit(':').next().unwrap_or_default();
    let error = batch.error.as_ref().or(batch.quarantine.as_ref());
    vec![
        batch.batch_id.clone(),
        match batch.overdue {
            true => format!("{}, overdue", batch.status),
            false => batch.status.to_owned(),
        },
        short(batch.created_at.until(now)),
        due,
        source.to_owned(),
        batch.batch_key.clone().unwrap_or_else(|| "-".to_owned()),
        batch.confirmed.to_string(),
        batch.delivered.to_string(),
        batch.rejected.to_string(),
        batch.parts.to_string(),
        batch.attempts.to_string(),
        error
            .map(|error| cut(error, ERROR_CHARS_MAX))
            .unwrap_or_default(),
    ]
}

#[cfg(test)]
mod tests {
    use protocol::batch::Status;

    use super::*;
    use crate::filter::summary;

    #[test]
    fn a_table_has_a_row_for_each_batch_and_says_how_many_are_not_shown() {
        let mut batch = summary(Some(Status::Error));
        batch.error = Some("sink refused the part".to_owned());
        let listing = Listed {
            batches: vec![batch],
            matching: 7,
            malformed: vec!["table `b`".to_owned()],
        };
        let text = Batches::of(&listing, Timestamp::from_ms(70_000)).to_string();
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[0].starts_with("BATCH "), "{text}");
        assert!(
            lines[1].contains("error   1 min 0 s") && lines[1].ends_with("sink refused the part"),
            "{text}"
        );
        assert_eq!(lines[2], "7 batches, 6 of them not shown");
        assert_eq!(lines[3], "not readable: table `b`");
    }
}
