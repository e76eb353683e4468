//! Names of files that are not complete.
//!
//! Each attempt has names of its own. With a name that attempts share, one attempt could rename what another has uploaded
//! by half. It could also cut a complete file: OpenSSH renames by making a second link and removing the first, and a
//! connection that breaks between the two leaves both.

use std::time::Duration;

use protocol::limits::CLOCK_SKEW_MAX;
use uuid::Uuid;

use forms::Part;

const SUFFIX: &str = ".partial";

/// Returns a new name for a file of a part that is not complete, beside the file `name`. Its id holds the time. Names are as
/// [`Store::path`](crate::store::Store::path) takes them.
///
/// In the directory of the batch they are `.<name>.<id>.partial`, and every name there begins with the part's number. At a path
/// of `SINK_PATH` they are `.<batchId>-<part>.<id>.partial`: other parts may be there, and a name with room for an id may be too
/// long for a file system.
pub(super) fn new_name(part: &Part, name: &str) -> String {
    let id = Uuid::now_v7();
    match name.rsplit_once('/') {
        None => format!(".{name}.{id}{SUFFIX}"),
        Some((parent, _)) => format!("{parent}/{}{id}{SUFFIX}", start_at_path(part)),
    }
}

/// Returns whether a name is of a file of this part that is not complete.
pub(super) fn is_partial(part: &Part, name: &str) -> bool {
    let is_ours = match name.rsplit_once('/') {
        None => name.starts_with(&format!(".{}.", part.part_index)),
        Some((_, last)) => last.starts_with(&start_at_path(part)),
    };
    is_ours && id(name).is_some()
}

fn start_at_path(part: &Part) -> String {
    format!(".{}-{}.", part.batch_id, part.part_index)
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
    use crate::tests_support::{BATCH, part};

    #[test]
    fn a_partial_name_is_hidden_and_known_by_its_part() {
        let (one, eleven) = (part(1, &[]), part(11, &[]));
        let name = new_name(&one, "1.jsonl.gz");
        assert!(name.starts_with(".1.jsonl.gz.") && name.ends_with(".partial"));
        assert_ne!(name, new_name(&one, "1.jsonl.gz"));
        assert!(is_partial(&one, &name) && !is_partial(&eleven, &name));
        assert!(is_partial(&one, &new_name(&one, "1.manifest.json")));
        for other in ["1.jsonl", ".1.jsonl.partial", ".1.notes.partial"] {
            assert!(!is_partial(&one, other), "{other}");
        }
    }

    #[test]
    fn a_partial_file_at_a_path_is_beside_the_file_and_known_by_batch_and_part() {
        let (one, eleven) = (part(1, &[]), part(11, &[]));
        let mut other = part(1, &[]);
        other.batch_id = BATCH.replace('1', "2").parse().unwrap();
        for (path, parent) in [("/2026/11/ORDERS_1.txt", "/2026/11"), ("/ORDERS_1.txt", "")] {
            let name = new_name(&one, path);
            assert!(name.starts_with(&format!("{parent}/.{BATCH}-1.")), "{name}");
            assert!(is_partial(&one, &name) && !is_partial(&eleven, &name));
            assert!(!is_partial(&other, &name));
        }
        let of_batch = format!("/2026/.1.jsonl.{BATCH}.partial");
        assert!(!is_partial(&one, &of_batch));
        // A file system has names of at most 255 bytes.
        let long = format!("/{}", "x".repeat(222));
        assert!(new_name(&part(usize::MAX, &[]), &long).len() < 120);
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
