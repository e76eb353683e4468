//! What the index shows of a batch. A batch may be larger than memory, so only ids and seqs are held here.

use std::sync::Arc;

use protocol::batch::{BatchRecord, Role, lag, role};
use protocol::ids::{EventId, Seq};
use protocol::planted::{Bug, planted};
use protocol::seqs::SeqSet;
use shared::ports::StoredEvent;

/// What one reading of the index came to.
#[derive(Debug)]
pub(crate) enum IndexRead {
    /// The index shows every claim that must exist.
    Complete(IndexSnapshot),
    /// It does not yet.
    Lagging {
        /// What is missing, for the log.
        missing: String,
    },
}

/// The entries of the index, by what the batch record says of their seqs.
#[derive(Debug, Default)]
pub(crate) struct IndexSnapshot {
    /// In no part yet.
    pub(crate) new: IndexEntries,
    /// In the part that is frozen and not yet delivered.
    pub(crate) frozen: IndexEntries,
    /// In a delivered part: their claims may still have to be released.
    pub(crate) leftovers: IndexEntries,
}

/// Index entries that are yet to be read from the table, in seq order.
#[derive(Debug, Default)]
pub(crate) struct IndexEntries {
    list: Vec<Entry>,
    /// The ids of the whole snapshot.
    ids: Arc<String>,
    /// How many were handed out.
    taken: usize,
}

/// Entries in the order in which the pages of the index come.
#[derive(Debug, Default)]
pub(crate) struct UnsortedEntries {
    list: Vec<Entry>,
    /// All ids as one text: there may be half a million.
    ids: String,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    seq: Seq,
    /// Where its id starts in the text of all.
    start: u32,
    len: u16,
}

/// Entries that one request reads.
#[derive(Debug)]
pub(crate) struct Piece {
    pub(crate) ids: Vec<EventId>,
    /// Under which the index shows them.
    pub(crate) seqs: SeqSet,
}

impl UnsortedEntries {
    pub(crate) fn push(&mut self, seq: Seq, id: &str) {
        self.list.push(Entry {
            seq,
            start: u32::try_from(self.ids.len()).expect("a batch has less than 4 GiB of ids"),
            len: u16::try_from(id.len()).expect("an id is at most 2,048 bytes"),
        });
        self.ids.push_str(id);
    }

    /// Sorts the entries by what `record` says of them.
    pub(crate) fn sorted(self, record: &BatchRecord) -> IndexRead {
        let UnsortedEntries { mut list, ids } = self;
        list.sort_unstable_by_key(|entry| (entry.seq, entry.start));
        // The table confirms no more than the index shows: what is missing here need not be looked for there.
        let shown = list.iter().map(|entry| entry.seq).collect();
        if let Some(missing) = missing(record, &shown) {
            return IndexRead::Lagging { missing };
        }
        // As a rule all of them are new, and stay where they are.
        let mut of = |wanted: Role| -> Vec<Entry> {
            let is_wanted = |entry: &mut Entry| role(record, entry.seq) == wanted;
            list.extract_if(.., is_wanted).collect()
        };
        let leftovers = of(Role::Leftover);
        let frozen = match planted(Bug::PartRefrozen) {
            true => Vec::new(),
            false => of(Role::Frozen),
        };
        let ids = Arc::new(ids);
        let entries = |list| IndexEntries {
            list,
            ids: Arc::clone(&ids),
            taken: 0,
        };
        IndexRead::Complete(IndexSnapshot {
            new: entries(list),
            frozen: entries(frozen),
            leftovers: entries(leftovers),
        })
    }
}

impl IndexEntries {
    /// Returns what they take in memory.
    pub(crate) fn bytes(&self) -> u64 {
        (self.list.len() * size_of::<Entry>() + self.ids.len()) as u64
    }

    /// Returns whether all were handed out.
    pub(crate) fn is_empty(&self) -> bool {
        self.taken == self.list.len()
    }

    /// Returns how many are yet to be handed out.
    pub(crate) fn len(&self) -> usize {
        self.list.len() - self.taken
    }

    /// Hands out the next `count`, or as many as there are.
    pub(crate) fn take(&mut self, count: usize) -> Piece {
        let end = self.list.len().min(self.taken + count);
        let entries = &self.list[self.taken..end];
        let ids = entries.iter().map(|entry| {
            EventId::try_from(self.id(*entry)).expect("it was an event id when it was pushed")
        });
        let mut ids: Vec<EventId> = ids.collect();
        // The index may show one event twice, under a seat it has left and one it has taken.
        ids.sort_unstable();
        ids.dedup();
        let piece = Piece {
            ids,
            seqs: entries.iter().map(|entry| entry.seq).collect(),
        };
        self.taken = end;
        piece
    }

    fn id(&self, entry: Entry) -> &str {
        let start = entry.start as usize;
        &self.ids[start..start + usize::from(entry.len)]
    }
}

/// Returns the seqs of events.
pub(crate) fn seqs(events: &[StoredEvent]) -> SeqSet {
    events.iter().map(|event| event.seq).collect()
}

/// Returns, for the log, what must exist and is not among `seen`; `None` when nothing is missing.
pub(crate) fn missing(record: &BatchRecord, seen: &SeqSet) -> Option<String> {
    if let Some((index, part)) = record.frozen_part() {
        let missing_count = part.members.difference_len(seen);
        return (missing_count > 0).then(|| format!("{missing_count} of part {index}"));
    }
    lag(record, seen).map(|lag| {
        let confirmed = lag.confirmed.saturating_sub(lag.found);
        format!("{confirmed} confirmed, {} witnessed", lag.witnessed_missing)
    })
}
