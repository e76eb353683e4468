//! Evaluates an alarm of the template on what a stack really does: our metrics from the lines that the functions wrote, the
//! metrics of SQS and Lambda from the queues and the Lambda host.
//!
//! Periods are shorter than in CloudWatch: an hour lasts [`HOUR`], and ages count as much longer. The number of periods, the
//! thresholds and the expressions are those of the template. Depths and ages are sampled once a period.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::time::Duration;

use emulators::lambda::{EventSourceMapping, Function};
use local::stack::{BATCH_QUEUE, INPUT_QUEUE};
use local::template;
use serde_json::Value;
use shared::metrics::NAMESPACE;

use super::expression::{Values, evaluate};
use crate::log_lines::{LogOrMetrics, lines_of};
use crate::rig::{QUEUES, Rig, now_ms};

/// How long an hour of CloudWatch lasts here.
pub const HOUR: Duration = Duration::from_secs(6);
/// How much faster time is here.
const SCALE: u32 = 3_600 / HOUR.as_secs() as u32;

/// The state of an alarm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    Ok,
    Alarm,
    InsufficientData,
}

/// An alarm of the template.
#[derive(Clone, Debug)]
struct Alarm {
    name: String,
    metrics: Vec<Metric>,
    /// `None` if the alarm looks at its only metric.
    expression: Option<String>,
    threshold: f64,
    period: Duration,
    periods_count: usize,
    missing: String,
}

#[derive(Clone, Debug)]
struct Metric {
    id: String,
    namespace: String,
    name: String,
    dimensions: BTreeMap<String, String>,
    statistic: String,
}

/// What the services have counted so far, or measure now. By namespace, metric and dimension.
type Sample = BTreeMap<[String; 3], f64>;

/// An alarm that is being evaluated.
pub struct Watch<'r> {
    rig: &'r Rig,
    alarm: Alarm,
    /// The ends of the periods so far, in epoch ms, each with the sample that was taken then.
    ends: RefCell<Vec<(u64, Sample)>>,
}

fn text(value: &Value) -> String {
    let text = value.as_str().map(str::to_owned);
    text.unwrap_or_else(|| value.to_string())
}

fn number(value: &Value) -> f64 {
    let number = text(value).parse();
    number.unwrap_or_else(|error| panic!("{value}: {error}"))
}

impl Alarm {
    /// Reads an alarm of the template.
    ///
    /// # Panics
    /// If there is no such alarm, or it is not on "greater than".
    fn of_template(name: &str) -> Alarm {
        let template = template::deployed().expect("it can be read");
        let alarms = template.alarms(&BTreeMap::new());
        let alarms = alarms.expect("every alarm can be resolved");
        let alarm = alarms.get(name);
        let alarm = alarm.unwrap_or_else(|| panic!("alarm `{name}`: not in the template"));
        let operator = &alarm["ComparisonOperator"];
        assert_eq!(operator, "GreaterThanThreshold", "{name}");
        let parts = alarm["Metrics"].as_array().cloned().unwrap_or_default();
        let (mut periods, mut metrics) = (Vec::new(), Vec::new());
        for part in &parts {
            if let Some(stat) = part.get("MetricStat") {
                periods.push(number(&stat["Period"]));
                let id = text(&part["Id"]);
                metrics.push(Metric::of(&id, &stat["Metric"], &stat["Stat"]));
            }
        }
        if parts.is_empty() {
            periods.push(number(&alarm["Period"]));
            metrics.push(Metric::of("", alarm, &alarm["Statistic"]));
        }
        let mut expressions = parts.iter().filter_map(|part| part.get("Expression"));
        periods.dedup();
        let [period_secs] = periods[..] else {
            panic!("{name}: one period: {periods:?}");
        };
        Alarm {
            name: name.to_owned(),
            metrics,
            expression: expressions.next().map(text),
            threshold: number(&alarm["Threshold"]),
            period: Duration::from_secs_f64(period_secs) / SCALE,
            periods_count: number(&alarm["EvaluationPeriods"]) as usize,
            missing: text(&alarm["TreatMissingData"]),
        }
    }

    /// Returns the state after these periods, the last of which is the present one; `None` is a period without data.
    fn state(&self, points: &[Option<f64>]) -> State {
        let mut state = State::InsufficientData;
        for end in 1..=points.len() {
            let last = &points[end.saturating_sub(self.periods_count)..end];
            let breaches = |point: &Option<f64>| point.is_some_and(|point| point > self.threshold);
            let no_data = last.iter().all(Option::is_none);
            state = match self.missing.as_str() {
                "ignore" if no_data => state,
                "missing" if no_data => State::InsufficientData,
                _ if last.len() == self.periods_count && last.iter().all(breaches) => State::Alarm,
                _ => State::Ok,
            };
        }
        state
    }
}

impl Metric {
    fn of(id: &str, metric: &Value, statistic: &Value) -> Metric {
        let dimensions = metric["Dimensions"].as_array().expect("a list");
        let pair = |one: &Value| (text(&one["Name"]), text(&one["Value"]));
        Metric {
            id: id.to_owned(),
            namespace: text(&metric["Namespace"]),
            name: text(&metric["MetricName"]),
            dimensions: dimensions.iter().map(pair).collect(),
            statistic: text(statistic),
        }
    }

    /// Returns the value of a period between two samples.
    fn value(&self, rig: &Rig, from: &(u64, Sample), to: &(u64, Sample)) -> Option<f64> {
        if self.namespace == NAMESPACE {
            return self.measured(rig, from.0, to.0);
        }
        let dimension = self.dimensions.values().next().cloned().unwrap_or_default();
        let key = [self.namespace.clone(), self.name.clone(), dimension];
        let now = to.1.get(&key);
        let now = now.unwrap_or_else(|| panic!("{key:?}: nobody measures it"));
        match self.statistic.as_str() {
            "Maximum" => Some(*now),
            "Sum" => Some(now - from.1[&key]),
            other => panic!("{}: statistic `{other}`: not supported", self.name),
        }
    }

    /// Returns the value of what the functions measured themselves, from the lines that they wrote.
    fn measured(&self, rig: &Rig, from_ms: u64, to_ms: u64) -> Option<f64> {
        let lines = lines_of(rig).into_iter();
        let values = lines.filter_map(|(_, line)| match line {
            LogOrMetrics::Metrics(line) => self.value_of(&line, from_ms, to_ms),
            LogOrMetrics::Log(_) => None,
        });
        let join: fn(f64, f64) -> f64 = match self.statistic.as_str() {
            "Maximum" => f64::max,
            "Sum" => |sum, value| sum + value,
            other => panic!("{}: statistic `{other}`: not supported", self.name),
        };
        values.reduce(join)
    }

    fn value_of(&self, line: &Value, from_ms: u64, to_ms: u64) -> Option<f64> {
        let at = line["_aws"]["Timestamp"].as_u64()?;
        let of_dimensions = |(name, value): (&String, &String)| line[name] == value.as_str();
        let is_ours = (from_ms..to_ms).contains(&at) && self.dimensions.iter().all(of_dimensions);
        line[&self.name].as_f64().filter(|_| is_ours)
    }
}

/// Returns what the services measure at this moment.
fn sample(rig: &Rig) -> Sample {
    let mut sample = Sample::new();
    let mut add = |namespace: &str, name: &str, dimension: &str, value: f64| {
        sample.insert([namespace, name, dimension].map(str::to_owned), value);
    };
    for queue in QUEUES.into_iter().chain(["sweep-dead-letter-queue"]) {
        let depth = rig.stack.sqs.depth(queue).expect("the stack has the queue");
        let age = rig.stack.sqs.oldest_age(queue).expect("it has the queue");
        let age = age.unwrap_or_default() * SCALE;
        let visible = "ApproximateNumberOfMessagesVisible";
        add("AWS/SQS", visible, queue, depth.visible as f64);
        let oldest = "ApproximateAgeOfOldestMessage";
        add("AWS/SQS", oldest, queue, age.as_secs_f64());
    }
    let mappings: [(&str, &EventSourceMapping); 2] = [
        (INPUT_QUEUE, &rig.stack.input_mapping),
        (BATCH_QUEUE, &rig.stack.batch_mapping),
    ];
    for (queue, mapping) in mappings {
        let stats = mapping.stats();
        let received = "NumberOfMessagesReceived";
        add("AWS/SQS", received, queue, stats.records as f64);
        let deleted = "NumberOfMessagesDeleted";
        add("AWS/SQS", deleted, queue, stats.deleted as f64);
    }
    let functions: [(&str, &Function); 2] = [
        ("aggregator", &rig.stack.aggregator),
        ("batch-processor", &rig.stack.batch_processor),
    ];
    for (name, function) in functions {
        let stats = function.stats();
        let errors = stats.function_errors + stats.timeouts + stats.crashes + stats.init_failures;
        add("AWS/Lambda", "Errors", name, errors as f64);
        // The host starts an environment for every invocation, and refuses none.
        add("AWS/Lambda", "Throttles", name, 0.0);
    }
    sample
}

/// Returns the names of the alarms that are not on the age of a queue. Windows and timeouts are not as short here as an hour is, so
/// that every message would be too old.
pub fn names_without_ages() -> Vec<String> {
    let template = template::deployed().expect("it can be read");
    let alarms = template.alarms(&BTreeMap::new());
    let alarms = alarms.expect("every alarm can be resolved").into_iter();
    let others = alarms.filter(|(_, alarm)| alarm["MetricName"] != "ApproximateAgeOfOldestMessage");
    others.map(|(name, _)| name).collect()
}

impl<'r> Watch<'r> {
    /// Begins to evaluate an alarm of the template.
    pub fn start(rig: &'r Rig, alarm: &str) -> Watch<'r> {
        Watch {
            rig,
            alarm: Alarm::of_template(alarm),
            ends: RefCell::new(vec![(now_ms(), sample(rig))]),
        }
    }

    /// Waits until the alarm has a state.
    pub async fn until(&self, state: State) {
        let what = format!("{} is {state:?}", self.alarm.name);
        self.rig.until(&what, async || self.state() == state).await;
    }

    /// Returns the state of the alarm. Ends a period if one is over.
    pub fn state(&self) -> State {
        let mut ends = self.ends.borrow_mut();
        let now = now_ms();
        let last = ends.last().map_or(0, |(at, _)| *at);
        if Duration::from_millis(now.saturating_sub(last)) >= self.alarm.period {
            ends.push((now, sample(self.rig)));
        }
        let points = ends.windows(2);
        let points = points.map(|period| self.point(&period[0], &period[1]));
        self.alarm.state(&Vec::from_iter(points))
    }

    fn point(&self, from: &(u64, Sample), to: &(u64, Sample)) -> Option<f64> {
        let metrics = self.alarm.metrics.iter();
        let values = metrics.map(|metric| (metric.id.clone(), metric.value(self.rig, from, to)));
        let values = Values::from_iter(values);
        match &self.alarm.expression {
            Some(expression) => evaluate(expression, &values),
            None => values.into_values().next().flatten(),
        }
    }
}

#[test]
fn alarms_of_the_template_are_read_with_periods_thresholds_and_expressions() {
    let overdue = Alarm::of_template("BatchesOverdue");
    assert_eq!((overdue.period, overdue.periods_count), (HOUR / 2, 2));
    assert_eq!(overdue.metrics[0].dimensions["function"], "batch-processor");
    assert_eq!(overdue.state(&[Some(1.0)]), State::Ok);
    assert_eq!(overdue.state(&[Some(1.0), Some(1.0)]), State::Alarm);
    assert_eq!(overdue.state(&[Some(1.0), None]), State::Ok);
    let without_data = overdue.state(&[Some(0.0), None, None]);
    assert_eq!(without_data, State::InsufficientData);
    let in_error = Alarm::of_template("BatchesInError");
    // As before.
    assert_eq!(in_error.state(&[Some(2.0), None]), State::Alarm);
    let retries = Alarm::of_template("BatchQueueRetries");
    let expression = retries.expression.unwrap_or_default();
    assert!(expression.starts_with("IF("), "{expression}");
    assert_eq!((retries.period, retries.metrics.len()), (HOUR, 3));
}
