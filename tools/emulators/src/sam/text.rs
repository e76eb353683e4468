//! Converts values of a template to texts.

use serde_json::Value;

/// Returns a value as the text that CloudFormation compares and passes on.
pub(super) fn text(value: &Value) -> String {
    value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_owned)
}
