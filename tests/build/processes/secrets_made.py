"""Secrets made up from a seed, in the forms that they have in command lines, logs and files. None was ever valid."""

import base64
import json
import random
import string
from collections.abc import Callable, Iterator
from typing import NamedTuple
from urllib.parse import quote

_ALNUM = string.ascii_letters + string.digits
_HEX = "0123456789abcdef"

NAMES = (
    "GITHUB_TOKEN hub_token AWS_SESSION_TOKEN HF_TOKEN HUGGING_FACE_HUB_TOKEN token access_token refresh_token "
    "auth_token id_token csrftoken NEPTUNE_API_TOKEN VAULT_TOKEN X-Vault-Token PRIVATE-TOKEN GITLAB_PAT DB_PASSWORD "
    "password PGPASSWORD passwd MYSQL_PWD passphrase keyStorePassword SMTP_PASS client_secret clientSecret secret "
    "SECRET_KEY AWS_SECRET_ACCESS_KEY secret_access_key api_key api-key apiKey apikey WANDB_API_KEY COMET_API_KEY "
    "NGC_API_KEY OPENAI_API_KEY private_key AccountKey SharedAccessKey encryption_key credentials X-Api-Key DD-API-KEY "
    "fs.s3a.secret.key jwt_secret vault_secret_id bot_token registry_password api_key_2 password1"
).split()

ALPHABETS = {
    "alnum": _ALNUM,
    "hex": _HEX,
    "base64": _ALNUM + "+/",
    "url": _ALNUM + "-_.~",
    "odd": _ALNUM + "!@#%^*+?./|~$",
}

Form = Callable[[str, str], str]
FORMS: dict[str, Form] = {
    "env": lambda n, v: f"{n}={v} python train.py",
    "export": lambda n, v: f"export {n}={v}",
    "export quoted": lambda n, v: f'export {n}="{v}"; run',
    "option =": lambda n, v: f"train.py --{n}={v} --lr 3e-4",
    "option": lambda n, v: f"train.py --{n} {v} --lr 3e-4",
    "option '": lambda n, v: f"train.py --{n} '{v}' --lr 3e-4",
    "one dash": lambda n, v: f"java -{n} {v} -jar x.jar",
    "yaml": lambda n, v: f"  {n}: {v}",
    "yaml quoted": lambda n, v: f"  {n}: '{v}'",
    "json": lambda n, v: json.dumps({"step": 3, n: v, "lr": 0.1}),
    "json tight": lambda n, v: json.dumps({"a": 1, n: v, "b": 2}, separators=(",", ":")),
    "json in json": lambda n, v: json.dumps({"body": json.dumps({n: v, "b": 2})}),
    "python dict": lambda n, v: repr({"a": 1, n: v, "b": None}),
    "python bytes": lambda n, v: repr({n: v.encode()}),
    "python call": lambda n, v: f"    client = connect({n}={v!r}, retries=3)",
    "python assign": lambda n, v: f"    {n} = {v!r}  # for now",
    "python default": lambda n, v: f'def connect({n}: str = "{v}", retries: int = 3):',
    "environ": lambda n, v: f'os.environ["{n}"] = "{v}"',
    "argv list": lambda n, v: f"CalledProcessError: Command {['train.py', '--' + n, v, '--lr', '1']} returned 1",
    "argv =": lambda n, v: f"Command {['train.py', f'--{n}={v}']} returned 1",
    "header tuple": lambda n, v: f"headers=[(b'{n.lower()}', b'{v}'), (b'host', b'x')]",
    "header": lambda n, v: f"curl -H '{n}: {v}' https://x.example.com/v1",
    "query": lambda n, v: f"GET /v1/data?step=3&{n}={quote(v, safe='')}&b=2 HTTP/1.1",
    "percent": lambda n, v: f"redirect=https%3A%2F%2Fx%2F%3F{n}%3D{quote(v, safe='')}%26b%3D2",
    "properties": lambda n, v: f"{n}: {v}",
    "arrow": lambda n, v: f"{n} => {v}",
    "toml": lambda n, v: f'{n} = "{v}"',
    "xml": lambda n, v: f"<config><{n}>{v}</{n}></config>",
    "setenv": lambda n, v: f"setenv {n} {v}",
    "docker": lambda n, v: f"ENV {n} {v}",
    "manifest": lambda n, v: json.dumps({"name": n, "value": v}),
    "connection": lambda n, v: f"Server=db;User=alice;{n}={v};Pooling=true",
    "escaped line": lambda n, v: f"args: a=1\\n{n}={v}\\nb=2",
    "rank mark": lambda n, v: f"[rank3]: RuntimeError: cannot log in with {n}={v}",
    "space equals": lambda n, v: f"{n} = {v}",
}


class Made(NamedTuple):
    """A text, and the secret in it."""

    what: str
    text: str
    secret: str


def made_of_names(seed: int) -> Iterator[Made]:
    """Every form with every name, the value from one alphabet after the other."""
    chance = random.Random(seed)
    for form, write in FORMS.items():
        for name in NAMES:
            alphabet = chance.choice(list(ALPHABETS))
            if form in ("xml", "percent", "connection", "escaped line", "header tuple") and alphabet == "odd":
                alphabet = "base64"
            secret = _word(chance, ALPHABETS[alphabet], chance.choice((16, 24, 40)))
            yield Made(f"{form}, {name}, {alphabet}", write(name, secret), secret)


def made_of_shapes(seed: int) -> Iterator[Made]:
    """Tokens of services that tell by their shape, in places with no telling name."""
    chance = random.Random(seed)
    places: tuple[Callable[[str], str], ...] = (
        lambda s: f"using {s} today",
        lambda s: f'{{"x": "{s}"}}',
        lambda s: f"X={s}",
        lambda s: f"fetch('{s}')",
        lambda s: f"https://x.example.com/a?x={s}&b=2",
        lambda s: f"[rank0]: ValueError: {s}: refused",
    )
    for name, secret in _shapes(chance):
        for place in places:
            yield Made(name, place(secret), secret)


def _word(chance: random.Random, alphabet: str, length: int) -> str:
    """A word that no rule can take for nothing: a letter, a digit, and the rest by chance."""
    return "q7" + "".join(chance.choice(alphabet) for _ in range(length - 4)) + "Z9"


def _shapes(chance: random.Random) -> Iterator[tuple[str, str]]:
    def word(length: int, alphabet: str = _ALNUM) -> str:
        return "".join(chance.choice(alphabet) for _ in range(length))

    url = _ALNUM + "-_"
    upper = string.ascii_uppercase + string.digits
    body = base64.urlsafe_b64encode(json.dumps({"sub": word(12), "exp": 1}).encode()).decode().rstrip("=")
    yield "hugging face", f"hf_{word(34)}"
    yield from (("github", f"{prefix}_{word(36)}") for prefix in ("ghp", "gho", "ghu", "ghs", "ghr"))
    yield "github fine", f"github_pat_{word(22)}_{word(59)}"
    yield from (("gitlab", f"{prefix}-{word(20, url)}") for prefix in ("glpat", "gldt", "glrt"))
    yield "openai", f"sk-{word(47)}9"
    yield "openai project", f"sk-proj-{word(60, url)}7{word(20, url)}"
    yield "anthropic", f"sk-ant-api03-{word(80, url)}AA"
    yield "stripe", f"sk_live_{word(24)}"
    yield "stripe restricted", f"rk_test_{word(24)}"
    yield "slack", f"xoxb-{word(12, string.digits)}-{word(12, string.digits)}-{word(24)}"
    yield "slack app", f"xapp-1-A{word(10, upper)}-{word(12, string.digits)}-{word(64, _HEX)}"
    yield "nvidia", f"nvapi-{word(64, url)}"
    yield "npm", f"npm_{word(36)}"
    yield "pypi", f"pypi-AgEIcHlwaS5vcmc{word(80, url)}"
    yield "google", f"AIza{word(35, url)}"
    yield "google oauth", f"ya29.a0{word(60, url)}"
    yield "google client", f"GOCSPX-{word(28, url)}"
    yield "aws", f"AKIA{word(16, upper)}"
    yield "aws temporary", f"ASIA{word(16, upper)}"
    yield "azure client", f"{word(3)}8Q~{word(34)}"
    yield "sendgrid", f"SG.{word(22, url)}.{word(43, url)}"
    yield "twilio", f"SK{word(32, _HEX)}"
    yield "mailgun", f"key-{word(32, _HEX)}"
    yield "mailchimp", f"{word(32, _HEX)}-us12"
    yield "digital ocean", f"dop_v1_{word(64, _HEX)}"
    yield "databricks", f"dapi{word(32, _HEX)}"
    yield "vault", f"hvs.{word(90, url)}"
    yield "docker", f"dckr_pat_{word(27, url)}"
    yield "artifactory", f"AKCp5{word(68)}"
    yield "artifactory reference", f"cmVmdGtuOjAxOjE3{word(44)}1"
    yield "atlassian", f"ATATT3xFfGF0{word(100, url)}=1A2B3C4D"
    yield "age", f"AGE-SECRET-KEY-1{word(58, upper)}"
    yield "jwt", f"eyJhbGciOiJSUzI1NiJ9.{body}.{word(80, url)}"
    yield "neptune", "eyJ" + base64.b64encode(word(60).encode()).decode()
    yield "telegram", f"{word(9, '123456789')}:AA{word(33, url)}"
    yield "grafana", f"glsa_{word(32)}_{word(8, _HEX)}"
    yield "groq", f"gsk_{word(52)}"
    yield "replicate", f"r8_{word(37)}"
    yield "wandb", f"wandb_v1_{word(40)}"
