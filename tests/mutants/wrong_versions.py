"""Wrong versions of Rushes, each one small mistake away from the right one.

Each is (name, file, right text, wrong text, …more pairs). The suite must notice every one of them;
`run.py` applies them one at a time and lists any that survive.
"""

from __future__ import annotations

STORE = "jobs/store.py"
REQUESTS = "jobs/request_store.py"
DISPATCHER = "dispatcher.py"
KNOWN = "accounts/known_workers.py"
LIFE = "jobs/lifecycle.py"
QUEUE = "jobs/queue.py"
PARTS = "jobs/relation_store.py"
READ = "jobs/read_store.py"
SCHEMA = "db/migrations/versions/0001_queue.py"
LOOP = "worker/loop.py"
EVENTS = "events.py"
LINK, RINGS = "redis_link.py", "redis_wakeup.py"
COUNTS = "count_store.py"
PRUNE = "jobs/prune_store.py"

Mutant = tuple[str, ...]

MUTANTS: list[Mutant] = [
    # The fence
    ("reports_without_claim", STORE, "given.id AND jobs.claim_id = given.claim_id\n", "given.id\n"),
    (
        "settle_without_claim",
        STORE,
        "WHERE id = :id AND claim_id = :claim_id AND state = 'processing' {for_update}",
        "WHERE id = :id AND state = 'processing' {for_update}",
        " AND coalesce(jobs.claim_id, '') = coalesce(given.claim_id, '')",
        "",
    ),
    ("claim_keeps_epoch", STORE, "claim_epoch = claim_epoch + 1", "claim_epoch = claim_epoch"),
    ("claim_does_not_count", STORE, "attempt = attempt + 1, claims", "attempt = attempt, claims"),
    ("claims_not_counted", STORE, "claims = claims + 1", "claims = claims"),
    (
        "claim_id_by_lane",
        STORE,
        "claim_id = :claim_id || CASE",
        "claim_id = substr(:claim_id, 1, 4) || lane || CASE",
    ),
    # Time
    (
        "lease_alive_at_its_end",
        STORE,
        "(jobs.claim_expires_at > {now} OR EXISTS",
        "(jobs.claim_expires_at >= {now} OR EXISTS",
    ),
    ("renew_after_deadline", STORE, "\n    AND jobs.deadline_at > {now}", "\n    AND true"),
    ("renew_dead_lease", STORE, "(jobs.claim_expires_at > {now} OR", "(true OR"),
    ("no_renewal_in_grace", STORE, "WHERE grace_until > {now} OR {now} -", "WHERE {now} -"),
    ("no_renewal_before_grace", STORE, " OR {now} - beat_at > :lease_ms / 2", " AND :lease_ms > 0"),
    ("lease_over_too_late", STORE, "claim_expires_at <= {now}\n", "claim_expires_at < {now}\n"),
    ("sweep_ignores_missing_lease", STORE, "(jobs.claim_expires_at IS NULL OR jobs", "(jobs"),
    ("sweep_ignores_deadline", STORE, " OR jobs.deadline_at <= {now})", ")"),
    ("sweep_takes_live_leases", STORE, 'LEASE_OVER = """(', 'LEASE_OVER = """(true OR '),
    (
        "heartbeat_does_not_extend",
        STORE,
        "claim_expires_at = {now} + :lease_ms, heard_at = {now} FROM given",
        "claim_expires_at = jobs.claim_expires_at + 0 * :lease_ms, heard_at = {now} FROM given",
    ),
    (
        "claims_before_time",
        STORE,
        "lane = :lane AND run_at <= {now} - :delay_ms",
        "lane = :lane AND :delay_ms >= 0",
    ),
    ("due_too_late", STORE, "run_at <= {now} - :delay_ms", "run_at < {now} - :delay_ms"),
    ("deadline_from_default_only", STORE, "coalesce(timeout_ms, :timeout_ms)", ":timeout_ms"),
    ("delay_forgotten", STORE, "ELSE {now} + delay_ms END", "ELSE {now} + 0 * delay_ms END"),
    (
        "backoff_forgotten",
        STORE,
        "run_at = {now} + given.delay_ms",
        "run_at = {now} + 0 * given.delay_ms",
    ),
    (
        "no_grace_after_outage",
        STORE,
        "THEN {now} + :lease_ms ELSE",
        "THEN {now} + 0 * :lease_ms ELSE",
    ),
    (
        "grace_for_ever",
        STORE,
        "beat_at - {now} > :gap_ms\n",
        "true OR beat_at > :gap_ms\n",
    ),
    (
        "leases_after_clock_went_back",
        STORE,
        "WHERE state = 'processing' AND claim_expires_at >",
        "WHERE state = 'none' AND claim_expires_at >",
    ),
    # Cancel, delete, dedupe, retry
    ("complete_ignores_cancel", STORE, "jobs.cancel_requested_at IS NULL AND ", "true AND "),
    (
        "complete_and_claim_ignore_deletion",
        STORE,
        "media.id = jobs.media_id) IS NULL",
        "media.id = jobs.media_id AND false) IS NULL",
    ),
    (
        "cancel_forgets_flag",
        STORE,
        "cancel_requested_at = coalesce(cancel_requested_at, {{now}})",
        "cancel_requested_at = cancel_requested_at",
    ),
    (
        "cancel_takes_ended_jobs",
        STORE,
        "AND (state IN ('blocked','queued')",
        "AND (state IN ('blocked','queued','completed')",
        'CANCEL = {"blocked": END_AT_ONCE',
        'CANCEL = {"completed": END_AT_ONCE, "blocked": END_AT_ONCE',
    ),
    (
        "cancel_of_the_canceled_is_fine",
        QUEUE,
        'if job.state in jobs.TERMINAL:\n            raise errors.WrongState(f"the job is {job.state} al',
        "if job.state in jobs.TERMINAL - {State.CANCELED}:\n            raise errors.WrongState("
        'f"the job is {job.state} al',
    ),
    (
        "attempt_inherits_engine",
        STORE,
        "stage = NULL, engine_id = NULL,\n        engine_model = NULL, progress",
        "stage = NULL,\n        progress",
    ),
    (
        "every_failure_exceeds_retries",
        COUNTS,
        "events.attempt >= jobs.max_attempts OR",
        "events.attempt >= 1 OR",
    ),
    (
        "every_return_is_a_recovery",
        COUNTS,
        "(events.state = 'queued' AND outcome IN ('lost','stalled'))",
        "(events.state = 'queued')",
    ),
    (
        "cancel_twice_tells_twice",
        STORE,
        "(state = 'processing' AND cancel_requested_at IS NULL)",
        "(state = 'processing')",
    ),
    (
        "dedupe_forgets_processing",
        SCHEMA,
        "dedupe_key IS NOT NULL AND state IN ('blocked','queued','processing')",
        "dedupe_key IS NOT NULL AND state IN ('blocked','queued')",
    ),
    (
        "retry_twice_makes_two",
        SCHEMA,
        "CREATE UNIQUE INDEX jobs_live_retry",
        "CREATE INDEX jobs_live_retry",
    ),
    (
        "sweep_resurrects_canceled",
        LIFE,
        "    if job.cancel_requested:\n        return _canceled(job, outcome)\n",
        "",
    ),
    (
        "fail_ignores_cancel",
        LIFE,
        "    if job.cancel_requested:\n        return _canceled(job)\n    if error is ErrorClass.RESOURCE",
        "    if error is ErrorClass.RESOURCE",
    ),
    (
        "release_ignores_cancel",
        LIFE,
        "    if job.cancel_requested:\n        return _canceled(job)\n    return _again(job, Outcome.RELEASED",
        "    return _again(job, Outcome.RELEASED",
    ),
    # Counting
    (
        "fail_one_attempt_too_many",
        LIFE,
        "PERMANENT or job.attempt >= job.max_attempts",
        "PERMANENT or job.attempt > job.max_attempts",
    ),
    ("permanent_is_retried", LIFE, "error is ErrorClass.PERMANENT or ", ""),
    (
        "loss_one_attempt_too_many",
        LIFE,
        "elif job.attempt >= job.max_attempts or",
        "elif job.attempt > job.max_attempts or",
    ),
    ("poison_one_too_late", LIFE, "losses >= MAX_LOSSES", "losses > MAX_LOSSES"),
    (
        "poison_though_it_got_on",
        LIFE,
        "if loss.got_on or loss.stalled or not loss.silent:",
        "if loss.stalled or not loss.silent:",
    ),
    (
        "poison_though_the_worker_lives",
        LIFE,
        "or loss.stalled or not loss.silent:",
        "or loss.stalled:",
    ),
    ("outage_is_charged", LIFE, "and (loss.outage or loss.unheard_of)", "and loss.unheard_of"),
    ("lost_reply_is_charged", LIFE, "and (loss.outage or loss.unheard_of)", "and loss.outage"),
    ("survivors_are_forgotten", LIFE, "1 if loss.survived else job.losses + 1", "job.losses + 1"),
    (
        "hung_worker_is_offline",
        QUEUE,
        "for each in lost if each.loss.silent and each.id in changed",
        "for each in lost if each.id in changed",
    ),
    # Requests and processes
    (
        "late_heartbeat_frees_what_came_after_it",
        REQUESTS,
        " AND claimed_by = :worker_id AND claim_request IN (SELECT value FROM {each::requests})",
        " AND claimed_by = :worker_id AND coalesce(:requests, '') <> ''",
    ),
    (
        "heartbeat_frees_what_it_lists",
        REQUESTS,
        " AND claim_id NOT IN (SELECT value FROM {each::held})",
        " AND coalesce(:held, '') <> ''",
    ),
    (
        "heartbeat_frees_what_is_anothers",
        REQUESTS,
        " AND claimed_by = :worker_id AND claim_request IN",
        " AND coalesce(:worker_id, '') <> '' AND claim_request IN",
    ),
    (
        "request_of_another_is_answered",
        REQUESTS,
        'jobs.claimed_by = given.worker_id"\n        " AND jobs.claim_request = given.request_id AND ',
        "coalesce(given.worker_id, '') <> ''\"\n        \" AND jobs.claim_request = given.request_id AND ",
    ),
    # Whoever waits
    ("dispatcher_asks_only_the_first", DISPATCHER, "TRIES = 2", "TRIES = 1"),
    (
        "dispatcher_keeps_what_nobody_took",
        DISPATCHER,
        "elif not each.deliver(jobs):",
        "elif each.deliver(jobs) is None:",
    ),
    (
        "dispatcher_misses_a_ring",
        DISPATCHER,
        "            and self._bell.mark() == self._mark\n",
        "",
    ),
    (
        "dispatcher_never_answers_again",
        DISPATCHER,
        "            if each.is_new and",
        "            if not each.is_new and",
    ),
    (
        "revoked_keys_are_remembered",
        KNOWN,
        "if known.holder.id not in worker_ids",
        "if known.holder.id",
    ),
    (
        "keys_outlive_the_flush",
        KNOWN,
        "if self._is_kept_true else None\n        return",
        "if True else None\n        return",
    ),
    ("idle_heartbeats_free_nothing", KNOWN, "        if not asked:\n", "        if asked:\n"),
    (
        "new_process_frees_its_own",
        STORE,
        " AND coalesce(claim_boot, '') <> :boot_id",
        " AND coalesce(:boot_id, '') <> ''",
    ),
    (
        "answer_told_before_its_jobs_are_held",
        LOOP,
        '        request = self._asking = self._asking or ids.new("req")\n',
        '        request = self._asking = self._asking or ids.new("req")\n'
        "        self._answered_requests.append(request)\n",
    ),
    (
        "request_is_never_repeated",
        LOOP,
        "self._asking or ids.new",
        "ids.new",
    ),
    (
        "outages_excuse_for_ever",
        STORE,
        "WHERE away_since + :lease_ms / 2 >= {LAST_WORD}",
        "WHERE away_since > 0 AND :lease_ms > 0",
    ),
    (
        "losses_never_reset",
        LIFE,
        "        losses=0,\n        error_code=code,\n    )\n\n\ndef _canceled",
        "        losses=job.losses,\n        error_code=code,\n    )\n\n\ndef _canceled",
    ),
    (
        "release_counts",
        LIFE,
        "Outcome.RELEASED, attempt=job.attempt - 1",
        "Outcome.RELEASED, attempt=job.attempt",
    ),
    (
        "shortage_counts",
        LIFE,
        "attempt=job.attempt - 1,\n            delay_ms",
        "attempt=job.attempt,\n            delay_ms",
    ),
    (
        "releases_unbounded",
        LIFE,
        "    if job.claims >= MAX_CLAIMS:\n        return Next(",
        "    if job.claims > 10 * MAX_CLAIMS:\n        return Next(",
    ),
    ("backoff_without_jitter", LIFE, "int(uniform(BACKOFF_FLOOR_MS, highest))", "int(highest)"),
    ("backoff_without_floor", LIFE, "BACKOFF_FLOOR_MS = 1_000", "BACKOFF_FLOOR_MS = 0"),
    (
        "backoff_without_cap",
        LIFE,
        "min(BACKOFF_CAP_MS, BACKOFF_BASE_MS",
        "max(BACKOFF_FLOOR_MS, BACKOFF_BASE_MS",
    ),
    # Progress
    (
        "progress_goes_back",
        STORE,
        "CASE WHEN given.progress > jobs.progress THEN given.progress",
        "CASE WHEN true THEN given.progress",
    ),
    ("checkpoint_dropped", STORE, "coalesce(given.checkpoint, jobs.checkpoint)", "jobs.checkpoint"),
    (
        "progress_survives_attempt",
        STORE,
        "CASE WHEN divided_progress IS NULL THEN 0 ELSE progress END",
        "progress",
    ),
    # History
    (
        "start_untold",
        STORE,
        "        OPEN_ATTEMPTS,\n        events.from_changed(\"'started'\", was=\"'queued'\"),\n",
        "        OPEN_ATTEMPTS,\n",
    ),
    (
        "attempt_left_open",
        STORE,
        "outcome = 'succeeded', job_state = changed.state",
        "outcome = attempts.outcome, ended_at = NULL",
    ),
    (
        "positions_without_lock",
        EVENTS,
        '"UPDATE event_head SET pos = pos WHERE id = 1 RETURNING pos"',
        '"SELECT pos FROM event_head"',
    ),
    ("reader_sees_twice", EVENTS, "WHERE pos > :position", "WHERE pos >= :position"),
    (
        "prune_leaves_gap",
        EVENTS,
        "DELETE FROM events WHERE pos <= :pos",
        "DELETE FROM events WHERE pos < :pos",
    ),
    # What is counted, and what is deleted
    ("a_start_moves_nothing", STORE, "was=\"'queued'\"),", "),"),
    ("older_servers_are_trusted", COUNTS, "    if unknown:\n", "    if unknown and after < 0:\n"),
    (
        "recount_counts_twice",
        COUNTS,
        "SELECT 'live', user_id, kind, state, -number",
        "SELECT 'live', user_id, kind, state, 0",
    ),
    ("late_recount_wins", COUNTS, "AND recount_due = :due AND", "AND :due = :due AND"),
    ("uncounted_jobs_are_deleted", PRUNE, 'f" AND {ADDED_UP} RETURNING', 'f" RETURNING'),
    (
        "deleted_during_a_recount",
        PRUNE,
        "WHERE id = 1 AND recount_due = 0 RETURNING id",
        "WHERE id = 1 RETURNING id",
    ),
    (
        "what_is_shown_is_deleted",
        PRUNE,
        "(deleted_at IS NULL AND {SUPERSEDED})",
        "deleted_at IS NULL",
    ),
    ("the_trash_is_deleted", PRUNE, "(deleted_at IS NULL AND {SUPERSEDED})", "({SUPERSEDED})"),
    (
        "versions_lose_their_job",
        PRUNE,
        "AND versions.state <> 'purged')",
        "AND versions.state = 'purged')",
    ),
    ("parts_of_live_jobs_are_deleted", PRUNE, "AND whole.state IN ({LIVE}))", "AND false)"),
    # Who may, and in which order
    (
        "needs_ignored",
        STORE,
        'AND value NOT IN (SELECT value FROM {each::capabilities}))"""',
        'AND value IN (SELECT value FROM {each::capabilities}) AND false)"""',
    ),
    (
        "kinds_ignored",
        STORE,
        "AND kind IN (SELECT value FROM {each::kinds})",
        "AND (kind IN (SELECT value FROM {each::kinds}) OR true)",
    ),
    ("disabled_worker_claims", STORE, "id = :worker_id AND state = 'enabled')", "id = :worker_id)"),
    (
        "pause_ignored",
        STORE,
        "FROM pauses WHERE pauses.kind IN ('*', jobs.kind))",
        "FROM pauses WHERE pauses.kind = 'x')",
        "FROM pauses WHERE kind IN ('*', :kind))",
        "FROM pauses WHERE kind = :kind AND false)",
    ),
    (
        "disabled_users_jobs_run",
        STORE,
        "\n            AND users.disabled_at IS NOT NULL)",
        "\n            AND users.disabled_at < 0)",
    ),
    (
        "priority_ignored",
        "jobs/policy.py",
        "key=lambda s: (s.priority, s.queued_at, s.head_id)",
        "key=lambda s: (s.queued_at, s.head_id)",
    ),
    (
        "newest_first",
        STORE,
        "ORDER BY lane, queued_at, id LIMIT",
        "ORDER BY lane DESC, queued_at DESC, id DESC LIMIT",
    ),
    (
        "turns_not_taken",
        QUEUE,
        "            store.take_turn(tx, strand.user_id)\n",
        "            pass\n",
    ),
    (
        "any_number_per_user",
        STORE,
        "HAVING count(*) >= :most_per_user",
        "HAVING count(*) > 1000 * :most_per_user",
    ),
    (
        "number_per_user_of_all_kinds",
        STORE,
        "SELECT user_id, kind FROM jobs\n    WHERE state = 'processing' GROUP BY kind, user_id",
        "SELECT user_id, 'noop' FROM jobs\n    WHERE state = 'processing' GROUP BY user_id",
    ),
    (
        "lowest_priority_ignored",
        STORE,
        "\n        AND priority <= :lowest_priority",
        "\n        AND priority <= 9 * :lowest_priority",
        "first.priority <= :lowest_priority",
        "first.priority <= 9 * :lowest_priority",
    ),
    ("no_courtesy", QUEUE, "return self.terms.prefer_wait_ms if better else 0", "return 0"),
    (
        "courtesy_to_workers_kept_for_urgent_jobs",
        READ,
        "workers.for_urgent = 0",
        "workers.for_urgent >= 0",
    ),
    (
        "courtesy_to_busy_workers",
        READ,
        "AND NOT EXISTS (SELECT 1 FROM jobs WHERE state = 'processing' AND claimed_by = workers.id)\n",
        "\n",
    ),
    (
        "courtesy_to_the_gone",
        READ,
        "AND last_seen_at > {now} - :seen_within_ms",
        "AND :seen_within_ms > 0",
    ),
    # Parents
    (
        "orphans_run",
        PARTS,
        "state = CASE parent.state WHEN 'completed' THEN 'queued' ELSE 'canceled' END,\n",
        "state = 'queued',\n",
        "canceled_at = CASE parent.state WHEN 'completed' THEN NULL ELSE {now} END,",
        "",
        "queued_at = CASE parent.state WHEN 'completed' THEN {now} ELSE jobs.queued_at END",
        "queued_at = {now}",
    ),
    (
        "children_do_not_wait",
        QUEUE,
        "replace(row, state=State.BLOCKED)",
        "replace(row, state=State.QUEUED)",
    ),
    (
        "nobody_frees_children",
        QUEUE,
        "        self._relations.unblock(tx, [each.id for each in completed if each.awaited])\n",
        "",
    ),
    # Parts
    (
        "nobody_frees_wholes",
        QUEUE,
        "            self._relations.join_parts(tx, wholes)\n",
        "",
    ),
    (
        "wholes_are_freed_by_any_part",
        LIFE,
        "return State.QUEUED if set(parts) <= {State.COMPLETED} else None",
        "return State.QUEUED if State.COMPLETED in parts else None",
    ),
    (
        "wholes_outlive_a_failed_part",
        LIFE,
        "    if State.FAILED in parts:\n        return State.FAILED\n",
        "",
    ),
    (
        "division_counts",
        LIFE,
        "state=State.BLOCKED, outcome=",
        "state=State.BLOCKED, attempt=job.attempt, outcome=",
    ),
    (
        "parts_outlive_their_whole",
        PARTS,
        "            self.cancel_parts(tx, ended)\n",
        "",
    ),
    (
        "parts_of_all_divisions",
        PARTS,
        " AND part.division = jobs.claim_epoch",
        "",
    ),
    (
        "parts_stand_at_the_end_of_the_line",
        STORE,
        "CASE state WHEN 'queued' THEN coalesce(queued_at, {now}) END",
        "CASE state WHEN 'queued' THEN {now} END",
    ),
    (
        "divided_jobs_wait_for_parents",
        PARTS,
        "AND jobs.divided_at IS NULL AND parent",
        "AND parent",
    ),
    (
        "parts_of_any_kind",
        QUEUE,
        "if not kinds.may_divide_into(job.kind, kind):",
        "if not kind:",
    ),
    (
        "parts_about_any_media",
        QUEUE,
        "known = {job.media_id, *jobs.media_in(job.args)}",
        "known = set().union(*(jobs.media_in(part.args) for part in parts))",
    ),
    (
        "parts_are_divided_again",
        QUEUE,
        "if whole.whole_id is not None:",
        "if False:",
    ),
    (
        "parts_are_retried_alone",
        QUEUE,
        "if old.division is not None and old.parent_id is not None:",
        "if False:",
    ),
    (
        "whole_forgets_progress",
        STORE,
        "CASE WHEN divided_progress IS NULL THEN 0 ELSE progress END",
        "0",
    ),
    # Versions
    (
        "put_replaces_own_file",
        "media/store.py",
        "        WHERE coalesce(artifacts.claim_id, '') <> excluded.claim_id\n",
        "",
    ),
    (
        "put_into_a_version_taken_over",
        "media/store.py",
        "versions.state = 'building' AND versions.job_id =\n",
        "versions.state = 'building' AND '' <>\n",
    ),
    (
        "published_with_files_of_others",
        "media/store.py",
        "AND coalesce(claim_id, '') <> :claim_id",
        "AND coalesce(claim_id, '') = ''  AND :claim_id <> ''",
    ),
    (
        "retry_takes_over_what_is_purged",
        "media/store.py",
        'return None if purging else str(found["id"])',
        'return str(found["id"])',
    ),
    (
        "damaged_files_are_adopted",
        "media/files.py",
        "return {row.key for row in rows if row.key in present and self._is_same(row)}",
        "return {row.key for row in rows}",
    ),
    (
        "what_others_have_is_discarded",
        "media/files.py",
        "self._discard([key for key in keys if key not in used])",
        "self._discard(keys)",
    ),
    (
        "other_cuts_are_mixed",
        "media/files.py",
        'if edits.read(made.get("edit")) != edits.read(asked.get("edit")):',
        "if False:",
    ),
    (
        "any_media_is_a_source",
        "media/files.py",
        "if named == media_id else None",
        "if named else None",
    ),
    # Answers
    (
        "repeat_is_refused",
        QUEUE,
        "if closed is not None and closed.outcome in said:",
        "if False:",
    ),
    (
        "lost_claim_hears_success",
        QUEUE,
        '("failed", "deferred", "released", "divided", "canceled")',
        '("failed", "deferred", "released", "divided", "canceled", "lost")',
    ),
    (
        "old_version_stays_current",
        "media/store.py",
        'shown = "current_version_id = :id, " if is_watched else ""',
        'shown = "title = :id, " if is_watched else ""',
    ),
    (
        "an_output_takes_the_place_of_the_video",
        "media/store.py",
        "WHERE media_id = :media_id AND slot = :slot AND state = 'current'",
        "WHERE media_id = :media_id AND slot <> :slot AND state = 'current'",
    ),
    (
        "an_output_is_watched",
        "media/store.py",
        "AND slot = :slot AND state IN ('current','retired')",
        "AND :slot <> '' AND state IN ('current','retired')",
    ),
    (
        "hint_before_commit",
        "db/database.py",
        "            self._after_commit.append(ring)\n",
        "            ring()\n",
    ),
    (
        "deadlock_is_not_retried",
        "db/dialects.py",
        "return isinstance(error.__cause__, pg.DeadlockDetected | pg.SerializationFailure)",
        "return False",
    ),
    # The trash
    (
        "purge_before_its_time",
        "media/purge_store.py",
        "deleted_at <= {now} - :trash_ms)",
        "deleted_at <= {now} + :trash_ms)",
    ),
    (
        "restore_after_the_purge_began",
        "media/trash_store.py",
        '"deleted_at IS NOT NULL AND purge_started_at IS NULL"',
        '"deleted_at IS NOT NULL"',
    ),
    (
        "retry_takes_running_jobs",
        QUEUE,
        "is_stopping = old.cancel_requested_at is not None and dedupe_key is not None",
        "is_stopping = True",
    ),
    # The worker
    ("no_self_fence", LOOP, "if held.late and held.context.suspend():", "if held.late and False:"),
    (
        "late_result_reported",
        LOOP,
        "        if held.lost:\n            self._drop(held)\n            return\n",
        "",
        "            for held, result in results\n            if not held.lost\n",
        "            for held, result in results\n",
    ),
    (
        "refusal_is_repeated",
        LOOP,
        '                log.warning("a report was refused: %s", error.message)\n                return None\n',
        "                continue\n",
    ),
    (
        "stalled_jobs_are_renewed",
        LOOP,
        "[each for each in everything if each.assignment.claim not in stalled]",
        "everything",
    ),
    ("stop_does_not_release", LOOP, "if failure is Stop.SHUTDOWN:", "if failure is Stop.CANCELED:"),
    (
        "drain_ignored",
        LOOP,
        "self._drained = pulse.drain",
        "self._drained = False",
    ),
    (
        "outage_ends_the_loop",
        LOOP,
        "                    self._missed(error)\n                    outages = self._rest(outages)\n",
        "                    return\n",
    ),
    # Hints by Redis
    (
        "groups_are_not_made_again",
        LINK,
        "            self._make_groups()\n            return call()\n",
        "            raise\n",
    ),
    ("hints_end_at_one_server", RINGS, "self._pass_on = self._pass_on or hinted > found", "pass"),
    ("no_way_round_redis", RINGS, "            self._below.ring()\n", "            pass\n"),
    (
        "breaker_stays_open",
        "breaker.py",
        "            self._state = BreakerState.HALF_OPEN\n            return True\n",
        "            return False\n",
    ),
]
