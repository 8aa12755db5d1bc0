"""The tests' own servers, a settable clock, and a small world on each database."""

from __future__ import annotations

import gc
import os
import signal
import sys
import tempfile
import threading
import uuid
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import hypothesis
import pytest

import ffmpegs
import scanner
import services
import world as worlds
from chromium import browser, kept_browser
from running import Process, Running, settings_for

__all__ = ["browser", "kept_browser"]

_running: list[services.Postgres | services.Redis] = []
_directory: list[tempfile.TemporaryDirectory[str]] = []


def pytest_configure(config: pytest.Config) -> None:
    """Once per run, before the parallel workers start; they inherit the addresses."""
    # How long an example takes says more of the machine than of the code.
    hypothesis.settings.register_profile("tests", deadline=None)
    hypothesis.settings.load_profile("tests")
    if hasattr(config, "workerinput"):
        return
    directory = tempfile.TemporaryDirectory(prefix="rushes-tests-", ignore_cleanup_errors=True)
    _directory.append(directory)
    ffmpegs.offer(Path(directory.name) / "ffmpegs")
    if "RUSHES_TEST_POSTGRES" in os.environ:
        return
    postgres = services.Postgres.start(Path(directory.name), vacuums=False)
    _running.append(postgres)
    redis = services.Redis.start(Path(directory.name))
    _running.append(redis)
    os.environ["RUSHES_TEST_POSTGRES"] = postgres.url("")
    os.environ["RUSHES_TEST_REDIS"] = redis.url
    worlds.make_template(postgres)
    for each in _running:
        sys.stderr.write(f"testing with {each.source}\n")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Thousands of tests and all that they import are made here, and stay: nobody need look through
    them for garbage again and again, as a server does not either."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.enable()


def pytest_unconfigure(config: pytest.Config) -> None:
    worlds.stack.close()
    worlds.drop_idle()
    while _running:
        _running.pop().stop()
    while _directory:
        _directory.pop().cleanup()


@pytest.fixture(autouse=True)
def nothing_leaks() -> Iterator[None]:
    """No answer, event or line of a log has told a place on the disk, a key or a raw error."""
    scanner.watch_logs()
    yield
    found = scanner.scanner.take()
    assert not found, "\n".join(found)


@pytest.fixture(params=["sqlite", "postgres"])
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[worlds.World]:
    """A fresh database of each kind, with a clock that only the test moves."""
    opened = worlds.open_sqlite(tmp_path) if request.param == "sqlite" else worlds.open_postgres()
    yield opened
    opened.close()


@pytest.fixture
def postgres_world() -> Iterator[worlds.World]:
    opened = worlds.open_postgres()
    yield opened
    opened.close()


@pytest.fixture
def sqlite_world(tmp_path: Path) -> Iterator[worlds.World]:
    opened = worlds.open_sqlite(tmp_path)
    yield opened
    opened.close()


@pytest.fixture(params=["sqlite", "postgres"])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """With the schema, nothing in it and the real clock, for whole processes."""
    if request.param == "sqlite":
        worlds.copy_migrated(tmp_path / "rushes.db")
        yield f"sqlite:///{tmp_path}/rushes.db"
    else:
        with worlds.postgres_database() as url:
            yield url


@pytest.fixture(params=["sqlite", "postgres"])
def empty_database_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """Without a schema."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path}/rushes.db"
    else:
        with worlds.postgres_database(worlds.EMPTY_DATABASE) as url:
            yield url


@pytest.fixture(scope="session")
def seaweed() -> Iterator[services.Seaweed]:
    """An S3 server, started when the first test asks for it; one in each parallel worker."""
    with tempfile.TemporaryDirectory(prefix="rushes-s3-", ignore_cleanup_errors=True) as directory:
        server = services.Seaweed.start(Path(directory))
        sys.stderr.write(f"testing with {server.source}\n")
        yield server
        server.stop()


@pytest.fixture
def redis_server(tmp_path: Path) -> Iterator[services.Redis]:
    """Of the test's own, to be killed and lied to."""
    server = services.Redis.start(tmp_path)
    yield server
    server.stop()


@pytest.fixture(params=["file", "s3"])
def storage_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty storage of each kind."""
    if request.param == "file":
        return (tmp_path / "storage").as_uri()
    server: services.Seaweed = request.getfixturevalue("seaweed")
    return server.url(prefix=uuid.uuid4().hex)


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[..., Running]]:
    """Start a server in a thread; settings by name, `handlers_table` adds kinds."""
    with ExitStack() as stack:
        number = 0

        def start(**given: Any) -> Running:
            nonlocal number
            number += 1
            given.setdefault("data_dir", tmp_path / f"server-{number}")
            return stack.enter_context(Running(**given))

        yield start
    assert not [t for t in threading.enumerate() if t.name == "chores"]


@pytest.fixture
def server(serve: Callable[..., Running]) -> Running:
    """With the defaults: SQLite and files."""
    return serve()


@pytest.fixture(params=["sqlite", "postgres"])
def either_server(
    request: pytest.FixtureRequest, serve: Callable[..., Running]
) -> Iterator[Running]:
    """On each database."""
    if request.param == "sqlite":
        yield serve()
    else:
        with worlds.postgres_database() as url:
            running = serve(database_url=url)
            yield running
            running.stop()


@pytest.fixture
def process(tmp_path: Path) -> Iterator[Callable[..., Process]]:
    """Start `rushes serve` as a process that can be killed."""
    with ExitStack() as stack:

        def start(**given: Any) -> Process:
            given.setdefault("data_dir", tmp_path / "data")
            return stack.enter_context(Process(settings_for(**given)))

        yield start


# A shell that runs this in the background has it ignored, and so would every program we interrupt.
signal.signal(signal.SIGINT, signal.default_int_handler)

LONG_OR_RARE = (
    # Of what the pages can do, the rarer half.
    "test_player.py::test_a_server_that_is_away_is_waited_for",
    "test_player.py::test_sound_without_a_picture_has_its_waveform",
    "test_playing.py::test_a_video_plays_while_it_is_being_encoded",
    "test_playing.py::test_a_finished_video_plays_seeks_and_changes_its_quality",
    "test_settings.py::test_every_section_is_open_to_everybody_who_may_see_it",
    "test_settings.py::test_a_user_is_added_limited_kept_out_and_let_in",
    "test_settings.py::test_a_webhook_is_added_tested_and_its_log_follows",
    "test_transcript.py::test_what_was_written_is_saved_by_itself_when_the_server_is_back",
    "test_transcript.py::test_a_day_of_talk_stays_light",
    "test_library.py::test_thousands_are_as_quick_as_a_few",
    "test_queue_page.py::test_the_page_heals_when_the_server_was_away",
    "test_queue_page.py::test_what_is_being_read_does_not_move",
    "test_uploads.py::test_an_upload_outlives_the_server",
    "test_uploads.py::test_an_upload_goes_on_by_itself_where_the_browser_lets_it",
    "test_uploads.py::test_three_go_at_once_and_the_rest_wait_on_a_phone",
    "test_watch.py::test_on_a_phone_everything_fits",
    "test_settings.py::test_a_password_is_changed_and_other_devices_have_to_know_it",
    "test_settings.py::test_a_model_is_fetched_with_progress_and_removed",
    "test_settings.py::test_every_section_fits_a_phone",
    "test_signing_in.py::test_guessing_is_told_to_wait",
    "test_signing_in.py::test_a_window_that_waits_at_the_door_follows_another",
    "test_signing_in.py::test_a_used_link_says_so_and_how_to_get_another",
    "test_transcript.py::test_a_phone_and_a_user_who_is_no_admin",
    "test_transcript.py::test_who_is_slower_loses_nothing",
    "test_workers_page.py::test_keys_are_added_and_revoked",
    "test_server.py::test_a_server_that_is_killed_goes_on_where_it_was",
    "test_upload.py::test_a_server_that_is_killed_and_started_again_gets_the_rest",
    "test_worker.py::test_a_server_that_dies_under_a_job_gets_its_result_when_it_is_back",
    "test_machine.py::test_random_histories_on_sqlite",
    "test_whatever_is_asked_is_answered_as_documented[writer]",
    "test_remote_workers_share_a_long_video_over_http[s3]",
    "test_a_wrong_language_gives_words_that_are_in_order_and_inside",
    "test_a_gentle_stop_gives_the_job_back_uncounted[2-deaf]",
    "test_a_worker_that_wakes_up_late_does_not_even_try",
    "test_another_worker_finishes_what_a_killed_one_began[worker: half sent-outcomes2]",
    "test_spans.py::test_canceling_the_whole_ends_its_spans",
    "test_remote_workers_share_a_long_video_over_http[file]",
    "test_no_order_of_events_breaks_a_rule[sqlite media in parts]",
    "test_processes_drain_one_queue_without_doing_anything_twice[postgres]",
    "test_openai_speech.py::test_two_real_people_as_a_stream",
    "test_a_remote_worker_works_on_while_the_server_restarts[sqlite-True]",
    "test_a_server_that_is_stopped_gives_its_own_jobs_back_at_once[a deaf handler]",
    "test_a_job_whose_worker_never_heard_of_it_is_handed_out_again[sqlite]",
    # Minutes of processor time; make soak has them, and much larger ones.
    "test_chaos.py::",
    "test_odd_values_in_any_field_are_never_a_surprise[sqlite]",
    "test_whatever_is_asked_is_answered_as_documented[worker]",
    "test_a_server_does_not_wait_for_a_file_that_does_not_come",
    "test_interrupted_by_a_person_it_says_how_to_go_on",
    "test_two_channels_with_a_speaker_each_are_both_heard",
    "test_a_remote_worker_finishes_its_attempt_when_the_server_dies[put: recorded]",
    "[postgres-s3",
    "[http-sqlite",
    "[in-process-postgres",
    # Long, and much the same on both databases.
    "test_odd_values_in_any_field_are_never_a_surprise[postgres]",
    "[postgres two jobs, a failover]",
    "[sqlite two jobs]",
    "[sqlite media, a failover]",
    "[postgres job in parts]",
    "test_a_broken_guard_is_found[wholes wait for ever]",
    "test_a_remote_worker_finishes_its_attempt_when_the_server_dies_on_postgres",
    "test_a_remote_worker_goes_on_when_the_server_dies_on_postgres",
    "leaves_one_set_or_the_other[complete: before the commit-False]",
    "leaves_one_set_or_the_other[complete: the commit's answer is lost-True]",
    "test_twenty_workers_do_two_hundred_jobs_once_each[sqlite]",
    "test_a_remote_worker_works_on_while_the_server_restarts[postgres",
    "test_workers_are_let_in_and_out[inside]",
    "test_users_are_added_and_kept_out[inside]",
    "test_nul_and_half_characters_in_addresses_find_nothing[postgres]",
    "test_whatever_is_asked_is_answered_as_documented[admin]",
    "test_a_set_stays_published_when_the_server_dies_before_it_can_say_so[postgres]",
    "test_a_job_whose_worker_never_heard_of_it_is_handed_out_again[postgres]",
    "[postgres media]",
    "[sqlite two jobs, a failover]",
    "test_random_histories_on_postgres",
    "test_a_server_that_is_killed_goes_on_after_the_last_segment",
    "test_what_browsers_play_is_there_before_anything_is_encoded",
    "test_a_server_that_is_not_there_yet_is_waited_for",
    "test_files_that_come_slowly_hold_up_nobody",
    "when_the_server_dies[put: written]",
    "when_the_server_dies[complete: pointer switched]",
    "when_the_server_dies[gather: before the commit]",
    "test_postgres_of_either_source_clones_databases[wheel]",
    "test_tokens_are_shown_once_and_can_be_revoked[inside]",
    "test_media_are_listed_shown_shared_and_removed[inside]",
    "test_more_jobs_than_fit_on_a_page_are_listed[inside]",
    "test_jobs_are_canceled_and_retried_by_a_filter_after_a_count[inside]",
    "can_change_nothing[worker: before complete]",
    "test_a_server_that_works_itself_tries_again_after_it_died[put: written]",
    "test_a_second_signal_ends_it_now",
    "test_a_server_that_is_killed_half_way_ends_the_put_and_the_read",
    "test_an_overlay_is_in_its_corner[bundled-top-left]",
    "test_an_overlay_is_in_its_corner[bundled-bottom-left]",
    "same_frames[bundled-anamorphic.mp4]",
    "same_frames[bundled-late-picture.mkv]",
    "same_frames[bundled-screen.webm]",
    "test_what_was_removed_is_in_the_trash_until_it_is_emptied[inside]",
    "test_what_was_removed_is_in_the_trash_until_it_is_emptied[here]",
    "test_jobs_are_listed_shown_explained_canceled_and_retried[inside]",
    "test_workers_are_let_in_and_out[here]",
    "test_a_log_is_printed[inside]",
    "test_tus_js_client_uploads_to_s3_storage[file]",
    "test_tus_js_client_uploads_a_file[deferred-length]",
    "test_killed_again_and_again_it_ends_as_if_undisturbed",
    "[sqlite job in parts]",
    "[sqlite parent and child]",
    "test_a_broken_guard_is_found[sweep resurrects canceled]",
    "test_a_broken_guard_is_found[one part is enough]",
    "test_files_in_a_bucket_survive_the_server_as_well[put: copied]",
    "test_a_server_that_works_itself_does_not_do_again_what_it_has_published",
    "test_a_full_disk_gives_the_job_back_until_there_is_room[in-process]",
    "test_a_storage_that_is_away_for_a_moment_is_waited_for[http]",
    "test_a_storage_that_stays_away_gives_the_job_back[in-process]",
    "test_many_are_deleted_restored_and_purged_by_one_request[postgres]",
    "test_two_people_on_the_telephone_are_told_apart",
    "test_our_engine_for_such_servers_with_our_own_server",
    "test_it_ends_with_its_parent_in_the_middle_of_anything[speakers]",
    "test_one_question_at_a_time_and_who_waits_is_heard",
    "test_queue_page.py::test_the_charts_say_in_words_what_they_show",
    "test_queue_page.py::test_others_see_only_their_own_jobs",
    "header_is_the_same_wherever_a_part_begins[bundled-ntsc.mkv]",
    "same_frames[bundled-portrait.mp4]",
    "plays_and_seeks[two-descriptions.mov-",
    "plays_and_seeks[steady.mp4-",
    "plays_and_seeks[time-lapse.mp4-shaka]",
    "plays_and_seeks[time-lapse.mp4-dash.js]",
    "plays_and_seeks[late-sound.mp4-",
    "plays_and_seeks[after-an-hour.mkv-",
    "test_tuspy_goes_on_after_the_server_was_killed",
    "test_tus_js_client_goes_on_after_it_was_killed",
    "test_other_languages_are_told_apart[es]",
    "loses_no_frame[bundled-still.ogv]",
    "test_alerts_do_not_wait_behind_the_messages_of_any_number_of_users[sqlite]",
    "test_two_processes_may_migrate_at_once[sqlite]",
    "test_qualities.py::test_killed_in_the_middle_it_goes_on_with_what_it_took_over",
    "test_qualities.py::test_a_quality_is_added_to_what_was_trimmed",
    "true_in_every_rung[bundled-two-descriptions.mov]",
    "true_in_every_rung[bundled-steady.mp4]",
    "plays_and_seeks[call.webm-hls.js]",
    "plays_and_seeks[long-sound.mp4-dash.js]",
    "plays_and_seeks[one-a-second.mp4-",
    "plays_and_seeks[screen.mp4-shaka]",
    "test_feeds.py::test_a_crash_between_channels_costs_one_window",
    "test_a_remote_worker_finishes_its_attempt_when_the_server_dies[complete: before the commit]",
    "test_server.py::test_progress_is_told_step_by_step_and_at_most_once_a_second",
    "test_nul_and_half_characters_in_addresses_find_nothing[sqlite]",
    "same_frames[installed-varying.mp4]",
    "becomes_what_every_screen_shows[installed-hdr10.mkv]",
    "test_sound_that_is_damaged_in_the_middle_is_mended[installed]",
    "test_a_job_is_canceled_undone_and_seen_by_another_window",
    "test_settings.py::test_a_webhook_whose_receiver_keeps_failing_says_so",
    "test_a_worker_is_watched_at_work_and_told_to_stop",
    "test_six_failures_close_the_door_for_a_quarter_of_an_hour[postgres]",
    "test_server.py::test_a_missing_model_is_said_and_a_retry_works_once_it_is_there",
    "test_explorer.py::test_no_order_of_events_breaks_a_rule[sqlite stale claims]",
    "test_a_server_that_works_itself_tries_again[adopt: after the commit]",
    "test_real_captions",
)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Each database, storage and transport is tested every time, all pairs in `make soak`, and so
    is what takes longest and has a shorter relative."""
    for item in items:
        if any(pair in item.nodeid for pair in LONG_OR_RARE):
            item.add_marker(pytest.mark.thorough)
