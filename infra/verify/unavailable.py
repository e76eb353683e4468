"""What is raised if an experiment cannot have what it needs, and one line about any exception."""


class Unavailable(Exception):
    """Something that an experiment needs could not be had. Its text is the reason of the verdict `unclear`."""


def brief(error):
    """Returns one line about an exception."""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text[:300]}" if not isinstance(error, Unavailable) else text
