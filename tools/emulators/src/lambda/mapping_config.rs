//! The configuration of an event source mapping, and the rules by which Lambda refuses one.

use std::ops::RangeInclusive;
use std::time::Duration;

/// Allowed numbers of records in one batch. Source: <https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-configure.html>
pub const BATCH_SIZE: RangeInclusive<usize> = 1..=10_000;

/// Largest batch size that does not need a window.
pub const BATCH_SIZE_WITHOUT_WINDOW_MAX: usize = 10;

/// Longest batching window.
pub const WINDOW_MAX: Duration = Duration::from_secs(300);

/// Shortest batching window for batch sizes over [`BATCH_SIZE_WITHOUT_WINDOW_MAX`].
pub const WINDOW_OF_LARGE_BATCH_MIN: Duration = Duration::from_secs(1);

/// Allowed values of `MaximumConcurrency`. Source: <https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-scaling.html>
pub const MAPPING_CONCURRENCY: RangeInclusive<u32> = 2..=1000;

/// The configuration of an event source mapping.
#[derive(Clone, Debug)]
pub struct MappingConfig {
    /// Name of the queue.
    pub queue: String,
    /// Maximum number of records in one batch.
    pub batch_size: usize,
    /// Batching window: longest time from the first record of a batch until the function is invoked with it.
    pub window: Duration,
    /// Maximum number of concurrent invocations (`MaximumConcurrency`).
    pub concurrency_max: u32,
    /// Whether `ReportBatchItemFailures` is set. If not, the mapping ignores the content of responses.
    pub report_batch_item_failures: bool,
}

/// The error for a mapping that Lambda would refuse, with all problems at once.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("create an event source mapping for queue `{queue}`: {}", joined(.problems))]
pub struct MappingError {
    /// Name of the queue.
    pub queue: String,
    /// The problems; at least one.
    pub problems: Vec<MappingProblem>,
}

fn joined(problems: &[MappingProblem]) -> String {
    let texts = problems.iter().map(ToString::to_string);
    Vec::from_iter(texts).join("; ")
}

/// One reason to refuse a mapping.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MappingProblem {
    /// The attributes of the queue could not be read.
    #[error("attributes of the queue: {reason}")]
    QueueUnavailable {
        /// Error of the queue service.
        reason: String,
    },
    /// The batch size is not from 1 to 10,000.
    #[error(
        "batch size: got `{0}`, expected {min} to {max}",
        min = BATCH_SIZE.start(),
        max = BATCH_SIZE.end()
    )]
    BatchSizeOutOfRange(usize),
    /// The window is longer than 300 s.
    #[error("window: got `{0:?}`, expected at most {WINDOW_MAX:?}")]
    WindowTooLong(Duration),
    /// A batch size over 10 needs a window of at least 1 s.
    #[error(
        "window: got `{window:?}`, expected at least {WINDOW_OF_LARGE_BATCH_MIN:?} for batch size `{batch_size}`, \
         which is over {BATCH_SIZE_WITHOUT_WINDOW_MAX}"
    )]
    LargeBatchNeedsWindow {
        /// The batch size.
        batch_size: usize,
        /// The window.
        window: Duration,
    },
    /// The maximal concurrency is not from 2 to 1,000.
    #[error(
        "concurrency: got `{0}`, expected {min} to {max}",
        min = MAPPING_CONCURRENCY.start(),
        max = MAPPING_CONCURRENCY.end()
    )]
    ConcurrencyOutOfRange(u32),
    /// The timeout of the function is longer than the visibility timeout of the queue, so a message could become visible while
    /// an invocation still works on it.
    #[error(
        "function timeout: got `{function_timeout:?}`, expected at most the visibility timeout of the queue, \
         `{visibility_timeout:?}`"
    )]
    TimeoutOverVisibility {
        /// Timeout of the function.
        function_timeout: Duration,
        /// Visibility timeout of the queue.
        visibility_timeout: Duration,
    },
}

impl MappingConfig {
    /// Checks the configuration by the rules of `CreateEventSourceMapping`. `visibility_timeout` is that of the queue, or the
    /// error of reading it.
    ///
    /// # Errors
    /// [`MappingError`] with all problems.
    pub(super) fn validate(
        &self,
        function_timeout: Duration,
        visibility_timeout: Result<Duration, String>,
    ) -> Result<(), MappingError> {
        let (batch_size, window) = (self.batch_size, self.window);
        let mut problems = Vec::new();
        if !BATCH_SIZE.contains(&batch_size) {
            problems.push(MappingProblem::BatchSizeOutOfRange(batch_size));
        }
        if window > WINDOW_MAX {
            problems.push(MappingProblem::WindowTooLong(window));
        }
        if batch_size > BATCH_SIZE_WITHOUT_WINDOW_MAX && window < WINDOW_OF_LARGE_BATCH_MIN {
            problems.push(MappingProblem::LargeBatchNeedsWindow { batch_size, window });
        }
        if !MAPPING_CONCURRENCY.contains(&self.concurrency_max) {
            problems.push(MappingProblem::ConcurrencyOutOfRange(self.concurrency_max));
        }
        match visibility_timeout {
            Err(reason) => problems.push(MappingProblem::QueueUnavailable { reason }),
            Ok(visibility_timeout) if function_timeout > visibility_timeout => {
                problems.push(MappingProblem::TimeoutOverVisibility {
                    function_timeout,
                    visibility_timeout,
                });
            }
            Ok(_) => {}
        }
        if problems.is_empty() {
            return Ok(());
        }
        let queue = self.queue.clone();
        Err(MappingError { queue, problems })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const VISIBILITY: Duration = Duration::from_secs(30);

    #[test]
    fn what_lambda_accepts_is_accepted() {
        for (batch_size, window_secs, concurrency_max) in
            [(1, 0, 2), (10, 0, 1000), (11, 1, 2), (10_000, 300, 2)]
        {
            let window = Duration::from_secs(window_secs);
            let config = config(batch_size, window, concurrency_max);
            let validated = config.validate(VISIBILITY, Ok(VISIBILITY));
            assert_eq!(validated, Ok(()), "{config:?}");
        }
    }

    #[test]
    fn what_lambda_refuses_is_refused() {
        use MappingProblem::{BatchSizeOutOfRange, ConcurrencyOutOfRange, WindowTooLong};

        let (second, none) = (Duration::from_secs(1), Duration::ZERO);
        let without_window = MappingProblem::LargeBatchNeedsWindow {
            batch_size: 11,
            window: none,
        };
        let cases = [
            (config(0, second, 2), BatchSizeOutOfRange(0)),
            (config(10_001, second, 2), BatchSizeOutOfRange(10_001)),
            (config(10, second * 301, 2), WindowTooLong(second * 301)),
            (config(11, none, 2), without_window),
            (config(10, second, 1), ConcurrencyOutOfRange(1)),
            (config(10, second, 1001), ConcurrencyOutOfRange(1001)),
        ];
        for (config, problem) in cases {
            let refused = config.validate(VISIBILITY, Ok(VISIBILITY));
            assert_eq!(refused.unwrap_err().problems, [problem]);
        }
        let too_long = VISIBILITY + second;
        let problem = MappingProblem::TimeoutOverVisibility {
            function_timeout: too_long,
            visibility_timeout: VISIBILITY,
        };
        let refused = config(10, second, 2).validate(too_long, Ok(VISIBILITY));
        assert_eq!(refused.unwrap_err().problems, [problem]);
    }

    #[test]
    fn all_problems_are_in_one_error() {
        let error = config(20_000, Duration::ZERO, 0)
            .validate(VISIBILITY, Err("no such queue".into()))
            .unwrap_err();
        assert_eq!(error.problems.len(), 4);
        assert_eq!(
            error.to_string(),
            "create an event source mapping for queue `input`: batch size: got `20000`, expected 1 to 10000; window: got \
             `0ns`, expected at least 1s for batch size `20000`, which is over 10; concurrency: got `0`, expected 2 to \
             1000; attributes of the queue: no such queue"
        );
    }

    fn config(batch_size: usize, window: Duration, concurrency_max: u32) -> MappingConfig {
        MappingConfig {
            queue: "input".into(),
            batch_size,
            window,
            concurrency_max,
            report_batch_item_failures: true,
        }
    }
}
