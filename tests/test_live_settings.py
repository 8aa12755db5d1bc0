"""Settings that admins change while it runs: who wins, who hears of it, what is not believed."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from rushes import config, errors, units
from rushes.accounts import security_store
from rushes.live_settings import CHANGEABLE, LiveSettings, SettingChange
from rushes.settings import Settings
from world import World

ROOT = Path(__file__).parent.parent
HOOK = "https://hooks.example.org/services/T000/s3cret"


def change(world: World, live: LiveSettings, name: str, value: Any) -> None:
    by(world, live, "ada", SettingChange(name=name, value=value))
    live.refresh()


def by(world: World, live: LiveSettings, who: str, *changes: SettingChange) -> None:
    world.run(lambda tx: live.change(tx, changes, by=who))


def store(world: World, rows: Sequence[tuple[str, str]]) -> None:
    """As another version, or a hand, may have left it."""
    for name, value in rows:
        world.run(
            lambda tx: tx.all(
                "INSERT INTO settings (name, value, version, changed_at, changed_by)"
                " VALUES (:name, :value, 1, {now}, 'ada')",
                name=name,  # noqa: B023
                value=value,  # noqa: B023
            )
        )


def test_a_change_reaches_the_other_servers(world: World) -> None:
    here, there = LiveSettings(world.db, Settings()), LiveSettings(world.db, Settings())
    heard: list[Settings] = []
    there.on_change.append(heard.append)
    change(world, here, "RUSHES_JOB_RETENTION", "30 days")
    change(world, here, "user_quota", "5 GB")
    change(world, here, "user_streams", "no limit")
    assert (here.now.job_retention, there.now.job_retention) == (30 * units.DAY, 90 * units.DAY)
    there.refresh()
    there.refresh()
    assert [each.job_retention for each in heard] == [30 * units.DAY]
    assert (there.now.user_quota, there.now.user_streams) == (5 * 10**9, 0)
    assert there.now.origin("user_quota") == config.SettingOrigin("page", "ada")
    assert there.now.origin("user_jobs") == config.SettingOrigin("default")

    change(world, there, "job_retention", None)
    change(world, there, "user_quota", "")
    here.refresh()
    assert (here.now.job_retention, here.now.user_quota) == (90 * units.DAY, 0)
    assert here.stored["job_retention"].version == 2
    with world.db.read() as tx:
        newest = security_store.page(tx, limit=5)
    assert [(each.type, each.subject, each.detail) for each in newest[1:2]] == [
        ("setting.changed", "RUSHES_JOB_RETENTION", '{"before":"30 days","after":"90 days"}')
    ]


def test_what_is_read_at_the_start_waits_for_the_next(world: World) -> None:
    live = LiveSettings(world.db, Settings())
    change(world, live, "transcode_workers", 4)
    assert (live.now.transcode_workers, live.next.transcode_workers) == (1, 4)
    change(world, live, "max_attempts", 5)
    assert (live.now.transcode_workers, live.now.max_attempts) == (1, 5)
    assert LiveSettings(world.db, Settings()).now.transcode_workers == 4


def test_the_environment_and_the_file_win(world: World, tmp_path: Path) -> None:
    (tmp_path / "rushes.toml").write_text("user_tokens = 7")
    # The default, said: it is meant.
    given = config.load({"RUSHES_USER_STREAMS": "20"}, tmp_path)
    store(world, [("user_streams", "3"), ("user_tokens", "3"), ("user_jobs", "3")])
    live = LiveSettings(world.db, given)
    assert (live.now.user_streams, live.now.user_tokens, live.now.user_jobs) == (20, 7, 3)
    with pytest.raises(errors.WrongState) as locked:
        change(world, live, "user_streams", 4)
    assert locked.value.message == (
        "RUSHES_USER_STREAMS is set by the environment (RUSHES_USER_STREAMS): change it there"
    )
    with pytest.raises(errors.WrongState, match=r"is set in rushes\.toml: change it there"):
        change(world, live, "user_tokens", 4)
    # A program that uses Rushes as a library has its say, too.
    assert LiveSettings(world.db, Settings(user_jobs=9)).now.user_jobs == 9


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("job_retention", "1h"),
        ("job_retention", "soon"),
        ("user_streams", "-1"),
        ("user_streams", "many"),
        ("user_quota", "5 ib"),
        ("user_quota", "9" * 400),
        ("policy", "lifo"),
        ("openai_store", "perhaps"),
        ("attempt_timeout", "nan"),
        ("alert_webhook_url", "ftp://ada:s3cret@example.org"),
        ("engine_model", "two words"),
    ],
)
def test_bad_values_are_refused_as_in_the_environment(
    name: str, value: str, world: World, tmp_path: Path
) -> None:
    live = LiveSettings(world.db, Settings())
    with pytest.raises(errors.BadSetting) as at_start:
        config.load({f"RUSHES_{name.upper()}": value}, tmp_path)
    with pytest.raises(errors.BadField) as in_page:
        change(world, live, name, value)
    assert in_page.value.message == at_start.value.message
    assert "s3cret" not in in_page.value.message
    assert live.now == Settings()


def test_only_what_is_meant_for_it_can_be_changed(world: World) -> None:
    live = LiveSettings(world.db, Settings())
    with pytest.raises(
        errors.BadField, match="RUSHES_DATABASE_URL: can only be changed in the env"
    ):
        change(world, live, "database_url", "sqlite:///other.db")
    with pytest.raises(errors.BadField, match="did you mean RUSHES_USER_JOBS"):
        change(world, live, "user_job", "3")
    assert {name for name, field in CHANGEABLE.items() if field.secret} == {"alert_webhook_url"}
    never = "host port base_url admin_token webhook_private_targets security_log_retention server"
    assert not set(CHANGEABLE) & set(never.split())
    both = [SettingChange(name="user_jobs", value=3), SettingChange(name="policy", value="lifo")]
    with pytest.raises(errors.BadField):
        by(world, live, "ada", *both)
    live.refresh()
    assert live.now.user_jobs == 10_000


def test_of_two_admins_the_second_is_told(world: World) -> None:
    live = LiveSettings(world.db, Settings())

    def race(number: int) -> str:
        try:
            by(world, live, f"admin{number}", SettingChange(name="user_jobs", value=7, version=0))
        except errors.ChangedMeanwhile as error:
            return error.message
        return "won"

    with ThreadPoolExecutor(4) as together:
        said = sorted(together.map(race, range(4)))
    assert said.count("won") == 1
    live.refresh()
    winner = live.stored["user_jobs"].changed_by
    assert said[0] == (
        f"RUSHES_USER_JOBS was changed meanwhile by {winner} to 7: look at it, and save again"
    )
    by(world, live, "bob", SettingChange(name="user_jobs", value=8, version=1))
    with pytest.raises(errors.ChangedMeanwhile):
        by(world, live, "eve", SettingChange(name="user_jobs", value=9, version=1))
    # Going back to the default does not forget that it was changed.
    by(world, live, "bob", SettingChange(name="user_jobs", value=None, version=2))
    with pytest.raises(errors.ChangedMeanwhile, match="by bob to 10000"):
        by(world, live, "eve", SettingChange(name="user_jobs", value=9, version=0))
    by(world, live, "script", SettingChange(name="user_jobs", value=9))
    live.refresh()
    assert (live.now.user_jobs, live.stored["user_jobs"].version) == (9, 4)


def test_nonsense_that_is_stored_stops_nobody(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    rows = [
        ("user_jobs", '"many"'),
        ("user_streams", "{"),
        ("job_retention", "60"),
        ("of_next_year", "1"),
        ("database_url", '"sqlite:///other.db"'),
        ("alert_webhook_url", '"s3cret"'),
        ("user_tokens", "5"),
    ]
    store(world, rows)
    with caplog.at_level(logging.WARNING):
        live = LiveSettings(world.db, Settings())
    assert live.now == Settings(
        user_tokens=5, origins={"user_tokens": config.SettingOrigin("page", "ada")}
    )
    problems = {each.partition(",")[0]: each for each in live.problems}
    assert set(problems) == {f"RUSHES_{name.upper()}" for name, _ in rows[:-1]}
    assert problems["RUSHES_USER_JOBS"] == (
        "RUSHES_USER_JOBS, set in the page by ada, must be a whole number from 0 to 10000000, not"
        " 'many': the default is used"
    )
    assert all(each in caplog.text for each in live.problems)
    assert "s3cret" not in caplog.text
    assert "other.db" not in caplog.text
    change(world, live, "user_jobs", 12)
    assert (live.now.user_jobs, len(live.problems)) == (12, 5)


def test_every_setting_of_the_page_has_words_there() -> None:
    texts = (ROOT / "ui" / "src" / "settings" / "texts.ts").read_text()
    for name in CHANGEABLE:
        assert f"    {name.upper()}: " in texts, name
    for field in CHANGEABLE.values():
        assert field.read(field.say(field.default)) == field.default


def test_secrets_of_the_page_are_never_told(world: World) -> None:
    live = LiveSettings(world.db, Settings())
    change(world, live, "alert_webhook_url", HOOK)
    assert live.now.alert_webhook_url == HOOK
    with world.db.read() as tx:
        [entry] = security_store.page(tx, limit=5)
    assert entry.detail == '{"before":"","after":"***"}'
    with pytest.raises(errors.ChangedMeanwhile) as caught:
        by(world, live, "bob", SettingChange(name="alert_webhook_url", value=HOOK, version=0))
    assert "s3cret" not in caught.value.message + repr(live.now)
