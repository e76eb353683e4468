//! `--bodies`: where the bodies of batches go, and the buckets for them.

use std::collections::{BTreeMap, BTreeSet};

use aggregator::config::{BODIES, OVERFLOW_BUCKET};
use anyhow::bail;
use clap::ValueEnum;
use protocol::bodies::Bodies;

use crate::faults::Redeploy;

/// A place for the bodies of batches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum BodiesKind {
    /// Each body in its lock item
    Items,
    /// Batches that all environments share, their loads as items of the batch table
    #[value(name = "log:table")]
    LogTable,
    /// Batches that all environments share, their loads as objects of the S3 stand-in; needs the cargo feature `full`
    #[value(name = "log:s3")]
    LogS3,
}

impl BodiesKind {
    /// Returns the value of `BODIES`.
    pub fn value(self) -> &'static str {
        match self {
            BodiesKind::Items => "items",
            BodiesKind::LogTable => "log:table",
            BodiesKind::LogS3 => "log:s3://loads/loads",
        }
    }
}

/// Sets `BODIES` from the flag, and replaces the value `log:s3` of redeploys by a place in the S3 stand-in.
///
/// # Errors
/// `BODIES` is set beside the flag.
pub(crate) fn set_variable(
    bodies: Option<BodiesKind>,
    variables: &mut BTreeMap<String, String>,
    redeploys: &mut [Redeploy],
) -> anyhow::Result<()> {
    if let Some(bodies) = bodies {
        let value = bodies.value().to_owned();
        if let Some(set) = variables.insert(BODIES.name.to_owned(), value) {
            bail!("`--bodies`: not with `BODIES`: got `BODIES={set}` too, expected one of them");
        }
    }
    for redeploy in &mut *redeploys {
        if let Some(value) = redeploy.variables.get_mut(BODIES.name)
            && let Ok(kind) = BodiesKind::from_str(value, false)
        {
            *value = kind.value().to_owned();
        }
    }
    Ok(())
}

/// Returns whether a value of `BODIES` is in S3, at first or after a redeploy.
pub(crate) fn in_s3(variables: &BTreeMap<String, String>, redeploys: &[Redeploy]) -> bool {
    !load_buckets(variables, redeploys).is_empty()
}

/// Returns the buckets that the variables name for bodies, at first and after redeploys.
pub fn buckets(variables: &BTreeMap<String, String>, redeploys: &[Redeploy]) -> BTreeSet<String> {
    let overflow = values(variables, redeploys, OVERFLOW_BUCKET.name);
    let mut buckets = load_buckets(variables, redeploys);
    buckets.extend(overflow.into_iter().map(str::to_owned));
    buckets
}

/// Returns the buckets that the variables name for loads, at first and after redeploys.
pub fn load_buckets(
    variables: &BTreeMap<String, String>,
    redeploys: &[Redeploy],
) -> BTreeSet<String> {
    let bodies = values(variables, redeploys, BODIES.name).into_iter();
    let bodies = bodies.filter_map(|value| value.parse::<Bodies>().ok());
    let buckets = bodies.filter_map(|bodies| Some(bodies.s3()?.bucket.to_string()));
    buckets.collect()
}

fn values<'a>(
    variables: &'a BTreeMap<String, String>,
    redeploys: &'a [Redeploy],
    name: &str,
) -> Vec<&'a str> {
    let redeployed = redeploys.iter().map(|redeploy| &redeploy.variables);
    let all = std::iter::once(variables).chain(redeployed);
    let values = all.filter_map(|variables| variables.get(name).map(String::as_str));
    values.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bucket_of_bodies_is_created() {
        let mut variables = BTreeMap::from([("OVERFLOW_BUCKET".to_owned(), "large".to_owned())]);
        let texts = [
            "1:BODIES=log:s3",
            "2:BODIES=log:table",
            "3:BODIES=log:s3://other/a,MAX_BATCH_SIZE=5",
        ];
        let mut redeploys = texts.map(|text| text.parse::<Redeploy>().unwrap());
        set_variable(Some(BodiesKind::Items), &mut variables, &mut redeploys).unwrap();
        assert_eq!(variables["BODIES"], "items");
        let buckets = buckets(&variables, &redeploys);
        assert_eq!(Vec::from_iter(&buckets), ["large", "loads", "other"]);
        let of_loads = load_buckets(&variables, &redeploys);
        assert_eq!(Vec::from_iter(&of_loads), ["loads", "other"]);
    }
}
