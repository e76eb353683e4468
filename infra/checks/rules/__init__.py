"""Rules of AWS and of this service that a template must keep under every choice of parameters.

A rule is a function of one world. It yields every problem that it finds.
"""

RULES = []


def rule(function):
    RULES.append(function)
    return function
