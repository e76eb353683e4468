//! Records the deliveries to a sink, attempt by attempt, to check that each key always has the same content.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use protocol::text::counted;
use serde::Serialize;

use crate::part_name::{MANIFEST, REJECTS};

/// Maximum number of keys with differing content that a report names.
const EXAMPLES_MAX: usize = 20;

/// All attempts so far, whether they succeeded or not.
#[derive(Debug, Default)]
pub struct Deliveries(Mutex<BTreeMap<String, Attempts>>);

#[derive(Debug, Default)]
struct Attempts {
    count: u64,
    contents: BTreeSet<[u8; blake3::OUT_LEN]>,
}

/// Counts of the attempts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct DeliveryReport {
    /// Keys of parts, without those of manifests and reject lists.
    pub parts: u64,
    /// All keys: of parts, manifests and reject lists.
    pub keys: u64,
    /// Attempts at all keys.
    pub attempts: u64,
    /// Keys that were attempted more than once.
    pub attempted_again: u64,
    /// Keys that were attempted with more than one content.
    pub differing: u64,
    /// The first 20 keys that were attempted with more than one content.
    pub differing_keys: Vec<String>,
}

impl Deliveries {
    /// Records an attempt. Call this before deciding whether the attempt succeeds.
    pub fn attempted(&self, key: &str, content: &[u8]) {
        let hash = *blake3::hash(content).as_bytes();
        let mut keys = self.lock();
        let attempts = keys.entry(key.to_owned()).or_default();
        attempts.count += 1;
        attempts.contents.insert(hash);
    }

    /// Returns the counts of all attempts so far.
    pub fn report(&self) -> DeliveryReport {
        let mut report = DeliveryReport::default();
        for (key, attempts) in &*self.lock() {
            report.parts += u64::from(is_part(key));
            report.keys += 1;
            report.attempts += attempts.count;
            report.attempted_again += u64::from(attempts.count > 1);
            if attempts.contents.len() > 1 {
                report.differing += 1;
                if report.differing_keys.len() < EXAMPLES_MAX {
                    report.differing_keys.push(key.clone());
                }
            }
        }
        report
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Attempts>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns whether a key is that of a part, which has any name with `SINK_PATH`, and not of a manifest or a reject list.
fn is_part(key: &str) -> bool {
    [MANIFEST, REJECTS].iter().all(|end| {
        !key.strip_suffix(end)
            .is_some_and(|name| name.ends_with('.'))
    })
}

/// Lines for people, each with its line break.
impl fmt::Display for DeliveryReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "attempts    {} at {}, {} of them parts; {} more than once, {} with differing content",
            self.attempts,
            counted(self.keys, "key"),
            self.parts,
            self.attempted_again,
            self.differing
        )?;
        for key in &self.differing_keys {
            writeln!(f, "  differing content under `{key}`")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attempts_are_counted_by_key_and_other_content_under_a_key_is_found() {
        let deliveries = Deliveries::default();
        for (key, content) in [
            ("b/0.jsonl", "a"),
            ("b/0.manifest.json", "m"),
            ("b/1.jsonl", "b"),
            ("b/0.jsonl", "a"),
            ("b/1.jsonl", "c"),
            ("b/1.jsonl", "b"),
        ] {
            deliveries.attempted(key, content.as_bytes());
        }
        let expected = DeliveryReport {
            parts: 2,
            keys: 3,
            attempts: 6,
            attempted_again: 2,
            differing: 1,
            differing_keys: vec!["b/1.jsonl".to_owned()],
        };
        assert_eq!(deliveries.report(), expected);
    }

    #[test]
    fn a_part_is_distinguished_from_the_objects_beside_it() {
        for part in ["b/0", "b/12.jsonl", "out/k/b/3.csv.gz", "2026/ORDERS.txt"] {
            assert!(is_part(part), "{part}");
        }
        for beside in ["b/0.manifest.json", "b/0.rejects"] {
            assert!(!is_part(beside), "{beside}");
        }
    }
}
