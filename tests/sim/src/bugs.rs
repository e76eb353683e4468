//! Planted bugs: how many seeds it takes to catch each, and by which promise.

use std::collections::BTreeMap;

use protocol::planted::{Bug, plant};

/// What it took to catch a bug.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caught {
    /// The bug.
    pub bug: Bug,
    /// Seeds run until the first broken promise, in each of several disjoint ranges; `None` where it was not caught.
    pub seeds: Vec<Option<u64>>,
    /// Which promises were broken, and how often first.
    pub by: BTreeMap<&'static str, usize>,
}

impl Caught {
    /// The median number of seeds; `None` when most ranges did not catch it.
    pub fn median(&self) -> Option<u64> {
        let mut seeds: Vec<u64> = self.seeds.iter().map(|n| n.unwrap_or(u64::MAX)).collect();
        seeds.sort_unstable();
        seeds
            .get(seeds.len() / 2)
            .copied()
            .filter(|seeds| *seeds < u64::MAX)
    }

    /// The most seeds any range needed; `None` when one did not catch it.
    pub fn most(&self) -> Option<u64> {
        self.seeds
            .iter()
            .copied()
            .collect::<Option<Vec<u64>>>()?
            .into_iter()
            .max()
    }
}

/// Runs `ranges` disjoint ranges of at most `seeds_max` seeds, each until a promise is broken.
pub fn hunt(bug: Bug, ranges: u64, seeds_max: u64) -> Caught {
    plant(Some(bug));
    let mut caught = Caught {
        bug,
        seeds: Vec::new(),
        by: BTreeMap::new(),
    };
    for range in 0..ranges {
        let first = range * seeds_max;
        let broken = (0..seeds_max)
            .find_map(|number| Some((number + 1, crate::run(first + number, false).broken?)));
        if let Some((_, broken)) = &broken {
            *caught.by.entry(broken.name).or_default() += 1;
        }
        caught.seeds.push(broken.map(|(number, _)| number));
    }
    plant(None);
    caught
}
