"""The verdict of every experiment, from observations in tests/recorded: one that confirms, and changes of it that do not."""

import contextlib
import copy
import json
import pathlib
import sys
import unittest

from verify import registry, verdict

RECORDED = pathlib.Path(__file__).resolve().parent / "recorded"


def recordings():
    return {each.stem: json.loads(each.read_text()) for each in RECORDED.glob("*.json")}


def changed(observation, change):
    """Returns a copy with other values at some paths, `a/0/b`."""
    made = copy.deepcopy(observation)
    for path, value in change.items():
        *parents, last = path.split("/")
        node = made
        for key in parents:
            node = node[int(key)] if isinstance(node, list) else node[key]
        node[int(last) if isinstance(node, list) else last] = value
    return made


class Verdicts(unittest.TestCase):
    def test_a_good_observation_confirms(self):
        for number, recording in recordings().items():
            with self.subTest(experiment=number):
                given = registry.EXPERIMENTS[recording["experiment"]].judge(recording["good"])
                self.assertEqual(given.word, verdict.CONFIRMED, given.seen)

    def test_a_changed_observation_gets_the_verdict_that_it_deserves_and_says_why(self):
        for number, recording in recordings().items():
            for case in recording["cases"]:
                with self.subTest(experiment=number, change=case["change"]):
                    given = registry.EXPERIMENTS[recording["experiment"]].judge(changed(recording["good"], case["change"]))
                    self.assertEqual(given.word, case["verdict"], given.seen)
                    self.assertIn(case["seen"], given.seen)

    def test_every_experiment_can_be_refuted(self):
        refuted = {
            number for number, recording in recordings().items() if any(case["verdict"] == verdict.REFUTED for case in recording["cases"])
        }
        self.assertEqual(refuted, {str(number) for number in registry.ORDER})

    def test_every_check_of_an_experiment_decides_in_some_case(self):
        """A check that could be left out without any case noticing is not tested."""
        for number, recording in recordings().items():
            experiment = registry.EXPERIMENTS[recording["experiment"]]
            observations = [changed(recording["good"], case["change"]) for case in recording["cases"]]
            wanted = [experiment.judge(each) for each in observations]
            # Experiments that check several things alike check each in turn.
            count = min(recording.get("checks_alike", 10**6), checks_of(experiment, recording["good"]))
            for index in range(count):
                with self.subTest(experiment=number, check=index), leaving_out(experiment, index, count):
                    self.assertNotEqual([experiment.judge(each) for each in observations], wanted)

    def test_recordings_say_where_they_are_from(self):
        for number, recording in recordings().items():
            with self.subTest(experiment=number):
                self.assertIn("made by hand", recording["origin"])


@contextlib.contextmanager
def replaced(experiment, of_checks):
    """Replaces the function that makes verdicts of checks, in the module of an experiment."""
    module = sys.modules[type(experiment).__module__]
    original, module.of_checks = module.of_checks, of_checks
    try:
        yield
    finally:
        module.of_checks = original


def checks_of(experiment, observation):
    """Returns how many checks an observation gets."""
    counts = []
    with replaced(experiment, lambda checks, good: counts.append(len(checks)) or verdict.of_checks(checks, good)):
        experiment.judge(observation)
    return sum(counts)


def leaving_out(experiment, index, count):
    """Leaves out a check, and every `count`th after it."""

    def fewer(checks, good):
        return verdict.of_checks([each for place, each in enumerate(checks) if place % count != index], good)

    return replaced(experiment, fewer)


if __name__ == "__main__":
    unittest.main()
