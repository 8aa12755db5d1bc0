"""The beat of the sweep: whether leases may be judged, after an outage or a jump of the clock."""

from __future__ import annotations

from rushes.db.database import Tx


def beat(tx: Tx, *, lease_ms: int) -> bool:
    """Note that the sweep runs; returns whether leases may be judged now.

    Nobody could renew a lease while no server ran, and a clock that jumped makes all of them look
    over. Both show as a gap since the last beat; then everybody gets one lease to renew in.
    """
    row = tx.one(
        """
        UPDATE service_beat SET beat_at = {now}, grace_until =
            CASE WHEN {now} - beat_at > :gap_ms OR beat_at - {now} > :gap_ms
            THEN {now} + :lease_ms ELSE grace_until END,
            away_since = CASE WHEN {now} - beat_at > :gap_ms THEN beat_at
                WHEN beat_at - {now} > :gap_ms THEN {now} ELSE away_since END
        WHERE id = 1 RETURNING beat_at >= grace_until AS may_judge""",
        lease_ms=lease_ms,
        gap_ms=lease_ms // 2,
    )
    return bool(row and row["may_judge"])


def shorten_leases(tx: Tx, *, lease_ms: int) -> None:
    """After the clock went back, a lease would be alive for as long as the jump was."""
    tx.all(
        """
        UPDATE jobs SET claim_expires_at = {now} + :lease_ms
        WHERE state = 'processing' AND claim_expires_at > {now} + :lease_ms""",
        lease_ms=lease_ms,
    )
    tx.all(
        "UPDATE service_beat SET grace_until = {now} + :lease_ms"
        " WHERE id = 1 AND grace_until > {now} + :lease_ms",
        lease_ms=lease_ms,
    )
