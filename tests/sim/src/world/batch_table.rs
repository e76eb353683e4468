//! The batch table, and the checks of every write to it.

use protocol::batch::{BatchRecord, BatchWrite, PartState, Status};
use protocol::ids::{BatchId, SeatKey};
use protocol::invariants::{Broken, step_is_sound};
use protocol::limits::{NOTICE_TICKETS_MAX, SWEEP_TICKETS_MIN};
use protocol::log::Owner;
use protocol::seqs::SeqSet;
use protocol::time::Timestamp;
use shared::ports::{
    BatchReply, BatchStore, ListPage, ListPosition, ListShard, Overdue, PortError,
};

use super::lock_table::live_seat;
use super::{REFUSAL, World, now};
use crate::checks;
use crate::redeploy::Change;
use crate::request_outcome::{DENIED, REFUSED};

impl World {
    pub fn create(&mut self, record: &BatchRecord) {
        self.note("created", || record.batch_id.to_string());
        now(self.batches.create(record)).expect("the fake never fails");
    }

    /// Applies a write.
    ///
    /// # Errors
    /// A record that would not fit its item.
    pub fn write(&mut self, batch: BatchId, write: &BatchWrite) -> Result<BatchReply, PortError> {
        let before = self.batches.get(batch);
        let reply = now(self.batches.write(batch, write))?;
        match (&reply, before) {
            (BatchReply::Applied(after), Some(before)) => self.written(&before, write, after),
            (BatchReply::Refused(_), _) | (_, None) => {
                self.note("refused", || format!("{batch} {write:?}"));
            }
        }
        let hides = !self.plan.shows_what_refused;
        Ok(match reply {
            BatchReply::Refused(Some(_)) if hides => BatchReply::Refused(None),
            reply => reply,
        })
    }

    /// Returns a page of a list; the lagging index hides some of its batches.
    pub fn overdue(
        &mut self,
        list: ListShard,
        due_before: Timestamp,
        after: Option<&ListPosition>,
    ) -> ListPage {
        let page = now(self.batches.overdue(list, due_before, after));
        let mut page = page.expect("the fake never fails");
        if self.faulty {
            page.batches.retain(|_| self.rng.u8(..) > 60);
        }
        page
    }

    /// Returns all entries of a list, as an operator reads them.
    pub fn listed(&mut self, list: ListShard, due_before: Timestamp) -> Vec<Overdue> {
        let (mut found, mut after) = (Vec::new(), None);
        loop {
            let page = self.overdue(list, due_before, after.as_ref());
            found.extend(page.batches);
            match page.next {
                Some(next) => after = Some(next),
                None => return found,
            }
        }
    }

    /// Returns the batches that a sweep which begins now must send a ticket if there are no faults, with their due times: those that
    /// are overdue by every clock, and those that wait for a pause which ended early. Of more than [`SWEEP_TICKETS_MIN`], together with
    /// those in error and those with notices, only the oldest: the others may have tickets in the queue.
    pub fn left_to_the_sweep(&self) -> Vec<(BatchId, Timestamp)> {
        if self.faulty {
            return Vec::new();
        }
        let now = self.now();
        let late = now.saturating_sub(self.plan.skew_max());
        let waits = |record: &BatchRecord| match record.status {
            Some(Status::Processing) if record.lease.is_none() => {
                record.due_at < late
                    || now < record.due_at && self.pauses.ended_early(record.due_at)
            }
            Some(Status::Open | Status::Sealed | Status::Processing) => record.due_at < late,
            Some(Status::Error) | None => false,
        };
        let records = self.batches.records();
        let is_error = |record: &&BatchRecord| record.status == Some(Status::Error);
        let errors_count = records.iter().filter(is_error).count();
        let is_notice =
            |record: &&BatchRecord| record.status.is_none() && !record.notices.is_empty();
        let notices_count = records.iter().filter(is_notice).count();
        let others_count = errors_count + notices_count.min(NOTICE_TICKETS_MAX);
        let waiting = records.into_iter().filter(waits);
        let mut left: Vec<_> = waiting.map(|one| (one.batch_id, one.due_at)).collect();
        left.sort_unstable_by_key(|(batch, due_at)| (*due_at, *batch));
        left.truncate(SWEEP_TICKETS_MIN.saturating_sub(others_count));
        left
    }

    /// Checks that a sweep which began with these batches left none of them as it was.
    pub fn check_swept(&mut self, batches: &[(BatchId, Timestamp)]) {
        let left = batches.iter().find(|(batch, due_at)| {
            let record = self.batches.get(*batch);
            record.is_some_and(|record| {
                let waits = record.status.is_some_and(|status| status != Status::Error);
                waits && record.due_at == *due_at
            })
        });
        self.check(checks::p6_a_sweep_wakes_what_is_due(left));
    }

    /// Checks a write that was applied.
    fn written(&mut self, before: &BatchRecord, write: &BatchWrite, after: &BatchRecord) {
        let batch = before.batch_id;
        self.note("written", || format!("{batch} {write:?}"));
        let now = self.now();
        let skew_max = self.plan.skew_max();
        let (earliest, latest) = (now.saturating_sub(skew_max), now + skew_max);
        let check = step_is_sound(before, write, after, earliest, latest);
        // Clocks decide on leases only, and no promise about loss depends on leases: clocks that are too wrong
        // may break only INV-9.
        let by_clocks = |broken: &Broken| broken.name.starts_with("INV-9 ");
        if !(self.plan.is_wild() && check.as_ref().is_err_and(by_clocks)) {
            self.check(check);
        }
        let check = checks::inv21_what_is_set_aside_is_not_delivered(before, write);
        self.check(check);
        self.check(checks::inv22_setting_aside_is_kept(before, after));
        if self.plan.quarantine {
            let check = checks::inv25_an_old_batch_is_not_delivered(write, before, now);
            self.check(check);
        }
        if let BatchWrite::Seal { at, .. } = write {
            if !before.bodies.is_log() {
                self.check_seal(before);
            }
            self.check(checks::p6_a_sealed_batch_is_due_soon(after, *at));
        }
        if let BatchWrite::Complete { at, .. } = write {
            self.check_numbers_given_up(after);
            let plan = &self.plan;
            let is_held = plan.holds_back() || plan.events_per_second > 0;
            if after.bodies.is_log() && plan.calm && !is_held {
                self.check(checks::p6_a_batch_is_complete_soon(after, *at));
                let late = after.closed_at().until(*at);
                self.late_max = self.late_max.max(late);
            }
        }
        self.note_notice(before, write);
        self.check_removed(before, write, after);
        self.note_waiting(batch, write);
        self.note_paused(before, write);
        self.check_written(before, write, after);
        // The sink must have every part that the record marks as delivered.
        for (index, part) in after.parts.iter().enumerate() {
            if matches!(part.state, PartState::Delivered { .. }) {
                let key = format!("{batch}/{index}");
                let there = self.ledger.parts.contains_key(&key);
                self.check(checks::inv17_delivered_means_the_sink_has_it(&key, there));
            }
        }
    }

    /// Records a write in the ledger, and checks the promises about its kind.
    fn check_written(&mut self, before: &BatchRecord, write: &BatchWrite, after: &BatchRecord) {
        let batch = before.batch_id;
        match write {
            BatchWrite::Lease { .. } if before.lease.is_some() => {
                self.note("lease taken over", || batch.to_string());
            }
            BatchWrite::Fail { error, .. } => {
                let reasons = self.reasons_to_fail();
                self.check(checks::p8_a_batch_is_in_error_for_a_reason(error, &reasons));
            }
            BatchWrite::AcceptSink { index, .. } => {
                self.note("sink accepted", || format!("{batch}/{index}"));
                self.ledger.accepted.insert(format!("{batch}/{index}"));
            }
            BatchWrite::SetAside {
                part, set_aside, ..
            } => {
                self.ledger.aside.extend(part.map(|index| (batch, index)));
                self.note("set aside", || format!("{batch} {set_aside:?}"));
                self.note_set_aside(after, set_aside);
            }
            BatchWrite::Delivered { index, at, .. } => {
                self.check_rejects(before, *index, after);
                self.note_set_aside(after, &after.set_aside);
                if before.bodies.is_log() {
                    self.note_remembered(after, *at);
                }
            }
            BatchWrite::Resolve { .. } => self.decided_at = self.now(),
            BatchWrite::Complete { at, .. } if before.bodies.is_log() => {
                self.note_complete(after, *at);
            }
            BatchWrite::Complete { .. } if before.verify_at.is_none() => {
                self.nothing_is_left_of(batch);
            }
            _ => {}
        }
    }

    /// Returns the errors that a batch of this history may end in.
    fn reasons_to_fail(&self) -> Vec<&'static str> {
        let mut reasons = vec![REFUSAL, REFUSED];
        if self.plan.manifest_lost_at_ms.is_some() {
            reasons.push("rebuild-dedup");
        }
        if self.plan.forgets_to_prime() {
            reasons.push("the lock table has items");
        }
        // What the index needs may have expired, or may not be read.
        if self.plan.standstill_days.is_some() || self.plan.denial.is_some() {
            reasons.push("unresolved: ");
        }
        let moves = |one: Change| matches!(one, Change::Destination(_) | Change::BodiesAlone(_));
        if self.plan.changes(moves) {
            reasons.push("frozen for another sink");
        }
        if self.plan.faults.edit > 0.0 {
            reasons.push("content differs from the freeze");
            reasons.push("differs from the claimed body");
        }
        if self.plan.denial.is_some() {
            reasons.push(DENIED);
        }
        if self.plan.may_outlast_batch_life() {
            reasons.push("not complete 10 days after it was opened");
        }
        reasons
    }

    /// Notes until when the delivered seats of a batch of the log are remembered: no release says so.
    fn note_remembered(&mut self, after: &BatchRecord, at: Timestamp) {
        let window = after.dedup_window;
        // The clock of the processor may be behind.
        let lasts_until = at + window + self.plan.excess_skew();
        let last = after.parts.last();
        let mut checks = Vec::new();
        self.ledger.change_claims_in(after.batch_id, |one, _| {
            let seq = one.seat.seq;
            let in_last = last.is_some_and(|part| part.members.contains(seq));
            if in_last || after.delivered.contains(seq) {
                one.remembered_until = Some(at + window);
                checks.extend(one.delivered_at.map(|delivered_at| {
                    checks::inv16_tombstones_last_the_window(delivered_at, window, lasts_until)
                }));
            }
        });
        for check in checks {
            self.check(check);
        }
    }

    /// Notes that `seqs` are set aside or rejected. From now on their messages are remembered for the dedup window at least,
    /// also if another message claims the event. The entries of a batch of the log do not last longer for it.
    fn note_set_aside(&mut self, after: &BatchRecord, seqs: &SeqSet) {
        if seqs.is_empty() {
            return;
        }
        let (now, window) = (self.now(), self.dedup_window());
        let entry = Owner::batch(after.batch_id, after.created_at, after.dedup_window);
        let entry_ends_at = after.bodies.is_log().then(|| entry.ends_at());
        self.ledger.change_claims_in(after.batch_id, |one, _| {
            if seqs.contains(one.seat.seq) && one.aside_at.is_none() {
                let until = now + one.window.unwrap_or(window);
                one.aside_at = Some(now);
                one.aside_until = entry_ends_at.map(|end| end.min(until)).or(Some(until));
            }
        });
    }

    /// Notes until when the seats that a batch of the log set aside are remembered. Messages whose event was claimed again are
    /// remembered by the other claim, and the end of the batch changes nothing for them.
    fn note_complete(&mut self, after: &BatchRecord, at: Timestamp) {
        if after.set_aside.is_empty() && after.quarantine.is_none() {
            return;
        }
        let entry = Owner::batch(after.batch_id, after.created_at, after.dedup_window);
        self.ledger.change_claims_in(after.batch_id, |one, last| {
            if one.aside_at.is_some() {
                one.released_at = Some(at);
                one.remembered_until = Some(at);
                if last {
                    one.aside_until = Some(at.min(entry.ends_at()));
                }
            }
        });
    }

    /// Checks a batch that completed without a second look. Without a dedup window, a late write may write a claim
    /// again.
    fn nothing_is_left_of(&mut self, batch: BatchId) {
        if self.dedup_window().is_zero() {
            return;
        }
        let of_batch = |seat: SeatKey| seat.shard.batch == batch;
        let items = self.locks.items().into_iter();
        let left: Vec<String> = items
            .filter(|(_, item)| live_seat(item).is_some_and(of_batch))
            .map(|(id, item)| format!("{id} {item:?}"))
            .collect();
        self.check(checks::inv20_what_is_proven_leaves_no_claim(batch, &left));
    }
}
