//! The index as it was: every entry with when it came and when it went, so that it can be shown as of any time.
//!
//! Both are noted on their own, in whatever order the replies come that tell of them: an entry comes once and goes once
//! (`WatchedTable::index_sort_key`). Times are durations since any fixed moment.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::time::Duration;

/// Entries of one page: fewer than AWS's 1 MB holds, so that keys with many entries come in several pages.
const PAGE_ENTRIES_MAX: usize = 1_000;

/// An entry of the index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    /// The index's partition key.
    pub(super) hash: String,
    /// The index's sort key.
    pub(super) range: u64,
    /// The table's key.
    pub(super) key: String,
}

/// Where among the entries of one partition key an entry is: the index's sort key, and the table's key.
pub(super) type Position = (u64, String);

#[derive(Clone, Copy, Debug, Default)]
struct Life {
    came: Option<Duration>,
    went: Option<Duration>,
}

impl Life {
    fn is_there(self, at: Duration) -> bool {
        self.came.is_some_and(|came| came <= at) && self.went.is_none_or(|went| went > at)
    }
}

/// A page of the index.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Page {
    pub(super) positions: Vec<Position>,
    /// Whether there are more after the last one.
    pub(super) more: bool,
    /// Entries that are there now and were not shown.
    pub(super) hidden: u64,
    /// Entries that are gone now and were shown.
    pub(super) gone: u64,
}

/// The index with its past.
#[derive(Debug)]
pub(super) struct Index {
    /// How long what has gone is remembered.
    memory: Duration,
    partitions: BTreeMap<String, BTreeMap<Position, Life>>,
}

impl Index {
    /// An empty index that can be shown as of any time back to `memory` ago.
    pub(super) fn new(memory: Duration) -> Index {
        Index {
            memory,
            partitions: BTreeMap::new(),
        }
    }

    /// An entry has come.
    pub(super) fn came(&mut self, entry: &Entry, now: Duration) {
        self.life(entry).came.get_or_insert(now);
    }

    /// An entry has gone.
    pub(super) fn went(&mut self, entry: &Entry, now: Duration) {
        self.life(entry).went.get_or_insert(now);
    }

    fn life(&mut self, entry: &Entry) -> &mut Life {
        self.partitions
            .entry(entry.hash.clone())
            .or_default()
            .entry((entry.range, entry.key.clone()))
            .or_default()
    }

    /// The entries of a partition key after a position, as they were `lag` ago.
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
        let forgotten = |life: &Life| life.went.is_some_and(|went| went + self.memory < now);
        entries.retain(|_, life| !forgotten(life));
        let as_of = now.saturating_sub(lag);
        let limit = limit.unwrap_or(PAGE_ENTRIES_MAX).min(PAGE_ENTRIES_MAX);
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        for (position, life) in entries.range::<Position, _>((from, Bound::Unbounded)) {
            let shown = life.is_there(as_of);
            if shown && page.positions.len() == limit {
                page.more = true;
                break;
            }
            match (shown, life.is_there(now)) {
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

    fn shown(index: &mut Index, now: u64, lag: u64) -> Vec<u64> {
        let page = index.page(HASH, None, None, secs(now), secs(lag));
        page.positions.into_iter().map(|(range, _)| range).collect()
    }

    #[test]
    fn what_came_and_went_is_shown_as_it_was_and_queries_may_go_back() {
        let mut index = Index::new(secs(10));
        index.came(&entry(1), secs(1));
        index.came(&entry(2), secs(3));
        index.went(&entry(1), secs(5));
        assert_eq!(shown(&mut index, 5, 0), [2]);
        assert_eq!(shown(&mut index, 5, 1), [1, 2]);
        assert_eq!(shown(&mut index, 5, 3), [1]);
        assert_eq!(shown(&mut index, 5, 5), [] as [u64; 0]);
        assert_eq!(shown(&mut index, 5, 0), [2]);
        let page = index.page(HASH, None, None, secs(5), secs(3));
        assert_eq!((page.hidden, page.gone), (1, 1));
    }

    #[test]
    fn the_order_in_which_comings_and_goings_are_heard_of_does_not_matter() {
        let mut index = Index::new(secs(10));
        index.went(&entry(1), secs(2));
        index.came(&entry(1), secs(2));
        assert_eq!(shown(&mut index, 3, 0), [] as [u64; 0]);
    }

    #[test]
    fn pages_follow_each_other_and_the_last_says_so() {
        let mut index = Index::new(secs(10));
        (0..5).for_each(|range| index.came(&entry(range), secs(1)));
        let mut after = None;
        let mut seen = Vec::new();
        loop {
            let page = index.page(HASH, after.as_ref(), Some(2), secs(2), Duration::ZERO);
            seen.extend(page.positions.iter().map(|(range, _)| *range));
            after = page.positions.last().cloned();
            if !page.more {
                break;
            }
        }
        assert_eq!(seen, [0, 1, 2, 3, 4]);
    }

    #[test]
    fn what_is_gone_for_longer_than_any_lag_is_forgotten() {
        let mut index = Index::new(secs(2));
        index.came(&entry(1), secs(1));
        index.went(&entry(1), secs(2));
        assert_eq!(shown(&mut index, 5, 0), [] as [u64; 0]);
        assert!(index.partitions[HASH].is_empty());
    }
}
