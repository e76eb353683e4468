//! A conditional update of an item of the batch table.
//!
//! In every expression, `#name` is the attribute `name`, because several attribute names are reserved words.

use std::collections::{BTreeSet, HashMap};

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::operation::update_item::builders::UpdateItemFluentBuilder;
use aws_sdk_dynamodb::types::AttributeValue;
use protocol::batch::Status;
use protocol::ids::{BatchId, LeaseOwner};

use crate::attributes::{n, s};
use crate::batch_items::{BATCH_ID, status_shard};

/// A conditional update. The value that an attribute is set to has its name: `#dueAt = :dueAt`.
#[derive(Debug, Default)]
pub(crate) struct Update {
    pub(crate) condition: String,
    set: Vec<String>,
    removed: Vec<String>,
    added: Vec<String>,
    values: HashMap<String, AttributeValue>,
}

impl Update {
    /// Returns an update under this condition, which changes nothing yet.
    pub(crate) fn under(condition: impl Into<String>) -> Update {
        Update {
            condition: condition.into(),
            ..Update::default()
        }
    }

    /// Returns an update by the owner of the lease.
    pub(crate) fn leased(owner: &LeaseOwner) -> Update {
        Update::under("#lockedBy = :owner").with(":owner", s(owner.as_str()))
    }

    /// Returns an update of a batch with this status.
    pub(crate) fn in_status(status: Status) -> Update {
        Update::under("#status = :was").with(":was", s(status.as_str()))
    }

    /// Adds a demand to the condition. An `OR` on either side needs parentheses of its own.
    pub(crate) fn and(mut self, condition: &str) -> Update {
        self.condition = format!("{} AND {condition}", self.condition);
        self
    }

    /// Demands that `number`, which is an expression of the attribute `path`, is `count`. At 0, the attribute is absent.
    pub(crate) fn and_count(self, path: &str, number: &str, count: u64) -> Update {
        match count {
            0 => self.and(&format!("attribute_not_exists({path})")),
            _ => self
                .and(&format!("{number} = :count"))
                .with(":count", n(count)),
        }
    }

    /// Passes the value of a placeholder.
    pub(crate) fn with(mut self, placeholder: &str, value: AttributeValue) -> Update {
        self.values.insert(placeholder.to_owned(), value);
        self
    }

    /// Sets an attribute; without a value, it stays as it is.
    pub(crate) fn set(self, path: &str, value: impl Into<Option<AttributeValue>>) -> Update {
        let placeholder = placeholder(path);
        match value.into() {
            Some(value) => self
                .assign(format!("{path} = {placeholder}"))
                .with(&placeholder, value),
            None => self,
        }
    }

    /// Sets an attribute; without a value, it is removed.
    pub(crate) fn set_or_remove(self, path: &str, value: Option<AttributeValue>) -> Update {
        match value {
            Some(value) => self.set(path, value),
            None => self.remove(path),
        }
    }

    /// Adds `assignment` to the clause `SET` as it is: `#path = expression`, for a value that DynamoDB makes of what the item
    /// has, such as `#quarantine = if_not_exists(#quarantine, :reason)`. [`with`](Self::with) passes the values of placeholders.
    pub(crate) fn assign(mut self, assignment: impl Into<String>) -> Update {
        self.set.push(assignment.into());
        self
    }

    /// Appends an element to a list. The attribute is absent until there is one.
    pub(crate) fn append(self, path: &str, element: AttributeValue) -> Update {
        let list = format!("list_append(if_not_exists({path}, :none), :elements)");
        self.assign(format!("{path} = {list}"))
            .with(":none", AttributeValue::L(Vec::new()))
            .with(":elements", AttributeValue::L(vec![element]))
    }

    /// Removes one attribute, or several with commas between them.
    pub(crate) fn remove(mut self, paths: &str) -> Update {
        self.removed.push(paths.to_owned());
        self
    }

    /// Adds to a number. The attribute may be absent at 0.
    pub(crate) fn add(mut self, path: &str, number: u64) -> Update {
        let placeholder = placeholder(path) + "Added";
        self.added.push(format!("{path} {placeholder}"));
        self.with(&placeholder, n(number))
    }

    /// Gives the batch a status.
    pub(crate) fn with_status(self, status: Status, batch: BatchId) -> Update {
        self.set("#status", s(status.as_str()))
            .set("#statusShard", status_shard(status, batch))
    }

    /// Returns the request for the item of `table` with this key.
    pub(crate) fn request(
        self,
        client: &Client,
        table: &str,
        key: &str,
    ) -> UpdateItemFluentBuilder {
        client
            .update_item()
            .table_name(table)
            .key(BATCH_ID, s(key))
            .update_expression(self.expression())
            .set_expression_attribute_names(Some(self.names()))
            .condition_expression(self.condition)
            .set_expression_attribute_values(Some(self.values))
    }

    fn expression(&self) -> String {
        let clauses = [
            ("SET", &self.set),
            ("REMOVE", &self.removed),
            ("ADD", &self.added),
        ];
        let clauses = clauses.iter().filter(|(_, parts)| !parts.is_empty());
        let clauses = clauses.map(|(keyword, parts)| format!("{keyword} {}", parts.join(", ")));
        Vec::from_iter(clauses).join(" ")
    }

    /// Returns the `#name`s of both expressions, each with its attribute.
    fn names(&self) -> HashMap<String, String> {
        let names = self.placeholders('#').into_iter();
        names.map(|name| (format!("#{name}"), name)).collect()
    }

    /// Returns whether the expressions have exactly the values that are passed with them. DynamoDB refuses any other update.
    pub(crate) fn has_its_values(&self) -> bool {
        let passed = self.values.keys().map(|name| name[1..].to_owned());
        self.placeholders(':') == BTreeSet::from_iter(passed)
    }

    /// Returns the placeholders of both expressions that begin with `sign`, without the sign.
    fn placeholders(&self, sign: char) -> BTreeSet<String> {
        let text = format!("{} {}", self.condition, self.expression());
        let placeholders = text.split(sign).skip(1);
        placeholders
            .map(|rest| {
                rest.chars()
                    .take_while(char::is_ascii_alphanumeric)
                    .collect()
            })
            .collect()
    }
}

/// Returns the placeholder of the value that an attribute is set to.
fn placeholder(path: &str) -> String {
    let (_, name) = path.rsplit_once('#').unwrap_or(("", path));
    format!(":{name}")
}
