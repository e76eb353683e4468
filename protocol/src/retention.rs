//! Whether a bucket keeps the bodies that overflowed to it for as long as their batches may need them.
//!
//! A body is an object under `<batchId>/<seq>`, and is removed once its claim is released; until then nothing else may remove it.
//! What a bucket's lifecycle says is read elsewhere; here it is judged.

use crate::limits::{OVERFLOW_DAYS_MIN, SQS_MESSAGE_BYTES_MAX};

/// A rule of a bucket's lifecycle that removes objects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExpirationRule {
    /// What it is called; S3 gives a name to what has none.
    pub id: String,
    /// Whether S3 follows it.
    pub enabled: bool,
    /// What the keys begin with that it covers; all keys begin with nothing.
    pub prefix: String,
    /// Whether it covers only objects that have tags.
    pub tagged: bool,
    /// It covers only objects of more bytes than these.
    pub larger_than_bytes: Option<u64>,
    /// How many days after they were put there it removes objects. None at all for a rule with a date: from then on S3
    /// removes objects as they come.
    /// Source: <https://docs.aws.amazon.com/AmazonS3/latest/userguide/intro-lifecycle-rules.html> (2026-11).
    pub days: u32,
}

impl ExpirationRule {
    /// Whether it removes bodies that a batch may still need.
    pub fn is_too_soon(&self) -> bool {
        // Bodies have no tags. How small one may be depends on what else its item holds, so that a largest size
        // excludes none for sure.
        let covers_bodies = self.enabled
            && !self.tagged
            && is_of_bodies(&self.prefix)
            && self
                .larger_than_bytes
                .is_none_or(|bytes| bytes < SQS_MESSAGE_BYTES_MAX as u64);
        covers_bodies && self.days < OVERFLOW_DAYS_MIN
    }
}

/// Whether the key of a body can begin so: a UUID in lower case, a slash, and digits.
fn is_of_bodies(prefix: &str) -> bool {
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
        let rule = all_after(1);
        let larger_than = |bytes| ExpirationRule {
            larger_than_bytes: Some(bytes),
            ..rule.clone()
        };
        assert!(larger_than(1_048_575).is_too_soon());
        let disabled = ExpirationRule {
            enabled: false,
            ..rule.clone()
        };
        let tagged = ExpirationRule {
            tagged: true,
            ..rule.clone()
        };
        let elsewhere = ExpirationRule {
            prefix: "logs/".to_owned(),
            ..rule.clone()
        };
        for other in [disabled, tagged, elsewhere, larger_than(1_048_576)] {
            assert!(!other.is_too_soon(), "{other:?}");
        }
    }

    #[test]
    fn every_beginning_of_a_bodys_key_covers_it() {
        let key = "0190163d-8694-739b-aea5-966c26f8ad91/1234";
        for end in 0..=key.len() {
            assert!(is_of_bodies(&key[..end]), "{}", &key[..end]);
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
            assert!(!is_of_bodies(other), "{other}");
        }
    }
}
