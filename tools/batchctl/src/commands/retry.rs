//! `batchctl retry`.

use aws::BatchSummary;
use clap::Args;
use protocol::batch::Status;
use shared::wire::{Accepted, Ticket, TicketReason};

use crate::change::{ChangeArgs, Selection};
use crate::failure::{Done, Failure};
use crate::interrupt::Interrupt;
use crate::outcome::Output;
use crate::service::Service;
use crate::tickets::{Action, Before, not_waiting, send, too_old, waits_for_approval};

#[derive(Args)]
pub struct RetryArgs {
    #[command(flatten)]
    pub selection: Selection,
    /// Let a part that was frozen for another sink go to the present one. The former sink may have it as well
    #[arg(long)]
    pub accept_new_sink: bool,
    /// Only send the notices of these batches, as with `--status unnoticed`; the sink is not tried again
    #[arg(long, hide = true)]
    pub only_notices: bool,
    #[command(flatten)]
    pub change: ChangeArgs,
}

/// Has batches tried again: those in error, overdue, or given up by their last processor.
pub async fn run(
    service: &Service,
    args: &RetryArgs,
    interrupt: &Interrupt,
    output: Output<'_>,
) -> Result<Done, Failure> {
    let operator = args.change.operator()?;
    let batches = args.selection.batches(service, output).await?;
    let now = service.now();
    let about_notices = args.only_notices || args.selection.filter.is_about_notices();
    let action = Action {
        name: "retry",
        note: match args.accept_new_sink {
            true => "retry, accepting the new sink".to_owned(),
            false => "retry".to_owned(),
        },
        leave: &|batch| {
            let too_old = || too_old(batch, now).filter(|_| !about_notices);
            // To take another sink is no approval.
            let unapproved = || {
                let waits = args.accept_new_sink && waits_for_approval(batch);
                waits.then(|| "it waits for approval: `approve` it first".to_owned())
            };
            not_waiting(batch, now).or_else(too_old).or_else(unapproved)
        },
        ticket: &|batch| match batch.status {
            // An operator's ticket would have the sink tried again.
            Some(Status::Error) if about_notices => {
                Ticket::new(batch.batch_id, TicketReason::Sweep)
            }
            _ => Ticket {
                accept: args.accept_new_sink.then_some(Accepted::NewSink),
                ..Ticket::new(batch.batch_id, TicketReason::Operator)
            },
        },
        before: async |_: &BatchSummary| Ok(Before::default()),
        hint: args.change.hint(),
    };
    send(service, batches, action, operator, interrupt, output).await
}
