//! `--bodies`: where the bodies of batches go, and the buckets for them.

use std::collections::{BTreeMap, BTreeSet};

use aggregator::config::{BODIES, OVERFLOW_BUCKET};
use anyhow::bail;
use clap::ValueEnum;
use protocol::bodies::{Bodies, S3Prefix};

use crate::faults::Redeploy;

/// A place for the bodies of batches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum BodiesKind {
    /// Each body in its lock item
    Items,
    /// Chunks as items of the batch table
    Table,
    /// Chunks as objects of the S3 stand-in; needs the cargo feature `s3`
    S3,
}

impl BodiesKind {
    /// Returns the value of `BODIES`.
    pub fn value(self) -> &'static str {
        match self {
            BodiesKind::Items => "items",
            BodiesKind::Table => "table",
            BodiesKind::S3 => "s3://chunks/chunks",
        }
    }
}

/// Sets `BODIES` from the flag, and replaces the values `s3` of redeploys by a place in the S3 stand-in.
///
/// # Errors
/// `BODIES` is set beside the flag, or a value is in S3 and this build has no stand-in for S3.
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
            && value == "s3"
        {
            *value = BodiesKind::S3.value().to_owned();
        }
    }
    check_build(
        &values(variables, redeploys, BODIES.name),
        cfg!(feature = "s3"),
    )
}

/// Fails if a value of `BODIES` is in S3 and this build has no stand-in for S3.
fn check_build(values: &[&str], has_s3: bool) -> anyhow::Result<()> {
    if !has_s3 && values.iter().any(|value| value.starts_with("s3")) {
        bail!(
            "`BODIES`: in S3: expected a build with the cargo feature `s3`; run \
             `cargo run --release -p local --features s3 -- burst --bodies s3`"
        );
    }
    Ok(())
}

/// Returns the buckets that the variables name for bodies, at first and after redeploys.
pub fn buckets(variables: &BTreeMap<String, String>, redeploys: &[Redeploy]) -> BTreeSet<String> {
    let overflow = values(variables, redeploys, OVERFLOW_BUCKET.name);
    let mut buckets = chunk_buckets(variables, redeploys);
    buckets.extend(overflow.into_iter().map(str::to_owned));
    buckets
}

/// Returns the buckets that the variables name for chunks, at first and after redeploys.
pub fn chunk_buckets(
    variables: &BTreeMap<String, String>,
    redeploys: &[Redeploy],
) -> BTreeSet<String> {
    let bodies = values(variables, redeploys, BODIES.name).into_iter();
    let buckets = bodies.filter_map(|value| match value.parse() {
        Ok(Bodies::S3(S3Prefix { bucket, .. })) => Some(bucket.to_string()),
        Ok(Bodies::Items | Bodies::Table) | Err(_) => None,
    });
    buckets.collect()
}

fn values<'a>(
    variables: &'a BTreeMap<String, String>,
    redeploys: &'a [Redeploy],
    name: &str,
) -> Vec<&'a str> {
    let redeployed = redeploys.iter().map(|redeploy| &redeploy.variables);
    std::iter::once(variables)
        .chain(redeployed)
        .filter_map(|variables| variables.get(name).map(String::as_str))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bucket_of_bodies_is_created() {
        let mut variables = BTreeMap::from([("OVERFLOW_BUCKET".to_owned(), "large".to_owned())]);
        let texts = [
            "1:BODIES=s3",
            "2:BODIES=table",
            "3:BODIES=s3://other/a,MAX_BATCH_SIZE=5",
        ];
        let mut redeploys = texts.map(|text| text.parse::<Redeploy>().unwrap());
        set_variable(Some(BodiesKind::Items), &mut variables, &mut redeploys).unwrap();
        assert_eq!(variables["BODIES"], "items");
        let buckets = buckets(&variables, &redeploys);
        assert_eq!(Vec::from_iter(&buckets), ["chunks", "large", "other"]);
        let of_chunks = chunk_buckets(&variables, &redeploys);
        assert_eq!(Vec::from_iter(&of_chunks), ["chunks", "other"]);
    }

    #[test]
    fn the_flag_beside_the_variable_is_refused() {
        let mut variables = BTreeMap::from([("BODIES".to_owned(), "table".to_owned())]);
        let error = set_variable(Some(BodiesKind::Items), &mut variables, &mut []).unwrap_err();
        assert!(error.to_string().contains("not with `BODIES`"), "{error}");
    }

    #[test]
    fn a_build_without_s3_refuses_bodies_in_s3_and_says_how_to_build_with_it() {
        let (in_s3, others) = (["items", "s3://chunks/chunks"], ["items", "table"]);
        let error = check_build(&in_s3, false).unwrap_err().to_string();
        assert!(error.contains("--features s3"), "{error}");
        check_build(&others, false).unwrap();
        check_build(&in_s3, true).unwrap();
    }
}
