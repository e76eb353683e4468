//! Incidents of the runbook that a person ends in a browser, who follows what the pages say and has no command line.
//!
//! What breaks the stack, and what is put right outside of it, is done by the tests, as in the rehearsals of the runbook.

use std::fs;
use std::time::Duration;

use loadgen::DuplicateRule;
use local::stack::{BATCH_QUEUE, INPUT_DEAD_LETTER_QUEUE, INPUT_QUEUE, QUARANTINE_QUEUE};
use serde_json::Value;
use tokio::process::Child;

use super::visitor::{carry_out, click, look, until};
use crate::batchctl::Batchctl;
use crate::browser::{Browser, Look, Page};
use crate::events::claim;
use crate::executables::{end, signal, started};
use crate::interrupts::lines_until;
use crate::rig::{Rig, Setup, now_ms, workload};

const LOOK: Look = Look {
    width: 1_400,
    dark: false,
};

/// A console of a stack, and the browser of who is on call.
struct OnCall {
    browser: Browser,
    console: Child,
    address: String,
    /// The console reads its variables from here.
    _batchctl: Batchctl,
}

impl OnCall {
    async fn at(rig: &Rig) -> OnCall {
        let batchctl = Batchctl::of(rig);
        let mut console = started(&mut batchctl.command(&["console", "--allow-changes"]));
        let output = console.stdout.as_mut().expect("it is a pipe");
        let address = lines_until(output, "http://").await.trim().to_owned();
        OnCall {
            browser: Browser::start(),
            console,
            address,
            _batchctl: batchctl,
        }
    }

    /// Opens the page that a session begins with.
    fn overview(&mut self) -> Page<'_> {
        let mut page = self.browser.open(&self.address, LOOK);
        until(&mut page, "location.pathname === '/overview'");
        page
    }

    async fn end(self) {
        signal("-TERM", &self.console).await;
        let ended = end(self.console).await;
        assert_eq!(ended.code, Some(143), "{ended:?}");
    }
}

/// Waits until the page shows some words. Pages follow what they show by themselves.
fn shows(page: &mut Page<'_>, words: &str) {
    let words = Value::from(words);
    let shown = format!("document.querySelector('main').innerText.includes({words})");
    until(page, &shown);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_sink_that_is_down_is_found_paused_and_resumed() {
    let setup = Setup::new().quick().batches_of(25);
    let setup = setup.redeliver(BATCH_QUEUE, 100);
    let rig = setup.one_aggregator_environment().start().await;
    let out = &rig.stack.out;
    fs::write(out, "a file, where the directory should be").expect("it can be written");
    let workload = workload(51, 120, 10.0);
    rig.burst(&workload).await;
    rig.until_taken().await;
    let mut on_call = OnCall::at(&rig).await;
    let mut page = on_call.overview();
    click(&mut page, "Batches");
    // Why the last try failed is in the list.
    shows(&mut page, "Not a directory");
    let id = "document.querySelector('main td a').textContent.trim()";
    let id = page.evaluate(id);
    click(&mut page, id.as_str().expect("an id"));
    shows(&mut page, "The sink is down");
    click(&mut page, "pause --all --for 2h");
    let would = look(&mut page);
    assert!(would.contains("--all --for=2h"), "{would}");
    carry_out(&mut page, "the sink is down");
    rig.until_logged("why=Pause").await;
    click(&mut page, "Overview");
    shows(&mut page, "by on-call: the sink is down");

    fs::remove_file(out).expect("it is there");
    click(&mut page, "Resume");
    page.evaluate("document.querySelector('main [name=all]').checked = true");
    look(&mut page);
    carry_out(&mut page, "the sink is up");
    rig.until_drained().await;
    click(&mut page, "Batches");
    shows(&mut page, "No batch is selected");
    on_call.end().await;
    rig.audit(&workload, DuplicateRule::Drop);
    rig.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_batch_that_the_sink_refuses_is_found_discarded_and_redriven() {
    let mut setup = Setup::new().quick().window(2).one_aggregator_environment();
    setup.options.sweep_every = Some(Duration::from_millis(500));
    let rig = setup.start().await;
    let workload = workload(52, 60, 0.0);
    claim(&rig, &workload, 0..40).await;
    let refused = rig.only_batch().await;
    let obstacle = rig.put_in_error(&refused).await;
    claim(&rig, &workload, 40..60).await;
    let mut on_call = OnCall::at(&rig).await;
    let mut page = on_call.overview();
    click(&mut page, "BatchesInError");
    click(&mut page, "list --status error");
    click(&mut page, &refused);
    shows(&mut page, "exists with other content");
    // The command of the runbook, about this batch.
    click(&mut page, "discard \"$BATCH\"");
    let would = look(&mut page);
    assert!(would.contains(&refused), "{would}");
    carry_out(&mut page, "the receiver knows another content");
    rig.until_depth(QUARANTINE_QUEUE, 40).await;
    rig.until_metric("BatchesCompleted", 2).await;

    fs::remove_file(&obstacle).expect("it is there");
    click(&mut page, "Overview");
    click(&mut page, "QuarantineNotEmpty");
    click(&mut page, "redrive --from quarantine --all");
    page.evaluate("document.querySelector('main [name=show_bodies]').checked = true");
    let would = look(&mut page);
    let body = &workload.message(0).body;
    assert!(would.contains("40 redrive"), "{would}");
    assert!(would.contains(body), "{body}: {would}");
    carry_out(&mut page, "the receiver has forgotten the other content");
    rig.until_drained().await;
    on_call.end().await;
    rig.audit(&workload, DuplicateRule::Drop);
    rig.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn lost_tickets_are_found_and_sent_again() {
    let setup = Setup::new().quick().without_sweep().window(3);
    let rig = setup.one_aggregator_environment().start().await;
    let workload = workload(53, 50, 0.0);
    claim(&rig, &workload, 0..50).await;
    let purge = rig.stack.sqs_client().purge_queue();
    let purged = purge.queue_url(rig.stack.queue_url(BATCH_QUEUE)).send();
    purged.await.expect("the queue can be purged");
    // As time would, an hour later.
    let since = now_ms() - 3_600_000;
    for batch in rig.batch_ids().await {
        rig.until_due(&batch, since).await;
    }
    let mut on_call = OnCall::at(&rig).await;
    let mut page = on_call.overview();
    click(&mut page, "BatchesOverdue");
    click(&mut page, "retry --status overdue");
    let would = look(&mut page);
    assert!(would.contains("would"), "{would}");
    carry_out(&mut page, "the batch queue was purged");
    rig.until_drained().await;
    click(&mut page, "Batches");
    shows(&mut page, "No batch is selected");
    on_call.end().await;
    rig.audit(&workload, DuplicateRule::Drop);
    rig.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn dead_letters_of_a_bad_configuration_are_found_and_redriven() {
    let rig = Setup::new().quick().redeliver(INPUT_QUEUE, 2).start().await;
    let workload = workload(54, 60, 10.0);
    let half = workload.len() / 2;
    (0..half).for_each(|index| rig.send(workload.message(index).body));
    rig.until_taken().await;
    rig.redeploy_with(&[("MAX_BATCH_SIZE", "many")]);
    (half..workload.len()).for_each(|index| rig.send(workload.message(index).body));
    let dead = (workload.len() - half) as usize;
    rig.until_depth(INPUT_DEAD_LETTER_QUEUE, dead).await;
    // Somebody has rolled back.
    rig.redeploy_with(&[("MAX_BATCH_SIZE", "50000")]);
    let mut on_call = OnCall::at(&rig).await;
    let mut page = on_call.overview();
    click(&mut page, "InputDeadLetterNotEmpty");
    click(&mut page, "redrive --from dead-letters --all");
    let would = look(&mut page);
    assert!(would.contains(" redrive"), "{would}");
    carry_out(&mut page, "rolled back");
    rig.until_drained().await;
    on_call.end().await;
    rig.audit(&workload, DuplicateRule::Drop);
    rig.stack.stop().await;
}
