//! Parses a SAM template, and resolves its queues, tables and functions as CloudFormation would.

use std::collections::BTreeMap;

use anyhow::{Context, anyhow, bail, ensure};
use saphyr::{LoadableYamlNode, Scalar, Yaml};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use super::resources::{Function, Resources};
use super::text::text;
use crate::lambda::{ACCOUNT_ID, REGION};

/// A SAM template.
#[derive(Clone, Debug)]
pub struct Template {
    /// The template as JSON. Tags have their long form: `!Ref x` is `{"Ref": "x"}`.
    root: Value,
}

/// Returns the name of a resource in the stack: that of `InputQueue` is `input-queue`.
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
    /// Parses a template.
    ///
    /// # Errors
    /// The text is not one YAML document, or has no `Resources`.
    pub fn parse(text: &str) -> anyhow::Result<Template> {
        let documents = Yaml::load_from_str(text)?;
        let [document] = documents.as_slice() else {
            let count = documents.len();
            bail!("YAML: wrong number of documents: got {count}, expected 1");
        };
        let root = json_of(document)?;
        ensure!(root["Resources"].is_object(), "`Resources`: missing");
        Ok(Template { root })
    }

    /// Returns the `AllowedValues` of a parameter. Returns `None` if it has none, or if there is no such parameter.
    pub fn allowed_values(&self, parameter: &str) -> Option<Vec<String>> {
        let allowed = &self.root["Parameters"][parameter]["AllowedValues"];
        Some(allowed.as_array()?.iter().map(text).collect())
    }

    fn has_parameter(&self, name: &str) -> bool {
        self.root["Parameters"].get(name).is_some()
    }

    /// Returns whether a node is a reference to a parameter that has no value.
    fn is_open(&self, node: &Value, chosen: &BTreeMap<String, String>) -> bool {
        let name = node["Ref"].as_str().unwrap_or_default();
        let parameter = self.root["Parameters"].get(name);
        parameter.is_some_and(|parameter| parameter.get("Default").is_none())
            && !chosen.contains_key(name)
    }

    /// Returns the parameters from which the template sets these variables of the functions, with the values of the
    /// variables. Leaves out values that the template does not allow: the functions may allow them.
    pub fn parameters_for(&self, variables: &BTreeMap<String, String>) -> BTreeMap<String, String> {
        let mut parameters = BTreeMap::new();
        for (_, resource) in self.functions() {
            let given = &resource["Properties"]["Environment"]["Variables"];
            for (name, value) in variables {
                let Some(parameter) = given[name]["Ref"].as_str() else {
                    continue;
                };
                let allowed = self.allowed_values(parameter);
                if self.has_parameter(parameter)
                    && allowed.is_none_or(|allowed| allowed.contains(value))
                {
                    parameters.insert(parameter.to_owned(), value.clone());
                }
            }
        }
        parameters
    }

    /// Resolves queues, tables and functions. `queue_url` returns the URL of the queue with a [local name](local_name). Leaves out
    /// variables of functions whose parameter has no value: the host of the functions sets them.
    ///
    /// # Errors
    /// A parameter that does not exist or has no value, a reference to something that does not exist, an unsupported
    /// intrinsic function, or a property of the wrong form. The error names the resource.
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
            let known = self.has_parameter(name);
            ensure!(known, "parameter `{name}`: not in the template");
        }
        let queues = self.resources_of("AWS::SQS::Queue");
        let tables = self.resources_of("AWS::DynamoDB::Table");
        let function = |properties: &Value| resolver.function(properties);
        Ok(Resources {
            queues: resolve_each(queues, local_name, |queue| resolver.typed(queue))?,
            tables: resolve_each(tables, local_name, |table| resolver.typed(table))?,
            functions: resolve_each(self.functions(), local_name, function)?,
        })
    }

    /// Returns the properties of every alarm, by logical id. Queues and functions have their [local names](local_name) in them.
    ///
    /// # Errors
    /// Those of [`resolve`](Self::resolve).
    pub fn alarms(
        &self,
        parameters: &BTreeMap<String, String>,
    ) -> anyhow::Result<BTreeMap<String, Value>> {
        let resolver = Resolver {
            template: self,
            parameters,
            queue_url: &|queue| queue.to_owned(),
        };
        let alarms = self.resources_of("AWS::CloudWatch::Alarm");
        resolve_each(alarms, str::to_owned, |alarm| resolver.required(alarm))
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

    /// Returns the functions that events invoke. The check of a deployment is none: only CloudFormation calls it.
    fn functions(&self) -> impl Iterator<Item = (&String, &Value)> {
        let functions = self.resources_of("AWS::Serverless::Function");
        functions.filter(|(_, resource)| resource["Properties"].get("Events").is_some())
    }
}

/// Returns resources by the names that `key` makes of their logical ids, each made from its properties by `make`.
fn resolve_each<'a, T>(
    resources: impl Iterator<Item = (&'a String, &'a Value)>,
    key: impl Fn(&str) -> String,
    make: impl Fn(&Value) -> anyhow::Result<T>,
) -> anyhow::Result<BTreeMap<String, T>> {
    let made = resources.map(|(name, resource)| {
        let made = make(&resource["Properties"]);
        let made = made.with_context(|| format!("resource `{name}` of the template"))?;
        Ok((key(name), made))
    });
    made.collect()
}

/// Resolves values. `None` stands for `AWS::NoValue`: the property with this value is left out.
struct Resolver<'a> {
    template: &'a Template,
    parameters: &'a BTreeMap<String, String>,
    queue_url: &'a dyn Fn(&str) -> String,
}

impl Resolver<'_> {
    fn function(&self, properties: &Value) -> anyhow::Result<Function> {
        let globals = &self.template.root["Globals"]["Function"];
        let property = |name: &str| properties.get(name).unwrap_or(&globals[name]);
        let variables = properties["Environment"]["Variables"].as_object();
        let set = |value: &Value| !self.template.is_open(value, self.parameters);
        let variables = variables.into_iter().flatten();
        let variables = variables.filter(|(_, value)| set(value));
        let mut events = properties["Events"].as_object().into_iter().flatten();
        let mapping = events.find(|(_, event)| event["Type"] == "SQS");
        let (_, mapping) = mapping.context("`Events`: none of type `SQS`, expected one")?;
        let memory_mb = text(&self.required(property("MemorySize"))?);
        Ok(Function {
            variables: variables
                .map(|(name, value)| Ok((name.clone(), text(&self.required(value)?))))
                .collect::<anyhow::Result<_>>()?,
            memory_mb: memory_mb.parse().context("MemorySize")?,
            // Lambda's default.
            architecture: self.required(property("Architectures"))?[0]
                .as_str()
                .unwrap_or("x86_64")
                .to_owned(),
            mapping: self.typed(&mapping["Properties"])?,
        })
    }

    fn typed<T: DeserializeOwned>(&self, node: &Value) -> anyhow::Result<T> {
        Ok(T::deserialize(self.required(node)?)?)
    }

    fn required(&self, node: &Value) -> anyhow::Result<Value> {
        self.value(node)?
            .ok_or_else(|| anyhow!("`{node}`: no value"))
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
                let is_met = self.condition(condition)?;
                self.value(if is_met { met } else { unmet })
            }
            ("Fn::FindInMap", [map, first, second]) => {
                let mut found = &self.template.root["Mappings"];
                for key in [map, first, second] {
                    let key = text(&self.required(key)?);
                    found = found
                        .get(&key)
                        .with_context(|| format!("`{key}`: not in the mapping"))?;
                }
                Ok(Some(found.clone()))
            }
            ("Fn::Sub", _) => {
                let text = argument.as_str();
                let text = text.context("not supported: expected a text without a map")?;
                self.substituted(text).map(|text| Some(json!(text)))
            }
            ("Fn::Split", [separator, whole]) => {
                let (separator, whole) = (self.required(separator)?, self.required(whole)?);
                let (separator, whole) = (text(&separator), text(&whole));
                Ok(Some(whole.split(&separator).collect()))
            }
            ("Fn::Select", [index, list]) => {
                let (index, list) = (text(&self.required(index)?), self.required(list)?);
                let chosen = list.get(index.parse::<usize>()?);
                Ok(Some(chosen.context("not in the list")?.clone()))
            }
            _ => bail!("not supported"),
        }
    }

    fn condition(&self, name: &Value) -> anyhow::Result<bool> {
        let name = name.as_str().unwrap_or_default();
        let condition = self.template.root["Conditions"].get(name);
        let condition =
            condition.with_context(|| format!("condition `{name}`: not in the template"))?;
        self.is_true(condition)
    }

    fn is_true(&self, node: &Value) -> anyhow::Result<bool> {
        if let Some([one, other]) = node["Fn::Equals"].as_array().map(Vec::as_slice) {
            return Ok(text(&self.required(one)?) == text(&self.required(other)?));
        }
        if let Some([negated]) = node["Fn::Not"].as_array().map(Vec::as_slice) {
            return Ok(!self.is_true(negated)?);
        }
        bail!("condition `{node}`: not supported")
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
                (None, None) => bail!("parameter `{name}`: no value"),
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

    /// Returns a text with the values of the names in `${…}`.
    fn substituted(&self, whole: &str) -> anyhow::Result<String> {
        let mut pieces = whole.split("${");
        let mut result = pieces.next().unwrap_or_default().to_owned();
        for piece in pieces {
            let (name, rest) = piece
                .split_once('}')
                .with_context(|| format!("`{whole}`: a `${{` without `}}`"))?;
            let value = self.reference(name)?;
            let value = value.with_context(|| format!("`{name}`: no value"))?;
            result.push_str(&text(&value));
            result.push_str(rest);
        }
        Ok(result)
    }

    fn attribute(&self, parts: &[&str]) -> anyhow::Result<Value> {
        let [name, attribute] = parts else {
            bail!("wrong form: expected a resource and an attribute")
        };
        match (self.kind(name)?, *attribute) {
            ("AWS::SQS::Queue", "Arn") => Ok(json!(queue_arn(&local_name(name)))),
            ("AWS::SQS::Queue", "QueueName") => Ok(json!(local_name(name))),
            // No resource of the stack uses other attributes, for example those of roles. Any text will do.
            _ => Ok(json!(format!("{}.{attribute}", local_name(name)))),
        }
    }

    fn kind(&self, name: &str) -> anyhow::Result<&str> {
        let kind = self.template.root["Resources"][name]["Type"].as_str();
        let wrong = "neither a parameter nor a resource of the template";
        kind.with_context(|| format!("`{name}`: {wrong}"))
    }
}

fn queue_arn(local_name: &str) -> String {
    format!("arn:aws:sqs:{REGION}:{ACCOUNT_ID}:{local_name}")
}

fn intrinsic(fields: &Map<String, Value>) -> Option<(&str, &Value)> {
    let (name, argument) = fields.iter().next()?;
    let called = name == "Ref" || name.starts_with("Fn::");
    (fields.len() == 1 && called).then_some((name.as_str(), argument))
}

/// Converts YAML to JSON. A tag becomes the long form of its intrinsic function.
fn json_of(node: &Yaml<'_>) -> anyhow::Result<Value> {
    Ok(match node {
        Yaml::Value(Scalar::Null) => Value::Null,
        Yaml::Value(Scalar::Boolean(value)) => json!(value),
        Yaml::Value(Scalar::Integer(value)) => json!(value),
        Yaml::Value(Scalar::FloatingPoint(value)) => json!(value.0),
        Yaml::Value(Scalar::String(value)) => json!(value),
        Yaml::Sequence(items) => items.iter().map(json_of).collect::<anyhow::Result<_>>()?,
        Yaml::Mapping(fields) => {
            let mut object = Map::new();
            for (name, value) in fields {
                object.insert(text(&json_of(name)?), json_of(value)?);
            }
            Value::Object(object)
        }
        Yaml::Tagged(tag, tagged) => {
            let function = match tag.suffix.as_str() {
                name @ ("Ref" | "Condition") => name.to_owned(),
                name => format!("Fn::{name}"),
            };
            json!({ function: json_of(tagged)? })
        }
        Yaml::Representation(..) | Yaml::Alias(_) | Yaml::BadValue => {
            bail!("`{node:?}`: not supported")
        }
    })
}

#[cfg(test)]
mod tests;
