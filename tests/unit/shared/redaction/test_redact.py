"""What is taken out of text, and what stays readable."""

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.redaction.hint_index import HintIndex
from shared.redaction.redact import redact, redact_lines, redact_words
from shared.redaction.secret_shapes import SHAPES
from tests.build.processes.secrets_in_tools import MANY, forms_with_secrets, lines_without_secrets
from tests.build.processes.secrets_made import NAMES, Made, made_of_names, made_of_shapes


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


DATA = Path(__file__).resolve().parents[3] / "data" / "redaction"
WORD = "hunter2Xq9"
SECRETS = DATA.joinpath("secrets.txt").read_text(encoding="utf-8").splitlines()
"""One form a line, as tools and people write secrets; `{S}` is where the secret stands."""
ORDINARY = DATA.joinpath("ordinary.txt").read_text(encoding="utf-8").splitlines()
"""Near misses: lines of training logs, NCCL, kernels and code that talk of tokens, keys, hashes and passes."""


def test_no_form_shows_its_secret() -> None:
    """However it is quoted, escaped, or joined to its name."""
    shown = [redact(form.replace("{S}", WORD)) for form in SECRETS]
    assert [text for text in shown if WORD[:7] in text or "0123456789abcdef01" in text or "***" not in text] == []


def test_ordinary_lines_stay() -> None:
    """What redaction takes for a secret and is none is lost to whoever reads the log."""
    assert [redact(line) for line in ORDINARY] == ORDINARY


@pytest.mark.parametrize("made", [made_of_names, made_of_shapes], ids=["names", "shapes"])
def test_made_up_secrets_are_hidden(made: Callable[[int], Iterator[Made]]) -> None:
    """Every form with every name, every service's token in several places: not six characters of one show."""
    shown = [each for each in made(20_261) if _shows(redact(each.text), each.secret)]
    # In small letters `_pat` may end any word.
    assert [each.what for each in shown if not each.what.startswith("header tuple, GITLAB_PAT")] == []


@pytest.mark.parametrize("seed", [7, 25, 2026])
def test_five_hundred_forms_of_tools_and_services_are_hidden(seed: int) -> None:
    """Half of them are commands, with the options that their manuals name."""
    forms = list(forms_with_secrets(seed))
    assert len(forms) == MANY
    assert [text for text, secret in forms if _shows(redact(text), secret)] == []


def test_what_looks_like_secrets_and_is_none_stays() -> None:
    """Paths, hashes, ranks, sequence numbers, commits, ids."""
    lines = list(lines_without_secrets(25))
    assert len(lines) >= 200
    assert [line for line in lines if redact(line) != line] == []
    assert list(redact_lines(lines, most=len(lines))) == lines


@pytest.mark.parametrize(
    "lines",
    [
        ["run --password \\", "  {S} --lr 1"],
        ["DB_PASSWORD:", "  {S}"],
        ['  "api_key":', '    "{S}",'],
        ["client_secret =", "{S}"],
        ["using the token ghp_" + "a1" * 16, "{S}"],
        ["Authorization: Bearer " + "Ab3" * 20, "{S}"],
    ],
)
@pytest.mark.parametrize("most", [1, 2])
def test_secret_over_two_lines(lines: list[str], most: int) -> None:
    """Where a line breaks behind the name, or a terminal has cut the secret; what follows other lines stays."""
    broken = [line.replace("{S}", WORD) for line in lines]
    assert not any(WORD in line for line in redact_lines(broken, most=most))
    assert list(redact_lines(["step 3 loss:", "0.25", "key:", "value8"], most=4))[1] == "0.25"


def _shows(text: str, secret: str) -> bool:
    return any(secret[at : at + 6] in text for at in range(len(secret) - 5))


@given(st.sampled_from(NAMES), st.text(st.characters(exclude_categories=["C", "Z"]), min_size=8, max_size=40))
def test_a_quoted_value_is_hidden_whatever_it_holds(name: str, secret: str) -> None:
    """JSON says where it ends."""
    value = f"q7{secret}Z9"
    shown = redact(json.dumps({name: value, "step": 3}))
    assert shown == f'{{"{name}": ***, "step": 3}}'


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        (["train.py", "--password", "two words", "--lr", "1"], "train.py --password *** --lr 1"),
        (["train.py", "--password=two words"], "train.py --password=***"),
        (["env", "DB_PASSWORD=a b;c", "train.py"], "env DB_PASSWORD=*** train.py"),
        (["train.py", "--token", "--lr", "1"], "train.py --token --lr 1"),
        (["bash", "-c", "mysql -phunter2 db"], "bash -c mysql -p*** db"),
        (["train.py", "--max-tokens", "512", "--tokenizer", "x"], "train.py --max-tokens 512 --tokenizer x"),
        (["curl", "-H", "X-Api-Key: a b", "u"], "curl -H X-Api-Key: *** b u"),
        ([], ""),
    ],
)
def test_words_of_a_command_line(arguments: list[str], shown: str) -> None:
    """The words are known, so that a secret with blanks does not leave its end behind."""
    assert redact_words(arguments) == shown


BODY = ["MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj"] * 60
KEY = ["-----BEGIN RSA PRIVATE KEY-----", *BODY, "abCD12==", "-----END RSA PRIVATE KEY-----"]


@pytest.mark.parametrize("mark", ["", "[rank3]: ", "2026-01-01 10:00:00 INFO "])
@pytest.mark.parametrize(("first", "last"), [(0, 63), (0, 40), (30, 63)], ids=["whole", "no end", "no beginning"])
@pytest.mark.parametrize("most", [100, 20])
def test_no_line_of_a_key_is_left(mark: str, first: int, last: int, most: int) -> None:
    """Other lines between stay; a file may begin or end in the midst of a key, and what is shown of it too."""
    lines = [mark + line for line in KEY[first:last]]
    lines.insert(len(lines) - 5, f"{mark}step 3 loss 0.5")
    shown = list(redact_lines(lines, most=most))
    assert len(shown) == min(most, len(lines))
    assert not any("MIIEvQ" in line or "abCD12" in line for line in shown)
    assert f"{mark}step 3 loss 0.5" in shown


def test_a_key_in_one_text() -> None:
    """With line ends or escapes; a certificate is no secret."""
    assert redact("a\n" + "\n".join(KEY) + "\nb").splitlines()[-1] == "b"
    assert "MIIE" not in redact("\n".join(KEY)) + redact("\\n".join(KEY)) + redact("\n".join(KEY[:20]))
    assert "MIIE" in redact("-----BEGIN CERTIFICATE-----\nMIIEabc")


LONG = (
    "auth=",
    "auth:'",
    "pw ",
    "jwt%",
    "key",
    "-u a:",
    "curl -u a",
    "login ",
    "docker login ",
    "token='\\'",
    "eyJ.",
    "/:",
    "openssl -k ",
    "htpasswd -b a ",
    "wandb login --a ",
    "chpasswd ",
    "invalid token '",
    "sqlplus a",
    "echo a ",
    "-object secret,",
    "AKIAABCDEFGHIJKLMNOP ",
)


@pytest.mark.parametrize("unit", LONG)
def test_no_repeated_hint_takes_long(unit: str) -> None:
    """Every name that is followed by no secret costs its own length and not the text's."""
    begun = time.thread_time()
    redact((unit * 20_000)[:20_000])
    assert time.thread_time() - begun < 0.5


def test_each_hint_leads_to_its_rows() -> None:
    """Under whatever letters it is filed."""
    index = HintIndex((row, shape.hints) for row, shape in enumerate(SHAPES))
    for row, shape in enumerate(SHAPES):
        for hint in shape.hints:
            assert row in index.rows(f"a{hint}z"), hint
    assert index.rows("") == []
