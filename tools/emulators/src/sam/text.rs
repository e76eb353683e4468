//! Converts values of a template to texts.

use serde_json::Value;

/// Returns a value as the text that CloudFormation compares and passes on.
pub(super) fn text(value: &Value) -> String {
    let text = value.as_str().map(str::to_owned);
    text.unwrap_or_else(|| value.to_string())
}
