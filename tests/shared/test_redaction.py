"""What is taken out of text, and what stays readable."""

import time

import pytest

from shared.redaction import redact


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("train.py --wandb-api-key=0123abcd --lr 3e-4", "train.py --wandb-api-key=*** --lr 3e-4"),
        ("train.py --api_key 0123abcd --lr 3e-4", "train.py --api_key *** --lr 3e-4"),
        ("DB_PASSWORD=hunter2 python train.py", "DB_PASSWORD=*** python train.py"),
        ('{"token": "abc def", "step": 3}', '{"token": ***, "step": 3}'),
        ("password: hunter2", "password: ***"),
        ("Authorization: Bearer abcdefgh.ijkl", "Authorization: Bearer ***"),
        ("git clone https://alice:hunter2@git.example.com/x", "git clone https://***@git.example.com/x"),
        ("using hf_abcdefghijklmnop today", "using *** today"),
        ("AKIAABCDEFGHIJKLMNOP is the id", "*** is the id"),
        ("aws_secret_access_key=abc/def+ghi", "aws_secret_access_key=***"),
        ("Authorization: Basic YWxpY2U6aHVudGVyMg==", "Authorization: Basic ***"),
        ("redis://:hunter2@cache.example.com:6379/0", "redis://***@cache.example.com:6379/0"),
        (
            "GET /shard-7?X-Amz-Expires=60&X-Amz-Signature=0f3c9a7712aa",
            "GET /shard-7?X-Amz-Expires=60&X-Amz-Signature=***",
        ),
        ("https://data.example.com/x?se=2026&sig=aB%2Fc3d4e5f6g7", "https://data.example.com/x?se=2026&sig=***"),
        ("export NGC=nvapi-abcdefghijklmnop", "export NGC=***"),
    ],
)
def test_secrets_are_hidden(text: str, expected: str) -> None:
    """By the name before them, or by their own shape."""
    assert redact(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "step 3 loss 0.5 tokens 4096",
        "the token was not found in the store",
        "tokenizer=gpt2 --max-tokens 512",
        "Timed out waiting 30000ms for recv operation to complete",
        "RuntimeError: password is wrong",
        "http://node1.example:8471/v1/ranks",
        "MASTER_ADDR=node1 --sk-learn",
        "a basic configuration with Basic BLAS and basic arithmetic_that_is_long",
        "design=8 signal=9 CollectiveFingerPrint(SequenceNumber=7, OpType=ALLREDUCE)",
        "tcp://10.3.0.7:29500 and [2001:db8::7]:29500",
        "installing pypi-simple and npm_config, AIzawa et al.",
    ],
)
def test_ordinary_text_stays(text: str) -> None:
    """A log that cannot be read helps nobody."""
    assert redact(text) == text


@pytest.mark.parametrize(
    "text", ["token=" * 100_000, "a" * 1_000_000, "://" * 300_000, "eyJ" + "a." * 300_000, "key" * 99_999]
)
def test_no_text_takes_long(text: str) -> None:
    """Whoever writes the log does not choose how long we take."""
    begun = time.thread_time()
    redact(text)
    assert time.thread_time() - begun < 0.5
