//! What is deployed: queues, tables and functions of `infra/sam/template.yaml`, worked out as CloudFormation would.
//!
//! The stack on this machine is made from it, so that there is one definition. Known is what the template uses: another
//! intrinsic function, or a reference to nothing, is an error that names it. Roles, alarms and the dashboard are left alone.

mod resources;
mod text;

use std::collections::BTreeMap;

use anyhow::{Context, anyhow, bail, ensure};
use saphyr::{LoadableYamlNode, Scalar, Yaml};
use serde_json::{Map, Value, json};

use emulators::lambda::{ACCOUNT_ID, REGION};
pub use resources::{Function, Mapping, Queue, RedrivePolicy, Resources};
use text::text;

/// The template that is deployed, as it was when this was built.
const DEPLOYED: &str = include_str!("../../infra/sam/template.yaml");

/// A SAM template.
#[derive(Clone, Debug)]
pub struct Template {
    /// With every tag in its long form: `!Ref x` is `{"Ref": "x"}`.
    root: Value,
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

fn typed<T: serde::de::DeserializeOwned>(value: &Value) -> anyhow::Result<T> {
    Ok(T::deserialize(value)?)
}

#[cfg(test)]
mod tests;
