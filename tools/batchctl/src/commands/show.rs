//! `batchctl show`.

use std::fmt;

use aws::BatchSummary;
use clap::Args;
use protocol::batch::{BatchRecord, PartState, lag};
use protocol::seqs::SeqSet;
use protocol::text::counted;
use protocol::time::Timestamp;
use serde::Serialize;

use super::views::{BatchView, last_failure, undecided_seats};
use crate::failure::{Done, Failure};
use crate::listing::resolve;
use crate::outcome::{Output, line};
use crate::service::Service;
use crate::table::Table;
use crate::times::{short, utc, with_distance};
use crate::waiting::{Waiting, Waits};

#[derive(Args)]
pub struct ShowArgs {
    /// The batch id; of a batch that is not complete, its first characters suffice
    #[arg(value_name = "BATCH")]
    pub batch: String,
}

/// What `show` prints.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Shown {
    #[serde(flatten)]
    batch: BatchView,
    #[serde(skip_serializing_if = "Option::is_none")]
    sealed_at: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    verify_at: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_at: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    waits: Option<Waiting>,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_failure: Option<protocol::batch::Failure>,
    counts: Counts,
    part_list: Vec<PartView>,
    #[serde(skip)]
    now: Timestamp,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Counts {
    /// Reserved seats, until it is known what became of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    reserved: Option<u64>,
    confirmed: u64,
    uncertain: u64,
    witnessed: u64,
    /// Seats in parts, frozen ones and rejected records included.
    in_parts: u64,
    /// Seats whose events are in the quarantine.
    set_aside: u64,
    /// Counted claims in no part yet, and witnessed ones.
    missing: u64,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct PartView {
    part: usize,
    /// `frozen`, `delivered` or `setAside`.
    state: &'static str,
    events: u64,
    /// Of them, those that are only in a reject list.
    rejected: u64,
    /// The content hash, in hexadecimal.
    hash: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    sink: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    receipt: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    delivered_at: Option<Timestamp>,
}

/// Prints one batch.
pub async fn run(service: &Service, args: &ShowArgs, output: Output<'_>) -> Result<Done, Failure> {
    let id = resolve(service, &args.batch).await?;
    let record = service.record(id).await?;
    let record = record.ok_or_else(|| {
        Failure::NotFound(format!(
            "batch `{id}`: not found: it never existed, or its record has expired"
        ))
    })?;
    let waits = Waits::of(service).await?;
    let waits = waits.waiting(service, &record).await?;
    let shown = Shown::of(record, waits, service.now());
    output.print(&shown, &shown);
    Ok(Done::Yes)
}

impl Shown {
    fn of(record: BatchRecord, waits: Option<Waiting>, now: Timestamp) -> Shown {
        let missing = lag(&record, &SeqSet::new()).map_or(0, |lag| {
            lag.confirmed.saturating_sub(lag.found) + lag.witnessed_missing
        });
        let quarantined = record.quarantined();
        let mut members = record.members();
        members.remove_from(&quarantined);
        Shown {
            sealed_at: record.sealed_at,
            verify_at: record.verify_at,
            expires_at: record.expires_at,
            waits,
            last_failure: last_failure(&record),
            counts: Counts {
                reserved: undecided_seats(&record),
                confirmed: record.confirmed,
                uncertain: record.uncertain,
                witnessed: record.witnessed.len(),
                in_parts: members.len(),
                set_aside: quarantined.len(),
                missing,
            },
            part_list: parts(&record),
            batch: BatchView::of(BatchSummary::of(record), now),
            now,
        }
    }
}

fn parts(record: &BatchRecord) -> Vec<PartView> {
    let parts = record.parts.iter().enumerate();
    let view = parts.map(|(part, record)| {
        let (state, receipt, delivered_at) = match &record.state {
            PartState::Frozen => ("frozen", None, None),
            PartState::SetAside => ("setAside", None, None),
            PartState::Delivered { receipt, at } => ("delivered", Some(receipt.clone()), *at),
        };
        let hash = record.hash.iter().map(|byte| format!("{byte:02x}"));
        PartView {
            part,
            state,
            events: record.count,
            rejected: record.rejected,
            hash: hash.collect(),
            sink: record.sink.clone(),
            receipt,
            delivered_at,
        }
    });
    view.collect()
}

impl fmt::Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.life(f)?;
        let Counts {
            reserved,
            confirmed,
            uncertain,
            witnessed,
            in_parts,
            set_aside,
            missing,
        } = &self.counts;
        let batch = &self.batch.summary;
        if let Some(reserved) = reserved {
            writeln!(f, "reserved   {}", counted(*reserved, "seat"))?;
        }
        write!(
            f,
            "events     {confirmed} claimed, {in_parts} in parts, {} delivered, {} rejected, {set_aside} set aside, {missing} in no part",
            batch.delivered, batch.rejected
        )?;
        writeln!(f, "; {uncertain} uncertain, {witnessed} witnessed")?;
        writeln!(f, "bodies     {}", batch.bodies)?;
        line(f, "error      ", batch.error.as_ref())?;
        line(f, "set aside  ", batch.quarantine.as_ref())?;
        for notice in &self.batch.notices {
            let since = with_distance(notice.at, self.now);
            writeln!(f, "notice     {} waits since {since}", notice.id)?;
        }
        self.tables(f)
    }
}

impl Shown {
    fn life(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (view, batch, now) = (&self.batch, &self.batch.summary, self.now);
        let overdue = if view.overdue { ", overdue" } else { "" };
        writeln!(f, "batch      {}", batch.batch_id)?;
        writeln!(f, "status     {}{overdue}", view.status)?;
        writeln!(f, "source     {}", batch.source)?;
        line(f, "key        ", batch.batch_key.as_ref())?;
        if let Some(period) = batch.period {
            writeln!(f, "period     from {}", with_distance(period.begins, now))?;
            writeln!(f, "           to   {}", with_distance(period.ends, now))?;
        }
        writeln!(f, "opened     {}", with_distance(batch.created_at, now))?;
        writeln!(f, "closes     {}", with_distance(batch.closes_at, now))?;
        let at = |time| with_distance(time, now);
        line(f, "sealed     ", self.sealed_at.map(at))?;
        line(f, "verify     ", self.verify_at.map(at))?;
        line(f, "complete   ", batch.completed_at.map(at))?;
        line(f, "expires    ", self.expires_at.map(at))?;
        if batch.completed_at.is_none() && view.status != "error" {
            writeln!(f, "due        {}", with_distance(batch.due_at, now))?;
        }
        if let Some(waiting) = &self.waits {
            let until = with_distance(waiting.until, now);
            writeln!(f, "waits for  {waiting}: {until}")?;
        }
        if let Some(last) = &self.last_failure {
            let at = with_distance(last.at, now);
            writeln!(f, "failed     {at}: {}", last.text)?;
        }
        write!(f, "lease      ")?;
        let attempts = batch.attempts;
        match &batch.lease {
            Some(lease) if lease.until > now => {
                let left = short(now.until(lease.until));
                writeln!(f, "{} for another {left}; {attempts} so far", lease.owner)
            }
            Some(lease) => {
                let at = with_distance(lease.until, now);
                writeln!(f, "{}, ended {at}; {attempts} so far", lease.owner)
            }
            None => writeln!(f, "none; {attempts} so far"),
        }
    }

    fn tables(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let or_dash = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".to_owned());
        if !self.part_list.is_empty() {
            let mut table = Table::new(&[
                "PART",
                "STATE",
                "EVENTS",
                "REJECTED",
                "DELIVERED",
                "SINK",
                "RECEIPT",
            ]);
            for part in &self.part_list {
                table.row(vec![
                    part.part.to_string(),
                    part.state.to_owned(),
                    part.events.to_string(),
                    part.rejected.to_string(),
                    part.delivered_at.map_or_else(|| "-".to_owned(), utc),
                    or_dash(&part.sink),
                    or_dash(&part.receipt),
                ]);
            }
            write!(f, "\n{table}")?;
        }
        if !self.batch.summary.notes.is_empty() {
            let mut table = Table::new(&["WHEN", "WHO", "DID", "WHY"]);
            for note in &self.batch.summary.notes {
                table.row(vec![
                    utc(note.at),
                    note.by.clone(),
                    note.action.clone(),
                    note.why.clone(),
                ]);
            }
            write!(f, "\n{table}")?;
        }
        Ok(())
    }
}
