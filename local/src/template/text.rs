//! Values of a template as texts.

use serde_json::Value;

/// A value as CloudFormation compares it and hands it on.
pub(super) fn text(value: &Value) -> String {
    value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_owned)
}
