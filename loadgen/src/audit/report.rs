//! What an audit found, as it is printed.

use std::collections::BTreeMap;

use serde::Serialize;

/// Examples kept of each trouble: enough to start looking, few enough to read.
pub(super) const EXAMPLES_MAX: usize = 20;

/// The result of an audit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct AuditReport {
    pub(super) ok: bool,
    /// Messages of the plan.
    pub sent: u64,
    /// Distinct events of the plan.
    pub unique: u64,
    /// Lines of all parts, whatever they hold.
    pub lines: u64,
    /// Lines that carry an event of the plan, sound or not: `sent` or `unique`, less `lost` and
    /// `rejected`, plus `repeated`.
    pub delivered: u64,
    /// As `delivered`, in the reject lists beside the parts.
    pub rejected: u64,
    /// Deliveries that are owed and missing.
    pub lost: u64,
    /// How many of those the caller puts up with.
    pub allowed_missing: u64,
    /// Deliveries beyond those owed.
    pub repeated: u64,
    /// Lines with the id of an event that is not of the plan.
    pub foreign: u64,
    /// Lines that are not what they should be, files that are not where they should be, and manifests that are missing or
    /// say otherwise than their parts.
    pub corrupt: u64,
    /// Deliveries of an event to a batch that had it already.
    pub mixed: u64,
    /// What the batches look like.
    pub batches: Batches,
    /// The first of each trouble.
    pub examples: Examples,
}

impl AuditReport {
    /// Tells whether every event arrived as often as it should, whole, and nothing else did.
    pub fn ok(&self) -> bool {
        self.ok
    }

    /// Judges again, putting up with some missing deliveries.
    #[must_use]
    pub fn allow_missing(mut self, deliveries: u64) -> Self {
        self.allowed_missing = deliveries;
        self.judge();
        self
    }

    pub(super) fn judge(&mut self) {
        let troubles = self.repeated + self.foreign + self.corrupt + self.mixed;
        self.ok = troubles == 0 && self.lost <= self.allowed_missing;
    }
}

/// Delivered batches and their sizes, in lines over all parts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Batches {
    /// Batches with at least one part.
    pub count: u64,
    /// Parts of all batches.
    pub parts: u64,
    /// The smallest batch.
    pub min: u64,
    /// The batch in the middle, the smaller of two.
    pub median: u64,
    /// The largest batch.
    pub max: u64,
    /// How many batches have which size.
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

/// At most 20 examples of each trouble.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Examples {
    /// Events with missing deliveries.
    pub lost: Vec<Example>,
    /// Surplus deliveries.
    pub repeated: Vec<Example>,
    /// Lines of other plans.
    pub foreign: Vec<Example>,
    /// Lines and files that are not sound.
    pub corrupt: Vec<Example>,
    /// Second deliveries to one batch.
    pub mixed: Vec<Example>,
}

/// Where a trouble is, as far as it is anywhere.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Example {
    /// The event's id, where one could be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The file, from the audited directory on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// The line in the file, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<u64>,
    /// What is wrong.
    pub why: String,
}

/// Counts a trouble and keeps the example if there is room; it is made only then.
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
    fn the_median_is_the_batch_in_the_middle() {
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
    fn only_missing_deliveries_can_be_put_up_with() {
        let mut report = AuditReport {
            lost: 2,
            ..AuditReport::default()
        };
        report.judge();
        assert!(!report.ok());
        assert!(!report.clone().allow_missing(1).ok());
        assert!(report.clone().allow_missing(2).ok());
        assert!(!AuditReport { mixed: 1, ..report }.allow_missing(2).ok());
    }
}
