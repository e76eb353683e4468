//! Reads parameters of the SAM template, and applies them to settings.

use std::collections::BTreeMap;

use super::settings::{Bodies, Scaling, Settings, Tables};

/// Parameters, and settings of the configuration file, that a plan does not depend on.
const WITHOUT_EFFECT: [&str; 30] = [
    "AlarmTopicArn",
    "Answers",
    "BatchKey",
    "BatchKeysMax",
    "Config",
    "DedupWindow",
    "EventId",
    "EventIdPrefix",
    "KmsKeyArn",
    "OnDuplicate",
    "OverflowBucket",
    "PermissionsBoundaryArn",
    "PolicyArns",
    "ReserveConcurrency",
    "SecretsLayerArn",
    "Sink",
    "SinkColumns",
    "SinkCompression",
    "SinkFormat",
    "SinkHeader",
    "SinkPayloads",
    "SinkRejects",
    "SinkRejectsMax",
    "SinkSecretArn",
    "SinkSecretHeader",
    "SinkTable",
    "SinkTimeout",
    "VerifyDelay",
    "VpcSecurityGroupIds",
    "VpcSubnetIds",
];

/// A parameter, with its value.
pub type Parameter = (String, String);

/// Reads parameters from the text of a file: the JSON of CloudFormation, `[{"ParameterKey": …, "ParameterValue": …}]`; a JSON
/// list of `"Name=value"`; or `Name=value` pairs as `sam deploy --parameter-overrides` takes them, also in the line
/// `parameter_overrides = "…"` of a `samconfig.toml`.
///
/// # Errors
/// The text is none of these.
pub fn read(text: &str) -> Result<Vec<Parameter>, String> {
    let line = text.lines().find_map(|line| {
        let value = line
            .trim()
            .strip_prefix("parameter_overrides")?
            .trim_start();
        value.strip_prefix('=').map(str::trim)
    });
    match line {
        Some(line) if line.starts_with('[') => of_json(line),
        Some(line) => of_pairs(&line.trim_matches('"').replace("\\\"", "\"")),
        None if text.trim_start().starts_with('[') => of_json(text),
        None => of_pairs(text),
    }
}

fn of_json(text: &str) -> Result<Vec<Parameter>, String> {
    let wrong = |got: &str| {
        format!(
            "the parameters: wrong form: got `{got}`, expected a list of {{\"ParameterKey\", \"ParameterValue\"}} or of \"Name=value\""
        )
    };
    let list: Vec<serde_json::Value> =
        serde_json::from_str(text).map_err(|error| wrong(&error.to_string()))?;
    let parameter = |each: &serde_json::Value| match each.as_str() {
        Some(pair) => pair
            .split_once('=')
            .map(|(name, value)| (name.to_owned(), value.to_owned())),
        None => {
            let field = |name: &str| each.get(name)?.as_str().map(str::to_owned);
            Some((field("ParameterKey")?, field("ParameterValue")?))
        }
    };
    list.iter()
        .map(|each| parameter(each).ok_or_else(|| wrong(&each.to_string())))
        .collect()
}

fn of_pairs(text: &str) -> Result<Vec<Parameter>, String> {
    let mut parameters = Vec::new();
    let mut left = text.trim_start();
    while !left.is_empty() {
        let Some((name, value)) = left.split_once('=') else {
            return Err(format!(
                "the parameters: wrong form: got `{left}`, expected Name=value"
            ));
        };
        let (value, rest) = match value.strip_prefix('"') {
            Some(quoted) => quoted.split_once('"').unwrap_or((quoted, "")),
            None => value.split_once(char::is_whitespace).unwrap_or((value, "")),
        };
        parameters.push((name.trim().to_owned(), value.to_owned()));
        left = rest.trim_start();
    }
    Ok(parameters)
}

/// Applies parameters to settings; a later one of a name counts. Returns everything that is wrong with them.
pub fn apply(settings: &mut Settings, parameters: &[Parameter]) -> Vec<String> {
    apply_within(settings, parameters, true)
}

/// Applies parameters to settings of `local`, which has no bounds of the template.
pub fn apply_to_local(settings: &mut Settings, parameters: &[Parameter]) -> Vec<String> {
    let is_window = |(name, _): &Parameter| name == "MaxSecondaryBatchingWindow";
    if parameters.iter().any(is_window) {
        // A small burst with a window of its own waits for it.
        settings.batches.seal_when_drained = false;
    }
    apply_within(settings, parameters, false)
}

fn apply_within(settings: &mut Settings, parameters: &[Parameter], bounded: bool) -> Vec<String> {
    let mut values = Values {
        by_name: BTreeMap::new(),
        problems: Vec::new(),
        bounded,
    };
    for (name, value) in parameters {
        values.by_name.insert(name.as_str(), value.as_str());
    }
    for name in WITHOUT_EFFECT {
        values.by_name.remove(name);
    }
    values.functions(settings);
    values.input(settings);
    values.batches(settings);
    values.tables(settings);
    settings.use_measured_cpu();
    for (name, value) in values.by_name {
        values.problems.push(format!(
            "parameter `{name}`: unknown: got `{value}`, expected a parameter of infra/sam/template.yaml"
        ));
    }
    values.problems
}

/// The parameters that are not applied yet.
struct Values<'a> {
    by_name: BTreeMap<&'a str, &'a str>,
    problems: Vec<String>,
    /// Whether the bounds of the template hold.
    bounded: bool,
}

impl Values<'_> {
    /// Takes a number; returns nothing if it is not set, or wrong.
    fn number(&mut self, name: &str, min: u64, max: u64) -> Option<u64> {
        let value = self.by_name.remove(name)?;
        match value.parse() {
            Ok(number) if (min..=max).contains(&number) || !self.bounded => Some(number),
            Ok(_) | Err(_) => {
                let problem = format!(
                    "parameter `{name}`: not allowed: got `{value}`, expected {min} to {max}"
                );
                self.problems.push(problem);
                None
            }
        }
    }

    /// Takes a number into a setting, which stays as it is if the number is not set, or wrong.
    fn count(&mut self, name: &str, min: u64, max: u64, setting: &mut u32) {
        if let Some(count) = self.number(name, min, max) {
            *setting = count as u32;
        }
    }

    /// Takes one of some words.
    fn word<T: Copy>(&mut self, name: &str, words: &[(&str, T)]) -> Option<T> {
        let value = self.by_name.remove(name)?;
        let found = words.iter().find(|(word, _)| *word == value);
        if found.is_none() {
            let allowed: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
            let problem = format!(
                "parameter `{name}`: not allowed: got `{value}`, expected {}",
                allowed.join(" or ")
            );
            self.problems.push(problem);
        }
        found.map(|(_, meaning)| *meaning)
    }

    fn functions(&mut self, settings: &mut Settings) {
        let arm64 = self.word("Architecture", &[("x86_64", false), ("arm64", true)]);
        let memory = self.number("MemorySize", 512, 10_240);
        for function in [&mut settings.aggregator, &mut settings.processor] {
            function.arm64 = arm64.unwrap_or(function.arm64);
            function.memory_mb = memory.unwrap_or(function.memory_mb);
        }
        if let Some(secs) = self.number("AggregatorTimeout", 15, 180) {
            settings.aggregator.timeout_secs = secs as f64;
        }
        if let Some(secs) = self.number("BatchProcessorTimeout", 60, 900) {
            settings.processor.timeout_secs = secs as f64;
        }
        let processors = &mut settings.processor.concurrency;
        self.count("BatchProcessorConcurrency", 2, 1_000, processors);
        let requests = &mut settings.requests.concurrency;
        self.count("WriteConcurrency", 1, 900, requests);
        if let Some(items) = self.word("WriteMode", &[("auto", 25), ("batch", 25), ("put", 1)]) {
            settings.requests.items = items;
        }
        if let Some(millis) = self.number("DeadlineMarginMs", 2_000, 10_000) {
            settings.batches.deadline_margin_secs = millis as f64 / 1e3;
        }
    }

    fn input(&mut self, settings: &mut Settings) {
        let input = &mut settings.input;
        input.batch_size = self
            .number("InputBatchSize", 1, 10_000)
            .unwrap_or(input.batch_size);
        if let Some(secs) = self.number("InputBatchingWindow", 1, 300) {
            input.window_secs = secs as f64;
        }
        let (mut concurrency, mut pollers, mut provisioned) = match input.scaling {
            Scaling::MaximumConcurrency(max) => (max, (2, 200), false),
            Scaling::Provisioned { min, max } => (50, (min, max), true),
            Scaling::Local(_) => (50, (2, 200), false),
        };
        let words = [("maximum-concurrency", false), ("provisioned", true)];
        provisioned = self.word("InputScaling", &words).unwrap_or(provisioned);
        self.count("AggregatorConcurrency", 2, 1_000, &mut concurrency);
        self.count("PollersMin", 2, 200, &mut pollers.0);
        self.count("PollersMax", 2, 2_000, &mut pollers.1);
        if provisioned && pollers.0 > pollers.1 {
            self.problems.push(format!(
                "parameter `PollersMin`: not allowed: got `{}`, expected at most `PollersMax`, which is {}",
                pollers.0, pollers.1
            ));
        }
        if !matches!(input.scaling, Scaling::Local(_)) {
            input.scaling = match provisioned {
                true => Scaling::Provisioned {
                    min: pollers.0,
                    max: pollers.1,
                },
                false => Scaling::MaximumConcurrency(concurrency),
            };
        }
        // The template's rule; SAM has a table for it.
        input.visibility_secs = 6.0 * settings.aggregator.timeout_secs + input.window_secs;
        self.count("MaxReceiveCount", 5, 1_000, &mut input.receives_max);
    }

    fn batches(&mut self, settings: &mut Settings) {
        let batches = &mut settings.batches;
        let longest = protocol::limits::WINDOW_MAX.as_secs();
        if let Some(secs) = self.number("MaxSecondaryBatchingWindow", 1, longest) {
            batches.window_secs = secs as f64;
        }
        batches.items_max = self
            .number("MaxBatchSize", 1, 500_000)
            .unwrap_or(batches.items_max);
        batches.bytes_max = self
            .number("MaxBatchBytes", 409_600, 4_294_967_296)
            .unwrap_or(batches.bytes_max);
        batches.part_bytes_max = self
            .number("MaxPartBytes", 1_048_576, 1_073_741_824)
            .unwrap_or(batches.part_bytes_max);
        let switch = self.word("SealWhenDrained", &[("on", true), ("off", false)]);
        batches.seal_when_drained = switch.unwrap_or(batches.seal_when_drained);
        let bodies = self.by_name.remove("Bodies").unwrap_or_default();
        match bodies_of(bodies) {
            Some(bodies) => batches.bodies = bodies,
            None if bodies.is_empty() => {}
            None => self.problems.push(format!(
                "parameter `Bodies`: not allowed: got `{bodies}`, expected items, log:table, log:s3 or log:s3://<bucket>/<prefix>"
            )),
        }
        let most = protocol::limits::LOG_BATCH_ITEMS_MAX;
        if batches.bodies.is_log() && batches.items_max > most {
            self.problems.push(format!(
                "parameter `MaxBatchSize`: not allowed: got `{}`, expected at most {most} unless `Bodies` is items",
                batches.items_max
            ));
        }
    }

    fn tables(&mut self, settings: &mut Settings) {
        let tables = &mut settings.tables;
        if let Some(capacity) = self.by_name.remove("LockTableCapacity") {
            match writes_of(capacity) {
                Some(writes) => writes.apply(tables),
                None => self.problems.push(format!(
                    "parameter `LockTableCapacity`: not allowed: got `{capacity}`, expected on-demand, at-most:N, warm:N or \
                     provisioned:MIN-MAX"
                )),
            }
        }
        self.count("IndexShards", 1, 100, &mut tables.shards);
    }
}

/// Returns the place of a value of `Bodies`; [`None`] if it cannot be planned. `log:s3` is the bucket of the stack.
fn bodies_of(value: &str) -> Option<Bodies> {
    use protocol::bodies::{Bodies as Values, ObjectPlace};
    if value == "log:s3" {
        return Some(Bodies::LogS3);
    }
    match value.parse().ok()? {
        Values::Items => Some(Bodies::Items),
        Values::Log(ObjectPlace::Table) => Some(Bodies::LogTable),
        Values::Log(ObjectPlace::S3(_)) => Some(Bodies::LogS3),
    }
}

/// The write units a second that `LockTableCapacity` decides.
enum Writes {
    /// What AWS gives a new table.
    New,
    AtLeast(f64),
    AtMost(f64),
}

impl Writes {
    fn apply(&self, tables: &mut Tables) {
        match self {
            Writes::New => {}
            Writes::AtLeast(units) => {
                tables.lock = tables.lock.max(*units);
                tables.quota = tables.quota.max(*units);
            }
            Writes::AtMost(units) => {
                tables.lock = tables.lock.min(*units);
                tables.quota = tables.quota.min(*units);
            }
        }
    }
}

/// Returns the writes of a value of `LockTableCapacity`; [`None`] if the template does not allow it. Provisioned capacity takes its
/// minimum, because it is scaled only after minutes.
fn writes_of(capacity: &str) -> Option<Writes> {
    if capacity == "on-demand" {
        return Some(Writes::New);
    }
    let (kind, units) = capacity.split_once(':')?;
    let (min, _) = units.split_once('-').unwrap_or((units, ""));
    let units = f64::from(min.parse::<u32>().ok()?);
    match kind {
        "warm" => Some(Writes::AtLeast(units)),
        "at-most" | "provisioned" => Some(Writes::AtMost(units)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(name: &str, value: &str) -> Parameter {
        (name.to_owned(), value.to_owned())
    }

    #[test]
    fn a_small_burst_of_local_waits_for_a_window_that_is_set_and_for_no_other() {
        let sealed = |messages, given: &[Parameter]| {
            let mut settings = Settings::default();
            settings.burst.messages = messages;
            settings.be_local(2);
            assert_eq!(apply_to_local(&mut settings, given), [""; 0]);
            settings.batches.seal_when_drained
        };
        assert!(sealed(1_000, &[]));
        assert!(!sealed(1_001, &[]));
        assert!(!sealed(1_000, &[pair("MaxSecondaryBatchingWindow", "5")]));
    }

    #[test]
    fn every_form_of_a_file_gives_the_same_parameters() {
        let expected = vec![
            pair("Bodies", "log:table"),
            pair("Sink", "log:"),
            pair("MemorySize", "3008"),
        ];
        for text in [
            r#"[{"ParameterKey":"Bodies","ParameterValue":"log:table"},{"ParameterKey":"Sink","ParameterValue":"log:"},
                {"ParameterKey":"MemorySize","ParameterValue":"3008"}]"#,
            r#"["Bodies=log:table", "Sink=log:", "MemorySize=3008"]"#,
            "Bodies=log:table Sink=\"log:\"\nMemorySize=3008\n",
            "[default.deploy.parameters]\nparameter_overrides = \"Bodies=\\\"log:table\\\" Sink=log: MemorySize=3008\"\n",
            "[default.deploy.parameters]\nparameter_overrides = [\"Bodies=log:table\", \"Sink=log:\", \"MemorySize=3008\"]",
        ] {
            assert_eq!(read(text).unwrap(), expected, "{text}");
        }
        for (text, problem) in [
            (
                "[1]",
                "the parameters: wrong form: got `1`, expected a list of",
            ),
            ("nothing", "got `nothing`, expected Name=value"),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.contains(problem), "{error}");
        }
    }

    #[test]
    fn parameters_change_what_they_name_and_what_follows_from_it() {
        let mut settings = Settings::default();
        let given = [
            pair("AggregatorTimeout", "30"),
            pair("InputBatchingWindow", "10"),
            pair("InputScaling", "provisioned"),
            pair("PollersMax", "50"),
            pair("Bodies", "log:s3://bucket/prefix"),
            pair("LockTableCapacity", "warm:20000"),
            pair("Sink", "log:"),
        ];
        assert_eq!(apply(&mut settings, &given), [""; 0]);
        assert_eq!(settings.input.visibility_secs, 190.0);
        let scaling = Scaling::Provisioned { min: 2, max: 50 };
        assert_eq!(settings.input.scaling, scaling);
        assert_eq!(settings.batches.bodies, Bodies::LogS3);
        assert_eq!(settings.tables.lock, 20_000.0);
        // The log takes less CPU.
        assert!(settings.aggregator.micros_per_message < 20.0);
    }
}
