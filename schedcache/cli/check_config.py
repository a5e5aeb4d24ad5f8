"""`schedcache check-config`: whether a configuration is sound, and what it amounts to."""

import argparse
from pathlib import Path

from schedcache.cli.output import tell, writing


def add_command(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add `check-config` to the command line."""
    parser = commands.add_parser(
        "check-config",
        help="check a KubeSchedulerConfiguration and print it with all defaults filled in",
        description="Check a KubeSchedulerConfiguration v1 and print the effective configuration, with defaults filled in and"
        " plugin sets merged. If it is not valid, every problem is reported by line and field, and the exit status is 2.",
    )
    parser.add_argument("file", type=Path, metavar="FILE")
    parser.set_defaults(execute=execute, parser=parser)


def execute(options: argparse.Namespace) -> int:
    """0: sound. Raises UsageError otherwise."""
    from schedcache.app.settings import load_file
    from schedcache.config import to_yaml

    loaded = load_file(options.file)
    # Bad input is told before the plugins are loaded.
    from schedcache.app.plugins import check_profiles

    check_profiles(loaded.config, options.file)
    if loaded.config.extenders:
        from schedcache.app.extenders import check_extenders

        check_extenders(loaded.config, options.file)
    for note in loaded.notes:
        tell(f"note: {note}")
    with writing():
        print(to_yaml(loaded.config), end="")
    return 0
