//! A conditional update of one item.
//!
//! In every expression, `#name` is the attribute `name`, because several attribute names are reserved words.

use std::collections::{BTreeSet, HashMap};

use aws_sdk_dynamodb::types::AttributeValue;
use protocol::seqs::SeqSet;

use super::attributes::{n, seqs_value};

/// Permits a write to a batch record by the owner of the lease.
pub(super) const LEASED: &str = "#lockedBy = :owner";

/// A conditional update.
#[derive(Debug)]
pub(super) struct Update {
    pub(super) condition: String,
    pub(super) expression: String,
    pub(super) names: HashMap<String, String>,
    pub(super) values: HashMap<String, AttributeValue>,
}

impl Update {
    pub(super) fn new<const N: usize>(
        condition: impl Into<String>,
        expression: impl Into<String>,
        values: [(&str, AttributeValue); N],
    ) -> Update {
        let (condition, expression) = (condition.into(), expression.into());
        let names = names(&condition).chain(names(&expression)).collect();
        let values = values
            .into_iter()
            .map(|(name, value)| (name.to_owned(), value))
            .collect();
        Update {
            condition,
            expression,
            names,
            values,
        }
    }

    pub(super) fn with(mut self, name: &str, value: AttributeValue) -> Update {
        self.values.insert(name.to_owned(), value);
        self
    }

    /// Returns whether the expressions have exactly the values that are passed with them. DynamoDB refuses any other update.
    pub(super) fn has_its_values(&self) -> bool {
        let named = [&self.condition, &self.expression].map(|text| placeholders(text, ':'));
        let named: BTreeSet<_> = named.into_iter().flatten().collect();
        let passed = self.values.keys().map(|name| name[1..].to_owned());
        named == passed.collect::<BTreeSet<_>>()
    }
}

/// Returns the `#name`s of an expression, each with its attribute.
fn names(expression: &str) -> impl Iterator<Item = (String, String)> {
    placeholders(expression, '#').map(|name| (format!("#{name}"), name))
}

/// Returns the placeholders of an expression that begin with `sign`, without the sign.
fn placeholders(expression: &str, sign: char) -> impl Iterator<Item = String> {
    expression.split(sign).skip(1).map(|rest| {
        rest.chars()
            .take_while(char::is_ascii_alphanumeric)
            .collect()
    })
}

/// Returns an update whose condition also demands exactly `parts` parts. Without a part, the attribute is absent.
pub(super) fn with_parts<const N: usize>(
    condition: String,
    parts: usize,
    expression: &str,
    values: [(&'static str, AttributeValue); N],
) -> Update {
    match parts {
        0 => {
            let condition = format!("{condition} AND attribute_not_exists(#parts)");
            Update::new(condition, expression, values)
        }
        _ => {
            let condition = format!("{condition} AND size(#parts) = :parts");
            Update::new(condition, expression, values).with(":parts", n(parts))
        }
    }
}

/// Returns `set`, which begins with `SET`, such that it also writes each of `sets` to its attribute, and the values. An
/// empty set has no attribute.
pub(super) fn with_sets(
    mut set: String,
    sets: &[(&str, &SeqSet)],
) -> (String, Vec<(String, AttributeValue)>) {
    let mut values = Vec::new();
    let mut empty = Vec::new();
    for (name, seqs) in sets {
        match seqs_value(seqs) {
            Some(value) => {
                set += &format!(", #{name} = :{name}");
                values.push((format!(":{name}"), value));
            }
            None => empty.push(format!("#{name}")),
        }
    }
    if !empty.is_empty() {
        set += &format!(" REMOVE {}", empty.join(", "));
    }
    (set, values)
}
