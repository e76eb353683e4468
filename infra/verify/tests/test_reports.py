"""The report of a run, the same judged again, and the bill."""

import contextlib
import io
import json
import pathlib
import tempfile
import unittest

from verify import bill, main, registry, report, verdict
from verify.tests.test_verdicts import changed, recordings


class Reports(unittest.TestCase):
    def judged(self, change):
        """Stores a report whose verdicts are wrong, and judges it again; returns the exit code and the table."""
        results, observed = [], {}
        for recording in recordings().values():
            experiment = registry.EXPERIMENTS[recording["experiment"]]
            observed[experiment.number] = changed(recording["good"], change if experiment.number == 18 else {})
            results.append((experiment, verdict.unclear("stored")))
        with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()) as out:
            file = pathlib.Path(folder) / "report.json"
            file.write_text(json.dumps(report.as_json({}, results, observed, [])))
            return main.main(["--judge", str(file)]), out.getvalue()

    def test_a_report_can_be_judged_again(self):
        code, table = self.judged({})
        self.assertEqual(code, 0)
        self.assertIn(f"{len(registry.ORDER)} confirmed, 0 refuted, 0 unclear", table)
        code, table = self.judged({"maxima": [60.0]})
        self.assertEqual(code, 1)
        self.assertIn(f"{len(registry.ORDER) - 1} confirmed, 1 refuted, 0 unclear", table)

    def test_a_table_has_assumption_seen_and_verdict(self):
        experiment = registry.EXPERIMENTS[18]
        lines = report.table([(experiment, verdict.refuted("seen " + "x" * 52 + " more"))]).splitlines()
        self.assertEqual(lines[0].split(), ["#", "assumption", "seen", "verdict"])
        first = lines[2]
        self.assertEqual((first.split()[0], first.split()[-1]), ("18", "refuted"))
        self.assertIn(f"  {experiment.assumption[:20]}", first)
        # A long cell goes on below.
        self.assertIn("  seen ", first)
        self.assertEqual(lines[3].split()[-1], "more")
        self.assertLessEqual(max(map(len, lines)), 122)

    def test_an_experiment_without_an_observation_keeps_its_verdict(self):
        made = report.as_json({"name": "x"}, [(registry.EXPERIMENTS[1], verdict.unclear("no permission"))], {}, ["S3 bucket: y"])
        self.assertEqual(made["not_deleted"], ["S3 bucket: y"])
        with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()) as out:
            file = pathlib.Path(folder) / "report.json"
            file.write_text(json.dumps(made))
            self.assertEqual(main.main(["--judge", str(file)]), 1)
        self.assertIn("no permission", out.getvalue())


class Bill(unittest.TestCase):
    REPLY = {
        "ResultsByTime": [
            {"Groups": [{"Keys": ["Amazon DynamoDB"], "Metrics": {"UnblendedCost": {"Amount": "3.1"}}}]},
            {
                "Groups": [
                    {"Keys": ["Amazon DynamoDB"], "Metrics": {"UnblendedCost": {"Amount": "1.4"}}},
                    {"Keys": ["AWS Lambda"], "Metrics": {"UnblendedCost": {"Amount": "0.25"}}},
                ]
            },
        ]
    }

    def test_the_costs_of_all_months_are_added_by_service(self):
        sums = bill.by_service(self.REPLY)
        self.assertEqual(sums, {"Amazon DynamoDB": 4.5, "AWS Lambda": 0.25})
        lines = bill.text(sums, 10.52).splitlines()
        self.assertEqual(lines[-1].split(), ["$", "4.7500", "in", "all;", "the", "estimate", "was", "$10.52"])

    def test_no_cost_says_what_to_do(self):
        self.assertIn("activate the cost allocation tag", bill.text(bill.by_service({"ResultsByTime": []}), None))


if __name__ == "__main__":
    unittest.main()
