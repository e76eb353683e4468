//! Waits for the end of a burst.

use std::time::{Duration, Instant};

use anyhow::bail;
use loadgen::{Progress, Workload};
use protocol::batch::Status;

use crate::countdown::Countdown;
use crate::stack::{INPUT_QUEUE, Stack};

/// Time between two looks at the progress.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// Waits until the input queue is empty and every batch is complete or in error. Returns how long each took, from
/// `started`.
///
/// # Errors
/// There was no progress for `patience`, or the batch table cannot be read.
pub async fn wait_until_drained(
    stack: &Stack,
    workload: &Workload,
    started: Instant,
    patience: Duration,
) -> anyhow::Result<(Duration, Duration)> {
    let progress = Progress::new("taken off the queue", workload.len());
    let mut countdown = Countdown::default();
    let mut claimed_after = None;
    let mut last_change = (String::new(), Instant::now());
    loop {
        let depth = stack.sqs.depth(INPUT_QUEUE)?;
        let empty =
            depth.visible + depth.in_flight + depth.delayed == 0 && stack.input_mapping.idle();
        let stats = stack.input_mapping.stats();
        if claimed_after.is_none() {
            progress.set(stats.deleted.min(workload.len()));
        }
        let mut under_way = String::new();
        if empty {
            if claimed_after.is_none() {
                claimed_after = Some(started.elapsed());
                progress.finish();
                let secs = started.elapsed().as_secs_f64();
                eprintln!("input queue empty after {secs:.1} s; waiting for the last batches");
            }
            let mut batches = stack.batches_by_status().await?;
            batches.remove(&Status::Error);
            let noticed = stack.notices().is_none() || stack.notices_waiting().await? == 0;
            if noticed && batches.values().all(|count| *count == 0) {
                return Ok((claimed_after.unwrap_or_default(), started.elapsed()));
            }
            let mut all = batches.iter();
            let only_open = all.all(|(status, count)| *status == Status::Open || *count == 0);
            countdown.show(match only_open {
                true => stack.last_window().await?.filter(|left| !left.is_zero()),
                false => None,
            });
            under_way = format!("{batches:?}");
        }
        let tickets = stack.batch_mapping.stats();
        let state = format!("{depth:?} {stats:?} {under_way} {tickets:?}");
        if state != last_change.0 {
            last_change = (state, Instant::now());
        } else if last_change.1.elapsed() > patience {
            bail!(
                "no progress for {} s: input queue {depth:?}, batches {under_way}",
                patience.as_secs()
            );
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}
