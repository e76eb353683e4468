//! The settings of an event source mapping and what Lambda refuses about them.

use std::fmt;
use std::ops::RangeInclusive;
use std::time::Duration;

/// Records in one batch. Source: <https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-configure.html>
pub const BATCH_SIZE: RangeInclusive<usize> = 1..=10_000;

/// Largest batch that needs no window.
pub const BATCH_SIZE_WITHOUT_WINDOW_MAX: usize = 10;

/// Longest batching window.
pub const WINDOW_MAX: Duration = Duration::from_secs(300);

/// Shortest batching window for batches over [`BATCH_SIZE_WITHOUT_WINDOW_MAX`].
pub const WINDOW_OF_LARGE_BATCH_MIN: Duration = Duration::from_secs(1);

/// `MaximumConcurrency`. Source: <https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-scaling.html>
pub const CONCURRENCY: RangeInclusive<u32> = 2..=1000;

/// An event source mapping as it is deployed.
#[derive(Clone, Debug)]
pub struct MappingConfig {
    /// Name of the queue.
    pub queue: String,
    /// Most records in one batch.
    pub batch_size: usize,
    /// Time a batch is gathered from its first record on.
    pub window: Duration,
    /// Most invocations at once.
    pub concurrency_max: u32,
    /// Whether `ReportBatchItemFailures` is set; without it the response is not looked at.
    pub report_batch_item_failures: bool,
}

/// Everything that is wrong with a mapping.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("create an event source mapping for queue `{queue}`: {}", joined(.problems))]
pub struct MappingError {
    /// Name of the queue.
    pub queue: String,
    /// Each problem, at least one.
    pub problems: Vec<MappingProblem>,
}

fn joined(problems: &[MappingProblem]) -> String {
    problems
        .iter()
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join("; ")
}

/// One thing that is wrong with a mapping.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MappingProblem {
    /// The queue cannot be read.
    QueueUnavailable {
        /// What the queue service said.
        reason: String,
    },
    /// The batch size is out of range.
    BatchSizeOutOfRange(usize),
    /// The window is too long.
    WindowTooLong(Duration),
    /// A batch of this size needs a window.
    LargeBatchNeedsWindow {
        /// The batch size.
        batch_size: usize,
        /// The window.
        window: Duration,
    },
    /// The concurrency is out of range.
    ConcurrencyOutOfRange(u32),
    /// A message would become visible while an invocation may still work on it.
    TimeoutOverVisibility {
        /// Timeout of the function.
        function_timeout: Duration,
        /// Visibility timeout of the queue.
        visibility_timeout: Duration,
    },
}

impl fmt::Display for MappingProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MappingProblem::QueueUnavailable { reason } => {
                write!(f, "the queue cannot be read: {reason}")
            }
            MappingProblem::BatchSizeOutOfRange(size) => {
                write!(
                    f,
                    "batch size `{size}` is not in {} to {}",
                    BATCH_SIZE.start(),
                    BATCH_SIZE.end()
                )
            }
            MappingProblem::WindowTooLong(window) => {
                write!(f, "window `{window:?}` is over {WINDOW_MAX:?}")
            }
            MappingProblem::LargeBatchNeedsWindow { batch_size, window } => write!(
                f,
                "batch size `{batch_size}` is over {BATCH_SIZE_WITHOUT_WINDOW_MAX} and needs a window of at least \
                 {WINDOW_OF_LARGE_BATCH_MIN:?}, not `{window:?}`"
            ),
            MappingProblem::ConcurrencyOutOfRange(concurrency) => {
                write!(
                    f,
                    "concurrency `{concurrency}` is not in {} to {}",
                    CONCURRENCY.start(),
                    CONCURRENCY.end()
                )
            }
            MappingProblem::TimeoutOverVisibility {
                function_timeout,
                visibility_timeout,
            } => write!(
                f,
                "function timeout `{function_timeout:?}` is over the queue's visibility timeout `{visibility_timeout:?}`"
            ),
        }
    }
}

impl MappingConfig {
    /// Checks the mapping as Lambda does when it is created. `visibility_timeout` is the queue's, or why it is unknown.
    ///
    /// # Errors
    /// All problems at once.
    pub(super) fn validate(
        &self,
        function_timeout: Duration,
        visibility_timeout: Result<Duration, String>,
    ) -> Result<(), MappingError> {
        let mut problems = Vec::new();
        if !BATCH_SIZE.contains(&self.batch_size) {
            problems.push(MappingProblem::BatchSizeOutOfRange(self.batch_size));
        }
        if self.window > WINDOW_MAX {
            problems.push(MappingProblem::WindowTooLong(self.window));
        }
        if self.batch_size > BATCH_SIZE_WITHOUT_WINDOW_MAX
            && self.window < WINDOW_OF_LARGE_BATCH_MIN
        {
            let (batch_size, window) = (self.batch_size, self.window);
            problems.push(MappingProblem::LargeBatchNeedsWindow { batch_size, window });
        }
        if !CONCURRENCY.contains(&self.concurrency_max) {
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
            Ok(())
        } else {
            Err(MappingError {
                queue: self.queue.clone(),
                problems,
            })
        }
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
            let config = config(
                batch_size,
                Duration::from_secs(window_secs),
                concurrency_max,
            );
            assert_eq!(
                config.validate(VISIBILITY, Ok(VISIBILITY)),
                Ok(()),
                "{config:?}"
            );
        }
    }

    #[test]
    fn what_lambda_refuses_is_refused() {
        let second = Duration::from_secs(1);
        let cases = [
            (config(0, second, 2), MappingProblem::BatchSizeOutOfRange(0)),
            (
                config(10_001, second, 2),
                MappingProblem::BatchSizeOutOfRange(10_001),
            ),
            (
                config(10, second * 301, 2),
                MappingProblem::WindowTooLong(second * 301),
            ),
            (
                config(11, Duration::ZERO, 2),
                MappingProblem::LargeBatchNeedsWindow {
                    batch_size: 11,
                    window: Duration::ZERO,
                },
            ),
            (
                config(10, second, 1),
                MappingProblem::ConcurrencyOutOfRange(1),
            ),
            (
                config(10, second, 1001),
                MappingProblem::ConcurrencyOutOfRange(1001),
            ),
        ];
        for (config, problem) in cases {
            assert_eq!(
                config
                    .validate(VISIBILITY, Ok(VISIBILITY))
                    .unwrap_err()
                    .problems,
                [problem]
            );
        }
        let too_long = VISIBILITY + second;
        let problem = MappingProblem::TimeoutOverVisibility {
            function_timeout: too_long,
            visibility_timeout: VISIBILITY,
        };
        assert_eq!(
            config(10, second, 2)
                .validate(too_long, Ok(VISIBILITY))
                .unwrap_err()
                .problems,
            [problem]
        );
    }

    #[test]
    fn all_problems_are_in_one_error() {
        let error = config(20_000, Duration::ZERO, 0)
            .validate(VISIBILITY, Err("no such queue".into()))
            .unwrap_err();
        assert_eq!(error.problems.len(), 4);
        assert_eq!(
            error.to_string(),
            "create an event source mapping for queue `input`: batch size `20000` is not in 1 to 10000; batch size \
             `20000` is over 10 and needs a window of at least 1s, not `0ns`; concurrency `0` is not in 2 to 1000; \
             the queue cannot be read: no such queue"
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
