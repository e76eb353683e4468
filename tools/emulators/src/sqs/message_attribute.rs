//! Message attributes: types, values, and the rules for both.

use super::characters::first_disallowed;
use super::error::AttributeProblem;
use super::limits;

/// Name of the one system attribute that a sender may set: the X-Ray trace header.
pub(super) const TRACE_HEADER: &str = "AWSTraceHeader";

/// The data type and value of a message attribute.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MessageAttribute {
    /// `String`, `Number` or `Binary`, with an optional label after a period.
    pub data_type: String,
    /// Value of an attribute of type `String` or `Number`.
    pub string_value: Option<String>,
    /// Value of an attribute of type `Binary`.
    pub binary_value: Option<Vec<u8>>,
}

impl MessageAttribute {
    /// Makes an attribute of type `String`.
    pub fn string(value: impl Into<String>) -> Self {
        Self {
            data_type: "String".to_owned(),
            string_value: Some(value.into()),
            binary_value: None,
        }
    }

    /// Makes an attribute of type `Number`. The value is in decimal notation; it is checked when the message is sent.
    pub fn number(value: impl Into<String>) -> Self {
        Self {
            data_type: "Number".to_owned(),
            string_value: Some(value.into()),
            binary_value: None,
        }
    }

    /// Makes an attribute of type `Binary`.
    pub fn binary(value: impl Into<Vec<u8>>) -> Self {
        Self {
            data_type: "Binary".to_owned(),
            string_value: None,
            binary_value: Some(value.into()),
        }
    }

    /// Returns the data type without its label.
    fn base_type(&self) -> &str {
        self.data_type
            .split_once('.')
            .map_or(&*self.data_type, |(base, _label)| base)
    }

    pub(super) fn is_binary(&self) -> bool {
        self.base_type() == "Binary"
    }

    /// Returns the bytes of the value that belongs to the type; empty if it is missing.
    pub(super) fn value_bytes(&self) -> &[u8] {
        if self.is_binary() {
            self.binary_value.as_deref().unwrap_or_default()
        } else {
            self.string_value.as_deref().unwrap_or_default().as_bytes()
        }
    }

    pub(super) fn check(&self, name: &str) -> Result<(), AttributeProblem> {
        check_name(name)?;
        let typed = matches!(self.base_type(), "String" | "Number" | "Binary");
        if !typed || self.data_type.chars().count() > limits::ATTRIBUTE_NAME_CHARS_MAX {
            return Err(AttributeProblem::DataType);
        }
        let other_value_given = if self.is_binary() {
            self.string_value.is_some()
        } else {
            self.binary_value.is_some()
        };
        if self.value_bytes().is_empty() || other_value_given {
            return Err(AttributeProblem::Value);
        }
        if let Some(text) = &self.string_value {
            if first_disallowed(text).is_some() {
                return Err(AttributeProblem::Characters);
            }
            // Rust parses `inf` and `nan` as numbers, SQS does not.
            let digits_only = text
                .bytes()
                .all(|byte| matches!(byte, b'0'..=b'9' | b'+' | b'-' | b'.' | b'e' | b'E'));
            if self.base_type() == "Number" && !(digits_only && text.parse::<f64>().is_ok()) {
                return Err(AttributeProblem::Number);
            }
        }
        Ok(())
    }
}

fn check_name(name: &str) -> Result<(), AttributeProblem> {
    let allowed = name
        .bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.'));
    let sized = (1..=limits::ATTRIBUTE_NAME_CHARS_MAX).contains(&name.len());
    let periods_fit = !name.starts_with('.') && !name.ends_with('.') && !name.contains("..");
    if !(allowed && sized && periods_fit) {
        return Err(AttributeProblem::Name);
    }
    let lowered = name.to_ascii_lowercase();
    if lowered.starts_with("aws.") || lowered.starts_with("amazon.") {
        return Err(AttributeProblem::NameReserved);
    }
    Ok(())
}
