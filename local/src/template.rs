//! What is deployed: queues, tables and functions of `infra/sam/template.yaml`, worked out as CloudFormation would.
//!
//! The stack on this machine is made from it, so that there is one definition. Known is what the template uses: another
//! intrinsic function, or a reference to nothing, is an error that names it. Roles, alarms and the dashboard are left alone.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, anyhow, bail, ensure};
use saphyr::{LoadableYamlNode, Scalar, Yaml};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value, json};

use crate::lambda::{ACCOUNT_ID, REGION};
use crate::sqs::{QueueAttributes, Redrive};

/// The template that is deployed, as it was when this was built.
const DEPLOYED: &str = include_str!("../../infra/sam/template.yaml");

/// A SAM template.
#[derive(Clone, Debug)]
pub struct Template {
    /// With every tag in its long form: `!Ref x` is `{"Ref": "x"}`.
    root: Value,
}

/// What a template makes of one set of parameters. Every key is a resource's name as [`local_name`] spells it.
#[derive(Clone, Debug)]
pub struct Resources {
    /// The queues.
    pub queues: BTreeMap<String, Queue>,
    /// The tables.
    pub tables: BTreeMap<String, Table>,
    /// The functions, each with its mapping.
    pub functions: BTreeMap<String, Function>,
}

/// A queue.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct Queue {
    /// How long a received message stays invisible, in seconds; none is the service's default.
    #[serde(default, deserialize_with = "seconds_if_any")]
    pub visibility_timeout: Option<Duration>,
    /// How long a message is kept, in seconds.
    #[serde(default, deserialize_with = "seconds_if_any")]
    pub message_retention_period: Option<Duration>,
    /// How long a receive waits for a first message, in seconds.
    #[serde(default, deserialize_with = "seconds_if_any")]
    pub receive_message_wait_time_seconds: Option<Duration>,
    /// Where messages go that came back too often.
    pub redrive_policy: Option<RedrivePolicy>,
}

/// Where messages go that came back too often.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RedrivePolicy {
    /// ARN of the dead-letter queue.
    pub dead_letter_target_arn: String,
    /// Receives before that.
    #[serde(deserialize_with = "number")]
    pub max_receive_count: u32,
}

/// A table.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct Table {
    /// Every attribute of a key.
    pub attribute_definitions: Vec<Attribute>,
    /// The table's key.
    pub key_schema: Vec<Key>,
    /// Its indexes.
    #[serde(default)]
    pub global_secondary_indexes: Vec<Index>,
    /// `PAY_PER_REQUEST`, or what it is provisioned with.
    pub billing_mode: String,
}

/// An attribute of a key.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct Attribute {
    /// Its name.
    pub attribute_name: String,
    /// `S`, `N` or `B`.
    pub attribute_type: String,
}

/// One part of a key.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct Key {
    /// Name of the attribute.
    pub attribute_name: String,
    /// `HASH` or `RANGE`.
    pub key_type: String,
}

/// An index.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct Index {
    /// Its name.
    pub index_name: String,
    /// Its key.
    pub key_schema: Vec<Key>,
    /// What it holds besides keys.
    pub projection: Projection,
}

/// What an index holds besides keys.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct Projection {
    /// `KEYS_ONLY` or `ALL`.
    pub projection_type: String,
    /// What else than keys, with `INCLUDE`.
    #[serde(default)]
    pub non_key_attributes: Vec<String>,
}

/// A function.
#[derive(Clone, Debug)]
pub struct Function {
    /// Its environment variables.
    pub variables: BTreeMap<String, String>,
    /// Its memory in MB.
    pub memory_mb: u32,
    /// Its processor, `arm64` or `x86_64`.
    pub architecture: String,
    /// The mapping that feeds it.
    pub mapping: Mapping,
}

/// An event source mapping.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct Mapping {
    /// ARN of the queue.
    #[serde(rename = "Queue")]
    pub queue_arn: String,
    /// Most messages of one event.
    #[serde(deserialize_with = "number")]
    pub batch_size: usize,
    /// How long a batch is gathered, in seconds.
    #[serde(
        default,
        rename = "MaximumBatchingWindowInSeconds",
        deserialize_with = "seconds"
    )]
    pub window: Duration,
    /// Kinds of answers that are listened to.
    #[serde(default)]
    pub function_response_types: Vec<String>,
}

impl Resources {
    /// A function by its local name.
    ///
    /// # Errors
    /// When the template has none of that name.
    pub fn function(&self, name: &str) -> anyhow::Result<&Function> {
        self.functions
            .get(name)
            .with_context(|| format!("the template has no function `{name}`"))
    }
}

impl Queue {
    /// What it is created with; what the template leaves open is the service's default.
    pub fn attributes(&self) -> QueueAttributes {
        let default = QueueAttributes::default();
        QueueAttributes {
            visibility_timeout: self
                .visibility_timeout
                .unwrap_or(default.visibility_timeout),
            retention: self.message_retention_period.unwrap_or(default.retention),
            receive_wait: self
                .receive_message_wait_time_seconds
                .unwrap_or(default.receive_wait),
            redrive: self.redrive_policy.as_ref().map(|policy| Redrive {
                dead_letter_queue: queue_of(&policy.dead_letter_target_arn).to_owned(),
                receives_max: policy.max_receive_count,
            }),
            ..default
        }
    }
}

impl Mapping {
    /// Local name of the queue.
    pub fn queue(&self) -> &str {
        queue_of(&self.queue_arn)
    }

    /// Whether the function's answer is looked at.
    pub fn reports_batch_item_failures(&self) -> bool {
        self.function_response_types
            .iter()
            .any(|kind| kind == "ReportBatchItemFailures")
    }
}

/// How a resource is called on this machine: `InputQueue` is `input-queue`.
pub fn local_name(logical_id: &str) -> String {
    let mut name = String::new();
    for letter in logical_id.chars() {
        if letter.is_ascii_uppercase() && !name.is_empty() {
            name.push('-');
        }
        name.push(letter.to_ascii_lowercase());
    }
    name
}

impl Template {
    /// The one that is deployed.
    ///
    /// # Errors
    /// When it cannot be read; a test rules that out.
    pub fn deployed() -> anyhow::Result<Template> {
        Template::parse(DEPLOYED).context("infra/sam/template.yaml")
    }

    /// Reads a template.
    ///
    /// # Errors
    /// When it is no YAML, or no template.
    pub fn parse(text: &str) -> anyhow::Result<Template> {
        let documents = Yaml::load_from_str(text)?;
        let [document] = documents.as_slice() else {
            bail!("{} YAML documents instead of one", documents.len());
        };
        let root = plain(document)?;
        ensure!(root["Resources"].is_object(), "there are no `Resources`");
        Ok(Template { root })
    }

    /// The parameters that variables of the functions come from, as far as the template allows their values: what it does
    /// not allow is left to the functions, which may.
    pub fn parameters_for(&self, variables: &BTreeMap<String, String>) -> BTreeMap<String, String> {
        let mut parameters = BTreeMap::new();
        for (_, resource) in self.resources_of("AWS::Serverless::Function") {
            let given = &resource["Properties"]["Environment"]["Variables"];
            for (name, value) in variables {
                let Some(parameter) = given[name]["Ref"].as_str() else {
                    continue;
                };
                let Some(definition) = self.root["Parameters"].get(parameter) else {
                    continue;
                };
                let allowed = definition["AllowedValues"].as_array();
                if allowed.is_none_or(|allowed| allowed.iter().any(|each| text(each) == *value)) {
                    parameters.insert(parameter.to_owned(), value.clone());
                }
            }
        }
        parameters
    }

    /// Works queues, tables and functions out. `queue_url` is told a queue's local name.
    ///
    /// # Errors
    /// A parameter that does not exist or has no value, a reference to nothing, an intrinsic function that is not known here,
    /// a property of the wrong form; each with the resource.
    pub fn resolve(
        &self,
        parameters: &BTreeMap<String, String>,
        queue_url: &dyn Fn(&str) -> String,
    ) -> anyhow::Result<Resources> {
        let resolver = Resolver {
            template: self,
            parameters,
            queue_url,
        };
        for name in parameters.keys() {
            let known = self.root["Parameters"].get(name).is_some();
            ensure!(known, "the template has no parameter `{name}`");
        }
        Ok(Resources {
            queues: self.each("AWS::SQS::Queue", |properties| {
                typed(&resolver.required(properties)?)
            })?,
            tables: self.each("AWS::DynamoDB::Table", |properties| {
                typed(&resolver.required(properties)?)
            })?,
            functions: self.each("AWS::Serverless::Function", |properties| {
                resolver.function(properties)
            })?,
        })
    }

    fn resources_of<'a>(
        &'a self,
        kind: &'static str,
    ) -> impl Iterator<Item = (&'a String, &'a Value)> {
        self.root["Resources"]
            .as_object()
            .into_iter()
            .flatten()
            .filter(move |(_, resource)| resource["Type"] == kind)
    }

    fn each<T>(
        &self,
        kind: &'static str,
        make: impl Fn(&Value) -> anyhow::Result<T>,
    ) -> anyhow::Result<BTreeMap<String, T>> {
        self.resources_of(kind)
            .map(|(name, resource)| {
                let made = make(&resource["Properties"])
                    .with_context(|| format!("resource `{name}` of the template"))?;
                Ok((local_name(name), made))
            })
            .collect()
    }
}

/// Works values out. `None` is `AWS::NoValue`: what has it is not there.
struct Resolver<'a> {
    template: &'a Template,
    parameters: &'a BTreeMap<String, String>,
    queue_url: &'a dyn Fn(&str) -> String,
}

impl Resolver<'_> {
    fn function(&self, properties: &Value) -> anyhow::Result<Function> {
        let globals = &self.template.root["Globals"]["Function"];
        let property = |name: &str| properties.get(name).unwrap_or(&globals[name]);
        let variables = self.required(&properties["Environment"]["Variables"])?;
        let mapping = properties["Events"]
            .as_object()
            .into_iter()
            .flatten()
            .find(|(_, event)| event["Type"] == "SQS")
            .ok_or_else(|| anyhow!("no event is of type SQS"))?
            .1;
        Ok(Function {
            variables: variables
                .as_object()
                .into_iter()
                .flatten()
                .map(|(name, value)| (name.clone(), text(value)))
                .collect(),
            memory_mb: text(&self.required(property("MemorySize"))?)
                .parse()
                .context("MemorySize")?,
            // Where nothing is said, it is the older one.
            architecture: self.required(property("Architectures"))?[0]
                .as_str()
                .unwrap_or("x86_64")
                .to_owned(),
            mapping: typed(&self.required(&mapping["Properties"])?)?,
        })
    }

    fn required(&self, node: &Value) -> anyhow::Result<Value> {
        self.value(node)?
            .ok_or_else(|| anyhow!("`{node}` has no value"))
    }

    fn value(&self, node: &Value) -> anyhow::Result<Option<Value>> {
        match node {
            Value::Array(items) => {
                let values = items.iter().filter_map(|item| self.value(item).transpose());
                Ok(Some(Value::Array(values.collect::<anyhow::Result<_>>()?)))
            }
            Value::Object(fields) => {
                if let Some((name, argument)) = intrinsic(fields) {
                    return self
                        .intrinsic(name, argument)
                        .with_context(|| format!("`{node}`"));
                }
                let mut values = Map::new();
                for (name, field) in fields {
                    if let Some(value) = self.value(field)? {
                        values.insert(name.clone(), value);
                    }
                }
                Ok(Some(Value::Object(values)))
            }
            plain => Ok(Some(plain.clone())),
        }
    }

    fn intrinsic(&self, name: &str, argument: &Value) -> anyhow::Result<Option<Value>> {
        let arguments = argument.as_array().map_or(&[][..], Vec::as_slice);
        match (name, arguments) {
            ("Ref", _) => self.reference(argument.as_str().unwrap_or_default()),
            ("Fn::GetAtt", _) => {
                let parts: Vec<&str> = match argument.as_str() {
                    Some(dotted) => dotted.splitn(2, '.').collect(),
                    None => arguments.iter().filter_map(Value::as_str).collect(),
                };
                self.attribute(&parts).map(Some)
            }
            ("Fn::If", [condition, met, unmet]) => {
                let met = if self.condition(condition)? {
                    met
                } else {
                    unmet
                };
                self.value(met)
            }
            ("Fn::FindInMap", [map, first, second]) => {
                let mut found = &self.template.root["Mappings"];
                for key in [map, first, second] {
                    let key = text(&self.required(key)?);
                    found = found.get(&key).with_context(|| format!("no `{key}`"))?;
                }
                Ok(Some(found.clone()))
            }
            _ => bail!("not known here"),
        }
    }

    fn condition(&self, name: &Value) -> anyhow::Result<bool> {
        let name = name.as_str().unwrap_or_default();
        let condition = self.template.root["Conditions"]
            .get(name)
            .with_context(|| format!("no condition is called `{name}`"))?;
        self.truth(condition)
    }

    fn truth(&self, node: &Value) -> anyhow::Result<bool> {
        if let Some([one, other]) = node["Fn::Equals"].as_array().map(Vec::as_slice) {
            return Ok(text(&self.required(one)?) == text(&self.required(other)?));
        }
        if let Some([negated]) = node["Fn::Not"].as_array().map(Vec::as_slice) {
            return Ok(!self.truth(negated)?);
        }
        bail!("the condition `{node}` is not known here")
    }

    fn reference(&self, name: &str) -> anyhow::Result<Option<Value>> {
        if name == "AWS::NoValue" {
            return Ok(None);
        }
        if name == "AWS::Region" {
            return Ok(Some(json!(REGION)));
        }
        if let Some(definition) = self.template.root["Parameters"].get(name) {
            let value = match (self.parameters.get(name), definition.get("Default")) {
                (Some(chosen), _) => chosen.clone(),
                (None, Some(default)) => text(default),
                (None, None) => bail!("parameter `{name}` has no value"),
            };
            return Ok(Some(json!(value)));
        }
        let local = local_name(name);
        Ok(Some(json!(if self.kind(name)? == "AWS::SQS::Queue" {
            (self.queue_url)(&local)
        } else {
            local
        })))
    }

    fn attribute(&self, parts: &[&str]) -> anyhow::Result<Value> {
        let [name, attribute] = parts else {
            bail!("not a resource and an attribute")
        };
        match (self.kind(name)?, *attribute) {
            ("AWS::SQS::Queue", "Arn") => Ok(json!(queue_arn(&local_name(name)))),
            // Nothing that is made here looks at it: a role, say.
            _ => Ok(json!(format!("{}.{attribute}", local_name(name)))),
        }
    }

    fn kind(&self, name: &str) -> anyhow::Result<&str> {
        self.template.root["Resources"][name]["Type"]
            .as_str()
            .with_context(|| format!("nothing is called `{name}`"))
    }
}

fn queue_arn(local_name: &str) -> String {
    format!("arn:aws:sqs:{REGION}:{ACCOUNT_ID}:{local_name}")
}

fn queue_of(arn: &str) -> &str {
    arn.rsplit(':').next().unwrap_or(arn)
}

fn intrinsic(fields: &Map<String, Value>) -> Option<(&str, &Value)> {
    let (name, argument) = fields.iter().next()?;
    let called = name == "Ref" || name.starts_with("Fn::");
    (fields.len() == 1 && called).then_some((name.as_str(), argument))
}

/// JSON of YAML: a tag becomes the long form of the function it stands for.
fn plain(node: &Yaml<'_>) -> anyhow::Result<Value> {
    Ok(match node {
        Yaml::Value(Scalar::Null) => Value::Null,
        Yaml::Value(Scalar::Boolean(value)) => json!(value),
        Yaml::Value(Scalar::Integer(value)) => json!(value),
        Yaml::Value(Scalar::FloatingPoint(value)) => json!(value.0),
        Yaml::Value(Scalar::String(value)) => json!(value),
        Yaml::Sequence(items) => items.iter().map(plain).collect::<anyhow::Result<_>>()?,
        Yaml::Mapping(fields) => {
            let mut object = Map::new();
            for (name, value) in fields {
                object.insert(text(&plain(name)?), plain(value)?);
            }
            Value::Object(object)
        }
        Yaml::Tagged(tag, tagged) => {
            let function = match tag.suffix.as_str() {
                name @ ("Ref" | "Condition") => name.to_owned(),
                name => format!("Fn::{name}"),
            };
            json!({ function: plain(tagged)? })
        }
        Yaml::Representation(..) | Yaml::Alias(_) | Yaml::BadValue => {
            bail!("`{node:?}` is not understood")
        }
    })
}

/// A value as CloudFormation compares it and hands it on.
fn text(value: &Value) -> String {
    value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_owned)
}

fn typed<T: serde::de::DeserializeOwned>(value: &Value) -> anyhow::Result<T> {
    Ok(T::deserialize(value)?)
}

/// A number, which is text where it comes from a parameter.
fn number<'de, D, N>(deserializer: D) -> Result<N, D::Error>
where
    D: Deserializer<'de>,
    N: std::str::FromStr<Err: std::fmt::Display>,
{
    let value = text(&Value::deserialize(deserializer)?);
    value
        .parse()
        .map_err(|error| serde::de::Error::custom(format!("`{value}`: {error}")))
}

fn seconds<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    number(deserializer).map(Duration::from_secs)
}

fn seconds_if_any<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Duration>, D::Error> {
    seconds(deserializer).map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolve(text: &str, parameters: &[(&str, &str)]) -> anyhow::Result<Resources> {
        let parameters = parameters
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect();
        Template::parse(text)?.resolve(&parameters, &|queue| format!("http://sqs/{queue}"))
    }

    #[test]
    fn the_deployed_template_has_what_the_stack_needs() {
        let resources = resolve(DEPLOYED, &[("OnDuplicate", "requeue")]).unwrap();
        let names: Vec<&String> = resources.queues.keys().collect();
        assert_eq!(
            names,
            [
                "batch-dead-letter-queue",
                "batch-queue",
                "input-dead-letter-queue",
                "input-queue",
                "quarantine-queue"
            ]
        );
        let redrive = resources.queues["input-queue"].redrive_policy.as_ref();
        let redrive = redrive.expect("the input queue has dead letters");
        assert_eq!(redrive.max_receive_count, 1_000);
        assert_eq!(
            redrive.dead_letter_target_arn,
            queue_arn("input-dead-letter-queue")
        );
        let lock_table = &resources.tables["lock-table"];
        assert_eq!(
            lock_table.global_secondary_indexes[0]
                .projection
                .projection_type,
            "KEYS_ONLY"
        );
        let aggregator = &resources.functions["aggregator"];
        assert_eq!(aggregator.memory_mb, 1_769);
        assert_eq!(aggregator.architecture, "arm64");
        assert_eq!(aggregator.mapping.window, Duration::from_secs(1));
        assert_eq!(
            aggregator.variables["BATCH_QUEUE_URL"],
            "http://sqs/batch-queue"
        );
        assert_eq!(aggregator.variables["ON_DUPLICATE"], "requeue");
        assert_eq!(aggregator.variables["DDB_LOCK_TABLE"], "lock-table");
    }

    /// The rule that the stack applies to timeouts that the template does not allow is the template's own.
    #[test]
    fn the_visibility_timeout_of_every_allowed_timeout_is_six_times_it_and_the_window() {
        let template = Template::deployed().unwrap();
        let allowed = |parameter: &str| -> Vec<u64> {
            let values = &template.root["Parameters"][parameter]["AllowedValues"];
            let numbers = values.as_array().into_iter().flatten();
            numbers.filter_map(Value::as_u64).collect()
        };
        let mut seen = 0;
        for timeout in allowed("AggregatorTimeout") {
            for window in allowed("InputBatchingWindow") {
                let (timeout_text, window_text) = (timeout.to_string(), window.to_string());
                let parameters = [
                    ("AggregatorTimeout", timeout_text.as_str()),
                    ("InputBatchingWindow", window_text.as_str()),
                ];
                let resources = resolve(DEPLOYED, &parameters).unwrap();
                let queue = &resources.queues["input-queue"];
                let visibility = Duration::from_secs(6 * timeout + window);
                assert_eq!(queue.visibility_timeout, Some(visibility));
                assert_eq!(
                    resources.functions["aggregator"].mapping.window.as_secs(),
                    window
                );
                seen += 1;
            }
        }
        assert_eq!(seen, 35);
    }

    #[test]
    fn a_variable_chooses_its_parameter_where_the_template_allows_the_value() {
        let variables = [
            ("ON_DUPLICATE", "requeue"),
            ("WRITE_MODE", "by pigeon"),
            ("MAX_BATCH_SIZE", "7"),
            ("DDB_LOCK_TABLE", "mine"),
            ("NOBODY_KNOWS", "it"),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()));
        let parameters = Template::deployed()
            .unwrap()
            .parameters_for(&variables.into());
        let expected = [("MaxBatchSize", "7"), ("OnDuplicate", "requeue")]
            .map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(parameters, expected.into());
    }

    #[test]
    fn a_wrong_template_is_refused_with_the_place_and_the_reason() {
        let queue = |properties: &str| {
            format!(
                "Resources:\n  Jobs:\n    Type: AWS::SQS::Queue\n    Properties: {properties}\n"
            )
        };
        let cases = [
            ("[", "while"),
            ("a: 1", "there are no `Resources`"),
            (
                &queue("{ VisibilityTimeout: !Ref Nothing }"),
                "nothing is called `Nothing`",
            ),
            (
                &queue("{ VisibilityTimeout: !Cidr [1] }"),
                "{\"Fn::Cidr\":[1]}`: not known here",
            ),
            (
                &queue("{ VisibilityTimeout: soon }"),
                "resource `Jobs` of the template: `soon`: invalid digit",
            ),
            (
                &queue("{ VisibilityTimeout: !If [Hurry, 1, 2] }"),
                "no condition is called `Hurry`",
            ),
        ];
        for (text, expected) in cases {
            let error = format!("{:#}", resolve(text, &[]).unwrap_err());
            assert!(error.contains(expected), "{error}");
        }
        let error = resolve(DEPLOYED, &[("Colour", "blue")]).unwrap_err();
        assert_eq!(error.to_string(), "the template has no parameter `Colour`");
    }
}
