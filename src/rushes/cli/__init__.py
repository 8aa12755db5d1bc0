"""The command line: one file per noun, each imported only when it is asked for.

Exit codes: see EPILOGUE and docs/command-line.md. Data goes to stdout, all else to stderr.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rushes import errors

if TYPE_CHECKING:
    import cyclopts

FAILED, USAGE, UNAVAILABLE, REFUSED, INTERRUPTED = 1, 2, 3, 4, 130
EXIT_CODES = (
    (errors.Invalid, USAGE),
    (errors.Unavailable, UNAVAILABLE),
    (errors.NotFound, REFUSED),
    (errors.Conflict, REFUSED),
    (errors.Unauthorized, REFUSED),
    (errors.Denied, REFUSED),
)
COMMANDS = {
    "upload": ("run", "Send files to a server; goes on where it was when it is run again."),
    "watch": ("run", "Send the files that appear in a folder to a server, each once."),
    "process": ("run", "Make files streamable here, without a server; resumes when run again."),
    "transcribe": ("run", "Write down what is said in a file, without a server."),
    "media": ("app", "List, look at, share, change and remove media."),
    "collections": ("app", "List, make, rename and remove collections."),
    "models": ("app", "List, fetch and remove the speech models of this machine."),
    "search": ("run", "Find the moments at which something is said."),
    "profiles": ("app", "List, set and remove what videos are made into."),
    "jobs": ("app", "List, explain, follow, cancel, retry and move jobs."),
    "top": ("run", "Show the queue and the workers, live."),
    "limits": ("app", "List, set and remove how many jobs may run at once."),
    "serve": ("run", "Run the server with its workers."),
    "worker": ("run", "Work for a server, on this machine or any other."),
    "workers": ("app", "List, admit, drain and disable workers."),
    "users": ("app", "List, add and disable users."),
    "tokens": ("app", "List, create and revoke API tokens."),
    "storage": ("app", "Make the bucket of an s3:// storage ready."),
    "config": ("app", "Print the settings in effect, and change those of a server."),
    "doctor": ("run", "Check the settings, the database and the queue."),
    "backup": ("app", "Make, verify, list and prune backups."),
    "restore": ("run", "Restore a backup into an empty database and storage."),
    "migrate": ("run", "Bring the database to the newest schema; harmless to repeat."),
    "completion": ("run", "Print what bash, zsh or fish need to complete commands."),
}
EPILOGUE = (
    "Exit codes: 0 fine, 1 something failed, 2 wrong usage or a bad setting, 3 the server or the"
    " database cannot be used now, 4 no such thing, not allowed or not in that state."
)


def main(arguments: Sequence[str] | None = None) -> int:
    given = sys.argv[1:] if arguments is None else arguments
    if list(given) == ["--version"]:
        # Asked by scripts, and often: what reads other arguments takes longer than to answer it.
        print(_version())
        return 0
    import cyclopts

    try:
        code = app()(
            arguments,
            exit_on_error=False,
            print_error=False,
            result_action="return_int_as_exit_code_else_zero",
        )
        sys.stdout.flush()
    except cyclopts.CycloptsError as error:
        return _complain(str(error), USAGE)
    except errors.RushesError as error:
        return _complain(errors.for_operators(error), _exit_code(error))
    except BrokenPipeError:
        # Python flushes stdout once more at the end, and would complain then.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        return INTERRUPTED
    return int(code)


def app() -> cyclopts.App:
    import cyclopts

    made = cyclopts.App(
        name="rushes",
        help="Media processing whose job queue is the database you already have.",
        help_epilogue=EPILOGUE,
        # Markdown would cost a third of the start-up.
        help_format="plaintext",
        version=_version,
        suppress_keyboard_interrupt=False,
    )
    for name, (attribute, sentence) in COMMANDS.items():
        made.command(f"rushes.cli.{name}:{attribute}", name=name, help=sentence)
    return made


def _version() -> str:
    from importlib import metadata

    return f"rushes {metadata.version('rushes')}"


def _exit_code(error: errors.RushesError) -> int:
    return next((code for family, code in EXIT_CODES if isinstance(error, family)), FAILED)


def _complain(message: str, code: int) -> int:
    print(f"rushes: {message}", file=sys.stderr)
    return code
