//! A conditional update of one item.
//!
//! In every expression, `#name` is the attribute `name`, because several attribute names are reserved words.

use std::collections::HashMap;

use aws_sdk_dynamodb::types::AttributeValue;

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
}

/// Returns the `#name`s of an expression, each with its attribute.
fn names(expression: &str) -> impl Iterator<Item = (String, String)> {
    expression.split('#').skip(1).map(|rest| {
        let name: String = rest
            .chars()
            .take_while(char::is_ascii_alphanumeric)
            .collect();
        (format!("#{name}"), name)
    })
}
