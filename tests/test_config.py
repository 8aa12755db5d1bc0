"""The settings: where they come from, what is refused, and what is never shown."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from rushes import config, errors, setting_field
from rushes import settings as known

ROOT = Path(__file__).parent.parent
URL = "postgresql://ada:s3cret@db.example/rushes"


def load(directory: Path, **environ: str) -> config.Settings:
    return config.load({f"RUSHES_{name}": value for name, value in environ.items()}, directory)


def problems(directory: Path, **environ: str) -> str:
    with pytest.raises(errors.BadSetting) as caught:
        load(directory, **environ)
    return caught.value.message


def write(directory: Path, text: str) -> None:
    (directory / "rushes.toml").write_text(text)


def test_defaults_need_nothing(tmp_path: Path) -> None:
    settings, origins = config.load_with_origins({}, tmp_path)
    assert settings.claim_duration == 60
    assert settings.attempt_timeout == 6 * 3600
    assert settings.data_dir == tmp_path / "data"
    assert settings.database_url == f"sqlite:///{tmp_path}/data/rushes.db"
    assert set(origins) == set(known.FIELDS)
    assert {origin.kind for origin in origins.values()} == {"default"}


def test_every_default_passes_its_own_bounds(tmp_path: Path) -> None:
    for name, field in known.FIELDS.items():
        derived = "default" in (field.meta.extra or {})
        if name != "data_dir" and not derived:
            assert field.convert(field.default) == field.default
            assert field.convert(known.show(name, field.default)) == field.default


def test_the_database_follows_the_data_directory(tmp_path: Path) -> None:
    assert load(tmp_path, DATA_DIR="/srv/rushes").database_url == "sqlite:////srv/rushes/rushes.db"
    built = config.Settings(data_dir=Path("/srv/rushes"))
    assert built.database_url == "sqlite:////srv/rushes/rushes.db"
    assert load(tmp_path, DATA_DIR="/srv/rushes", DATABASE_URL=URL).database_url == URL


def test_the_environment_wins_over_the_file(tmp_path: Path) -> None:
    write(tmp_path, 'policy = "fair"\nmax_attempts = 7\nclaim_duration = "2min"\n')
    environ = {"RUSHES_MAX_ATTEMPTS": "9", "PATH": "/bin"}
    settings, origins = config.load_with_origins(environ, tmp_path)
    assert (settings.policy, settings.max_attempts, settings.claim_duration) == ("fair", 9, 120)
    assert origins["max_attempts"] == config.SettingOrigin("environment", "RUSHES_MAX_ATTEMPTS")
    assert origins["policy"] == config.SettingOrigin("file", "rushes.toml")
    assert origins["engine"] == config.SettingOrigin("default")


def test_another_file_can_be_named(tmp_path: Path) -> None:
    write(tmp_path, "max_attempts = 7")
    (tmp_path / "other.toml").write_text("max_attempts = 8")
    assert load(tmp_path, CONFIG="other.toml").max_attempts == 8
    assert load(tmp_path, CONFIG=str(tmp_path / "other.toml")).max_attempts == 8
    assert problems(tmp_path, CONFIG="no.toml").startswith("RUSHES_CONFIG: no.toml cannot be read")


@pytest.mark.parametrize(
    ("said", "seconds"),
    [
        ("60", 60),
        ("60s", 60),
        ("5min", 300),
        ("5m", 300),
        ("2h", 7200),
        ("1d", 86400),
        ("500ms", 0.5),
        ("1.5 h", 5400),
        (" 90 ", 90),
    ],
)
def test_durations_have_units(said: str, seconds: float, tmp_path: Path) -> None:
    assert load(tmp_path, ATTEMPT_TIMEOUT=said).attempt_timeout == seconds
    write(tmp_path, f'attempt_timeout = "{said}"')
    assert load(tmp_path).attempt_timeout == seconds


@pytest.mark.parametrize(
    ("said", "seconds"), [("30 days", 2_592_000), ("1 Hour", 3600), ("2 weeks", 1_209_600)]
)
def test_durations_may_be_said_in_words(said: str, seconds: float, tmp_path: Path) -> None:
    assert load(tmp_path, JOB_RETENTION="30 days").job_retention == 2_592_000
    assert load(tmp_path, UPLOAD_EXPIRY=said).upload_expiry == seconds


@pytest.mark.parametrize("said", ["5ib", "5 parsecs", "9" * 400, "kb", "1.GB"])
def test_bad_sizes_are_refused(said: str, tmp_path: Path) -> None:
    assert load(tmp_path, USER_QUOTA="5 GB").user_quota == 5 * 10**9
    assert load(tmp_path, USER_QUOTA="12 bytes").user_quota == 12
    message = problems(tmp_path, USER_QUOTA=said)
    assert message.startswith("RUSHES_USER_QUOTA: must be a size such as 500MB or 10GiB, not '")


@pytest.mark.parametrize("said", ["90", "90.0"])
def test_the_file_may_give_durations_as_numbers(said: str, tmp_path: Path) -> None:
    write(tmp_path, f"attempt_timeout = {said}")
    assert load(tmp_path).attempt_timeout == 90.0


@pytest.mark.parametrize("said", ["", "x", "-1", "0", "8d", "5 parsecs", "nan", "inf", "1e2s"])
def test_bad_durations_are_refused(said: str, tmp_path: Path) -> None:
    if said == "":
        assert load(tmp_path, ATTEMPT_TIMEOUT=said).attempt_timeout == 6 * 3600
    else:
        message = problems(tmp_path, ATTEMPT_TIMEOUT=said)
        assert message == (
            f"RUSHES_ATTEMPT_TIMEOUT: must be a duration from 100ms to 7d, not {said!r}"
        )


@pytest.mark.parametrize("said", ["true", "nan", "inf", "[1]", "{a = 1}", "1979-05-27"])
def test_the_file_must_use_fitting_types(said: str, tmp_path: Path) -> None:
    write(tmp_path, f"attempt_timeout = {said}\nmax_attempts = {said}")
    message = problems(tmp_path)
    assert "attempt_timeout in rushes.toml: must be a duration" in message
    assert "max_attempts in rushes.toml: must be a whole number from 1 to 100" in message


def test_words_are_one_of_a_few(tmp_path: Path) -> None:
    assert load(tmp_path, POLICY="FAIR").policy == "fair"
    assert (
        problems(tmp_path, POLICY="lifo") == "RUSHES_POLICY: must be auto, fifo or fair, not 'lifo'"
    )


def test_all_problems_are_reported_at_once(tmp_path: Path) -> None:
    write(tmp_path, 'policy = "lifo"\nmax_atempts = 3\n[queue]\nx = 1\n')
    message = problems(
        tmp_path,
        CLAIM_DURATION="soon",
        MAX_ATTEMPTS="101",
        DATABASE_URL="mysql://ada:s3cret@db/x",
        POLL_INTERVALL="2",
        FROBNICATE="1",
    )
    assert [line.strip().split(":")[0] for line in message.splitlines()] == [
        "8 settings are wrong",
        "policy in rushes.toml",
        "max_atempts in rushes.toml",
        "queue in rushes.toml",
        "RUSHES_CLAIM_DURATION",
        "RUSHES_DATABASE_URL",
        "RUSHES_FROBNICATE",
        "RUSHES_MAX_ATTEMPTS",
        "RUSHES_POLL_INTERVALL",
    ]
    assert "did you mean RUSHES_POLL_INTERVAL?" in message
    assert "did you mean max_attempts?" in message
    assert "s3cret" not in message


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("CLAIM_DURATON", "RUSHES_CLAIM_DURATION"),
        ("claim_duration", "RUSHES_CLAIM_DURATION"),
        ("DATABASE_URL_FIEL", "RUSHES_DATABASE_URL_FILE"),
        ("MAX_ATTEMPTS_FILE", "RUSHES_MAX_ATTEMPTS"),
    ],
)
def test_a_near_name_is_suggested(name: str, meant: str, tmp_path: Path) -> None:
    expected = f"RUSHES_{name}: there is no such setting; did you mean {meant}?"
    assert problems(tmp_path, **{name: "1"}) == expected


def test_names_of_the_tests_are_ignored(tmp_path: Path) -> None:
    assert load(tmp_path, TEST_POSTGRES="x") == load(tmp_path)


def test_a_file_that_is_not_toml_is_named(tmp_path: Path) -> None:
    write(tmp_path, "policy = ")
    assert problems(tmp_path).startswith("rushes.toml: not valid TOML: ")
    (tmp_path / "rushes.toml").write_bytes(b"\xff\xfe")
    assert problems(tmp_path).startswith("rushes.toml: not valid TOML: ")
    (tmp_path / "rushes.toml").unlink()
    (tmp_path / "rushes.toml").mkdir()
    assert problems(tmp_path).startswith("rushes.toml cannot be read: ")


@pytest.mark.parametrize(
    ("environ", "wrong"),
    [
        ({"HEARTBEAT_INTERVAL": "21"}, ["HEARTBEAT_INTERVAL"]),
        ({"CLAIM_DURATION": "30s"}, ["HEARTBEAT_INTERVAL"]),
        ({"SWEEP_INTERVAL": "61s"}, ["SWEEP_INTERVAL"]),
        ({"CLAIM_DURATION": "6s"}, ["HEARTBEAT_INTERVAL", "SWEEP_INTERVAL"]),
        ({"CLAIM_DURATION": "6x", "POLICY": "x"}, ["CLAIM_DURATION", "POLICY"]),
    ],
)
def test_settings_must_fit_together(
    environ: dict[str, str], wrong: list[str], tmp_path: Path
) -> None:
    message = problems(tmp_path, **environ)
    found = [line.split(":")[0].strip() for line in message.splitlines() if "RUSHES_" in line]
    assert found == [f"RUSHES_{name}" for name in wrong]


@pytest.mark.parametrize(
    ("claim", "beat"), [("60", "20"), ("300ms", "100ms"), ("1", "0.333"), ("0.9", "0.3")]
)
def test_a_third_is_enough(claim: str, beat: str, tmp_path: Path) -> None:
    environ = {"CLAIM_DURATION": claim, "HEARTBEAT_INTERVAL": beat, "SWEEP_INTERVAL": "100ms"}
    assert load(tmp_path, **environ).claim_duration >= 0.3


def test_a_secret_can_come_from_a_file(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text(URL + "\n")
    environ = {"RUSHES_DATABASE_URL_FILE": str(secret)}
    settings, origins = config.load_with_origins(environ, tmp_path)
    assert settings.database_url == URL
    assert origins["database_url"] == config.SettingOrigin(
        "environment", "RUSHES_DATABASE_URL_FILE"
    )
    both = problems(tmp_path, DATABASE_URL_FILE=str(secret), DATABASE_URL=URL)
    assert both == "RUSHES_DATABASE_URL_FILE: RUSHES_DATABASE_URL is set, too; keep one of them"
    absent = problems(tmp_path, DATABASE_URL_FILE=str(tmp_path / "no"))
    assert absent.endswith("cannot be read: No such file or directory")
    secret.write_text("s3cret")
    assert "s3cret" not in problems(tmp_path, DATABASE_URL_FILE=str(secret))


@pytest.mark.parametrize(
    "url",
    [
        URL,
        "postgresql://:s3cret@db/rushes",
        "postgresql://ada:s3cret/with@and:s3cret@db/rushes",
        "postgresql+psycopg://ada@db/rushes?sslmode=require&password=s3cret",
        "postgresql://ada@db/rushes?sslpassword=s3cret&x=1",
    ],
)
def test_the_database_password_is_never_shown(url: str, tmp_path: Path) -> None:
    settings = load(tmp_path, DATABASE_URL=url)
    assert settings.database_url == url
    shown = known.show("database_url", url)
    assert "s3cret" not in shown
    assert "***" in shown
    assert shown.startswith("postgresql")
    assert "s3cret" not in repr(settings)
    assert "s3cret" not in f"{settings}"


@pytest.mark.parametrize(
    ("value", "secret", "shown"),
    [
        ("s3cret", "whole", "***"),
        ("plain", None, "plain"),
        ("sqlite:////data/a:b@c/rushes.db", "url", "sqlite:////data/a:b@c/rushes.db"),
        ("postgresql://ada@db/rushes", "url", "postgresql://ada@db/rushes"),
        (URL, "url", "postgresql://ada:***@db.example/rushes"),
        ("rediss://h/0?ssl_password=s3cret&x=1", "url", "rediss://h/0?ssl_password=***&x=1"),
    ],
)
def test_hiding_leaves_the_rest_readable(value: Any, secret: str | None, shown: str) -> None:
    assert setting_field.hide(value, secret) == shown


def test_settings_are_frozen(tmp_path: Path) -> None:
    with pytest.raises(AttributeError):
        load(tmp_path).policy = "fair"  # type: ignore[misc]


def test_the_settings_page_is_fresh() -> None:
    page = (ROOT / "docs" / "settings.md").read_text()
    assert page == known.describe(), "run: python -m rushes.settings > docs/settings.md"


def test_every_setting_has_a_sentence() -> None:
    for field in known.FIELDS.values():
        assert field.meta.description is not None
        assert field.meta.description.endswith(".")
        assert f"| `{known.variable(field.name)}` |" in known.describe()


@pytest.mark.parametrize("token", ["0", "x" * 31, "with spaces " * 4])
def test_an_admin_token_that_could_be_guessed_is_refused(token: str, tmp_path: Path) -> None:
    with pytest.raises(errors.BadSetting) as refused:
        config.load({"RUSHES_ADMIN_TOKEN": token}, tmp_path)
    assert "RUSHES_ADMIN_TOKEN: must be at least 32 characters" in refused.value.message
    assert token not in refused.value.message
    assert config.load({"RUSHES_ADMIN_TOKEN": "x" * 32}, tmp_path).admin_token == "x" * 32


@contextmanager
def as_nobody() -> Iterator[None]:
    """Root may write everywhere."""
    if os.getuid() != 0:
        yield
        return
    os.setresuid(65534, 65534, 0)
    try:
        yield
    finally:
        os.setresuid(0, 0, 0)


def test_a_data_directory_that_cannot_be_used_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    with pytest.raises(errors.BadSetting, match=r"RUSHES_DATA_DIR: .* cannot be made"):
        config.make_data_dir(tmp_path / "file" / "data")
    with tempfile.TemporaryDirectory() as others:
        Path(others).chmod(0o555)
        with as_nobody(), pytest.raises(errors.BadSetting, match="belong to the user who runs"):
            config.make_data_dir(Path(others))
