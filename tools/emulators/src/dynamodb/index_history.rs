//! The entries of an index over time: when each was added and removed, so that the index can be shown as it was at any
//! earlier time.
//!
//! An entry is added once and removed once (`WatchedTable::index_sort_key`), so both times may be recorded in any order,
//! as replies arrive. Times are durations since a fixed moment.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::time::Duration;

/// Maximum number of entries of one page. AWS's pages of 1 MB hold more; with fewer, clients page through large partitions
/// in tests too.
const PAGE_ENTRIES_MAX: usize = 1_000;

/// An entry of the index, by its keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    /// Partition key of the index.
    pub(super) hash: String,
    /// Sort key of the index.
    pub(super) range: u64,
    /// Partition key of the table.
    pub(super) key: String,
}

/// The position of an entry within its partition: the sort key of the index, then the key of the table.
pub(super) type Position = (u64, String);

#[derive(Clone, Copy, Debug, Default)]
struct EntryTimes {
    added: Option<Duration>,
    removed: Option<Duration>,
}

impl EntryTimes {
    fn exists(self, at: Duration) -> bool {
        self.added.is_some_and(|added| added <= at)
            && self.removed.is_none_or(|removed| removed > at)
    }
}

/// One page of a query.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Page {
    pub(super) positions: Vec<Position>,
    /// Whether there are further entries after the last one.
    pub(super) more: bool,
    /// Entries that exist now and are missing from the page.
    pub(super) hidden: u64,
    /// Entries that no longer exist and are on the page.
    pub(super) gone: u64,
}

/// The entries of an index, with those removed within `memory`.
#[derive(Debug)]
pub(super) struct IndexHistory {
    /// How long removed entries are kept.
    memory: Duration,
    partitions: BTreeMap<String, BTreeMap<Position, EntryTimes>>,
}

impl IndexHistory {
    /// Makes the history of an empty index. It can show the index as it was up to `memory` ago.
    pub(super) fn new(memory: Duration) -> IndexHistory {
        IndexHistory {
            memory,
            partitions: BTreeMap::new(),
        }
    }

    /// Records that an entry was added.
    pub(super) fn added(&mut self, entry: &Entry, now: Duration) {
        self.times(entry).added.get_or_insert(now);
    }

    /// Records that an entry was removed.
    pub(super) fn removed(&mut self, entry: &Entry, now: Duration) {
        self.times(entry).removed.get_or_insert(now);
    }

    fn times(&mut self, entry: &Entry) -> &mut EntryTimes {
        self.partitions
            .entry(entry.hash.clone())
            .or_default()
            .entry((entry.range, entry.key.clone()))
            .or_default()
    }

    /// Returns the entries of a partition key after a position, as they were `lag` ago: at most `limit`, and at most 1,000.
    pub(super) fn page(
        &mut self,
        hash: &str,
        after: Option<&Position>,
        limit: Option<usize>,
        now: Duration,
        lag: Duration,
    ) -> Page {
        let mut page = Page::default();
        let Some(entries) = self.partitions.get_mut(hash) else {
            return page;
        };
        let is_kept = |removed: Duration| removed + self.memory >= now;
        entries.retain(|_, times| times.removed.is_none_or(is_kept));
        let as_of = now.saturating_sub(lag);
        let limit = limit.unwrap_or(PAGE_ENTRIES_MAX).min(PAGE_ENTRIES_MAX);
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        for (position, times) in entries.range::<Position, _>((from, Bound::Unbounded)) {
            let shown = times.exists(as_of);
            if shown && page.positions.len() == limit {
                page.more = true;
                break;
            }
            match (shown, times.exists(now)) {
                (true, false) => page.gone += 1,
                (false, true) => page.hidden += 1,
                (true, true) | (false, false) => {}
            }
            if shown {
                page.positions.push(position.clone());
            }
        }
        page
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HASH: &str = "h";

    fn entry(range: u64) -> Entry {
        Entry {
            hash: HASH.to_owned(),
            range,
            key: format!("e{range}"),
        }
    }

    fn secs(secs: u64) -> Duration {
        Duration::from_secs(secs)
    }

    fn shown(index: &mut IndexHistory, now: u64, lag: u64) -> Vec<u64> {
        let page = index.page(HASH, None, None, secs(now), secs(lag));
        page.positions.into_iter().map(|(range, _)| range).collect()
    }

    #[test]
    fn an_entry_is_shown_as_it_was_and_a_later_query_may_show_an_earlier_time() {
        let mut index = IndexHistory::new(secs(10));
        index.added(&entry(1), secs(1));
        index.added(&entry(2), secs(3));
        index.removed(&entry(1), secs(5));
        assert_eq!(shown(&mut index, 5, 0), [2]);
        assert_eq!(shown(&mut index, 5, 1), [1, 2]);
        assert_eq!(shown(&mut index, 5, 3), [1]);
        assert_eq!(shown(&mut index, 5, 5), [] as [u64; 0]);
        assert_eq!(shown(&mut index, 5, 0), [2]);
        let page = index.page(HASH, None, None, secs(5), secs(3));
        assert_eq!((page.hidden, page.gone), (1, 1));
    }

    #[test]
    fn additions_and_removals_may_be_recorded_in_any_order() {
        let mut index = IndexHistory::new(secs(10));
        index.removed(&entry(1), secs(2));
        index.added(&entry(1), secs(2));
        assert_eq!(shown(&mut index, 3, 0), [] as [u64; 0]);
    }

    #[test]
    fn pages_follow_each_other_and_the_last_says_so() {
        let mut index = IndexHistory::new(secs(10));
        (0..5).for_each(|range| index.added(&entry(range), secs(1)));
        let mut after = None;
        let mut seen = Vec::new();
        for more in [true, true, false] {
            let page = index.page(HASH, after.as_ref(), Some(2), secs(2), Duration::ZERO);
            seen.extend(page.positions.iter().map(|(range, _)| *range));
            after = page.positions.last().cloned();
            assert_eq!(page.more, more);
        }
        assert_eq!(seen, [0, 1, 2, 3, 4]);
    }

    #[test]
    fn entries_removed_longer_ago_than_any_lag_are_deleted() {
        let mut index = IndexHistory::new(secs(2));
        index.added(&entry(1), secs(1));
        index.removed(&entry(1), secs(2));
        assert_eq!(shown(&mut index, 5, 0), [] as [u64; 0]);
        assert!(index.partitions[HASH].is_empty());
    }
}
