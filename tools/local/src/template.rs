//! The deployed SAM template, from which the stack is made, so that there is only one definition of its queues, tables and
//! functions.

use anyhow::Context;
use emulators::sam::Template;

/// The deployed template at the time of the build.
const DEPLOYED: &str = include_str!("../../../infra/sam/template.yaml");

/// Returns the deployed template.
///
/// # Errors
/// Never in practice: a test parses this template.
pub fn deployed() -> anyhow::Result<Template> {
    Template::parse(DEPLOYED).context("infra/sam/template.yaml")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use emulators::sam::Resources;

    use super::*;

    fn resolved(parameters: &[(&str, &str)]) -> Resources {
        let parameters = parameters
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect();
        let template = deployed().unwrap();
        let resources = template.resolve(&parameters, &|queue| format!("http://sqs/{queue}"));
        resources.unwrap()
    }

    #[test]
    fn the_deployed_template_has_what_the_stack_needs() {
        let resources = resolved(&[("OnDuplicate", "requeue")]);
        let names: Vec<&String> = resources.queues.keys().collect();
        assert_eq!(
            names,
            [
                "batch-dead-letter-queue",
                "batch-queue",
                "input-dead-letter-queue",
                "input-queue",
                "quarantine-queue",
                "sweep-dead-letter-queue"
            ]
        );
        let redrive = resources.queues["input-queue"].attributes().redrive;
        let redrive = redrive.expect("the input queue has dead letters");
        assert_eq!(redrive.receives_max, 1_000);
        assert_eq!(redrive.dead_letter_queue, "input-dead-letter-queue");
        let index = &resources.tables["lock-table"].global_secondary_indexes[0];
        assert_eq!(index.projection.projection_type, "KEYS_ONLY");
        let aggregator = &resources.functions["aggregator"];
        assert_eq!(aggregator.memory_mb, 1_769);
        assert_eq!(aggregator.architecture, "arm64");
        assert_eq!(aggregator.mapping.window, Duration::from_secs(1));
        let variables = &aggregator.variables;
        assert_eq!(variables["BATCH_QUEUE_URL"], "http://sqs/batch-queue");
        assert_eq!(variables["ON_DUPLICATE"], "requeue");
        assert_eq!(variables["DDB_LOCK_TABLE"], "lock-table");
        // Who deploys must choose these; `local` sets them.
        assert!(!variables.contains_key("EVENT_ID"));
        let batch_processor = &resources.functions["batch-processor"];
        assert!(!batch_processor.variables.contains_key("SINK"));
    }

    /// The stack uses this rule for timeouts that the template does not allow.
    #[test]
    fn the_visibility_timeout_of_every_allowed_timeout_is_six_times_it_and_the_window() {
        let allowed = deployed().unwrap().allowed_values("BatchProcessorTimeout");
        let allowed = allowed.expect("the template lists them");
        assert_eq!(allowed.len(), 5);
        for timeout in allowed {
            let resources = resolved(&[("BatchProcessorTimeout", &timeout)]);
            let seconds = |queue: &str| resources.queues[queue].visibility_timeout;
            let six_times = Duration::from_secs(6 * timeout.parse::<u64>().unwrap());
            assert_eq!(seconds("batch-queue"), Some(six_times));
            let window = resources.functions["aggregator"].mapping.window;
            let of_input = Duration::from_secs(360) + window;
            assert_eq!(seconds("input-queue"), Some(of_input));
        }
    }

    #[test]
    fn a_variable_chooses_its_parameter_where_the_template_allows_the_value() {
        let variables = [
            ("ON_DUPLICATE", "requeue"),
            ("BODIES", "s3://mine"),
            ("MAX_BATCH_SIZE", "7"),
            ("DDB_LOCK_TABLE", "mine"),
            ("UNKNOWN", "value"),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()));
        let parameters = deployed().unwrap().parameters_for(&variables.into());
        let expected = [("OnDuplicate".to_owned(), "requeue".to_owned())];
        assert_eq!(parameters, expected.into());
    }
}
