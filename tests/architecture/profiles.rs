//! Checks the build profiles.

use std::collections::BTreeSet;

use crate::files::read;

/// Returns the packages that a table of the workspace's manifest sets, as in `rustls.opt-level = 0`.
fn packages<'a>(manifest: &'a str, table: &str) -> BTreeSet<&'a str> {
    let after = manifest.split_once(&format!("\n[{table}]\n"));
    let (_, table) = after.unwrap_or_else(|| panic!("a table [{table}]"));
    let lines = table.lines().take_while(|line| !line.starts_with('['));
    let packages = lines.filter_map(|line| Some(line.split_once(".opt-level")?.0));
    packages.collect()
}

/// A profile inherits the settings of single packages too, and they count for more than those of `"*"`. So a package that
/// `release` leaves slow would be slow in the functions.
#[test]
fn what_release_builds_without_optimisation_the_lambda_profile_sets_itself() {
    let manifest = read("Cargo.toml");
    let release = packages(&manifest, "profile.release.package");
    let lambda = packages(&manifest, "profile.lambda.package");
    assert!(!release.is_empty());
    let inherited: Vec<_> = release.difference(&lambda).collect();
    assert!(inherited.is_empty(), "inherited: {inherited:?}");
}
