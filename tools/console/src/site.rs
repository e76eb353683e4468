//! What a console is about. `batchctl` and `local` implement it.

use async_trait::async_trait;

use crate::page::{Field, Page};

/// The path and the fields of an address.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Address {
    /// The path, which begins with `/`.
    pub path: String,
    /// The fields after `?`, decoded.
    pub fields: Vec<(String, String)>,
}

impl Address {
    /// Returns the value of a field; `None` if it is missing or empty.
    pub fn field(&self, name: &str) -> Option<&str> {
        let mut fields = self.fields.iter();
        let found = fields.find(|(key, value)| key == name && !value.trim().is_empty());
        // Ids and keys may begin or end with a space.
        found.map(|(_, value)| value.as_str())
    }
}

/// Why there is no page, or why a verb does nothing.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum Problem {
    /// There is no such page.
    #[error("{0}")]
    NotFound(String),
    /// A field has a wrong value.
    #[error("{0}")]
    Wrong(String),
    /// The stack does not answer, or does not allow it.
    #[error("{0}")]
    Failed(String),
}

/// Something that can be done.
#[derive(Clone, Debug, PartialEq)]
pub struct Verb {
    /// Its name in addresses.
    pub name: String,
    /// Its name for people.
    pub title: String,
    /// What it does.
    pub about: String,
    /// What it must know.
    pub fields: Vec<Field>,
    /// Whether it shows first what it would do, and needs a reason.
    pub asks: bool,
}

/// What a verb would do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The name of the verb.
    pub verb: String,
    /// What it would do, for people.
    pub shown: String,
    /// What is to be done, and no more than was shown; empty if that is nothing.
    pub steps: Vec<String>,
    /// What it was decided by, if the steps alone do not say how much is done. The site does nothing if that has changed.
    pub seen: String,
}

/// Who has something done, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operator {
    /// The name.
    pub by: String,
    /// The reason.
    pub why: String,
}

/// How a job shows its progress, and learns that it should stop.
#[async_trait]
pub trait Course: Send + Sync {
    /// Shows how far the job is.
    fn show(&self, progress: String);

    /// Waits until somebody has the job stopped.
    async fn stopped(&self);
}

/// A stack with its pages and verbs.
#[async_trait]
pub trait Site: Send + Sync + 'static {
    /// Returns the name of the stack.
    fn name(&self) -> String;

    /// Returns the paths of the main pages, with their names. The first is where a session begins.
    fn menu(&self) -> Vec<(String, String)>;

    /// Reads a page.
    ///
    /// # Errors
    /// There is no such page, a field is wrong, or the stack does not answer.
    async fn page(&self, address: &Address) -> Result<Page, Problem>;

    /// Returns what can be done.
    fn verbs(&self) -> Vec<Verb>;

    /// Returns what a verb would do. Changes nothing.
    ///
    /// # Errors
    /// A field is wrong, or the stack does not answer.
    async fn plan(
        &self,
        verb: &str,
        fields: &Address,
        course: &dyn Course,
    ) -> Result<Plan, Problem>;

    /// Does what was planned. Returns what was done, for people.
    ///
    /// # Errors
    /// What failed, with what was done before.
    async fn carry_out(
        &self,
        plan: &Plan,
        operator: &Operator,
        course: &dyn Course,
    ) -> Result<String, Problem>;
}
