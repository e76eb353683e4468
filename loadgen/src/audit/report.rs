//! The printed result of an audit.

use std::collections::BTreeMap;

use serde::Serialize;

/// How many examples of each problem are kept.
pub(super) const EXAMPLES_MAX: usize = 20;

/// The result of an audit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct AuditReport {
    pub(super) ok: bool,
    /// What is wrong, a phrase with its count each; empty if `ok`.
    pub(super) reasons: Vec<String>,
    /// The number of messages in the workload.
    pub sent: u64,
    /// The number of distinct events in the workload.
    pub unique: u64,
    /// The number of lines in all parts, corrupt and foreign ones included.
    pub lines: u64,
    /// The number of lines in parts that carry an event of the workload, corrupt ones included. Equal to the expected
    /// deliveries (`unique` with the drop rule, `sent` with the requeue rule) − `lost` − `rejected` + `repeated`.
    pub delivered: u64,
    /// The number of lines in reject lists that carry an event of the workload.
    pub rejected: u64,
    /// The number of missing deliveries.
    pub lost: u64,
    /// How many missing deliveries the caller accepts.
    pub allowed_missing: u64,
    /// The number of deliveries beyond the expected ones.
    pub repeated: u64,
    /// The number of lines with an event id that is not of the workload.
    pub foreign: u64,
    /// The number of corrupt lines, of files that are not parts, and of manifests that are missing or do not match their parts.
    pub corrupt: u64,
    /// The number of deliveries of an event in a batch that contains the event already.
    pub mixed: u64,
    /// The number of messages whose body is not the one that was delivered for their event. The service does not deliver them
    /// with the drop rule, but puts them into the quarantine. Not a problem. Always 0 with the requeue rule.
    pub conflicts: u64,
    /// The number and the sizes of the batches.
    pub batches: Batches,
    /// The first problems of each kind.
    pub examples: Examples,
}

impl AuditReport {
    /// Returns whether every event was delivered as often as it should be, unchanged, and nothing else was delivered.
    pub fn ok(&self) -> bool {
        self.ok
    }

    /// Returns what is wrong, a phrase with its count each; none if the audit is [`ok`](Self::ok).
    pub fn reasons(&self) -> &[String] {
        &self.reasons
    }

    /// Accepts some missing deliveries, and computes [`ok`](Self::ok) again.
    #[must_use]
    pub fn allow_missing(mut self, deliveries: u64) -> Self {
        self.allowed_missing = deliveries;
        self.decide();
        self
    }

    pub(super) fn decide(&mut self) {
        let lost = match self.allowed_missing {
            0 => "lost".to_owned(),
            allowed => format!("lost ({allowed} accepted)"),
        };
        let counted_lost = match self.lost <= self.allowed_missing {
            true => 0,
            false => self.lost,
        };
        let problems = [
            (counted_lost, &*lost),
            (self.repeated, "repeated"),
            (self.foreign, "foreign (delivered, but not of this burst)"),
            (self.corrupt, "corrupt (lines, files or manifests)"),
            (self.mixed, "mixed (an event twice in one batch)"),
        ];
        let wrong = problems.iter().filter(|(count, _)| *count > 0);
        self.reasons = wrong
            .map(|(count, what)| format!("{count} {what}"))
            .collect();
        self.ok = self.reasons.is_empty();
    }
}

/// The delivered batches. The size of a batch is the number of lines in all its parts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Batches {
    /// The number of batches with at least one part or reject list.
    pub count: u64,
    /// The number of parts of all batches.
    pub parts: u64,
    /// The size of the smallest batch.
    pub min: u64,
    /// The median size; of two middle sizes, the smaller one.
    pub median: u64,
    /// The size of the largest batch.
    pub max: u64,
    /// Size to number of batches.
    pub sizes: BTreeMap<u64, u64>,
}

impl Batches {
    pub(super) fn add(&mut self, parts: u64, lines: u64) {
        self.count += 1;
        self.parts += parts;
        *self.sizes.entry(lines).or_default() += 1;
    }

    pub(super) fn summarise(&mut self) {
        let Some((min, max)) = self.sizes.keys().next().zip(self.sizes.keys().next_back()) else {
            return;
        };
        (self.min, self.max) = (*min, *max);
        let mut before = self.count.div_ceil(2);
        for (size, batches) in &self.sizes {
            if before <= *batches {
                self.median = *size;
                break;
            }
            before -= batches;
        }
    }
}

/// At most 20 examples of each kind of problem.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Examples {
    /// Events with missing deliveries.
    pub lost: Vec<Example>,
    /// Deliveries beyond the expected ones.
    pub repeated: Vec<Example>,
    /// Lines with events of other workloads.
    pub foreign: Vec<Example>,
    /// Corrupt lines and files.
    pub corrupt: Vec<Example>,
    /// Events that are in one batch several times.
    pub mixed: Vec<Example>,
}

/// One problem, and where it was found. A missing delivery has neither file nor line.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Example {
    /// The event's id, if one could be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The path of the file, relative to the audited directory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// The number of the line in the file, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<u64>,
    /// A message that says what is wrong.
    pub why: String,
}

/// Counts a problem. Makes and keeps an example only if there are fewer than the limit.
pub(super) fn note(count: &mut u64, examples: &mut Vec<Example>, make: impl FnOnce() -> Example) {
    *count += 1;
    if examples.len() < EXAMPLES_MAX {
        examples.push(make());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle_size_and_the_smaller_of_two() {
        let median = |sizes: &[u64]| {
            let mut batches = Batches::default();
            sizes.iter().for_each(|size| batches.add(1, *size));
            batches.summarise();
            (batches.min, batches.median, batches.max)
        };
        assert_eq!(median(&[]), (0, 0, 0));
        assert_eq!(median(&[7]), (7, 7, 7));
        assert_eq!(median(&[9, 1, 5]), (1, 5, 9));
        assert_eq!(median(&[9, 1, 5, 6]), (1, 5, 9));
        assert_eq!(median(&[3, 3, 3, 8, 8]), (3, 3, 8));
    }

    #[test]
    fn only_missing_deliveries_can_be_accepted() {
        let mut report = AuditReport {
            lost: 2,
            ..AuditReport::default()
        };
        report.decide();
        assert!(!report.ok());
        assert_eq!(report.reasons(), ["2 lost"]);
        assert!(!report.clone().allow_missing(1).ok());
        assert!(report.clone().allow_missing(2).ok());
        let mixed = AuditReport { mixed: 1, ..report }.allow_missing(2);
        assert_eq!(mixed.reasons(), ["1 mixed (an event twice in one batch)"]);
        assert!(!mixed.ok());
    }

    #[test]
    fn every_problem_has_a_reason_with_its_count() {
        let mut report = AuditReport {
            lost: 3,
            repeated: 4,
            foreign: 1_840,
            corrupt: 5,
            mixed: 6,
            ..AuditReport::default()
        };
        report = report.allow_missing(1);
        assert_eq!(
            report.reasons().join("; "),
            "3 lost (1 accepted); 4 repeated; 1840 foreign (delivered, but not of this burst); 5 corrupt (lines, files or \
             manifests); 6 mixed (an event twice in one batch)"
        );
    }
}
