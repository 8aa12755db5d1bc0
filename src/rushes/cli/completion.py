"""`rushes completion`: what a shell needs to complete commands and options with the tab key.

The script knows all of them by itself: a press of the key starts no Python.
"""

from __future__ import annotations

import sys
from typing import Annotated, Literal

import cyclopts

from rushes import cli
from rushes.cli import output

Shell = Annotated[
    Literal["bash", "zsh", "fish"], cyclopts.Parameter(name="SHELL", help="Which one you use.")
]
# Each prints the script, or says where to.
HINTS = {
    "bash": 'add to ~/.bashrc: eval "$(rushes completion bash)"',
    "zsh": "put it where zsh looks for functions: rushes completion zsh"
    ' > "${fpath[1]}/_rushes", and start a new shell',
    "fish": "rushes completion fish > ~/.config/fish/completions/rushes.fish",
}


def run(shell: Shell, /) -> None:
    """Print a script that completes commands and options; run it again after an upgrade."""
    print(cli.app().generate_completion(prog_name="rushes", shell=shell).rstrip("\n"))
    if sys.stdout.isatty():
        output.note(f"To use it, {HINTS[shell]}")
