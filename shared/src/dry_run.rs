//! Dry runs: whether a function reaches the places that it uses, with the permissions that it has.
//!
//! An invocation without messages is a dry run. Only the check of a deployment sends one.

use std::time::Duration;

use futures::future::{BoxFuture, join_all};
use protocol::ids::{BatchId, EventId, ObjectId};
use protocol::retry::RetryPolicy;
use uuid::Uuid;

use crate::ports::Ports;
use crate::retry::Budget;

/// How long a place is tried. A place that another network hides does not reply at all.
pub const TIME: Duration = Duration::from_secs(20);
/// A batch that does not exist.
pub const NO_BATCH: BatchId = BatchId::new(Uuid::nil());
/// A load that no slot names.
pub const NO_LOAD: ObjectId = ObjectId::Load(Uuid::nil());

/// The problems that a dry run found, one text for each place that failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("dry run: {}", .problems.join("; "))]
pub struct DryRunFailed {
    /// Each names its place.
    pub problems: Vec<String>,
}

/// The trial of one place.
pub type Trial<'a> = BoxFuture<'a, Result<(), String>>;

/// Returns the id of an event that nobody sends.
///
/// # Errors
/// None: the id is valid.
pub fn no_event() -> Result<EventId, String> {
    EventId::try_from("dry-run".to_owned()).map_err(|error| error.to_string())
}

/// Reads a batch and a claim that do not exist.
pub fn of_tables<'a>(ports: &'a Ports, budget: Budget<'a>) -> Vec<Trial<'a>> {
    let batch = async move {
        let read = || ports.batch_store.read(NO_BATCH);
        called(budget, read).await
    };
    let claim = async move {
        let ids = [no_event()?];
        called(budget, || ports.lock_store.read(&ids)).await
    };
    vec![Box::pin(batch), Box::pin(claim)]
}

/// Calls a port as often as it takes; returns why it failed.
pub async fn called<T, F>(budget: Budget<'_>, call: impl FnMut() -> F) -> Result<(), String>
where
    F: Future<Output = Result<T, crate::ports::PortError>>,
{
    let called = budget.within(TIME).call(RetryPolicy::CONTROL, call).await;
    called.map(drop).map_err(|error| error.to_string())
}

/// Makes all trials at the same time.
///
/// # Errors
/// [`DryRunFailed`] with the problem of each failed trial.
pub async fn all(trials: Vec<Trial<'_>>) -> Result<(), DryRunFailed> {
    let tried = join_all(trials).await;
    let problems: Vec<String> = tried.into_iter().filter_map(Result::err).collect();
    match problems.is_empty() {
        true => Ok(()),
        false => Err(DryRunFailed { problems }),
    }
}
