//! `batchctl redrive`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use clap::{ArgGroup, Args, ValueEnum};
use jmespath::{Rcvar, Variable};
use protocol::ids::EventId;
use protocol::text::counted;
use protocol::time::Timestamp;
use serde::Serialize;
use shared::expression::Expression;
use shared::message_attributes::AttributeMap;
use shared::quarantine_attributes::{
    CONFLICT, EVENT_ID, REASON, SOURCE, is_beyond_quota, of_producer,
};

use crate::dead_letter::{Decision, Origin, age, decide};
use crate::event_ids::EventIds;
use crate::event_state::EventState;
use crate::events::look_up;
use crate::failure::{Done, Failure};
use crate::filter::Filter;
use crate::interrupt::Interrupt;
use crate::listing::{BATCHES_MAX, list};
use crate::log_index::Runs;
use crate::outcome::Output;
use crate::ports::{MessageQueue, Received, Sent};
use crate::progress::Progress;
use crate::service::Service;
use crate::table::{Table, cut};

/// Starts of the body of a notice about a lost load or slot, or about a lost chunk of a former version; it has no `eventId`.
const NOTICES: [&str; 4] = ["object `", "load `", "slot `", "chunk `"];
/// The most messages that one command looks at.
const MESSAGES_MAX: usize = 100_000;
/// Characters of a reason in the table; with `--json` it is whole.
const REASON_CHARS_MAX: usize = 100;
/// Characters of a body in the table; with `--json` it is whole.
const BODY_CHARS_MAX: usize = 1_000;
/// The most messages of the table.
const LINES_MAX: usize = 200;
/// What becomes of a message that arrived in its queue while the command ran.
const ARRIVED_MEANWHILE: &str = "left: it arrived after this command began";
/// What became of a message that was redriven.
const REDRIVEN: &str = "redriven";
/// How long a received message is invisible to others: longer than a decision about it takes.
const DECISION_TIME_MAX: Duration = Duration::from_secs(900);
/// How often a queue must return nothing before it counts as empty.
const EMPTY_RECEIVES: u32 = 3;

#[derive(Args)]
#[command(group = ArgGroup::new("messages").required(true).args(["where", "all"]))]
pub struct RedriveArgs {
    /// The queue to take messages from
    #[arg(long, value_enum, value_name = "QUEUE")]
    pub from: FromQueue,
    /// Messages for which this JMESPath is true, over {body, attributes, messageId, reason, sentAt}
    #[arg(long, value_name = "JMESPATH")]
    pub r#where: Option<Expression>,
    /// All messages of the queue
    #[arg(long)]
    pub all: bool,
    /// Messages a second, at most
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub rate: u32,
    /// Redrive also what may have been delivered: you have looked at the sink
    #[arg(long)]
    pub although_unclear: bool,
    /// Show the bodies of the messages too
    #[arg(long)]
    pub show_bodies: bool,
    /// Do it; without this option, the command only shows what it would do
    #[arg(long)]
    pub yes: bool,
}

/// A queue from which messages are redriven.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum FromQueue {
    DeadLetters,
    Quarantine,
}

/// What was done, or would be done.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct Report {
    done: bool,
    /// How many messages were looked at, by what becomes of them.
    counts: BTreeMap<String, usize>,
    failed: usize,
    /// Whether a signal ended the command before it had looked at every message.
    stopped: bool,
    /// The first messages, by their reasons.
    messages: Vec<Line>,
    /// The ids of the messages that would be redriven, if they were only shown.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    would_redrive: Vec<String>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Line {
    message_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    event_id: Option<String>,
    /// Why the service put it into the quarantine.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    outcome: String,
    /// As it was received, if bodies are shown.
    #[serde(skip_serializing_if = "Option::is_none")]
    body: Option<String>,
}

/// What one run works with.
struct Run<'a> {
    service: &'a Service,
    args: &'a RedriveArgs,
    interrupt: &'a Interrupt,
    from: Box<dyn MessageQueue>,
    to: Box<dyn MessageQueue>,
    ids: EventIds,
    input_arn: String,
    /// Events that were redriven in this run.
    redriven: BTreeSet<EventId>,
    /// Runs of the index of the log.
    runs: Runs,
}

/// Sends messages of the dead-letter queue or the quarantine to the input queue, except those whose events were delivered.
pub async fn run(
    service: &Service,
    args: &RedriveArgs,
    interrupt: &Interrupt,
    output: Output<'_>,
) -> Result<Done, Failure> {
    let (variable, what) = match args.from {
        FromQueue::DeadLetters => (
            "INPUT_DEAD_LETTER_QUEUE_URL",
            "the URL of the dead-letter queue",
        ),
        FromQueue::Quarantine => ("QUARANTINE_SQS_URL", "the URL of the quarantine queue"),
    };
    let mut run = Run {
        service,
        args,
        interrupt,
        from: service.queue(variable, what)?,
        to: service.queue("INPUT_QUEUE_URL", "the URL of the input queue")?,
        ids: EventIds::of(&service.settings)?,
        input_arn: service.input_arn().await?,
        redriven: BTreeSet::new(),
        runs: Runs::default(),
    };
    let report = run.all(output).await?;
    output.print(&report, &report);
    if let Some(signal) = interrupt.signal().filter(|_| report.stopped) {
        return Ok(Done::Stopped(signal));
    }
    match (report.failed, report.done) {
        (0, _) if !report.has_work() => Ok(Done::NotFound),
        (0, true) => Ok(Done::Yes),
        (0, false) => Ok(Done::OnlyShown),
        (failed, _) => Err(Failure::Some {
            failed,
            all: report.counts.values().sum(),
        }),
    }
}

impl RedriveArgs {
    fn line(&self, message: &Received, id: Option<&EventId>, outcome: String) -> Line {
        Line {
            message_id: message.message_id.clone(),
            event_id: id.map(ToString::to_string),
            reason: message.attribute(REASON).map(str::to_owned),
            outcome,
            body: self.show_bodies.then(|| message.body.clone()),
        }
    }
}

impl Run<'_> {
    /// Looks at every message once.
    async fn all(&mut self, output: Output<'_>) -> Result<Report, Failure> {
        let mut report = Report {
            done: self.args.yes,
            ..Report::default()
        };
        let mut seen = BTreeSet::new();
        let mut left = Vec::new();
        let began: Timestamp = self.service.now();
        let mut empty = 0;
        let progress = Progress::new(output);
        while empty < EMPTY_RECEIVES && seen.len() < MESSAGES_MAX {
            report.stopped = self.interrupt.signal().is_some();
            if report.stopped {
                break;
            }
            let messages = self.from.receive(DECISION_TIME_MAX).await?;
            let is_new = |message: &Received| seen.insert(message.message_id.clone());
            let messages: Vec<Received> = messages.into_iter().filter(is_new).collect();
            // Messages that were left come again once their visibility timeout is over. What was redriven may be back at once, as
            // another message: a run that took it again would never end.
            let is_old = |message: &Received| !message.sent_after(began);
            empty = match messages.iter().any(is_old) {
                true => 0,
                false => empty + 1,
            };
            for message in messages {
                // What was received must be given back.
                if !self.is_wanted(&message) || self.interrupt.signal().is_some() {
                    left.push(message.receipt);
                    continue;
                }
                if message.sent_after(began) {
                    report.add(self.args.line(&message, None, ARRIVED_MEANWHILE.to_owned()));
                    left.push(message.receipt);
                    continue;
                }
                let (line, is_gone) = self.one(&message).await?;
                report.add(line);
                progress.show(|| report.progress());
                if !is_gone {
                    left.push(message.receipt);
                }
            }
        }
        let given_back = async {
            for receipt in &left {
                self.from.give_back(receipt).await;
            }
        };
        tokio::select! {
            () = given_back => {}
            () = self.interrupt.given_up() => {}
        }
        report
            .messages
            .sort_by(|one, other| one.reason.cmp(&other.reason));
        Ok(report)
    }

    fn is_wanted(&self, message: &Received) -> bool {
        let Some(expression) = &self.args.r#where else {
            return true;
        };
        let found = expression.find(&document(message));
        found.is_ok_and(|found| found.is_truthy())
    }

    /// Decides about a message, and redrives it. Returns whether it is gone from its queue.
    async fn one(&mut self, message: &Received) -> Result<(Line, bool), Failure> {
        let (id, decision) = self.decision(message).await?;
        let args = self.args;
        let line = |outcome: String| args.line(message, id.as_ref(), outcome);
        if decision != Decision::Redrive {
            return Ok((line(decision.words().to_owned()), false));
        }
        if !self.args.yes {
            self.redriven.extend(id.clone());
            return Ok((line(decision.words().to_owned()), false));
        }
        let clock = &self.service.clock;
        clock.sleep(Duration::from_secs(1) / self.args.rate).await;
        let outcome = tokio::select! {
            outcome = self.move_one(message) => outcome,
            () = self.interrupt.given_up() => {
                Err("given up: it may be in the input queue, and may still be here".to_owned())
            }
        };
        self.redriven.extend(id.clone());
        Ok(match outcome {
            Ok(()) => (line(REDRIVEN.to_owned()), true),
            Err(problem) => (line(format!("failed: {problem}")), false),
        })
    }

    /// Sends a message to the input queue, then deletes it here.
    async fn move_one(&self, message: &Received) -> Result<(), String> {
        match self.to.send(&message.body, self.of_producer(message)).await {
            Ok(Sent::Yes) => {}
            Ok(Sent::Unknown(problem)) => {
                return Err(format!(
                    "no reply: it may be in the input queue, and is still here: {problem}"
                ));
            }
            Err(failure) => return Err(failure.to_string()),
        }
        let deleted = self.from.delete(&message.receipt).await;
        deleted.map_err(|failure| format!("redriven, but still here; delete it: {failure}"))
    }

    /// Returns the attributes of a message without those of the service.
    fn of_producer(&self, message: &Received) -> AttributeMap {
        match self.args.from {
            FromQueue::DeadLetters => message.attributes.clone(),
            FromQueue::Quarantine => of_producer(&message.attributes),
        }
    }

    /// Returns the event of a message, and what to do with the message.
    async fn decision(
        &mut self,
        message: &Received,
    ) -> Result<(Option<EventId>, Decision), Failure> {
        let origin = match self.args.from {
            FromQueue::DeadLetters => Origin::DeadLetter,
            FromQueue::Quarantine => Origin::Quarantine,
        };
        let named = message.attribute(EVENT_ID);
        let named = named.filter(|_| origin == Origin::Quarantine);
        let mut notices = NOTICES.iter();
        let is_notice = notices.any(|notice| message.body.starts_with(notice));
        if origin == Origin::Quarantine && named.is_none() && is_notice {
            return Ok((None, Decision::Notice));
        }
        let named = named.and_then(|id| EventId::try_from(id).ok());
        // A wrong `EVENT_ID` gives several events one id. Once it is fixed, the fixed id of such a message is its own.
        let reason = message.attribute(REASON);
        let is_conflict = reason.is_some_and(|reason| reason.ends_with(CONFLICT));
        // A batch of the log has decided about it, and its event did not win.
        let is_beyond_quota = origin == Origin::Quarantine && reason.is_some_and(is_beyond_quota);
        let by_rule = || self.id_of(message, origin);
        let id = match named {
            Some(named) if is_conflict && self.ids.are_of_content() => by_rule().or(Some(named)),
            Some(named) => Some(named),
            None => by_rule(),
        };
        // A message without an id was never claimed. What is wrong with it may be fixed by now.
        let Some(id) = id else {
            return Ok((None, Decision::Redrive));
        };
        if self.redriven.contains(&id) {
            return Ok((Some(id), Decision::Repeated));
        }
        // Asked before the index, which knows the event once its batch is decided.
        let may_be_undecided = !is_beyond_quota && self.may_be_undecided().await?;
        let found = look_up(self.service, &id, &mut self.runs).await?;
        let state = match found.classification.state {
            EventState::Unknown if may_be_undecided => EventState::Unclear,
            state => state,
        };
        let same_body = found.has_body(message.body.as_bytes()).unwrap_or(true);
        let age = age(message.first_received_at, self.service.now());
        let window = self.service.dedup_window;
        let although = self.args.although_unclear;
        let decision = decide(origin, state, same_body, age, window, although);
        Ok((Some(id), decision))
    }

    /// Returns whether a batch of the log may have the event and is not decided yet, so that the index does not know it, although the
    /// redriven message would be another event. With an id of the content it is a duplicate. The index knows an event in the quarantine,
    /// unless its batch was set aside unresolved.
    async fn may_be_undecided(&self) -> Result<bool, Failure> {
        if self.ids.are_of_content() {
            return Ok(false);
        }
        let open = list(self.service, &Filter::default(), BATCHES_MAX).await?;
        Ok(open.batches.iter().any(|batch| batch.bodies.is_log()))
    }

    /// Returns the event id that the aggregator found in a message. SQS keeps the message id of a dead letter, but not that of
    /// a message that the service sent to the quarantine.
    fn id_of(&self, message: &Received, origin: Origin) -> Option<EventId> {
        let source = match origin {
            Origin::DeadLetter => None,
            Origin::Quarantine => message.attribute(SOURCE),
        };
        let source = source.unwrap_or(&self.input_arn);
        let attributes = self.of_producer(message);
        let (id, body) = (&message.message_id, &message.body);
        let found = self.ids.find(source, id, body, &attributes);
        found.ok()
    }
}

impl Received {
    /// Returns whether it was sent to its queue after a time. A message that does not say when was sent before.
    fn sent_after(&self, time: Timestamp) -> bool {
        self.sent_at.is_some_and(|at| at > time.as_ms())
    }
}

/// Returns what `--where` is evaluated on.
fn document(message: &Received) -> Rcvar {
    let body = Variable::from_json(&message.body);
    let body = body.unwrap_or_else(|_| Variable::String(message.body.clone()));
    // Those of the service hide those of the producer that have the same name.
    let mut all = of_producer(&message.attributes);
    all.extend(message.attributes.clone());
    let attributes = all.into_iter().map(|(name, value)| {
        let text = Variable::String(value.text().into_owned());
        (name, Rcvar::new(text))
    });
    let attributes: BTreeMap<String, Rcvar> = attributes.collect();
    let text = |text: &str| Rcvar::new(Variable::String(text.to_owned()));
    let reason = attributes.get(REASON).cloned();
    let reason = reason.unwrap_or_else(|| Rcvar::new(Variable::Null));
    let mut fields: BTreeMap<String, Rcvar> = [
        ("body", Rcvar::new(body)),
        ("messageId", text(&message.message_id)),
        ("reason", reason),
        ("attributes", Rcvar::new(Variable::Object(attributes))),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into();
    if let Some(sent_at) = message.sent_at {
        let number = Rcvar::new(Variable::Number(sent_at.into()));
        fields.insert("sentAt".to_owned(), number);
    }
    Rcvar::new(Variable::Object(fields))
}

impl Report {
    fn add(&mut self, line: Line) {
        let failed = line.outcome.starts_with("failed: ");
        self.failed += usize::from(failed);
        let kind: &str = if failed { "failed" } else { &line.outcome };
        *self.counts.entry(kind.to_owned()).or_default() += 1;
        if !self.done && line.outcome == Decision::Redrive.words() {
            self.would_redrive.push(line.message_id.clone());
        }
        // Whatever failed must be seen.
        if self.messages.len() < LINES_MAX || failed {
            self.messages.push(line);
        }
    }

    /// Returns how far the command is.
    fn progress(&self) -> String {
        let all = counted(self.counts.values().sum::<usize>(), "message");
        let redriven = self.counts.get(REDRIVEN).copied().unwrap_or_default();
        let failed = self.failed;
        format!("redrive: {all} looked at, {redriven} redriven, {failed} failed")
    }

    fn has_work(&self) -> bool {
        let work = |outcome: &String| outcome.starts_with("redrive");
        self.counts.keys().any(work)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.messages.is_empty() {
            let stopped = match self.stopped {
                true => " before the signal",
                false => "",
            };
            return writeln!(f, "no message is selected{stopped}");
        }
        let columns = ["MESSAGE", "EVENT", "OUTCOME", "REASON", "BODY"];
        let has_bodies = self.messages.iter().any(|line| line.body.is_some());
        let mut table = Table::new(&columns[..columns.len() - usize::from(!has_bodies)]);
        for line in &self.messages {
            let mut row = vec![
                line.message_id.clone(),
                cut(line.event_id.as_deref().unwrap_or("-"), 60),
                line.outcome.clone(),
                cut(line.reason.as_deref().unwrap_or("-"), REASON_CHARS_MAX),
            ];
            row.extend(line.body.as_deref().map(|body| cut(body, BODY_CHARS_MAX)));
            table.row(row);
        }
        write!(f, "{table}")?;
        for (outcome, count) in &self.counts {
            writeln!(f, "{count} {outcome}")?;
        }
        if !self.done && self.has_work() {
            writeln!(f, "to redrive them, add --yes")?;
        }
        match self.stopped {
            true => writeln!(f, "stopped before every message was looked at"),
            false => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests;
