//! `batchctl forget`.

use std::fmt;

use aws::BatchSummary;
use clap::Args;
use protocol::ids::EventId;
use protocol::log::RunList;
use serde::Serialize;

use crate::change::{ChangeArgs, note};
use crate::event_ids::EventArgs;
use crate::event_state::EventState;
use crate::events::look_up;
use crate::failure::{Done, Failure};
use crate::log_index::{Runs, commit, store_entries};
use crate::outcome::Output;
use crate::service::Service;
use crate::times::with_distance;

#[derive(Args)]
pub struct ForgetArgs {
    #[command(flatten)]
    pub event: EventArgs,
    /// Forget the event although the record of its batch is missing, so that its delivery is unclear
    #[arg(long)]
    pub although_unclear: bool,
    #[command(flatten)]
    pub change: ChangeArgs,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Forgotten {
    event_id: EventId,
    /// The state before.
    state: EventState,
    #[serde(skip_serializing_if = "Option::is_none")]
    batch_id: Option<String>,
    done: bool,
}

/// Deletes the lock item of an event, and commits to the index of the log that it is forgotten, so that any message of it is claimed and delivered again.
pub async fn run(
    service: &Service,
    args: &ForgetArgs,
    output: Output<'_>,
) -> Result<Done, Failure> {
    let operator = args.change.operator()?;
    let id = args.event.id(service).await?;
    let found = look_up(service, &id, &mut Runs::default()).await?;
    if found.item.is_none() && found.entry.is_none() {
        let words = EventState::Unknown.words();
        return Err(Failure::NotFound(format!("event `{id}`: {words}")));
    }
    let entry = found.entry.as_ref();
    if let Some(until) = entry.and_then(|entry| entry.primed_until)
        && until > service.now()
    {
        let until = with_distance(until, service.now());
        return Err(Failure::Refused(format!(
            "event `{id}`: it was primed, and a primed event cannot be forgotten before its end, {until}"
        )));
    }
    if let Some(refusal) = refusal(found.classification.state, args.although_unclear) {
        return Err(Failure::Refused(format!("event `{id}`: {refusal}")));
    }
    let seat = found.classification.seat;
    let mut forgotten = Forgotten {
        event_id: id.clone(),
        state: found.classification.state,
        batch_id: seat.map(|(batch, _)| batch.to_string()),
        done: false,
    };
    let Some(operator) = operator else {
        let to_do = "to have any message of it delivered again";
        return args.change.only_shown(output, &forgotten, to_do);
    };
    if let Some(record) = found.record.clone() {
        // The state of a seat that has ended never changes, so the note's condition is stricter than it must be.
        let batch = BatchSummary::of(record);
        note(service, &batch, &operator, &format!("forget `{id}`")).await?;
    }
    if let Some(item) = &found.item
        && !service.lock_items.remove(&id, item).await?
    {
        return Err(Failure::Refused(format!(
            "event `{id}`: its lock item changed since it was read; look again"
        )));
    }
    if let Some(entry) = entry {
        let runs = store_entries(service, &entry.bodies, entry.forgetting(&id), &[]).await?;
        commit(service, &entry.bodies, async |open, list: &RunList| {
            if !entry.is_of(open.secret) {
                return Err(Failure::Refused(format!(
                    "event `{id}`: the index was rebuilt since it was read; look again"
                )));
            }
            Ok(list.with_all(runs.clone()))
        })
        .await?;
    }
    forgotten.done = true;
    output.print(&forgotten, &forgotten);
    Ok(Done::Yes)
}

/// Returns why an event in this state cannot be forgotten.
fn refusal(state: EventState, although_unclear: bool) -> Option<&'static str> {
    match state {
        EventState::Live => Some(
            "live: its claim has the event, or leads to it, and its batch waits for it. Retry or discard the batch",
        ),
        EventState::Unclear if !although_unclear => Some(
            "unclear whether it was delivered. Look for it at the sink; if it is not there, add `--although-unclear`",
        ),
        EventState::Unclear
        | EventState::Delivered
        | EventState::Forgotten
        | EventState::Rejected
        | EventState::SetAside
        | EventState::Orphan
        | EventState::Unknown => None,
    }
}

impl fmt::Display for Forgotten {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "event  {}", self.event_id)?;
        writeln!(f, "state  {}", self.state.words())?;
        match self.done {
            true => writeln!(
                f,
                "forgotten: any message of this event is delivered from now on"
            ),
            false => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_live_event_is_never_forgotten_and_an_unclear_one_only_on_demand() {
        assert!(refusal(EventState::Live, true).is_some());
        assert!(refusal(EventState::Unclear, false).is_some());
        assert!(refusal(EventState::Unclear, true).is_none());
        for state in [
            EventState::Delivered,
            EventState::Orphan,
            EventState::SetAside,
        ] {
            assert!(refusal(state, false).is_none());
        }
    }
}
