//! `batchctl find`.

use std::fmt;
use std::path::PathBuf;

use clap::Args;
use protocol::ids::EventId;
use protocol::text::counted;
use protocol::time::Timestamp;
use serde::Serialize;

use super::views::status_word;
use crate::event_ids::EventArgs;
use crate::event_state::EventState;
use crate::events::{LookedUp, look_up};
use crate::failure::{Done, Failure};
use crate::log_index::Runs;
use crate::outcome::{Output, line};
use crate::service::Service;
use crate::times::with_distance;

/// The state of an event that was delivered, for a message with another body.
const OTHER_DELIVERED: &str =
    "another body of this id was delivered, and the one in the file was not";

#[derive(Args)]
pub struct FindArgs {
    #[command(flatten)]
    pub event: EventArgs,
    /// Compare the body in this file with the one that was claimed
    #[arg(long, value_name = "FILE")]
    pub body: Option<PathBuf>,
}

/// What `find` prints.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Found {
    event_id: EventId,
    state: EventState,
    /// Whether the event was claimed with the body of `--body`.
    #[serde(skip_serializing_if = "Option::is_none")]
    same_body: Option<bool>,
    /// The message that made the claim.
    #[serde(skip_serializing_if = "Option::is_none")]
    sqs_message_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    batch_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    batch_status: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    batch_error: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    seq: Option<u32>,
    /// The part with the event; with several, one of them has it.
    parts: Vec<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    delivered_at: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    remembered_until: Option<Timestamp>,
    /// Messages of earlier deliveries that are still remembered.
    past_deliveries: usize,
    #[serde(skip)]
    now: Timestamp,
}

/// Prints what became of an event.
pub async fn run(service: &Service, args: &FindArgs, output: Output<'_>) -> Result<Done, Failure> {
    let id = args.event.id(service).await?;
    let looked_up = look_up(service, &id, &mut Runs::default()).await?;
    let mut found = Found::of(id, &looked_up, service.now());
    let is_known = looked_up.item.is_some() || looked_up.entry.is_some();
    if let (Some(path), true) = (&args.body, is_known) {
        let body = std::fs::read(path).map_err(Failure::file(path))?;
        found.same_body = looked_up.has_body(&body);
    }
    output.print(&found, &found);
    Ok(match found.state {
        EventState::Unknown => Done::NotFound,
        _ => Done::Yes,
    })
}

impl Found {
    fn of(event_id: EventId, looked_up: &LookedUp, now: Timestamp) -> Found {
        let record = looked_up.record.as_ref();
        let classification = &looked_up.classification;
        let item = looked_up.item.as_ref().filter(|_| !looked_up.is_of_entry);
        Found {
            event_id,
            state: classification.state,
            same_body: None,
            sqs_message_id: item.map(|item| item.sqs_message_id.to_string()),
            batch_id: classification.seat.map(|(batch, _)| batch.to_string()),
            batch_status: record.map(|record| status_word(record.status)),
            batch_error: record.and_then(|record| record.error.clone()),
            seq: classification.seat.map(|(_, seq)| seq),
            parts: classification.parts.clone(),
            delivered_at: classification.delivered_at,
            remembered_until: classification.until,
            past_deliveries: item.map_or(0, |item| item.past.len()),
            now,
        }
    }
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "event       {}", self.event_id)?;
        let words = match (self.state, self.same_body) {
            (EventState::Delivered, Some(false)) => OTHER_DELIVERED,
            (state, _) => state.words(),
        };
        writeln!(f, "state       {words}")?;
        match self.same_body {
            Some(true) => writeln!(f, "body        the claimed one is the same as in the file")?,
            Some(false) => writeln!(f, "body        the claimed one is not the one in the file")?,
            None => {}
        }
        line(f, "claimed by  message ", self.sqs_message_id.as_ref())?;
        if let (Some(batch), Some(seq)) = (&self.batch_id, self.seq) {
            let status = self.batch_status.unwrap_or("no record");
            writeln!(f, "batch       {batch} ({status}), seat {seq}")?;
        }
        line(f, "error       ", self.batch_error.as_ref())?;
        let parts: Vec<String> = self.parts.iter().map(usize::to_string).collect();
        match parts.as_slice() {
            [] => {}
            [part] => writeln!(f, "part        {part}")?,
            several => writeln!(f, "part        one of {}", several.join(", "))?,
        }
        let at = |time| with_distance(time, self.now);
        line(f, "delivered   ", self.delivered_at.map(at))?;
        line(f, "remembered  until ", self.remembered_until.map(at))?;
        match self.past_deliveries {
            0 => Ok(()),
            count => writeln!(
                f,
                "earlier     {} of other messages, remembered too",
                counted(count, "delivery")
            ),
        }
    }
}
