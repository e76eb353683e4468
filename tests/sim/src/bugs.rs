//! Measures how many seeds it takes to catch each planted bug, and which promise catches it.

use std::collections::BTreeMap;

use protocol::planted::{Bug, plant};

/// The result for one bug.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caught {
    pub bug: Bug,
    /// The number of seeds until the first broken promise, for each range of seeds; `None` if the bug was not caught.
    pub seeds: Vec<Option<u64>>,
    /// The promises that were broken first, and in how many ranges.
    pub by: BTreeMap<&'static str, usize>,
}

impl Caught {
    /// Returns the median number of seeds; `None` when most ranges did not catch the bug.
    pub fn median(&self) -> Option<u64> {
        let mut seeds: Vec<u64> = self.seeds.iter().map(|n| n.unwrap_or(u64::MAX)).collect();
        seeds.sort_unstable();
        seeds
            .get(seeds.len() / 2)
            .copied()
            .filter(|seeds| *seeds < u64::MAX)
    }

    /// Returns the largest number of seeds of any range; `None` when one range did not catch the bug.
    pub fn most(&self) -> Option<u64> {
        self.seeds
            .iter()
            .copied()
            .collect::<Option<Vec<u64>>>()?
            .into_iter()
            .max()
    }
}

/// Returns the promise that a history breaks with the bug but not without it; `None` if there is none.
pub fn caught_by(bug: Bug, seed: u64) -> Option<&'static str> {
    plant(Some(bug));
    let broken = crate::run(seed, false).broken;
    plant(None);
    let broken = broken.filter(|_| crate::run(seed, false).broken.is_none())?;
    Some(broken.name)
}

/// Runs `ranges` disjoint ranges of at most `seeds_max` seeds, each until the bug is caught.
pub fn hunt(bug: Bug, ranges: u64, seeds_max: u64) -> Caught {
    let mut caught = Caught {
        bug,
        seeds: Vec::new(),
        by: BTreeMap::new(),
    };
    for range in 0..ranges {
        let first = range * seeds_max;
        let broken =
            (0..seeds_max).find_map(|number| Some((number + 1, caught_by(bug, first + number)?)));
        if let Some((_, promise)) = broken {
            *caught.by.entry(promise).or_default() += 1;
        }
        caught.seeds.push(broken.map(|(number, _)| number));
    }
    caught
}
