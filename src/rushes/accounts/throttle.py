"""Guessing is slow: tries to get in are counted by address, by name, and by account.

Counted in the database, so that all servers agree. Nobody is locked out: who comes from where they
signed in before is not held up by guesses from elsewhere.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from contextlib import contextmanager

from rushes import errors
from rushes.accounts import security_log, store
from rushes.accounts.account import User
from rushes.accounts.security_log import Action
from rushes.db.database import Database, Tx

MINUTE_MS = 60_000
FAILURE_WINDOW_MS = 15 * MINUTE_MS
FAILURES_PER_NAME, FAILURES_PER_ADDRESS = 6, 30
# Of one account, from addresses that it is not known at: then each failure doubles the pause.
FREE_FAILURES = 12
FIRST_PAUSE_MS, LONGEST_PAUSE_MS = 1_000, 15 * MINUTE_MS
ACCOUNT_WINDOW_MS = 60 * MINUTE_MS
KNOWN_MS = 90 * 86_400_000
SIGN_INS = ("password", "link")


def network_of(address: str) -> str:
    """What one person has: an IPv4 address, or the 64 bits of an IPv6 address that they do not
    choose themselves."""
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(found, ipaddress.IPv4Address):
        return str(found)
    if found.ipv4_mapped is not None:
        return str(found.ipv4_mapped)
    return str(ipaddress.IPv6Network((found, 64), strict=False))


@contextmanager
def throttled(
    db: Database, address: str, name: str | None = None, *, by: str = "password"
) -> Iterator[None]:
    """Around a try to get in, by name, by a link or by a code. Raises TooMany."""
    network = network_of(address)
    # As a failure until it is none: many tries at the same time see each other.
    tries = db.run(lambda tx: [store.add_failure(tx, each) for each in _subjects(network, name)])
    has_failed = False
    try:
        with db.read() as tx:
            _refuse_crowd(tx, network, name, tries)
        yield
    except errors.Unauthorized:
        has_failed = True
        _tell_failure(db, name, by)
        raise
    except errors.TooMany:
        throttled = Action.SIGN_IN_THROTTLED if by in SIGN_INS else Action.KEY_THROTTLED
        security_log.record_seldom(db, throttled, by, by=_owner(db, name))
        raise
    finally:
        if not has_failed:
            db.run(lambda tx: store.drop_failures(tx, tries))


def _tell_failure(db: Database, name: str | None, by: str) -> None:
    """By the name of an account, if there is one. What else was typed may be a password."""
    owner = _owner(db, name)
    action = Action.SIGN_IN_FAILED if by in SIGN_INS else Action.KEY_REFUSED
    if name is None:
        security_log.record_seldom(db, action, by)
    else:
        db.run(lambda tx: security_log.record(tx, action, by, by=owner))


def _owner(db: Database, name: str | None) -> User | None:
    if name is None:
        return None
    with db.read() as tx:
        return store.user_by_name(tx, name)


def forgive(tx: Tx, address: str, name: str) -> None:
    """Who has got in has not been guessing."""
    store.forget_failures(tx, _of_name(network_of(address), name))


def pause_ms(failures: int) -> int:
    """How long after so many failures of an account the next try has to wait."""
    if failures < FREE_FAILURES:
        return 0
    return min(FIRST_PAUSE_MS << min(failures - FREE_FAILURES, 20), LONGEST_PAUSE_MS)


def _refuse_crowd(tx: Tx, network: str, name: str | None, own: list[int]) -> None:
    counts = {f"from:{network}": FAILURES_PER_ADDRESS}
    if name is not None:
        counts[_of_name(network, name)] = FAILURES_PER_NAME
    for subject, most in counts.items():
        if store.count_failures(tx, subject, FAILURE_WINDOW_MS) > most:
            raise errors.TooMany(
                "too many failed tries: wait a quarter of an hour",
                retry_seconds=FAILURE_WINDOW_MS // 1000,
            )
    if name is not None and not store.is_known_at(tx, name, network, KNOWN_MS):
        _refuse_hurry(tx, name, own)


def _refuse_hurry(tx: Tx, name: str, own: list[int]) -> None:
    failures = store.failures(tx, f"account:{name}", ACCOUNT_WINDOW_MS, besides=own)
    left_ms = (failures.last_at or 0) + pause_ms(failures.count) - failures.now
    if left_ms > 0:
        raise errors.TooMany(
            "too many failed tries for this name: wait a little",
            retry_seconds=-(-left_ms // 1000),
        )


def _subjects(network: str, name: str | None) -> list[str]:
    if name is None:
        return [f"from:{network}"]
    return [f"from:{network}", _of_name(network, name), f"account:{name}"]


def _of_name(network: str, name: str) -> str:
    return f"name:{name}|{network}"
