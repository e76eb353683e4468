//! ARNs and ids in the format of AWS.

use std::hash::{BuildHasher, RandomState};
use std::time::SystemTime;

use super::limits::{ACCOUNT_ID, REGION};

pub(super) fn function_arn(name: &str) -> String {
    format!("arn:aws:lambda:{REGION}:{ACCOUNT_ID}:function:{name}")
}

/// Returns a random UUID (version 4), as Lambda's request ids are. It is unique but not unpredictable: the randomness comes
/// from the hash keys of the standard library.
pub(super) fn random_id() -> String {
    uuid::Builder::from_random_bytes(random_u128().to_be_bytes())
        .into_uuid()
        .to_string()
}

/// Returns a new X-Ray trace header that is not sampled.
pub(super) fn trace_id() -> String {
    let seconds = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .map_or(0, |age| age.as_secs());
    let (root, parent) = (random_u128() >> 32, random_u128() >> 64);
    format!("Root=1-{seconds:08x}-{root:024x};Parent={parent:016x};Sampled=0")
}

fn random_u128() -> u128 {
    let random = || u128::from(RandomState::new().hash_one(SystemTime::now()));
    random() << 64 | random()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn request_ids_look_like_lambdas_and_differ() {
        let id = uuid::Uuid::parse_str(&random_id()).unwrap();
        assert_eq!(id.get_version_num(), 4);
        let ids: std::collections::BTreeSet<String> = (0..1000).map(|_| random_id()).collect();
        assert_eq!(ids.len(), 1000);
        assert_eq!(
            trace_id().len(),
            "Root=1-".len() + 8 + 1 + 24 + ";Parent=".len() + 16 + ";Sampled=0".len()
        );
    }
}
