//! Classifies whether a bucket keeps the bodies stored in it for as long as their batches may need them.
//!
//! A body is an object under `<batchId>/<seq>`. The batch-processor removes it once its claim is released; until then,
//! no lifecycle rule of the bucket may remove it. `shared` reads the rules, and this module classifies them.

use crate::limits::{OVERFLOW_DAYS_MIN, SQS_MESSAGE_BYTES_MAX};

/// A rule of a bucket's lifecycle that removes objects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExpirationRule {
    /// S3 gives an id to a rule that has none.
    pub id: String,
    /// Whether S3 applies the rule.
    pub enabled: bool,
    /// The rule covers keys that begin with this; the empty prefix covers all keys.
    pub prefix: String,
    /// Whether the rule covers only objects that have tags.
    pub tagged: bool,
    /// The rule covers only objects of more bytes than this.
    pub larger_than_bytes: Option<u64>,
    /// Days after which the rule removes an object. 0 for a rule with a date, because S3 removes every object from that
    /// date on.
    /// Source: <https://docs.aws.amazon.com/AmazonS3/latest/userguide/intro-lifecycle-rules.html> (2026-11).
    pub days: u32,
}

impl ExpirationRule {
    /// Returns whether the rule removes bodies that a batch may still need.
    pub fn is_too_soon(&self) -> bool {
        // Bodies have no tags. A body of any size may be in the bucket, because the rest of its item may be large; so a
        // rule for small objects covers bodies too.
        let covers_bodies = self.enabled
            && !self.tagged
            && covers_keys_of_bodies(&self.prefix)
            && self
                .larger_than_bytes
                .is_none_or(|bytes| bytes < SQS_MESSAGE_BYTES_MAX as u64);
        covers_bodies && self.days < OVERFLOW_DAYS_MIN
    }
}

/// Returns whether the key of a body (a UUID in lower case, a slash, and digits) can begin with `prefix`.
fn covers_keys_of_bodies(prefix: &str) -> bool {
    const UUID_CHARS: usize = 36;
    prefix
        .bytes()
        .enumerate()
        .all(|(position, byte)| match position {
            8 | 13 | 18 | 23 => byte == b'-',
            0..UUID_CHARS => byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte),
            UUID_CHARS => byte == b'/',
            _ => byte.is_ascii_digit(),
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all_after(days: u32) -> ExpirationRule {
        ExpirationRule {
            id: "all".to_owned(),
            enabled: true,
            prefix: String::new(),
            tagged: false,
            larger_than_bytes: None,
            days,
        }
    }

    #[test]
    fn a_body_is_kept_for_a_month() {
        for (days, too_soon) in [(0, true), (1, true), (29, true), (30, false), (365, false)] {
            assert_eq!(all_after(days).is_too_soon(), too_soon, "{days} days");
        }
    }

    #[test]
    fn only_a_rule_in_force_that_covers_bodies_removes_them() {
        let mut larger = all_after(1);
        larger.larger_than_bytes = Some(1_048_575);
        assert!(larger.is_too_soon());
        larger.larger_than_bytes = Some(1_048_576);
        let mut disabled = all_after(1);
        disabled.enabled = false;
        let mut tagged = all_after(1);
        tagged.tagged = true;
        let mut elsewhere = all_after(1);
        elsewhere.prefix = "logs/".to_owned();
        for other in [larger, disabled, tagged, elsewhere] {
            assert!(!other.is_too_soon(), "{other:?}");
        }
    }

    #[test]
    fn every_prefix_of_a_bodys_key_covers_it() {
        let key = "0190163d-8694-739b-aea5-966c26f8ad91/1234";
        for end in 0..=key.len() {
            assert!(covers_keys_of_bodies(&key[..end]), "{}", &key[..end]);
        }
        for other in [
            "/",
            "g",
            "A",
            "0190163d8",
            "0190163d-8694-739b-aea5-966c26f8ad91-",
            "0190163d-8694-739b-aea5-966c26f8ad91/x",
            "logs/",
            "0190163d/",
        ] {
            assert!(!covers_keys_of_bodies(other), "{other}");
        }
    }
}
