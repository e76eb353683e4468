"""What the emulators moto and ministack need to be different in the template. Requests to AWS get the template unchanged."""

from verify import template  # noqa: F401  makes the modules of infra/checks importable

def parameters(emulator, chosen):
    return chosen if emulator is None else chosen | {"BatchProcessorTimeout": "60", "AggregatorConcurrency": "2"}


def settings(emulator, chosen):
    """Returns variables of the functions. On an emulator nothing waits long: a batch starts only a timeout, a window and 3 s after it
    was opened."""
    if emulator is None:
        return chosen
    # Long enough to take the mapping away meanwhile (14).
    return chosen | {"MAX_SECONDARY_BATCHING_WINDOW": "5", "VERIFY_DELAY": "20" if "VERIFY_DELAY" in chosen else "2"}


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
