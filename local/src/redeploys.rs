//! Updates of the functions' configuration at their times.

use std::collections::BTreeMap;
use std::sync::Arc;

use emulators::lambda::Function;
use tokio::task::JoinHandle;

use crate::faults::{Faults, Redeploy};

/// The updates of a run; those that have not come to pass do not when this is dropped.
#[derive(Debug)]
pub struct Redeploys {
    redeploys: Vec<Redeploy>,
    task: JoinHandle<()>,
}

impl Redeploys {
    /// Updates the functions whenever the burst has begun long enough ago; `redeploys` are in order.
    ///
    /// # Panics
    /// Outside of a Tokio runtime.
    pub fn start(
        redeploys: &[Redeploy],
        functions: [Function; 2],
        faults: Arc<Faults>,
    ) -> Redeploys {
        let redeploys = redeploys.to_vec();
        let to_come = redeploys.clone();
        let task = tokio::spawn(async move {
            for redeploy in to_come {
                faults.timeline().reaches(redeploy.at).await;
                let replaced = functions
                    .iter()
                    .map(|function| function.redeploy(&redeploy.variables))
                    .sum();
                faults.redeployed(&redeploy, replaced);
            }
        });
        Redeploys { redeploys, task }
    }

    /// What each of them changes, in order.
    pub fn variables(&self) -> impl Iterator<Item = &BTreeMap<String, String>> {
        self.redeploys.iter().map(|redeploy| &redeploy.variables)
    }

    /// No more of them.
    pub fn stop(&self) {
        self.task.abort();
    }
}

impl Drop for Redeploys {
    fn drop(&mut self) {
        self.stop();
    }
}
