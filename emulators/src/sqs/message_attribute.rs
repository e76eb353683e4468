//! Attributes of a message: their types and values, and what is wrong with one.

use super::characters::first_disallowed;
use super::error::AttributeFault;
use super::limits;

/// An attribute of a message: a data type and the value that goes with it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MessageAttribute {
    /// `String`, `Number` or `Binary`, with an optional label after a period.
    pub data_type: String,
    /// Value of a `String` or a `Number`.
    pub string_value: Option<String>,
    /// Value of a `Binary`.
    pub binary_value: Option<Vec<u8>>,
}

impl MessageAttribute {
    /// An attribute of type `String`.
    pub fn string(value: impl Into<String>) -> Self {
        Self {
            data_type: "String".to_owned(),
            string_value: Some(value.into()),
            binary_value: None,
        }
    }

    /// An attribute of type `Number`, in decimal notation.
    pub fn number(value: impl Into<String>) -> Self {
        Self {
            data_type: "Number".to_owned(),
            string_value: Some(value.into()),
            binary_value: None,
        }
    }

    /// An attribute of type `Binary`.
    pub fn binary(value: impl Into<Vec<u8>>) -> Self {
        Self {
            data_type: "Binary".to_owned(),
            string_value: None,
            binary_value: Some(value.into()),
        }
    }

    /// The type without its label.
    fn base_type(&self) -> &str {
        self.data_type
            .split_once('.')
            .map_or(&*self.data_type, |(base, _label)| base)
    }

    /// Whether the value is the binary one.
    pub(super) fn is_binary(&self) -> bool {
        self.base_type() == "Binary"
    }

    /// The value, whatever its type; empty if it is missing.
    pub(super) fn value_bytes(&self) -> &[u8] {
        if self.is_binary() {
            self.binary_value.as_deref().unwrap_or_default()
        } else {
            self.string_value.as_deref().unwrap_or_default().as_bytes()
        }
    }

    pub(super) fn check(&self, name: &str) -> Result<(), AttributeFault> {
        check_name(name)?;
        let typed = matches!(self.base_type(), "String" | "Number" | "Binary");
        if !typed || self.data_type.chars().count() > limits::ATTRIBUTE_NAME_CHARS_MAX {
            return Err(AttributeFault::DataType);
        }
        let other_value_given = if self.is_binary() {
            self.string_value.is_some()
        } else {
            self.binary_value.is_some()
        };
        if self.value_bytes().is_empty() || other_value_given {
            return Err(AttributeFault::Value);
        }
        if let Some(text) = &self.string_value {
            if first_disallowed(text).is_some() {
                return Err(AttributeFault::Characters);
            }
            // `inf` and `nan` parse as numbers in Rust, not in SQS.
            let digits_only = text
                .bytes()
                .all(|byte| matches!(byte, b'0'..=b'9' | b'+' | b'-' | b'.' | b'e' | b'E'));
            if self.base_type() == "Number" && !(digits_only && text.parse::<f64>().is_ok()) {
                return Err(AttributeFault::Number);
            }
        }
        Ok(())
    }
}

fn check_name(name: &str) -> Result<(), AttributeFault> {
    let allowed = name
        .bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.'));
    let sized = (1..=limits::ATTRIBUTE_NAME_CHARS_MAX).contains(&name.len());
    let periods_fit = !name.starts_with('.') && !name.ends_with('.') && !name.contains("..");
    if !(allowed && sized && periods_fit) {
        return Err(AttributeFault::Name);
    }
    let lowered = name.to_ascii_lowercase();
    if lowered.starts_with("aws.") || lowered.starts_with("amazon.") {
        return Err(AttributeFault::NameReserved);
    }
    Ok(())
}
