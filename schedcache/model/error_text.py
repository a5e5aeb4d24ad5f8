"""What an exception says, whoever wrote it."""


def error_text(error: object) -> str:
    """Its text, or the name of its class if it has none; a text, such as a status's message, as it is.

    Never raises: an exception of a plugin's may fail to say what went wrong, and that must not do more harm than it has.
    """
    if isinstance(error, str):
        return error
    try:
        return str(error) or type(error).__name__
    except Exception as unsaid:  # noqa: BLE001  foreign code; what it raises has a name, too
        return f"{type(error).__name__}, which does not say what is wrong ({type(unsaid).__name__})"
