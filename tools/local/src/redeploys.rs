//! Updates the configuration and the code of the functions during a run.

use std::collections::BTreeMap;
use std::sync::Arc;

use emulators::lambda::Function;
use tokio::task::JoinHandle;

use crate::faults::{Faults, FunctionName, Redeploy};

/// The updates of a run. Dropping this cancels those that are still to come.
#[derive(Debug)]
pub struct Redeploys {
    redeploys: Vec<Redeploy>,
    task: JoinHandle<()>,
}

impl Redeploys {
    /// Starts a task that makes each update of the aggregator and the batch-processor at its time after the start of the
    /// burst. `redeploys` must be sorted by time.
    pub fn start(
        redeploys: &[Redeploy],
        [aggregator, batch_processor]: [Function; 2],
        faults: Arc<Faults>,
    ) -> Redeploys {
        let redeploys = redeploys.to_vec();
        let to_come = redeploys.clone();
        let task = tokio::spawn(async move {
            for redeploy in to_come {
                faults.timeline.wait_until(redeploy.at).await;
                let variables = &redeploy.variables;
                let replaced = match &redeploy.code {
                    None => aggregator.redeploy(variables) + batch_processor.redeploy(variables),
                    Some(code) => match code.function {
                        FunctionName::Aggregator => &aggregator,
                        FunctionName::BatchProcessor => &batch_processor,
                    }
                    .redeploy_code(&code.bootstrap),
                };
                faults.record_redeploy(&redeploy, replaced);
            }
        });
        Redeploys { redeploys, task }
    }

    /// Returns the variables that each update changes, in order, whether it was made or not.
    pub fn variables(&self) -> impl Iterator<Item = &BTreeMap<String, String>> {
        self.redeploys.iter().map(|redeploy| &redeploy.variables)
    }

    /// Cancels the updates that are still to come.
    pub fn stop(&self) {
        self.task.abort();
    }
}

impl Drop for Redeploys {
    fn drop(&mut self) {
        self.stop();
    }
}
