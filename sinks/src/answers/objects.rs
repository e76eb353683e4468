//! Answers below a prefix in S3.

use async_trait::async_trait;
use aws::Sdk;
use protocol::time::Timestamp;

use super::place::{AnswerName, AnswerPlace, BYTES_MAX, is_answer};
use crate::place::BucketPlace;
use crate::s3::Objects;
use crate::sink::SinkError;

/// The objects below a prefix.
pub(crate) struct AnswerObjects(Objects);

impl AnswerObjects {
    pub(crate) fn new(sdk: &Sdk, place: &BucketPlace) -> AnswerObjects {
        AnswerObjects(Objects::new(sdk, place))
    }
}

#[async_trait]
impl AnswerPlace for AnswerObjects {
    /// An object is complete as soon as it is listed.
    async fn list(&self, _: Timestamp) -> Result<Vec<AnswerName>, SinkError> {
        let listed = self.0.list("").await?;
        let answers = listed.into_iter().filter(|(name, _)| {
            let base_name = name.rsplit('/').next().unwrap_or(name);
            !base_name.is_empty() && is_answer(base_name)
        });
        let answers = answers.map(|(name, tag)| AnswerName { name, tag });
        Ok(answers.collect())
    }

    async fn read(&self, name: &str) -> Result<Option<Vec<u8>>, SinkError> {
        self.0.read_at_most(name, BYTES_MAX).await
    }
}
