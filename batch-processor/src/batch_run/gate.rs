//! Keeps a batch from the sink until it may go on: asks [`gate`], takes turns and numbers, and puts the batch back.

use std::time::Duration;

use protocol::gate::{Conditions, Gate, Wait, Why, gate, goes_to_the_sink};
use protocol::limits::{
    CLOCK_SKEW_MAX, DUE_GRACE, SQS_DELAY_MAX, TICKETS_IN_CHAIN_MAX, TURNS_AHEAD,
};
use protocol::pause::Pauses;
use protocol::retry::RetryPolicy;
use protocol::sequence::PartId;
use protocol::time::Timestamp;
use protocol::turns::{Turn, kept_turn};
use shared::retry::Budget;
use shared::wire::TicketReason;
use tracing::info;

use super::BatchRun;
use crate::part_rules::withheld;
use crate::sequences::{Numbered, look_again_at};
use crate::ticket_end::TicketEnd;

/// How long an invocation waits for a turn. A ticket and another invocation would cost more than a short wait.
const TURN_WAIT_MAX: Duration = Duration::from_secs(15);
/// How late a ticket may come because delays are whole seconds.
const TICKET_ROUNDING_MAX: Duration = Duration::from_secs(1);

impl BatchRun<'_> {
    /// Reads the pauses, and returns once the batch may go on. To find that it must wait, nothing of the batch is read, but the pauses, the numbers
    /// with the record of the batch that has the last one, and the turns.
    pub(super) async fn pass_gate_before_reading(&mut self) -> Result<(), TicketEnd> {
        // The pauses are read for every ticket and with strong consistency, so that no ticket that comes after a pause was made
        // overlooks it.
        let pauses = || self.components.named_items.get::<Pauses>(&());
        let pauses = self.budgets.work.call(RetryPolicy::CONTROL, pauses).await?;
        self.pauses = pauses.value.pauses;
        self.pass_gate(true).await
    }

    /// Returns once the batch may go on. With `waits_for_number`, it also waits for the part of another batch that has the last number. A
    /// batch that was read already does not: it asks for its number right after that.
    pub(super) async fn pass_gate(&mut self, waits_for_number: bool) -> Result<(), TicketEnd> {
        loop {
            let mut gate = self.ask(None);
            if gate == Gate::Deliver && waits_for_number {
                let behind = self.behind().await?;
                gate = behind.map_or(gate, |part| self.ask(Some(part)));
            }
            if let Gate::Wait(wait) = gate {
                self.wait(wait).await?;
            } else if self.has_turn().await? {
                return Ok(());
            }
        }
    }

    /// Returns whether the turn of the batch has come, if it needs one; takes one if it has none.
    async fn has_turn(&mut self) -> Result<bool, TicketEnd> {
        let (components, work) = (self.components, &self.budgets.work);
        let record = self.batch.record();
        let now = work.clock.now();
        // One that waits for approval would leave its turn unused.
        let is_withheld = components.part_rules.withholds(record);
        let rate = match &components.rate {
            Some(rate) if goes_to_the_sink(record, now) && !is_withheld => rate,
            Some(_) | None => return Ok(true),
        };
        let read = rate.read(work).await?;
        let next_at = read.turns.next_at;
        let why = Why::Turn;
        if let Some(turn_at) = kept_turn(record, now) {
            if next_at <= now {
                return Ok(true);
            }
            // The part before was late. If the delay is longer than this batch's own turn, the batch takes another one, and the next batch can
            // go at its turn. A part with a number keeps its turn, because others of its source and key wait for that number.
            let length = read.turns.length(record.undelivered_count());
            let takes_another = turn_at.until(next_at) > length && !record.has_number();
            if !takes_another {
                let until = next_at;
                self.wait(Wait { until, why }).await?;
                return Ok(false);
            }
        }
        let ahead = match self.may_send_ticket() {
            true => TURNS_AHEAD,
            false => TURN_WAIT_MAX,
        };
        match rate.take_turn(record, ahead, read, work).await? {
            Turn::Taken { at, .. } => {
                self.batch.keep_turn(Some(at));
                Ok(at <= work.clock.now())
            }
            Turn::Full { until } => {
                self.batch.keep_turn(None);
                Err(self.put_back(Wait { until, why }).await)
            }
        }
    }

    /// Lets a part of `events_count` events go to the sink, if deliveries have a rate. Returns the turn of the next part then.
    pub(super) async fn begin(
        &mut self,
        events_count: usize,
    ) -> Result<Option<Timestamp>, TicketEnd> {
        let components = self.components;
        let Some(rate) = &components.rate else {
            return Ok(None);
        };
        loop {
            match rate.begin(events_count as u64, &self.budgets.work).await? {
                Ok(next_turn_at) => return Ok(Some(next_turn_at)),
                // Another part was late, or an earlier attempt at this part failed.
                Err(_) => self.pass_gate(false).await?,
            }
        }
    }

    /// Takes the number of a frozen part that goes to the sink. If it were taken after reading, another part could take it first each time.
    pub(super) async fn take_file_number_before_reading(&mut self) -> Result<(), TicketEnd> {
        let (delivery, record) = (&self.components.delivery, self.batch.record());
        let Some((index, _)) = record.frozen_part() else {
            return Ok(());
        };
        let sink = delivery.fingerprint();
        if delivery.needs_sequence()
            && record.quarantine.is_none()
            && withheld(record, index, &sink).is_none()
        {
            self.take_file_number(index).await?;
        }
        Ok(())
    }

    /// Takes the number of a frozen part, with its link if it has one, and writes both to the record.
    pub(super) async fn take_file_number(&mut self, index: usize) -> Result<Numbered, TicketEnd> {
        let sequences = &self.components.sequences;
        let record = self.batch.record();
        match sequences.take(record, index, &self.budgets.work).await? {
            Ok(numbered) => {
                if self.batch.record().file_number(index) != Some(numbered.number) {
                    self.batch.number(index, numbered).await?;
                }
                Ok(numbered)
            }
            Err(holder) => {
                let until = self.number_at();
                let why = Why::Number(holder);
                Err(self.put_back(Wait { until, why }).await)
            }
        }
    }

    /// Gives up the number of a part that was delivered or set aside, if it may have one.
    pub(super) async fn give_number_up(
        &self,
        index: usize,
        budget: &Budget<'_>,
    ) -> Result<(), TicketEnd> {
        let record = self.batch.record();
        if record.file_number(index).is_none() && !self.components.delivery.needs_sequence() {
            return Ok(());
        }
        let sequences = &self.components.sequences;
        Ok(sequences.give_up(record, index, budget).await?)
    }

    /// Returns a budget for the attempts at a part: none begins outside the hours of delivery.
    pub(super) fn in_hours(&self) -> Budget<'_> {
        let work = self.budgets.work;
        let Some(hours) = &self.components.hours else {
            return work;
        };
        let now = work.clock.now();
        // The hours may have ended since the gate was asked.
        let closes_at = hours.open_until(now).unwrap_or(now);
        Budget {
            stop_at: closes_at.min(work.stop_at),
            ..work
        }
    }

    /// Asks the gate about everything but the turns, which `has_turn` reads.
    fn ask(&self, behind: Option<PartId>) -> Gate {
        let now = self.budgets.work.clock.now();
        let hours = self.components.hours.as_ref();
        let conditions = Conditions {
            pauses: &self.pauses,
            closed_until: hours.and_then(|hours| hours.closed_until(now)),
            turns: None,
            behind: behind.map(|part| (part, self.number_at())),
        };
        gate(self.batch.record(), &conditions, now)
    }

    /// Returns the part that must be delivered or set aside before the next part gets its number.
    async fn behind(&self) -> Result<Option<PartId>, TicketEnd> {
        let record = self.batch.record();
        let goes_on = !goes_to_the_sink(record, self.budgets.work.clock.now());
        if !self.components.delivery.needs_sequence() || record.has_number() || goes_on {
            return Ok(None);
        }
        let sequences = &self.components.sequences;
        Ok(sequences.behind(record, &self.budgets.work).await?)
    }

    /// Returns when a part that waits for its number is looked at again. It may have one since its batch closed or, if that is later,
    /// since the hours of delivery began.
    fn number_at(&self) -> Timestamp {
        let now = self.budgets.work.clock.now();
        let hours = self.components.hours.as_ref();
        let opened_at = hours.and_then(|hours| hours.open_since(now));
        let closed_at = self.batch.record().closed_at();
        look_again_at(opened_at.map_or(closed_at, |at| at.max(closed_at)), now)
    }

    /// Waits for a turn that comes soon; puts the batch back otherwise.
    async fn wait(&mut self, wait: Wait) -> Result<(), TicketEnd> {
        let clock = self.budgets.work.clock;
        // In the first half of the time only, so that there is time for the part.
        let wait_max = self.half_at.min(clock.now() + TURN_WAIT_MAX);
        if wait.why == Why::Turn && wait.until <= wait_max {
            clock.sleep(clock.now().until(wait.until)).await;
            return Ok(());
        }
        Err(self.put_back(wait).await)
    }

    /// Puts the batch back, and returns how the ticket ends. If it need not wait for long, a ticket is sent; otherwise the sweep sends one.
    async fn put_back(&mut self, wait: Wait) -> TicketEnd {
        let Wait { until, why } = wait;
        info!(batch_id = %self.id(), %until, ?why, "batch must wait");
        let at = match why {
            // The invocation waits for the rest. A part that is late for its turn makes the sink wait.
            Why::Turn => until.saturating_sub(TICKET_ROUNDING_MAX),
            _ => until + CLOCK_SKEW_MAX,
        };
        // A pause may end before, and then the sweep must find the batch by the end that the pause had.
        let may_send = self.may_send_ticket() && why != Why::Pause;
        let is_soon = may_send && self.budgets.work.clock.now().until(at) < SQS_DELAY_MAX;
        let due_at = match is_soon {
            true => at + DUE_GRACE,
            false => until,
        };
        if let Err(end) = self.batch.put_back(due_at, why).await {
            return end;
        }
        let completion = &self.components.completion;
        if is_soon
            && let Err(end) = completion
                .send_ticket(self.id(), at, TicketReason::Sweep, self.budgets)
                .await
        {
            return end;
        }
        TicketEnd::Done("waiting")
    }

    /// Returns whether this invocation may send the next ticket of the batch. Lambda stops a chain of tickets that each come from the
    /// invocation before. A ticket of the sweep begins another chain.
    fn may_send_ticket(&self) -> bool {
        let attempts = self.batch.record().attempts;
        !attempts.is_multiple_of(TICKETS_IN_CHAIN_MAX)
    }
}
