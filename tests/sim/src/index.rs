//! `batchId-index`: several replicas, each with a lag of its own, for puts and for deletes.

use std::collections::BTreeMap;

use protocol::ids::{BatchShard, EventId, Seq};
use shared::ports::{IndexEntry, IndexPage};

/// Replicas of the index. Each query reads any one of them, so a later query may return older entries.
pub const REPLICAS: usize = 3;

/// The changes of one entry: whether it is there from then on, and when each replica shows that.
#[derive(Debug)]
struct Entry {
    event_id: EventId,
    changes: Vec<(bool, [u64; REPLICAS])>,
}

#[derive(Debug, Default)]
pub struct LaggingIndex {
    entries: BTreeMap<(BatchShard, Seq), Entry>,
}

impl LaggingIndex {
    /// Adds or removes an entry; each replica shows the change at its own time.
    pub fn change(
        &mut self,
        shard: BatchShard,
        seq: Seq,
        event_id: &EventId,
        present: bool,
        visible_at_ms: [u64; REPLICAS],
    ) {
        let entry = self.entries.entry((shard, seq)).or_insert_with(|| Entry {
            event_id: event_id.clone(),
            changes: Vec::new(),
        });
        entry.changes.push((present, visible_at_ms));
    }

    /// Returns one page of a shard as `replica` shows it.
    pub fn page(
        &self,
        shard: BatchShard,
        after: Option<&IndexEntry>,
        replica: usize,
        now_ms: u64,
        entries_max: usize,
    ) -> IndexPage {
        let from = after.map_or(0, |after| after.seq + 1);
        let is_there = |entry: &Entry| {
            let mut changes = entry.changes.iter().rev();
            let newest = changes.find(|(_, visible_at_ms)| visible_at_ms[replica] <= now_ms);
            newest.is_some_and(|(present, _)| *present)
        };
        let mut page: Vec<IndexEntry> = self
            .entries
            .range((shard, from)..=(shard, Seq::MAX))
            .filter(|(_, entry)| is_there(entry))
            .take(entries_max + 1)
            .map(|((_, seq), entry)| IndexEntry {
                event_id: entry.event_id.clone(),
                seq: *seq,
            })
            .collect();
        let more = page.len() > entries_max;
        page.truncate(entries_max);
        IndexPage {
            next: page.last().filter(|_| more).cloned(),
            entries: page,
        }
    }
}

#[cfg(test)]
mod tests {
    use protocol::ids::BatchId;

    use super::*;

    #[test]
    fn replicas_show_a_put_and_a_delete_at_their_own_times() {
        let batch: BatchId = "0190163d-8694-739b-aea5-966c26f8ad91".parse().unwrap();
        let shard = BatchShard { batch, shard: 0 };
        let event = "e".parse().unwrap();
        let mut index = LaggingIndex::default();
        index.change(shard, 4, &event, true, [10, 20, 30]);
        index.change(shard, 4, &event, false, [100, 15, 300]);
        let shown = |replica, now| index.page(shard, None, replica, now, 9).entries.len();
        assert_eq!((shown(0, 9), shown(0, 10), shown(0, 100)), (0, 1, 0));
        // The delete arrives before the put. The later change wins, whenever the earlier one arrives.
        assert_eq!((shown(1, 14), shown(1, 15), shown(1, 500)), (0, 0, 0));
        assert_eq!((shown(2, 30), shown(2, 299), shown(2, 300)), (1, 1, 0));
    }
}
