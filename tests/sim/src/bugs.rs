//! Measures how many seeds it takes to catch each planted bug, and which promise catches it.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::{env, fs, io};

use protocol::planted::{SWITCHES, plant};

use crate::plan::Plan;
use crate::{answers, backlog};

/// The number of seeds in which a bug must be caught.
pub const SEEDS_MAX: u64 = 5_000;

/// A seed for each planted bug that catches it, as `bug seed`. The simulation draws other histories after most changes of it, so a seed
/// that no longer catches its bug is no failure: then the bug is hunted.
const STORED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/planted_seeds.txt");

/// The patches that put in the bugs which have no switch in `protocol`.
const PATCHES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/bugs");

/// Whether this was compiled with the patches. `cargo xtask sim --planted` sets the variable.
const IS_PATCHED: bool = option_env!("SIM_PATCHED").is_some();

/// Returns the names of the bugs that this build has, sorted.
///
/// # Errors
/// The folder of the patches cannot be read.
pub fn all() -> io::Result<Vec<&'static str>> {
    let mut bugs = SWITCHES.to_vec();
    if IS_PATCHED {
        // A name is needed for as long as the program runs.
        bugs.extend(patches()?.into_iter().map(|bug| &*bug.leak()));
    }
    bugs.sort_unstable();
    Ok(bugs)
}

/// Returns the names of the bugs that are patches.
fn patches() -> io::Result<Vec<String>> {
    let mut bugs = Vec::new();
    for entry in fs::read_dir(PATCHES)? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        bugs.extend(name.strip_suffix(".patch").map(str::to_owned));
    }
    Ok(bugs)
}

/// The result for one bug.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caught {
    pub bug: &'static str,
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
        let median = seeds.get(seeds.len() / 2).copied();
        median.filter(|seeds| *seeds < u64::MAX)
    }

    /// Returns the largest number of seeds of any range; `None` when one range did not catch the bug.
    pub fn most(&self) -> Option<u64> {
        let seeds: Option<Vec<u64>> = self.seeds.iter().copied().collect();
        seeds?.into_iter().max()
    }
}

/// Returns the promise that a history breaks with the bug but not without it; `None` if there is none. A bug that shows only with a long
/// backlog has a history of its own, whatever the seed.
pub fn caught_by(bug: &'static str, seed: u64) -> Option<&'static str> {
    let of_its_own = backlog::of(bug);
    let run = || match of_its_own {
        Some(breaks) => breaks(),
        None if bug.starts_with("answer-") => Some(answers::run(seed)?.name),
        None => Some(crate::run_plan(plan_of(bug, seed), false).broken?.name),
    };
    plant(Some(bug));
    let broken = run();
    plant(None);
    broken.filter(|_| of_its_own.is_some() || run().is_none())
}

/// Returns the plan of a history that may show a bug: in batches of a log only those whose names begin with it. Some are too rare
/// there, and have plans that bring together all that they need (`swarm/focus.rs`).
fn plan_of(bug: &str, seed: u64) -> Plan {
    match bug {
        "ended-holder-awaited" => Plan::of_discarded_numbers(seed),
        "slot-without-witness" => Plan::of_uncounted_claims(seed),
        "closed-batch-remembered" => Plan::of_early_redrives(seed),
        "orphans-past-dropped" => Plan::of_waiting_duplicates(seed),
        "unknown-resolution-taken-for-alive" => Plan {
            afterlife_days: Some(40),
            ..Plan::of_uncounted_claims(seed)
        },
        "log-first-manifest-put-again" => Plan::of_lost_manifests(seed),
        "log-merge-drops-forgets" => Plan::of_forgets(seed),
        "quota-counted-twice" | "quota-place-of-another" | "quota-refused-commit-counted" => {
            Plan::of_places(seed)
        }
        _ if bug.starts_with("log-") || bug.starts_with("quota-") => Plan::of_log(seed),
        _ => Plan::of_items(seed),
    }
}

/// Runs `ranges` disjoint ranges of at most [`SEEDS_MAX`] seeds, each until the bug is caught.
pub fn hunt(bug: &'static str, ranges: u64) -> Caught {
    let mut caught = Caught {
        bug,
        seeds: Vec::new(),
        by: BTreeMap::new(),
    };
    let (ranges, seeds_max) = match backlog::of(bug) {
        Some(_) => (1, 1),
        None => (ranges, SEEDS_MAX),
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

/// Tries the bugs with their stored seeds, and hunts those that are not caught by them. Prints the promise that caught each. With
/// `UPDATE_PLANTED_SEEDS`, writes the stored seeds anew. Returns the bugs that were not caught.
///
/// # Errors
/// The stored seeds cannot be read or written.
pub fn try_stored(bugs: &[&'static str], threads: usize) -> io::Result<Vec<&'static str>> {
    let text = fs::read_to_string(STORED)?;
    let parse = |line: &str| {
        let (bug, seed) = line.split_once(' ')?;
        Some((bug.to_owned(), seed.parse::<u64>().ok()?))
    };
    let mut stored: BTreeMap<String, u64> = text.lines().filter_map(parse).collect();
    let try_one = |bug: &'static str| {
        let seed = stored.get(bug).filter(|seed| **seed < SEEDS_MAX).copied();
        let caught = seed.and_then(|seed| Some((seed, caught_by(bug, seed)?)));
        let caught = caught.or_else(|| {
            println!("{bug}: not caught by the stored seed {seed:?}; `UPDATE_PLANTED_SEEDS=1 cargo xtask sim --planted` stores another");
            (0..SEEDS_MAX).find_map(|seed| Some((seed, caught_by(bug, seed)?)))
        });
        if let Some((seed, promise)) = caught {
            println!("{bug}: seed {seed}: {promise}");
        }
        (bug, caught)
    };
    let found = on_threads(bugs.iter().copied(), threads, try_one);
    if env::var_os("UPDATE_PLANTED_SEEDS").is_some() {
        for (bug, caught) in &found {
            match caught {
                Some((seed, _)) => stored.insert((*bug).to_owned(), *seed),
                None => stored.remove(*bug),
            };
        }
        let patches = patches()?;
        stored.retain(|bug, _| SWITCHES.contains(&&**bug) || patches.contains(bug));
        let lines = stored.iter().map(|(bug, seed)| format!("{bug} {seed}\n"));
        fs::write(STORED, lines.collect::<String>())?;
    }
    let missed = found.iter().filter(|(_, caught)| caught.is_none());
    let mut missed: Vec<_> = missed.map(|(bug, _)| *bug).collect();
    missed.sort_unstable();
    Ok(missed)
}

/// Calls `run` with each item, on several threads. The results are in any order.
pub fn on_threads<T, R: Send>(
    items: impl IntoIterator<Item = T, IntoIter: Send>,
    threads: usize,
    run: impl Fn(T) -> R + Sync,
) -> Vec<R> {
    let items = Mutex::new(items.into_iter());
    let next = || items.lock().ok()?.next();
    let work = || std::iter::from_fn(next).map(&run).collect::<Vec<R>>();
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads.max(1)).map(|_| scope.spawn(work)).collect();
        let joined = threads.into_iter().map(|thread| thread.join());
        joined
            .flat_map(|results| results.expect("a history catches its own panics"))
            .collect()
    })
}
