"""What a command ends with when its input is no good."""


class UsageError(Exception):
    """Bad input: the message names the flag, file or field, and what was expected. Exit status 2."""
