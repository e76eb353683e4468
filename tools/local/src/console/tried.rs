//! A burst that is sent from the console: through this stack, and audited.

use std::sync::Arc;
use std::time::{Duration, Instant};

use ::console::{Address, Course, Field, FieldKind, Plan, Problem, Verb};
use loadgen::{
    AuditReport, Duplicates, Schedule, SendOptions, SendProgress, Shape, Sizes, Workload,
    WorkloadConfig,
};
use protocol::batch::Status;
use protocol::text::counted;

use crate::stack::{INPUT_QUEUE, Stack};

/// The name of the verb.
pub(super) const VERB: &str = "burst";
/// The most messages of a burst from the console.
const MESSAGES_MAX: u64 = 1_000_000;
/// The longest body, in bytes.
const SIZE_MAX: usize = 100_000;
/// The most bytes of all bodies: this machine keeps them in memory.
const BYTES_MAX: u64 = 1 << 30;
/// The time between two looks at the progress.
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// How often environments are killed: not for ever, so that an invocation that takes longer than the time between two kills ends.
const KILLS: u32 = 3;
/// The time between two kills.
const KILL_EVERY: Duration = Duration::from_secs(1);

/// Returns the form of a burst.
pub(super) fn verb() -> Verb {
    let number = |name: &str, label: &str, about: String, value: &str| {
        Field::text(name, label, &about).with(value)
    };
    Verb {
        name: VERB.to_owned(),
        title: "Send a burst".to_owned(),
        about: "Sends messages through both functions of this stack, waits until they are delivered, and compares every delivered \
                event with what was sent."
            .to_owned(),
        fields: vec![
            number("messages", "Messages", format!("1 to {MESSAGES_MAX}"), "10000"),
            number("duplicates", "Duplicates", "Share of them in percent, from 0 to below 100".to_owned(), "5"),
            number("size", "Size", format!("Length of a body in bytes, to {SIZE_MAX}"), "300"),
            number("rate", "Rate", "Messages a second; as fast as possible if it is empty".to_owned(), ""),
            Field::text("kills", "Kill environments", "Of both functions, three times, a second apart, with SIGKILL")
                .of_kind(FieldKind::Check),
        ],
        asks: false,
    }
}

/// A burst.
struct Burst {
    workload: Workload,
    schedule: Schedule,
    kills: bool,
}

/// Returns the burst of a form.
///
/// # Errors
/// A field is wrong.
pub(super) fn plan(fields: &Address) -> Result<Plan, Problem> {
    // Another burst has other ids. Two at the same millisecond would be one.
    let seed = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap_or_default()
        .as_millis();
    let value = |name: &str| format!("{name}={}", fields.field(name).unwrap_or_default());
    let mut steps = Vec::from(["messages", "duplicates", "size", "rate", "kills"].map(value));
    steps.push(format!("seed={seed}"));
    let plan = Plan {
        verb: VERB.to_owned(),
        shown: String::new(),
        steps,
        seen: String::new(),
    };
    Burst::of(&plan)?;
    Ok(plan)
}

impl Burst {
    fn of(plan: &Plan) -> Result<Burst, Problem> {
        let value = |name: &str| {
            let mut pairs = plan.steps.iter().filter_map(|step| step.split_once('='));
            let found = pairs.find(|(key, _)| *key == name);
            found.map(|(_, value)| value).unwrap_or_default()
        };
        let wrong = |name: &str, expected: String| {
            Problem::Wrong(format!(
                "`{name}`: got `{}`, expected {expected}",
                value(name)
            ))
        };
        let messages = value("messages").parse().ok();
        let messages = messages.filter(|count| (1..=MESSAGES_MAX).contains(count));
        let messages = messages.ok_or_else(|| {
            wrong(
                "messages",
                format!("a whole number from 1 to {MESSAGES_MAX}"),
            )
        })?;
        let duplicates = value("duplicates").parse().ok();
        let duplicates = duplicates.filter(|percent: &f64| (0.0..100.0).contains(percent));
        let duplicates =
            duplicates.ok_or_else(|| wrong("duplicates", "from 0 to below 100".to_owned()))?;
        let size = value("size").parse().ok().filter(|size| *size <= SIZE_MAX);
        let size = size.ok_or_else(|| wrong("size", format!("a whole number up to {SIZE_MAX}")))?;
        let rate = match value("rate") {
            "" => Shape::Max,
            rate => {
                let per_second = rate.parse().ok().filter(|rate| *rate > 0);
                Shape::Constant {
                    per_second: per_second.ok_or_else(|| {
                        wrong("rate", "a whole number from 1 on, or nothing".to_owned())
                    })?,
                }
            }
        };
        if messages.saturating_mul(size as u64) > BYTES_MAX {
            return Err(wrong(
                "size",
                format!("at most {BYTES_MAX} bytes in all messages"),
            ));
        }
        let config = WorkloadConfig {
            seed: value("seed").parse().unwrap_or_default(),
            messages,
            duplicates: Duplicates::any(duplicates),
            sizes: Sizes::Fixed(size),
            sources: 1,
            skew: 0,
        };
        let failed = |error: String| Problem::Wrong(error);
        Ok(Burst {
            workload: Workload::new(config).map_err(|error| failed(error.to_string()))?,
            schedule: Schedule::new(&rate).map_err(|error| failed(error.to_string()))?,
            kills: value("kills") == "yes",
        })
    }
}

/// Sends a burst, waits for it, and returns what the audit says.
///
/// # Errors
/// It cannot be sent, it is stopped, or the audit finds something wrong.
pub(super) async fn burst(
    stack: &Arc<Stack>,
    plan: &Plan,
    course: &dyn Course,
) -> Result<String, Problem> {
    let burst = Burst::of(plan)?;
    let work = async {
        let began = Instant::now();
        let kills = async {
            if burst.kills {
                kill(stack).await;
            }
        };
        let taken = async {
            send(stack, &burst, course).await?;
            taken_off(stack, course).await
        };
        let (taken, ()) = tokio::join!(taken, kills);
        taken?;
        drained(stack, course).await?;
        stack.export_parts().await?;
        let audit = tokio::task::block_in_place(|| audit(stack, &burst.workload))?;
        anyhow::Ok((audit, began.elapsed()))
    };
    let done = tokio::select! {
        done = work => done.map_err(|error| Problem::Failed(format!("{error:#}")))?,
        () = course.stopped() => {
            return Err(Problem::Failed(
                "stopped: what was sent is delivered all the same, and is not audited".to_owned(),
            ));
        }
    };
    let (audit, took) = done;
    let text = told(&audit, took);
    match is_ok(&audit) {
        true => Ok(text),
        false => Err(Problem::Failed(text)),
    }
}

/// Returns whether nothing is lost, repeated or changed. Events of other bursts are in the same directory.
fn is_ok(audit: &AuditReport) -> bool {
    audit.lost + audit.repeated + audit.corrupt + audit.mixed == 0
}

fn told(audit: &AuditReport, took: Duration) -> String {
    let verdict = match is_ok(audit) {
        true => "OK: nothing lost, nothing repeated",
        false => "not as it should be",
    };
    format!(
        "{verdict}\nsent       {} messages, {} unique\ndelivered  {}\nlost       {}\nrepeated   {}\ncorrupt    {}\ntime       {:.1} s\n",
        audit.sent,
        audit.unique,
        audit.delivered,
        audit.lost,
        audit.repeated,
        audit.corrupt,
        took.as_secs_f64()
    )
}

async fn send(stack: &Stack, burst: &Burst, course: &dyn Course) -> anyhow::Result<()> {
    let options = SendOptions {
        schedule: burst.schedule.clone(),
        concurrency: 8,
        ..SendOptions::new(stack.queue_url(INPUT_QUEUE))
    };
    let all = burst.workload.len();
    let acknowledged =
        |done: SendProgress| course.show(format!("{} of {all} messages sent", done.acknowledged));
    loadgen::send(stack.sqs_client(), &burst.workload, &options, &acknowledged).await?;
    Ok(())
}

/// Waits until nothing is in the input queue.
async fn taken_off(stack: &Stack, course: &dyn Course) -> anyhow::Result<()> {
    loop {
        let depth = stack.sqs.depth(INPUT_QUEUE)?;
        let left = depth.visible + depth.in_flight + depth.delayed;
        if left == 0 && stack.input_mapping.idle() {
            return Ok(());
        }
        course.show(format!("{} in the input queue", counted(left, "message")));
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// Waits until every batch is complete or in error.
async fn drained(stack: &Stack, course: &dyn Course) -> anyhow::Result<()> {
    loop {
        let mut batches = stack.batches_by_status().await?;
        batches.remove(&Status::Error);
        let left: usize = batches.values().sum();
        if left == 0 {
            return Ok(());
        }
        course.show(format!("{} not complete", counted(left, "batch")));
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// Kills one environment of each function, a few times.
async fn kill(stack: &Stack) {
    for _ in 0..KILLS {
        tokio::time::sleep(KILL_EVERY).await;
        for function in [&stack.aggregator, &stack.batch_processor] {
            // The last ones are those that live.
            let environments = function.environments();
            let mut numbers = environments.iter().rev().map(|one| one.number);
            numbers.any(|number| function.kill_environment(number));
        }
    }
}

fn audit(stack: &Stack, workload: &Workload) -> anyhow::Result<AuditReport> {
    std::fs::create_dir_all(&stack.out)?;
    let manifests = stack.sink_report().kind.manifests();
    let audited = loadgen::audit_watched(
        &stack.out,
        workload,
        stack.duplicate_rule(),
        manifests,
        &mut |_, _, _| {},
    );
    Ok(audited?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn planned(fields: &[(&str, &str)]) -> Result<Burst, String> {
        let defaults = [("messages", "10"), ("duplicates", "5"), ("size", "300")];
        let fields = fields.iter().chain(&defaults);
        let fields = fields.map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let address = Address {
            path: "/do/burst".to_owned(),
            fields: fields.collect(),
        };
        let plan = plan(&address).map_err(|problem| problem.to_string())?;
        Burst::of(&plan).map_err(|problem| problem.to_string())
    }

    #[test]
    fn the_fields_of_the_form_are_a_burst() {
        let burst = planned(&[("messages", "1000"), ("kills", "yes"), ("rate", "50")]).unwrap();
        assert_eq!(burst.workload.len(), 1_000);
        assert!(burst.kills);
        assert!(!planned(&[]).unwrap().kills);
    }

    #[test]
    fn a_wrong_field_is_named_with_what_is_allowed() {
        for (name, value) in [
            ("messages", "0"),
            ("messages", "many"),
            ("duplicates", "100"),
            ("size", "-1"),
            ("rate", "0"),
        ] {
            let error = planned(&[(name, value)]).err().unwrap();
            assert!(
                error.starts_with(&format!("`{name}`: got `{value}`, expected ")),
                "{error}"
            );
        }
    }
}
