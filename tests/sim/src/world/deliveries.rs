//! Deliveries to the sink.

use protocol::chain::ChainHash;
use protocol::claim::DuplicateRule;
use protocol::ids::EventId;

use super::World;
use super::lock_table::live_seat;
use crate::checks;
use crate::ledger::{Brought, Given, Occurrence};

impl World {
    /// Records that the sink accepted a part, and checks the promises about it.
    pub fn deliver(&mut self, part: &Brought) {
        let (now, key, count) = (self.now(), part.key.clone(), part.content.count);
        self.note("delivered", || format!("{key} with {count} items"));
        if let Some(first) = self.ledger.parts.get(&key).cloned() {
            self.note("part repeated", || key.clone());
            let (number, again) = (first.file_number, part.content.file_number);
            self.check(checks::inv31_a_part_keeps_its_number(&key, number, again));
            let (link, again) = (first.link, part.content.link);
            self.check(checks::inv39_a_part_keeps_its_link(&key, link, again));
            if !self.ledger.accepted.contains(&key) {
                let check = checks::p5_a_key_means_one_content(&key, &first, &part.content);
                self.check(check);
            }
            return;
        }
        let record = self.batches.get(part.batch);
        let frozen = record.as_ref();
        let frozen = frozen.and_then(|record| Some(record.parts.get(part.part_index)?.hash));
        let hash = part.content.hash;
        self.check(checks::p5_a_part_is_what_was_frozen(&key, frozen, hash));
        self.ledger.parts.insert(key.clone(), part.content.clone());
        self.number_given(part);
        let (in_order, as_sent) = (part.in_order, part.as_sent);
        self.check(checks::p5_a_part_is_what_was_sent(&key, in_order, as_sent));
        for (id, seat) in &part.items {
            let claimed = record
                .as_ref()
                .is_some_and(|record| record.bodies.is_log() && record.claimed.contains(seat.seq));
            let won = claimed && self.ledger.occurrence(id, *seat).is_some();
            let item = self.locks.get(id);
            let live = won || item.as_ref().and_then(live_seat) == Some(*seat);
            let own = seat.shard.batch == part.batch;
            // The attempt may have been in flight when an operator set the part aside.
            let live = live || self.ledger.seat_set_aside(id, *seat);
            let what = format!("{id} from {}/{}, live there: {live}", seat.shard, seat.seq);
            let check = checks::p2_a_part_holds_only_live_claims(&key, live && own, &what);
            self.check(check);
            if part.rejected.contains(seat.seq) {
                self.reject(id, *seat);
                continue;
            }
            self.note_corrected(id, *seat);
            if let Some(occurrence) = self.ledger.occurrence(id, *seat) {
                occurrence.delivered_at.get_or_insert(now);
                let given = Given {
                    at: now,
                    sqs_message_id: occurrence.sqs_message_id.clone(),
                    key: key.clone(),
                };
                self.given(id, given);
                self.check_quota(id, *seat);
            }
        }
    }

    /// Records that the sink got a part with a number, and checks that it is the next one.
    fn number_given(&mut self, part: &Brought) {
        let Some(number) = part.content.file_number else {
            return;
        };
        // An operator who sets a part aside accepts that the sink may have it, and that the next part gets its number.
        if self.ledger.aside.contains(&(part.batch, part.part_index)) {
            return;
        }
        let numbered = self.ledger.numbered.entry(part.scope.clone());
        let mut numbered = std::mem::take(numbered.or_default());
        while let Some((batch, index, _)) = numbered.last()
            && self.ledger.aside.contains(&(*batch, *index))
        {
            numbered.pop();
        }
        let last = numbered.last().map_or(0, |(_, _, number)| *number);
        // A number counts as used if the record has expired that could tell.
        let late = self.ledger.late_numbers.iter();
        let mut next = late.filter(|(_, late)| **late == (part.scope.clone(), last + 1));
        let is_skipped = next.any(|(late, _)| self.batches.get(late.batch).is_none());
        let before = last + u64::from(is_skipped && number > last + 1);
        let check = checks::inv31_numbers_have_no_gaps(&part.key, &part.scope, before, number);
        self.check(check);
        // The hash is in the record of the part before this one, as long as the record lasts.
        let before = numbered.last().map(|(batch, index, _)| (*batch, *index));
        let is_unknown =
            is_skipped || before.is_some_and(|(batch, _)| self.batches.get(batch).is_none());
        let hash = before.and_then(|before| self.ledger.chain.get(&before).copied());
        let end = (last, hash.unwrap_or(ChainHash::NONE));
        let link = part.content.link;
        self.check(checks::inv39_links_make_a_chain(
            &part.key, end, link, is_unknown,
        ));
        if let Some(hash) = part.content.chain_hash() {
            let key = (part.batch, part.part_index);
            self.ledger.chain.insert(key, hash);
        }
        numbered.push((part.batch, part.part_index, number));
        self.ledger.numbered.insert(part.scope.clone(), numbered);
    }

    /// Records that the sink got an event, perhaps again, and checks P4.
    fn given(&mut self, id: &EventId, given: Given) {
        let window = self.dedup_window();
        let may_repeat = self.plan.ever(DuplicateRule::Requeue);
        let before = self.ledger.given.entry(id.clone()).or_default();
        let earlier = before.clone();
        before.push(given.clone());
        for first in earlier {
            // An operator who sets events aside accepts that the sink may have received them before, and one who has an event forgotten
            // wants it again.
            let mut claims = self.ledger.claims_of(id).iter();
            let may_come_again =
                |one: &Occurrence| one.aside_at.is_some() || one.forgotten_at.is_some();
            if claims.any(|one| may_come_again(one) && one.sqs_message_id == first.sqs_message_id) {
                continue;
            }
            self.check(checks::p4_the_sink_gets_an_event_once_per_window(
                id, &first, &given, window, may_repeat,
            ));
        }
    }
}
