"""Benchmarks: every figure in README and docs comes from a command here."""

import argparse


def command_line(name: str, text: str | None) -> argparse.ArgumentParser:
    """The parser of `python -m NAME`, which shows the text of its module."""
    return argparse.ArgumentParser(
        prog=f"python -m {name}", description=text,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
