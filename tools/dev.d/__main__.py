"""The developer's one command. Each subcommand is a module command_NAME.py beside this file."""

import argparse
import importlib
import sys

from steps import StepFailed

COMMANDS = ["setup", "build", "test", "check", "demo", "bench", "fuzz", "fault", "crash",
            "stress", "clean"]


def parser_of_all() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="tools/dev", description="KVStrata's developer command. "
                                     "Each subcommand does the set-up it needs and is safe to "
                                     "run twice; outputs of its steps are kept in build/logs/.")
    subparsers = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name in COMMANDS:
        module = importlib.import_module(f"command_{name}")
        subparser = subparsers.add_parser(name, help=module.HELP, description=module.__doc__,
                                          formatter_class=argparse.RawDescriptionHelpFormatter)
        module.add_arguments(subparser)
        subparser.set_defaults(run=module.run)
    return parser


def main() -> int:
    options = parser_of_all().parse_args()
    try:
        return options.run(options)
    except StepFailed as error:
        print(f"tools/dev {options.command}: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(f"\ntools/dev {options.command}: interrupted", file=sys.stderr)
        return 130


sys.exit(main())
