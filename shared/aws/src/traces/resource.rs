//! The resource that all spans of a process share: the function.

use opentelemetry::{Key, KeyValue};
use opentelemetry_sdk::Resource;
use opentelemetry_semantic_conventions::attribute::{
    CLOUD_PLATFORM, CLOUD_PROVIDER, CLOUD_REGION, FAAS_INSTANCE, FAAS_MAX_MEMORY, FAAS_NAME,
    FAAS_VERSION, SERVICE_NAME,
};

/// The SDK's name for a service whose name is in no variable.
const UNKNOWN_SERVICE: &str = "unknown_service";

/// Returns the resource that the variables of Lambda describe, and `OTEL_RESOURCE_ATTRIBUTES` and `OTEL_SERVICE_NAME`. Without
/// the latter, the service has the name of the function.
/// Source: <https://opentelemetry.io/docs/specs/semconv/resource/faas/> (2026-11).
pub(super) fn resource(variable: &dyn Fn(&str) -> Option<String>) -> Resource {
    let given = Resource::builder().build();
    let name = given.get(&Key::new(SERVICE_NAME));
    let is_named = name.is_some_and(|name| !name.as_str().starts_with(UNKNOWN_SERVICE));
    let mut attributes = vec![
        KeyValue::new(CLOUD_PROVIDER, "aws"),
        KeyValue::new(CLOUD_PLATFORM, "aws_lambda"),
    ];
    let of_variables = [
        (FAAS_NAME, "AWS_LAMBDA_FUNCTION_NAME"),
        (FAAS_VERSION, "AWS_LAMBDA_FUNCTION_VERSION"),
        (FAAS_INSTANCE, "AWS_LAMBDA_LOG_STREAM_NAME"),
        (CLOUD_REGION, "AWS_REGION"),
    ];
    attributes.extend(
        of_variables
            .into_iter()
            .filter_map(|(name, of)| Some(KeyValue::new(name, variable(of)?))),
    );
    let memory_mb = variable("AWS_LAMBDA_FUNCTION_MEMORY_SIZE").and_then(|mb| mb.parse().ok());
    attributes.extend(memory_mb.map(|mb: i64| KeyValue::new(FAAS_MAX_MEMORY, mb << 20)));
    if let Some(name) = variable("AWS_LAMBDA_FUNCTION_NAME").filter(|_| !is_named) {
        attributes.push(KeyValue::new(SERVICE_NAME, name));
    }
    Resource::builder().with_attributes(attributes).build()
}
