"""Signals. The first ends the experiments, and the clean-up follows. The second says what remains. The third ends the program."""

import os
import signal
import sys

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupted(BaseException):
    """A signal arrived. Not an Exception, so that no experiment takes it for a failure of its own."""


def say(text):
    """Writes a line to standard error. A terminal that is gone must not stop the clean-up."""
    try:
        print(text, file=sys.stderr, flush=True)
    except OSError:
        pass


class Signals:
    """While this is entered, signals go to it. `remains` returns the lines that the second signal prints."""

    def __init__(self, remains):
        self.remains = remains
        self.count = 0
        # Set when the clean-up begins; from then on no signal raises an exception.
        self.cleaning = False
        self.former = {}

    def __enter__(self):
        for number in SIGNALS:
            self.former[number] = signal.signal(number, self.arrived)
        return self

    def __exit__(self, *_):
        for number, handler in self.former.items():
            signal.signal(number, handler)

    def arrived(self, number, _frame):
        self.count += 1
        if self.count == 1:
            say("\nInterrupted: everything that was created is deleted now. Interrupt again to see what remains.")
            if not self.cleaning:
                raise Interrupted(signal.Signals(number).name)
            return
        lines = self.remains()
        say("\n".join(["", "Not deleted yet:", *(f"  {each}" for each in lines)] if lines else ["", "Nothing that was noted remains."]))
        if self.count > 2:
            os._exit(128 + number)
        say("The clean-up goes on; interrupt once more to leave it at that.")
