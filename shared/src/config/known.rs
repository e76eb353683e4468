//! The names of all settings: variables, and keys of the file.
//!
//! Both functions may have the same environment and the same file, so each knows the names that only the other reads. The names
//! are generated from the declarations.

/// A line for each variable, with its key if it has one.
const KNOWN: &str = include_str!("known.txt");

/// Settings that are read no more: each with its variable, its key, and what happens now.
const REMOVED: [(&str, &str, &str); 1] = [(
    "QUOTA_BEYOND",
    "quota.beyond",
    "an event beyond its quota always goes to the quarantine, from where `batchctl redrive` brings it back",
)];

/// Returns the name of every variable of both functions.
pub fn variable_names() -> impl Iterator<Item = &'static str> + Clone {
    KNOWN.lines().filter_map(|line| line.split(' ').next())
}

/// Returns every key that the file may have.
pub fn keys() -> impl Iterator<Item = &'static str> + Clone {
    KNOWN.lines().filter_map(|line| line.split(' ').nth(1))
}

/// Returns what happens now in place of a setting that is read no more, by its variable or its key.
pub(super) fn removed(setting: &str) -> Option<&'static str> {
    let mut removed = REMOVED.into_iter();
    removed.find_map(|(variable, key, now)| [variable, key].contains(&setting).then_some(now))
}

/// Returns the key of a variable.
pub(super) fn key_of(name: &str) -> Option<&'static str> {
    let mut pairs = KNOWN.lines().filter_map(|line| line.split_once(' '));
    pairs.find_map(|(variable, key)| (variable == name).then_some(key))
}
