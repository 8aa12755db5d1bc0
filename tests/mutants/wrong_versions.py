"""Wrong versions of Rushes, each one small mistake away from the right one.

Each is (name, file, right text, wrong text, …more pairs). The suite must notice every one of them;
`run.py` applies them one at a time and lists any that survive.
"""

from __future__ import annotations

STORE = "jobs/store.py"
BEAT = "jobs/beat_store.py"
LIMITS = "jobs/limit_store.py"
PLACES = "jobs/place_store.py"
POLICY = "jobs/policy.py"
PIPELINE = "media/pipeline.py"
ENQUEUE = "jobs/enqueue_store.py"
TRAIL_STORE = "jobs/trail_store.py"
REQUESTS = "jobs/request_store.py"
DISPATCHER = "dispatcher.py"
KNOWN = "accounts/known_workers.py"
LIFE = "jobs/lifecycle.py"
QUEUE = "jobs/queue.py"
OBSERVER = "jobs/observer.py"
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
    (
        "delay_forgotten",
        ENQUEUE,
        "ELSE {now} + coalesce(delay_ms, 0) END",
        "ELSE {now} + 0 * coalesce(delay_ms, 0) END",
    ),
    (
        "backoff_forgotten",
        STORE,
        "run_at = {now} + given.delay_ms",
        "run_at = {now} + 0 * given.delay_ms",
    ),
    (
        "no_grace_after_outage",
        BEAT,
        "THEN {now} + :lease_ms ELSE",
        "THEN {now} + 0 * :lease_ms ELSE",
    ),
    (
        "grace_for_ever",
        BEAT,
        "beat_at - {now} > :gap_ms\n",
        "true OR beat_at > :gap_ms\n",
    ),
    (
        "leases_after_clock_went_back",
        BEAT,
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
        "\n        AND outcome IN ('lost','stalled'))",
        ")",
    ),
    (
        "every_move_is_a_recovery",
        COUNTS,
        "AND coalesce(job_was, '') <> 'queued'\n",
        "\n",
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
    ("dispatcher_offers_what_was", DISPATCHER, "            offers = None\n", ""),
    ("nobody_stands_aside", DISPATCHER, " or each.stands_aside():", ":"),
    (
        "completed_without_publishing",
        STORE,
        'BARE = "jobs.media_id IS NULL AND jobs.division IS NULL"',
        'BARE = "jobs.division IS NULL"',
    ),
    # Trails
    (
        "trails_forget_who_came_back",
        TRAIL_STORE,
        "(claims > 0 OR run_at > queued_at OR division IS NOT NULL)",
        "(claims < 0)",
    ),
    (
        "trails_forget_the_delayed",
        TRAIL_STORE,
        "(claims > 0 OR run_at > queued_at OR",
        "(claims > 0 OR",
    ),
    (
        "trails_skip_the_first",
        TRAIL_STORE,
        "(queued_at, id) >= (trail.at, trail.place)",
        "(queued_at, id) > (trail.at, trail.place)",
    ),
    (
        "trails_miss_new_lanes",
        TRAIL_STORE,
        "coalesce(lead(lane) OVER (ORDER BY lane), '4')",
        "coalesce(lead(lane) OVER (ORDER BY lane), '')",
    ),
    (
        "trails_never_go_back",
        "jobs/trails.py",
        "return self._before[_twos(self._looks)]",
        "return self._last[0]",
    ),
    (
        "trails_always_go_back",
        "jobs/trails.py",
        "return self._before[_twos(self._looks)]",
        "return self._before[-1]",
    ),
    # New jobs
    ("twins_are_not_looked_for", ENQUEUE, "INSERT + UNLESS_THERE if has_key else INSERT", "INSERT"),
    ("all_are_as_the_first", ENQUEUE, "if each.alike is usual else _whole(each)", ""),
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
        "if holder.id not in worker_ids",
        "if holder.id",
    ),
    (
        "keys_outlive_the_flush",
        KNOWN,
        "return self._keys.get(keys.digest(key)) if self._is_kept_true else None",
        "return self._keys.get(keys.digest(key))",
    ),
    (
        "keys_are_never_read_again",
        KNOWN,
        "is_due = began >= self._reread_at",
        "is_due = False",
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
        '        request = slot.asking = slot.asking or ids.new("req")\n',
        '        request = slot.asking = slot.asking or ids.new("req")\n'
        "        self._answered_requests.append(request)\n",
    ),
    (
        "request_is_never_repeated",
        LOOP,
        "slot.asking or ids.new",
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
        "AND kind IN (SELECT value FROM {{each::kinds}})",
        "AND (kind IN (SELECT value FROM {{each::kinds}}) OR true)",
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
        "                place_store.take_turn(tx, strand.user_id)\n",
        "                pass\n",
    ),
    ("no_turns_by_themselves", POLICY, "return Policy.FAIR if look.is_crowded else", "return"),
    ("crowd_unseen", POLICY, "for user in each.users}) > 1", "for user in each.users}) > 99"),
    # Limits
    ("limits_unheard_of", QUEUE, "limited=look.limited)", "limited=False)"),
    ("limit_of_users_ignored", LIMITS, "OR ('{USER}:' || jobs.user_id NOT IN", "OR ('' NOT IN"),
    ("limit_of_workers_ignored", LIMITS, "AND :worker_key NOT IN", "AND '' NOT IN"),
    ("limit_of_kinds_ignored", LIMITS, "AND '{KIND}:' || jobs.kind NOT IN", "AND '' NOT IN"),
    ("limit_of_keys_ignored", LIMITS, "coalesce(jobs.limit_key, '') NOT IN", "'' NOT IN"),
    (
        "one_more_than_the_limit",
        LIMITS,
        "held.running >= limits.most))",
        "held.running > limits.most))",
    ),
    (
        "family_before_key",
        LIMITS,
        "\n        AND NOT EXISTS (SELECT 1 FROM limits AS own WHERE own.key = held.key)",
        "",
        "(limits.key = held.key\n",
        "(false\n",
    ),
    ("limits_not_locked", LIMITS, " ORDER BY key {for_update}", " ORDER BY key"),
    ("limits_locked_for_a_moment", QUEUE, "with tx.together():", "if tx:"),
    (
        "batches_beyond_a_limit",
        QUEUE,
        "most = 1 if limits and (own | strand.limit_names) & limits else share",
        "most = share",
    ),
    (
        "limits_unheard_of_in_a_lane",
        STORE,
        '" AND NOT EXISTS (SELECT 1 FROM limits)"',
        '" AND true"',
    ),
    ("servers_own_is_a_share", LIMITS, "{_OF_WORKERS} AND user_id", "user_id"),
    ("nobody_rings_for_a_place", QUEUE, "if self._manner.limited:", "if False:"),
    (
        "lane_without_limit_key",
        "jobs/job.py",
        'f"{lane} @{limit_key}" if limit_key else lane',
        "lane",
    ),
    (
        "parts_without_limit_key",
        "jobs/division.py",
        "        limit_key=whole.limit_key,\n",
        "",
    ),
    # Places
    (
        "running_jobs_are_moved",
        PLACES,
        "AND state IN ('blocked','queued') ORDER BY id",
        "AND state IN ('blocked','queued','processing') ORDER BY id",
        "jobs.id = given.id AND jobs.state IN ('blocked','queued')",
        "jobs.id = given.id AND jobs.state IN ('blocked','queued','processing')",
    ),
    (
        "lane_stays_behind",
        PLACES,
        "lane = CAST(given.priority AS text) || substr(jobs.lane, 2)",
        "lane = jobs.lane",
    ),
    ("parts_stay_behind", PLACES, "for which in (WAITS, IS_PART)", "for which in (WAITS,)"),
    (
        "running_parts_stay_behind",
        PLACES,
        "AND jobs.state IN ('blocked','queued','processing')",
        "AND jobs.state IN ('blocked','queued')",
    ),
    ("first_is_second", "jobs/places.py", "user_id) - len(waiting)", "user_id) + 1"),
    (
        "next_waits_for_a_turn",
        "jobs/places.py",
        "                place_store.give_turn(tx, user)\n",
        "                pass\n",
    ),
    (
        "users_come_before_all",
        "jobs/places.py",
        "return min(job.priority, Priority.NORMAL)",
        "return Priority.HIGH",
    ),
    (
        "nobody_rings_for_a_move",
        "jobs/places.py",
        "            tx.wake_after_commit(self._bell.ring)\n",
        "            pass\n",
    ),
    ("place_forgotten_while_blocked", PARTS, "coalesce(jobs.queued_at, {now})", "{now}"),
    # Causes
    ("again_before_new", PIPELINE, "Cause.AGAIN: Priority.LOW", "Cause.AGAIN: Priority.NORMAL"),
    ("bulk_before_people", PIPELINE, "if cause is Cause.BULK else min", "if False else min"),
    (
        "anybody_is_urgent",
        "web/auth.py",
        'if priority == "high" and not principal.is_admin',
        'if priority == "highest"',
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
        "WHEN workers.slots IS NULL THEN NOT EXISTS (",
        "WHEN workers.slots IS NULL THEN :kind <> '' OR EXISTS (",
    ),
    (
        "courtesy_to_workers_that_are_full",
        READ,
        "WHERE value = :kind) > (",
        "WHERE value = :kind) >= (",
        "WHERE value = '*') > (",
        "WHERE value = '*') >= (",
    ),
    (
        "courtesy_to_workers_at_rest",
        READ,
        "(resting_until IS NULL OR resting_until <= {now})",
        "(resting_until IS NULL OR resting_until >= 0)",
    ),
    (
        "courtesy_to_workers_that_decline",
        READ,
        "AND :kind NOT IN (SELECT value FROM {each:coalesce(workers.declines, '[]')})",
        "",
    ),
    (
        "waiting_is_no_sign_of_life",
        KNOWN,
        "                    self._signs.setdefault(worker_id, [])\n",
        "                    pass\n",
    ),
    (
        "waiting_workers_do_not_hear_of_new_terms",
        DISPATCHER,
        "each.terms_etag not in (None, word.etag)",
        "each.terms_etag is None",
    ),
    ("a_claim_takes_any_kind", "web/api/worker.py", "or kind in body.kinds]", "or True]"),
    (
        "answers_told_by_a_worker_that_holds_something",
        LOOP,
        "() if self._held else tuple(self._answered_requests)",
        "tuple(self._answered_requests)",
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
        "queued_at = CASE parent.state WHEN 'completed' THEN coalesce(jobs.queued_at, {now})\n"
        "            ELSE jobs.queued_at END",
        "queued_at = {now}",
    ),
    (
        "children_do_not_wait",
        "jobs/job.py",
        "structs.replace(row, state=State.BLOCKED)",
        "structs.replace(row, state=State.QUEUED)",
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
        ENQUEUE,
        "WHEN 'queued' THEN coalesce(queued_at, {now}) END",
        "WHEN 'queued' THEN {now} END",
    ),
    (
        "divided_jobs_wait_for_parents",
        PARTS,
        "AND jobs.divided_at IS NULL AND parent",
        "AND parent",
    ),
    (
        "parts_of_any_kind",
        "jobs/division.py",
        "if not kinds.may_divide_into(job.kind, kind):",
        "if not kind:",
    ),
    (
        "parts_about_any_media",
        "jobs/division.py",
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
        "return isinstance(cause, pg.DeadlockDetected | pg.SerializationFailure) or (",
        "return (",
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
        "self._drained = said.drain\n",
        "self._drained = False\n",
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
        "                self._make_groups()\n        return call()\n",
        "                raise\n        return call()\n",
    ),
    ("hints_end_at_one_server", RINGS, "self._pass_on = self._pass_on or hinted > found", "pass"),
    ("no_way_round_redis", RINGS, "            self._below.ring()\n", "            pass\n"),
    (
        "breaker_stays_open",
        "breaker.py",
        "            self._state = BreakerState.HALF_OPEN\n            return True\n",
        "            return False\n",
    ),
    # What is counted, and followed
    (
        "part_forgets_its_trace",
        ENQUEUE,
        "coalesce(trace, (SELECT trace FROM jobs WHERE jobs.id = given.parent_id))",
        "trace",
    ),
    (
        "wait_counts_what_was_put_off",
        STORE,
        'max(row["queued_at"], row["run_at"])',
        'row["queued_at"]',
    ),
    (
        "counted_though_undone",
        OBSERVER,
        "tx.after_commit(partial(self._claimed, jobs))",
        "self._claimed(jobs)",
    ),
    (
        "every_loss_is_poison",
        OBSERVER,
        "settled.next.error_code == POISON",
        "settled.next.error_code is not None",
    ),
    (
        "paused_jobs_are_ready",
        READ,
        "FROM head JOIN jobs ON jobs.id = head.id\n        WHERE NOT EXISTS",
        "FROM head JOIN jobs ON jobs.id = head.id\n        WHERE true OR NOT EXISTS",
    ),
    # Beginnings
    (
        "beginnings_go_on_beside_their_whole",
        PARTS,
        "        self.cancel_parts(tx, fresh)\n",
        "",
    ),
    (
        "what_a_beginning_has_done_is_forgotten",
        PARTS,
        "WHERE jobs.id = given.id AND jobs.checkpoint IS NULL AND part.checkpoint IS NOT NULL",
        "WHERE false AND jobs.id = given.id AND part.checkpoint IS NOT NULL",
        "detail = part.detail, checkpoint = part.checkpoint FROM",
        "detail = part.detail FROM",
    ),
    (
        "damaged_files_wait_to_be_encoded",
        QUEUE,
        "            self._relations.fail_whole(tx, claim.job_id)\n",
        "            pass\n",
    ),
    (
        "a_beginning_that_stumbles_fails_its_whole",
        QUEUE,
        "if state is State.FAILED and error is ErrorClass.PERMANENT:",
        "if state is State.FAILED:",
    ),
    (
        "a_beginning_fails_a_whole_that_runs",
        PARTS,
        "AND part.state = 'failed' AND jobs.id = part.parent_id AND jobs.state = 'queued'\n"
        "        AND jobs.claims = 0",
        "AND part.state = 'failed' AND jobs.id = part.parent_id",
    ),
    (
        "beginnings_for_nobody",
        QUEUE,
        "if not (is_offered and read_store.may_have_to_wait(tx, whole_id, new.media_id)):",
        "if not read_store.may_have_to_wait(tx, whole_id, new.media_id):",
    ),
    (
        "beginnings_write_whatever_becomes_of_their_whole",
        "media/library.py",
        "whole.state is not _while_parts_run(held.kind):",
        "whole.state not in (State.BLOCKED, State.QUEUED, State.PROCESSING):",
    ),
]
