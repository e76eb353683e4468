//! The entries of the index for one batch. Only ids and seqs are kept, because a batch may be larger than memory.

use std::sync::Arc;

use protocol::batch::{BatchRecord, Role, lag, role};
use protocol::ids::{EventId, Seq};
use protocol::seqs::SeqSet;
use shared::ports::StoredEvent;

/// Events that must still be read, grouped by the role of their seats.
#[derive(Debug)]
pub(crate) struct Snapshot<T> {
    /// Events in no part yet.
    pub(crate) new: T,
    /// Events in the frozen part.
    pub(crate) frozen: T,
    /// Events in a delivered part, or set aside. Their claims may not be released yet.
    pub(crate) leftovers: T,
}

impl<T> Snapshot<T> {
    pub(crate) fn map<U>(self, f: impl Fn(T) -> U) -> Snapshot<U> {
        Snapshot {
            new: f(self.new),
            frozen: f(self.frozen),
            leftovers: f(self.leftovers),
        }
    }
}

/// Index entries that must still be read from the table, in seq order.
#[derive(Debug, Default)]
pub(crate) struct IndexEntries {
    list: Vec<Entry>,
    /// The event ids of the whole snapshot, one after the other.
    ids: Arc<String>,
    /// How many entries were taken.
    taken: usize,
}

/// Entries in the order in which the pages of the index arrive.
#[derive(Debug, Default)]
pub(crate) struct UnsortedEntries {
    list: Vec<Entry>,
    /// All event ids in one text, because half a million small texts would take more memory.
    ids: String,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    seq: Seq,
    /// Where the id starts in the text of all ids.
    start: u32,
    len: u16,
}

/// Entries that one request reads.
#[derive(Debug)]
pub(crate) struct Piece {
    pub(crate) ids: Vec<EventId>,
    /// The seqs of the entries in the index.
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

    /// Groups the entries by their role in `record`.
    ///
    /// # Errors
    /// The claims that must exist and that the index does not show yet, described for the log.
    pub(crate) fn sorted(self, record: &BatchRecord) -> Result<Snapshot<IndexEntries>, String> {
        let UnsortedEntries { mut list, ids } = self;
        list.sort_unstable_by_key(|entry| (entry.seq, entry.start));
        // The table is read only for entries of the index. If a claim is missing in the index, do not read the table
        // yet.
        let shown = list.iter().map(|entry| entry.seq).collect();
        if let Some(missing) = missing(record, &shown) {
            return Err(missing);
        }
        // As a rule all entries are new, so they stay in `list`.
        let mut extract = |wanted: Role| -> Vec<Entry> {
            let is_wanted = |entry: &mut Entry| role(record, entry.seq) == wanted;
            list.extract_if(.., is_wanted).collect()
        };
        let leftovers = extract(Role::Leftover);
        let frozen = extract(Role::Frozen);
        let ids = Arc::new(ids);
        let entries = |list| IndexEntries {
            list,
            ids: Arc::clone(&ids),
            taken: 0,
        };
        Ok(Snapshot {
            new: entries(list),
            frozen: entries(frozen),
            leftovers: entries(leftovers),
        })
    }
}

impl IndexEntries {
    /// Returns the memory of the entries in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        (self.list.len() * size_of::<Entry>() + self.ids.len()) as u64
    }

    /// Returns whether all entries were taken.
    pub(crate) fn is_empty(&self) -> bool {
        self.taken == self.list.len()
    }

    /// Returns how many entries are left to be taken.
    pub(crate) fn len(&self) -> usize {
        self.list.len() - self.taken
    }

    /// Takes the next `count` entries, or fewer if there are fewer.
    pub(crate) fn take(&mut self, count: usize) -> Piece {
        let end = self.list.len().min(self.taken + count);
        let entries = &self.list[self.taken..end];
        let ids = entries.iter().map(|entry| {
            EventId::try_from(self.id(*entry)).expect("it was an event id when it was pushed")
        });
        let mut ids: Vec<EventId> = ids.collect();
        // The index may show one event twice, with its former seat and its present one.
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

/// Describes for the log the claims that must exist and are not in `seen`; `None` when nothing is missing.
pub(crate) fn missing(record: &BatchRecord, seen: &SeqSet) -> Option<String> {
    if let Some((index, _)) = record.frozen_part() {
        let missing_count = record.undelivered_of_frozen_part().difference_len(seen);
        return (missing_count > 0).then(|| format!("{missing_count} of part {index}"));
    }
    lag(record, seen).map(|lag| {
        let confirmed = lag.confirmed.saturating_sub(lag.found);
        format!("{confirmed} confirmed, {} witnessed", lag.witnessed_missing)
    })
}
