"""What the emulators moto and ministack need to be different in the template. Requests to AWS get the template unchanged."""

import template  # noqa: F401  makes the modules of infra/checks importable


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
