"""What the emulators moto and ministack need to be different in the template. Requests to AWS get the template unchanged."""

from verify import template  # noqa: F401  makes the modules of infra/checks importable

# ministack passes at most 10 messages, and a batch starts only a timeout, a window and 3 s after it was opened.
SMALL = {
    "InputBatchSize": "10", "AggregatorTimeout": "15", "MaxSecondaryBatchingWindow": "5", "BatchProcessorTimeout": "60",
    "VerifyDelay": "2", "AggregatorConcurrency": "2",
}  # fmt: skip


def parameters(emulator, chosen):
    if emulator is None:
        return chosen
    # Long enough to take the mapping away meanwhile (14).
    return chosen | SMALL | ({"VerifyDelay": "20"} if "VerifyDelay" in chosen else {})


def adapted(emulator, made, chosen):
    if emulator == "moto":
        with template.own_environment():
            import emulator as moto
        return moto.adapted(made, chosen)
    if emulator == "ministack":
        with template.own_environment():
            import ministack
        return ministack.adapted(made, chosen)
    return made
