"""The form of an experiment."""


class Experiment:
    """One assumption, and how AWS is asked about it.

    `run` makes requests and returns what it observed, as JSON. `judge` is a pure function of that: it is tested with recorded
    observations, and a stored observation can be judged again.
    """

    number = 0
    # The sentence that the service relies on, and where it says so.
    assumption = ""
    relied_on_in = ""
    # What is done, in one sentence.
    does = ""
    # Names of resources.RESOURCES.
    needs = ()
    minutes = 1.0
    # 0: creates nothing that works or costs. 1: creates throw-away resources. 2: takes a day, or its price is not known.
    level = 1
    # Numbers of experiments whose observation this one reads.
    after = ()

    def costs(self):
        return []

    def run(self, world):
        raise NotImplementedError

    def judge(self, seen):
        raise NotImplementedError
