//! Answers: reads what the consumer says about delivered events, once for each answer, and lets events fall silent about which nothing was
//! said in time. The sweep does this, after it sent its tickets.
//!
//! An answer is read again until everything that it says is done. Each step may be done twice, and by two sweeps at once.

mod parts;
mod rejection;
mod said;

use std::collections::BTreeSet;
use std::pin::pin;
use std::sync::{Arc, Mutex};

use futures::future::{Either, select};
use protocol::answer::FoundAnswer;
use protocol::batch::Listing;
use protocol::sequence::PartId;
use protocol::time::Timestamp;
use serde::Serialize;
use shared::locked::locked;
use shared::ports::{BatchStore, Ports};
use shared::retry::{Budget, read_lists};
use sinks::{Answer, AnswerForm, AnswerName, AnswerPlace, AnswersConfig, PartName, SinkError};
use tracing::{error, info, warn};

pub(crate) use parts::AnsweredParts;
use parts::{AnswerError, KeptPart};
use said::said_of_part;

/// Answers that an environment remembers as done.
const DONE_COUNT_MAX: usize = 100_000;
/// Problems of an answer that are logged.
const PROBLEMS_LOGGED_MAX: usize = 10;

/// What a sweep did about answers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AnswersRead {
    /// Answers that were read and need not be read again.
    pub read: u64,
    /// Answers that wait: for their batch to be complete, or for their part to be known.
    pub waiting: u64,
    /// Events that they accepted.
    pub accepted: u64,
    /// Events that they rejected.
    pub rejected: u64,
    /// Events that they said something else about than an earlier answer.
    pub contradicted: u64,
    /// Lines that say nothing, answers that cannot be read, and answers about parts that nobody knows.
    pub problems: u64,
    /// Events about which nothing was said in time.
    pub silent: u64,
}

/// Reads answers.
pub(crate) struct Answers {
    place: Arc<dyn AnswerPlace>,
    form: AnswerForm,
    config: AnswersConfig,
    parts: Arc<AnsweredParts>,
    batch_store: Arc<dyn BatchStore>,
    concurrency: usize,
    /// Answers that are done.
    done: Mutex<BTreeSet<AnswerName>>,
}

/// How an answer about a part ended.
enum End {
    Done,
    /// It must be read again.
    Waits(String),
    /// It is about no part that is known, which may change.
    Unknown(String),
}

impl Answers {
    pub(crate) fn new(
        config: &AnswersConfig,
        place: Arc<dyn AnswerPlace>,
        parts: Arc<AnsweredParts>,
        ports: &Ports,
        concurrency: usize,
    ) -> Answers {
        Answers {
            place,
            form: config.form.clone(),
            config: config.clone(),
            parts,
            batch_store: ports.batch_store.clone(),
            concurrency,
            done: Mutex::default(),
        }
    }

    /// Reads every answer that is not done, and then goes on with the batches whose answers are due.
    pub(crate) async fn run(&self, budget: &Budget<'_>) -> AnswersRead {
        let mut read = AnswersRead::default();
        let list = self.place.list(budget.clock.now());
        match in_time(list, budget).await {
            Ok(mut names) => {
                names.sort_unstable();
                for name in names {
                    if !budget.has_time() {
                        break;
                    }
                    self.read_one(name, &mut read, budget).await;
                }
            }
            Err(error) => error!(%error, "answers are not listed; the next sweep tries again"),
        }
        self.end_waits(&mut read, budget).await;
        if read != AnswersRead::default() {
            info!(
                read_count = read.read,
                waiting_count = read.waiting,
                accepted_count = read.accepted,
                rejected_count = read.rejected,
                contradicted_count = read.contradicted,
                problems_count = read.problems,
                silent_count = read.silent,
                "answers read"
            );
        }
        read
    }

    /// Tries out whether answers can be listed.
    pub(crate) async fn dry_run(&self, ports: &Ports) -> Result<(), String> {
        let listed = self.place.list(ports.clock.now()).await;
        listed.map(|_| ()).map_err(SinkError::into_reason)
    }

    async fn read_one(&self, name: AnswerName, read: &mut AnswersRead, budget: &Budget<'_>) {
        if locked(&self.done).contains(&name) {
            return;
        }
        match self.read_unless_done(&name, read, budget).await {
            Ok(true) => {
                let mut done = locked(&self.done);
                if done.len() >= DONE_COUNT_MAX {
                    done.clear();
                }
                done.insert(name);
            }
            Ok(false) => read.waiting += 1,
            Err(error) => {
                read.waiting += 1;
                error!(answer = name.name, %error, "answer not read; the next sweep tries again");
            }
        }
    }

    /// Reads an answer, unless it is done. Returns whether it is.
    async fn read_unless_done(
        &self,
        name: &AnswerName,
        read: &mut AnswersRead,
        budget: &Budget<'_>,
    ) -> Result<bool, AnswerError> {
        let scope = (name.name.clone(), name.tag.clone());
        let found = self.parts.read::<FoundAnswer>(&scope, budget).await?;
        if found.value.done {
            return Ok(true);
        }
        let now = budget.clock.now();
        let first_at = match found.version {
            0 => now,
            _ => found.value.at,
        };
        let problems = &mut Vec::new();
        let content = self.content(&name.name);
        let done = match in_time(content, budget).await {
            Ok(None) => return Ok(true),
            Ok(Some(answer)) => {
                problems.extend(answer.unread.iter().cloned());
                self.take(&name.name, &answer, first_at, read, problems, budget)
                    .await?
            }
            Err(SinkError::Permanent { reason }) => {
                problems.push(reason);
                true
            }
            Err(error) => {
                error!(answer = name.name, %error, "answer not read; the next sweep tries again");
                false
            }
        };
        if done {
            read.read += 1;
            read.problems += problems.len() as u64;
            for problem in problems.iter().take(PROBLEMS_LOGGED_MAX) {
                error!(answer = name.name, problem, "answer says nothing here");
            }
        }
        let next = FoundAnswer { at: first_at, done };
        if next != found.value {
            // Another sweep may have read it at the same time.
            self.parts.replace(&scope, &found, &next, budget).await?;
        }
        Ok(done)
    }

    /// Returns the lines of an answer; `None` if it is gone.
    async fn content(&self, name: &str) -> Result<Option<Answer>, SinkError> {
        let Some(bytes) = self.place.read(name).await? else {
            return Ok(None);
        };
        let answer = self.form.read(name, &bytes);
        answer
            .map(Some)
            .map_err(|reason| SinkError::Permanent { reason })
    }

    /// Writes what an answer says. Returns whether all of it is done.
    async fn take(
        &self,
        name: &str,
        answer: &Answer,
        first_at: Timestamp,
        read: &mut AnswersRead,
        problems: &mut Vec<String>,
        budget: &Budget<'_>,
    ) -> Result<bool, AnswerError> {
        let mut done = true;
        for part in answer.parts.keys() {
            let end = self.take_part(name, answer, part, read, problems, budget);
            match end.await? {
                End::Done => {}
                End::Waits(why) => {
                    info!(answer = name, why, "answer waits");
                    done = false;
                }
                End::Unknown(why) if budget.clock.now() < first_at + self.config.within => {
                    info!(answer = name, why, "answer waits");
                    done = false;
                }
                End::Unknown(why) => problems.push(why),
            }
        }
        Ok(done)
    }

    async fn take_part(
        &self,
        name: &str,
        answer: &Answer,
        part: &PartName,
        read: &mut AnswersRead,
        problems: &mut Vec<String>,
        budget: &Budget<'_>,
    ) -> Result<End, AnswerError> {
        let id = match self.part_id(part, budget).await? {
            Ok(id) => id,
            Err(why) => return Ok(End::Unknown(why)),
        };
        let (record, events) = match self.parts.part(id, budget).await? {
            KeptPart::Events(record, events) => (record, events),
            KeptPart::NotYet => {
                return Ok(End::Waits(format!("part {id}: its batch is not complete")));
            }
            KeptPart::Unknown => {
                return Ok(End::Unknown(format!(
                    "part {id}: no answer is awaited about it"
                )));
            }
        };
        let lines = &answer.parts[part];
        let has_unread_lines = !answer.unread.is_empty();
        let of_part = said_of_part(lines, &events, answer.accepts_unlisted, has_unread_lines);
        problems.extend(
            of_part
                .problems
                .iter()
                .map(|problem| format!("part {id}: {problem}")),
        );
        if of_part.is_empty() {
            return Ok(End::Done);
        }
        let taken = self
            .parts
            .take(id.batch, record.as_deref(), name, &of_part, budget)
            .await?;
        read.accepted += taken.accepted;
        read.rejected += taken.rejected;
        read.contradicted += taken.contradicted.len();
        if !taken.contradicted.is_empty() {
            let count = taken.contradicted.len();
            warn!(answer = name, part = %id, count, "an earlier answer said something else, and counts");
        }
        Ok(End::Done)
    }

    /// Returns the part that an answer names, or why it is not known.
    async fn part_id(
        &self,
        part: &PartName,
        budget: &Budget<'_>,
    ) -> Result<Result<PartId, String>, AnswerError> {
        let found = match part {
            PartName::Part(id) => return Ok(Ok(*id)),
            PartName::File(file) => {
                let named = self.parts.named(file, budget).await?;
                named.of_file(file).map_err(|count| (file, count))
            }
            PartName::OfAnswer(name) => {
                let named = self.parts.named(name, budget).await?;
                named.of_answer(name).map_err(|count| (name, count))
            }
        };
        Ok(found.map_err(|(name, count)| {
            format!("`{name}`: {count} parts have files of this name, expected one")
        }))
    }

    /// Goes on with the batches whose answers are due, the oldest first.
    async fn end_waits(&self, read: &mut AnswersRead, budget: &Budget<'_>) {
        let now = budget.clock.now();
        let lists = vec![(Listing::Answers, now)];
        let lists = read_lists(&*self.batch_store, lists, self.concurrency, budget);
        for (_, list) in lists.await {
            let batches = match list {
                Ok(list) => list.batches,
                Err(error) => {
                    error!(%error, "batches without answers are not found; the next sweep looks again");
                    continue;
                }
            };
            for batch in batches.iter().map(|batch| batch.batch_id) {
                if !budget.has_time() {
                    return;
                }
                match self.parts.end_wait(batch, now, budget).await {
                    Ok(silent) => read.silent += silent,
                    Err(AnswerError::NotComplete) => {}
                    Err(error) => {
                        error!(batch_id = %batch, %error, "answers not ended; the next sweep tries again");
                    }
                }
            }
        }
    }
}

/// Waits for a reply of the place for as long as there is time: the sweep must end, and write its metrics, also if there is none.
async fn in_time<T>(
    call: impl Future<Output = Result<T, SinkError>>,
    budget: &Budget<'_>,
) -> Result<T, SinkError> {
    let (call, end) = (pin!(call), pin!(budget.until_end()));
    match select(call, end).await {
        Either::Left((reply, _)) => reply,
        Either::Right(_) => Err(SinkError::Retryable {
            reason: "no reply in time".to_owned(),
        }),
    }
}
