//! Operators, who run `batchctl`.

use std::time::Duration;

use batchctl::failure::{Done, Failure};
use batchctl::of_stack::run_on;
use protocol::pause::Pauses;
use shared::ports::{Clock, NamedItems};
use shared::wire::{Ticket, TicketReason};

use super::{Execution, Function, Run, Task, Work};
use crate::environment::{Environment, lock};
use crate::operator::{Decision, OPERATOR};
use crate::pauses::PlannedPause;
use crate::redeploy::BodiesKind;
use crate::schedule::Act;
use crate::sources::source;
use crate::stack::service;
use crate::world;

/// How often a command is run again that failed, and how long after that.
const ATTEMPTS_MAX: usize = 20;
const AGAIN_AFTER: Duration = Duration::from_secs(5);
/// The command that makes the index of the log anew.
const REBUILD: &str = "rebuild-dedup";
/// Time between two looks whether every batch is complete.
const SWITCH_EVERY_MS: u64 = 10_000;

impl Run {
    /// An operator looks at the batches in error, and has each of them tried again or set aside.
    pub(super) fn look_at_errors(&mut self) {
        let mut decisions = lock(&self.world).decisions();
        // `batchctl discard` cannot save events that may never be read again, so such batches get the ticket without it.
        if self.plan.denial.is_some_and(|denial| !denial.ends)
            && let Some(batches) = decisions.remove(&Decision::Discard)
        {
            let mut world = lock(&self.world);
            for batch in batches {
                let ticket = Ticket::new(batch, TicketReason::Quarantine);
                world.ticket(&ticket, Duration::ZERO);
            }
        }
        let lost = lock(&self.world).has_lost_manifest();
        let decided = decisions.into_iter().map(|(decision, batches)| {
            let verb = match decision {
                Decision::Retry => "retry",
                Decision::RetryWithNewSink => "retry --accept-new-sink",
                Decision::Discard => "discard",
            };
            let ids: Vec<String> = batches.iter().map(ToString::to_string).collect();
            command(&format!("{verb} {}", ids.join(" ")))
        });
        let rebuild = lost.then(|| command(REBUILD));
        let commands = rebuild.into_iter().chain(decided).collect();
        // Those that fail are looked at again at the next visit.
        self.operate(0, 1, commands);
    }

    pub(super) fn pause(&mut self, index: usize) {
        let pause = &self.plan.pauses[index];
        let (secs, scope) = (pause.length_ms / 1_000, scope_of(pause));
        let pause = command(&format!("pause --for {secs}s {scope}"));
        self.operate(0, ATTEMPTS_MAX, vec![pause]);
    }

    /// An operator ends a pause of the plan. Some commands die before they send tickets.
    pub(super) fn resume_deliveries(&mut self, index: usize) {
        let pause = &self.plan.pauses[index];
        if pause.sends_tickets {
            let resume = command(&format!("resume {}", scope_of(pause)));
            self.operate(0, ATTEMPTS_MAX, vec![resume]);
            return;
        }
        let mut world = lock(&self.world);
        let (scope, now) = (pause.scope(), world.now());
        let read = world.named_item::<Pauses>(&());
        let mut pauses = read.value.clone();
        pauses.resume(&scope.0, &scope.1, now);
        let items: &dyn NamedItems = &world.named_items;
        let written = world::now(items.replace(&(), &read, &pauses));
        assert!(
            matches!(written, Ok(true)),
            "nobody else writes them: {written:?}"
        );
        world.note_pauses_written(&pauses);
    }

    /// An operator makes the index of the log anew, right after somebody lost it.
    pub(super) fn rebuild_index(&mut self) {
        self.operate(0, ATTEMPTS_MAX, vec![command(REBUILD)]);
    }

    /// An operator stops the input. Once every batch is complete, the index is primed from the lock table, or the lock table gets
    /// tombstones of what the index remembers.
    pub(super) fn switch(&mut self) {
        self.input_stopped = true;
        let runs = |task: &Task| matches!(task.work, Work::Input { .. });
        let is_busy = self.tasks.values().any(runs);
        let world = lock(&self.world);
        let mut records = world.batches.records().into_iter();
        let is_complete = records.all(|record| record.status.is_none());
        drop(world);
        if is_busy || !is_complete {
            lock(&self.world).after(SWITCH_EVERY_MS, Act::Switch);
            return;
        }
        if self.plan.forgets_to_prime() {
            lock(&self.world).after(0, Act::Switched);
            return;
        }
        let prepare = self.prepare_switch();
        let world = self.world.clone();
        self.operate_then(0, ATTEMPTS_MAX, vec![prepare], move |done| {
            let (after_ms, act) = match done {
                true => (0, Act::Switched),
                false => (SWITCH_EVERY_MS, Act::Switch),
            };
            lock(&world).after(after_ms, act);
        });
    }

    /// An operator primes the index once more, while batches commit.
    pub(super) fn prime_again(&mut self) {
        let prime = self.prepare_switch();
        self.operate(0, ATTEMPTS_MAX, vec![prime]);
    }

    fn prepare_switch(&self) -> Vec<String> {
        let (_, to) = self.plan.switch.expect("the history has a switch");
        match to {
            BodiesKind::Items => command("tombstones"),
            log => command(&format!("prime --lock-table --bodies {}", log.value())),
        }
    }

    /// An operator has an event forgotten that was delivered.
    pub(super) fn forget(&mut self) {
        let delivered = lock(&self.world).delivered_event();
        if let Some(event) = delivered {
            let mut command = command("forget --exact");
            command.extend(["--".to_owned(), event.to_string()]);
            self.operate(0, 1, vec![command]);
        }
    }

    /// An operator redrives the dead letters of every source, and then what is in the quarantine.
    pub(super) fn redrive(&mut self) {
        lock(&self.world).collect_dead_letters();
        for number in 0..self.plan.sources {
            let dead_letters = words("redrive --from dead-letters --all --yes");
            let mut commands = vec![dead_letters];
            commands.extend(self.redrive_from_quarantine(number));
            self.operate(number, ATTEMPTS_MAX, commands);
        }
    }

    pub(super) fn redrive_quarantine(&mut self) {
        for number in 0..self.plan.sources {
            let command = self.redrive_from_quarantine(number);
            self.operate(number, ATTEMPTS_MAX, Vec::from_iter(command));
        }
    }

    fn redrive_from_quarantine(&self, number: usize) -> Option<Vec<String>> {
        let mut command = words("redrive --from quarantine --yes --where");
        command.push(format!("attributes.source == '{}'", source(number)));
        self.deployed.quarantine.then_some(command)
    }

    /// Runs commands on the stack of a source, one after the other, each of them up to `attempts_max` times if it fails.
    fn operate(&mut self, number: usize, attempts_max: usize, commands: Vec<Vec<String>>) {
        self.operate_then(number, attempts_max, commands, |_| {});
    }

    /// As [`operate`](Self::operate); then calls `then` with whether all have succeeded.
    fn operate_then(
        &mut self,
        number: usize,
        attempts_max: usize,
        mut commands: Vec<Vec<String>>,
        then: impl FnOnce(bool) + 'static,
    ) {
        if commands.is_empty() {
            return;
        }
        let environment = Environment::new(&self.world, OPERATOR, &self.processor_config);
        self.environments.entry(OPERATOR).or_insert(Execution {
            function: Function::Operator,
            frozen_until_ms: 0,
            last: false,
        });
        lock(&self.world).note("operator", || format!("{commands:?}"));
        // Not in the trace: the name of the directory is another one each time.
        for discard in commands.iter_mut().filter(|words| words[0] == "discard") {
            let directory = lock(&self.world).discards().display().to_string();
            discard.extend(["--dir".to_owned(), directory]);
        }
        let service = service(&environment, &self.deployed, number);
        let future = Box::pin(async move {
            let mut succeeded = 0;
            let count = commands.len();
            for words in commands {
                for _ in 0..attempts_max {
                    match run_on(&service, &words).await {
                        Ok(Done::Yes | Done::NotFound) | Err(Failure::NotFound(_)) => {
                            succeeded += 1;
                            break;
                        }
                        Err(Failure::Usage(problem)) => panic!("{words:?}: {problem}"),
                        Ok(Done::OnlyShown | Done::Stopped(_)) | Err(_) => {
                            environment.sleep(AGAIN_AFTER).await;
                        }
                    }
                }
            }
            then(succeeded == count);
            Some(Vec::new())
        });
        self.start_task(OPERATOR, Work::Operator, u64::MAX, future);
    }
}

/// Returns the words of a command that changes something.
fn command(line: &str) -> Vec<String> {
    words(&format!("{line} --yes --why simulated --by operator"))
}

fn words(line: &str) -> Vec<String> {
    line.split(' ').map(str::to_owned).collect()
}

/// Returns the options that say what a pause is about.
fn scope_of(pause: &PlannedPause) -> String {
    let (source, key) = pause.scope();
    let source = source.map(|source| format!("--source {source}"));
    let key = key.map(|key| format!("--key {key}"));
    match (source, key) {
        (None, None) => "--all".to_owned(),
        (source, key) => Vec::from_iter(source.into_iter().chain(key)).join(" "),
    }
}
