//! ARNs and ids in the format of AWS.

use std::time::SystemTime;

use uuid::Uuid;

use super::limits::{ACCOUNT_ID, REGION};

pub(super) fn function_arn(name: &str) -> String {
    format!("arn:aws:lambda:{REGION}:{ACCOUNT_ID}:function:{name}")
}

/// Returns a random UUID, as Lambda's request ids are.
pub(super) fn random_id() -> String {
    Uuid::new_v4().to_string()
}

/// Returns a new X-Ray trace header that is not sampled.
pub(super) fn trace_id() -> String {
    let age = SystemTime::UNIX_EPOCH.elapsed();
    let seconds = age.map_or(0, |age| age.as_secs());
    let (root, parent) = (fastrand::u128(..) >> 32, fastrand::u64(..));
    format!("Root=1-{seconds:08x}-{root:024x};Parent={parent:016x};Sampled=0")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trace_ids_have_the_length_of_lambdas() {
        let length = "Root=1-".len() + 8 + 1 + 24 + ";Parent=".len() + 16 + ";Sampled=0".len();
        assert_eq!(trace_id().len(), length);
    }
}
