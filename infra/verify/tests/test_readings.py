"""What is read out of replies: the end of a log, the events of a stack, percentiles."""

import unittest
from unittest import mock

from verify import burst, figures, world
from verify.resources import Stack

# The form is AWS's: <https://docs.aws.amazon.com/lambda/latest/dg/monitoring-cloudwatchlogs-view.html> (2026-11).
LOG = (
    "START RequestId: 8f5 Version: $LATEST\n WARN claims not counted batch_id=1\nEND RequestId: 8f5\n"
    "REPORT RequestId: 8f5\tDuration: 12.61 ms\tBilled Duration: 50 ms\tMemory Size: 1769 MB\tMax Memory Used: 31 MB\tInit Duration: 36.90 ms\t\n"
)


class Readings(unittest.TestCase):
    def test_the_end_of_a_log_has_duration_and_init(self):
        self.assertEqual(world.report_of(LOG), {"duration_ms": 12.61, "init_ms": 36.9})
        warm = LOG.replace("\tInit Duration: 36.90 ms", "")
        self.assertEqual(world.report_of(warm), {"duration_ms": 12.61, "init_ms": None})
        self.assertEqual(world.report_of(""), {"duration_ms": None, "init_ms": None})

    def test_warnings_are_found_in_text_and_in_json(self):
        self.assertEqual(world.warnings_of(LOG), ["WARN claims not counted batch_id=1"])
        self.assertEqual(len(world.warnings_of('{"level":"ERROR","fields":{}}\n{"level":"INFO"}\nWARNING of another kind')), 1)

    def test_a_percentile_is_a_value_that_was_measured(self):
        values = list(range(1, 1_001))
        self.assertEqual([figures.percentile(values, share) for share in (0.5, 0.99, 0.999, 1)], [500, 990, 999, 1_000])
        self.assertEqual(figures.percentile([7], 0.5), 7)
        self.assertIsNone(figures.percentile([], 0.5))

    def test_tallies_are_added(self):
        self.assertEqual(figures.merged([{"a": 1}, {"a": 2, "b": 3}]), {"a": 3, "b": 3})

    def test_the_first_failure_of_the_last_update_is_the_reason(self):
        event = lambda name, status, reason="": {"LogicalResourceId": name, "ResourceStatus": status, "ResourceStatusReason": reason}  # noqa: E731
        newest_first = [
            event("x-u", "UPDATE_ROLLBACK_COMPLETE"),
            event("BatchQueue", "UPDATE_FAILED", "cancelled"),
            event("AggregatorInput", "UPDATE_FAILED", "both are set"),
            event("x-u", "UPDATE_IN_PROGRESS"),
            event("LockTable", "UPDATE_FAILED", "of an earlier update"),
        ]
        stack = Stack.__new__(Stack)
        stack.name, stack.world = "x-u", mock.Mock()
        stack.world.client.return_value.describe_stack_events.return_value = {"StackEvents": newest_first}
        self.assertEqual(stack.failures("UPDATE_FAILED"), ["AggregatorInput: both are set", "BatchQueue: cancelled"])

    def test_every_burst_has_a_seed_of_its_own(self):
        runs = [mock.Mock(**{"name": None}) for _ in range(2)]
        runs[0].name, runs[1].name = "verify-aws-00000001", "verify-aws-00000002"
        numbers = (7, *range(600, 606))
        self.assertEqual(len({burst.seed(run, number) for run in runs for number in numbers}), 2 * len(numbers))


if __name__ == "__main__":
    unittest.main()
