//! Names of files that are not complete.
//!
//! Each attempt has names of its own. With a name that attempts share, one attempt could rename what another has uploaded
//! by half. It could also cut a complete file: OpenSSH renames by making a second link and removing the first, and a
//! connection that breaks between the two leaves both.

use std::time::Duration;

use protocol::ids::BatchId;
use protocol::limits::CLOCK_SKEW_MAX;
use uuid::Uuid;

const SUFFIX: &str = ".partial";

/// The names of the files of one part that are not complete. Names are as [`Store::path`](crate::store::Store::path) takes them.
///
/// In the directory of the batch they are `.<name>.<id>.partial`, and every name there begins with the part's number. At a path
/// of `SINK_PATH` they are `.<batchId>-<part>.<id>.partial`: other parts may be there, and a name with room for an id may be too
/// long for a file system.
pub(super) struct PartialOf {
    batch_id: BatchId,
    part: usize,
}

impl PartialOf {
    pub(super) const fn new(batch_id: BatchId, part: usize) -> PartialOf {
        PartialOf { batch_id, part }
    }

    /// Returns a new name for a file that is not complete, beside the file `name`. Its id holds the time.
    pub(super) fn new_name(&self, name: &str) -> String {
        let id = Uuid::now_v7();
        match name.rsplit_once('/') {
            None => format!(".{name}.{id}{SUFFIX}"),
            Some((parent, _)) => format!("{parent}/{}{id}{SUFFIX}", self.start_at_path()),
        }
    }

    /// Returns whether a name is of a file of this part that is not complete.
    pub(super) fn is(&self, name: &str) -> bool {
        let is_ours = match name.rsplit_once('/') {
            None => name.starts_with(&format!(".{}.", self.part)),
            Some((_, last)) => last.starts_with(&self.start_at_path()),
        };
        is_ours && id(name).is_some()
    }

    fn start_at_path(&self) -> String {
        format!(".{}-{}.", self.batch_id, self.part)
    }
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

    const BATCH: &str = "0190163d-8694-739b-aea5-966c26f8ad91";

    fn of(part: usize) -> PartialOf {
        PartialOf::new(BATCH.parse().unwrap(), part)
    }

    #[test]
    fn a_partial_name_is_hidden_and_known_by_its_part() {
        let name = of(1).new_name("1.jsonl.gz");
        assert!(name.starts_with(".1.jsonl.gz.") && name.ends_with(".partial"));
        assert_ne!(name, of(1).new_name("1.jsonl.gz"));
        assert!(of(1).is(&name) && !of(11).is(&name));
        assert!(of(1).is(&of(1).new_name("1.manifest.json")));
        for other in ["1.jsonl", ".1.jsonl.partial", ".1.notes.partial"] {
            assert!(!of(1).is(other), "{other}");
        }
    }

    #[test]
    fn a_partial_file_at_a_path_is_beside_the_file_and_known_by_batch_and_part() {
        for (path, parent) in [("/2026/11/ORDERS_1.txt", "/2026/11"), ("/ORDERS_1.txt", "")] {
            let name = of(1).new_name(path);
            assert!(name.starts_with(&format!("{parent}/.{BATCH}-1.")), "{name}");
            assert!(of(1).is(&name) && !of(11).is(&name));
            let other = PartialOf::new(BATCH.replace('1', "2").parse().unwrap(), 1);
            assert!(!other.is(&name));
        }
        assert!(!of(1).is("/2026/.1.jsonl.0190163d-8694-739b-aea5-966c26f8ad91.partial"));
        // A file system has names of at most 255 bytes.
        let long = format!("/{}", "x".repeat(222));
        assert!(of(usize::MAX).new_name(&long).len() < 120);
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
