//! Names of files that are not complete.
//!
//! Each attempt has names of its own. With a name that attempts share, one attempt could rename what another has uploaded
//! by half. It could also cut a complete file: OpenSSH renames by making a second link and removing the first, and a
//! connection that breaks between the two leaves both.

use std::time::Duration;

use protocol::limits::CLOCK_SKEW_MAX;
use uuid::Uuid;

const SUFFIX: &str = ".partial";

/// Returns a new name for a file that is not complete. Its id holds the time.
pub(super) fn partial_name(name: &str) -> String {
    format!(".{name}.{}{SUFFIX}", Uuid::now_v7())
}

/// Returns whether a name is of a file of this part that is not complete.
pub(super) fn is_partial_of(name: &str, part: usize) -> bool {
    id(name).is_some() && name.starts_with(&format!(".{part}."))
}

/// Returns whether the attempt that made a partial file ended before `now`, if an attempt takes at most `timeout`. Another
/// environment's clock made the name.
pub(super) fn is_abandoned(name: &str, timeout: Duration, now: Uuid) -> bool {
    let age = id(name).and_then(|id| time(now)?.checked_sub(time(id)?));
    age.is_some_and(|age| age > timeout + CLOCK_SKEW_MAX)
}

fn id(name: &str) -> Option<Uuid> {
    let (_, id) = name.strip_suffix(SUFFIX)?.rsplit_once('.')?;
    id.parse().ok()
}

fn time(id: Uuid) -> Option<Duration> {
    let (secs, nanos) = id.get_timestamp()?.to_unix();
    Some(Duration::new(secs, nanos))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_partial_name_is_hidden_and_known_by_its_part() {
        let name = partial_name("1.jsonl.gz");
        assert!(name.starts_with(".1.jsonl.gz.") && name.ends_with(".partial"));
        assert_ne!(name, partial_name("1.jsonl.gz"));
        assert!(is_partial_of(&name, 1) && !is_partial_of(&name, 11));
        assert!(is_partial_of(&partial_name("1.manifest.json"), 1));
        for other in ["1.jsonl", ".1.jsonl.partial", ".1.notes.partial"] {
            assert!(!is_partial_of(other, 1), "{other}");
        }
    }

    #[test]
    fn a_partial_file_is_abandoned_when_its_attempt_must_have_ended() {
        let at = |secs: u64| {
            uuid::Builder::from_unix_timestamp_millis(secs * 1_000, &[0; 10]).into_uuid()
        };
        let name = format!(".1.jsonl.{}.partial", at(1_000));
        let abandoned = |now| is_abandoned(&name, Duration::from_secs(30), at(now));
        assert!(!abandoned(900) && !abandoned(1_031) && abandoned(1_033));
    }
}
