//! `batchctl approve`.

use aws::BatchSummary;
use clap::Args;
use shared::wire::{Accepted, Ticket, TicketReason};

use crate::change::{ChangeArgs, Selection};
use crate::failure::{Done, Failure};
use crate::interrupt::Interrupt;
use crate::outcome::Output;
use crate::service::Service;
use crate::tickets::{Action, Before, not_in_error, send, too_old, waits_for_approval};

#[derive(Args)]
pub struct ApproveArgs {
    #[command(flatten)]
    pub selection: Selection,
    #[command(flatten)]
    pub change: ChangeArgs,
}

/// Has batches delivered that have more events than `APPROVE_ABOVE`.
pub async fn run(
    service: &Service,
    args: &ApproveArgs,
    interrupt: &Interrupt,
    output: Output<'_>,
) -> Result<Done, Failure> {
    let operator = args.change.operator()?;
    let batches = args.selection.batches(service, output).await?;
    let now = service.now();
    let action = Action {
        name: "approve",
        note: "approve".to_owned(),
        leave: &|batch| {
            let unasked = || {
                let problem = "it does not wait for approval".to_owned();
                (!waits_for_approval(batch)).then_some(problem)
            };
            not_in_error(batch)
                .or_else(unasked)
                .or_else(|| too_old(batch, now))
        },
        ticket: &|batch| Ticket {
            accept: Some(Accepted::NewSink),
            ..Ticket::new(batch.batch_id, TicketReason::Operator)
        },
        before: async |batch: &BatchSummary| {
            // The error may be cut, or of a former part.
            let record = service.known_record(batch.batch_id).await?;
            let frozen = record.frozen_part();
            match frozen.is_some_and(|(_, part)| part.waits_for_approval()) {
                true => Ok(Before::default()),
                false => Err(Failure::Refused(
                    "no part of it waits for approval".to_owned(),
                )),
            }
        },
        hint: args.change.hint(),
    };
    send(service, batches, action, operator, interrupt, output).await
}
