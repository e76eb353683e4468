//! An attribute in the JSON of a request to DynamoDB.

use std::borrow::Cow;

use serde::Deserialize;

/// A text: `{"S": "…"}`.
#[derive(Deserialize)]
pub(super) struct Text<'a> {
    #[serde(rename = "S", borrow)]
    pub(super) text: Cow<'a, str>,
}
