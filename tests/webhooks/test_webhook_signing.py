"""Signatures, checked by somebody else's implementation of Standard Webhooks."""

from __future__ import annotations

import base64
import time

import pytest
from standardwebhooks.webhooks import Webhook as Verifier
from standardwebhooks.webhooks import WebhookVerificationError

from rushes.webhooks import signing

BODY = '{"type":"media.ready","data":{"title":"Größe – 漢字"}}'.encode()


def headers(*secrets: str, body: bytes = BODY, at_ms: int | None = None) -> dict[str, str]:
    return signing.headers("dlv_1", at_ms or int(time.time() * 1000), body, secrets)


def test_another_implementation_accepts_our_signature() -> None:
    secret = signing.new_secret()
    message = Verifier(secret).verify(BODY, headers(secret))
    assert message["data"]["title"] == "Größe – 漢字"


def test_the_published_example_has_the_published_signature() -> None:
    signature = signing.sign(
        "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
        "msg_p5jXN8AQM9LWM0D4loKWxJek",
        1614265330,
        b'{"test": 2432232314}',
    )
    assert signature == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


def test_a_secret_is_32_random_bytes() -> None:
    first, second = signing.new_secret(), signing.new_secret()
    assert first != second
    assert len(base64.b64decode(first.removeprefix("whsec_"))) == 32


def test_while_a_secret_changes_both_are_accepted() -> None:
    new, old = signing.new_secret(), signing.new_secret()
    for each in (new, old):
        Verifier(each).verify(BODY, headers(new, old))


@pytest.mark.parametrize("change", ["body", "id", "timestamp", "secret"])
def test_what_was_changed_on_the_way_is_refused(change: str) -> None:
    secret = signing.new_secret()
    sent, body = headers(secret), BODY
    if change == "body":
        body = BODY + b" "
    elif change == "id":
        sent["webhook-id"] = "dlv_2"
    elif change == "timestamp":
        sent["webhook-timestamp"] = str(int(sent["webhook-timestamp"]) + 1)
    else:
        secret = signing.new_secret()
    with pytest.raises(WebhookVerificationError):
        Verifier(secret).verify(body, sent)


def test_an_old_message_cannot_be_played_again() -> None:
    secret = signing.new_secret()
    with pytest.raises(WebhookVerificationError):
        Verifier(secret).verify(BODY, headers(secret, at_ms=1_600_000_000_000))
