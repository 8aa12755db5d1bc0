"""On what terms jobs are held, and by whom. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from rushes.jobs.job import Priority
from rushes.jobs.policy import Look, Policy, Strand


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueTerms:
    """On what terms jobs are held; from the settings."""

    lease_ms: int = 60_000
    heartbeat_ms: int = 15_000
    attempt_timeout_ms: int = 6 * 3_600_000
    max_attempts: int = 3
    policy: Policy = Policy.AUTO
    prefer_wait_ms: int = 15_000
    # By kind: the key that jobs of it have in common, unless they name another.
    limit_keys: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Claimant:
    """A worker as the claim sees it. `most_per_user`: while so many jobs of a kind and a user are
    under way, wherever, it takes no more of them, and users have turns whatever the policy."""

    id: str
    name: str
    kinds: Sequence[str]
    capabilities: Sequence[str] = ()
    boot_id: str | None = None
    lowest_priority: Priority = Priority.LOW
    most_per_user: int | None = None

    def policy(self, usual: Policy) -> Policy:
        return Policy.FAIR if self.most_per_user else usual

    def alike(self) -> Claimant:
        """The same for all who are offered the same jobs."""
        kinds, capabilities = tuple(sorted(self.kinds)), tuple(sorted(self.capabilities))
        return replace(self, id="", name="", boot_id=None, kinds=kinds, capabilities=capabilities)

    def could_take(self, offer: Strand) -> bool:
        hard = {need for need in offer.needs if not need.endswith("?")}
        is_able = offer.kind in self.kinds and hard <= set(self.capabilities)
        return is_able and offer.priority <= self.lowest_priority

    def choice(self, offers: Look) -> Look:
        """Of what is offered, what it could take."""
        return replace(offers, strands=[each for each in offers.strands if self.could_take(each)])
