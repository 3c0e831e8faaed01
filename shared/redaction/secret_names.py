"""Names whose value is a secret: `GITHUB_TOKEN`, `--db-password`, `AccountKey`, `spark.hadoop.fs.s3a.secret.key`.

A name counts by its last words, however they are joined: `token_file` names a file, and `max_tokens` a number.
"""

import re
from enum import Enum, auto

HINTS = (
    "token",
    "secret",
    "pass",
    "pw",
    "key",
    "cred",
    "auth",
    "cookie",
    "jwt",
    "_pat",
    "bearer",
    "sessid",
    "sessionid",
)
"""One of these is in every such name, in lower case."""


class Secret(Enum):
    """What kind of value follows a name."""

    PASSWORD = auto()
    TOKEN = auto()
    """May be a word of a language model's, too: then its value is a number or `</s>`."""
    KEY = auto()
    HEADER = auto()
    """A line of HTTP: all that follows is secret but the name of a scheme."""
    BASIC = auto()
    """Secret if it looks like base64: `auth: kerberos` is none."""
    LONG = auto()
    """Secret if it is long and looks random: any variable that ends with `_KEY`."""


_KEYS = (
    "api access secret private account encrypt encryption decryption signing master shared storage subscription app "
    "application auth consumer deploy service ssh rsa pgp gpg license admin root hmac aes session webhook ingest "
    "instrumentation functions unlock gcp aws azure sas wandb openai anthropic comet neptune ngc hf".split()
)
_GLUED_TOKENS = (
    "auth access refresh csrf xsrf session id api bearer hf hub gh github gitlab bot user client oauth jwt sas vault "
    "slack deploy registry login security wandb huggingface".split()
)
_OF_LANGUAGE = frozenset(
    (
        "eos bos sos pad unk sep cls mask image img video audio vision next prev previous stop start begin end last "
        "first max min per special think draft new prompt input output cur current target tool ignore decoder "
        "additional extra word sub subword text num n each patch seq separator boi eoi placeholder fim control unused "
        "reserved forced suppress continuation assistant system speech object newline whitespace unexpected cost time"
    ).split()
)
"""Before `token`: what a tokenizer calls its own, and what is counted per token."""
_ROWS: tuple[tuple[Secret, str], ...] = (
    # DB_PASSWORD  PGPASSWORD  keyStorePassword  --passwd  vnc-passphrase
    (Secret.PASSWORD, r"(?:passw(?:or)?d|passphrase|passcode)s?(?:_hash)?"),
    # DB_PASS  smtp_pwd  client_secret  clientSecret  secret_id  credentials
    (
        Secret.PASSWORD,
        r"(?:^|_)(?:pwd?|(?:[a-z]{1,20})?secret(?:_id)?|credentials?|creds?|jsessionid|phpsessid|sessionid)",
    ),
    (
        Secret.PASSWORD,
        r"(?:^|_)(?:db|database|mysql|pg|postgres|redis|mongo|smtp|imap|mail|user|admin|root|ssh|s?ftp|webdav|smb|ldap|vnc|proxy|become|sudo|su|default|vault|login|auth|http|basic|registry|service|store|storage|key|trust|new|srcstore|deststore|srckey|destkey|client|cert)_?pass",
    ),
    # AWS_ACCESS_KEY_ID  aws_secret_access_key  AccountKey  fs.azure.account.key.example.dfs.core.windows.net
    (Secret.KEY, rf"(?:(?:^|_)(?:{'|'.join(_KEYS)})_?|_?(?:api|access|secret|private|account))keys?(?:_id)?"),
    (Secret.KEY, r"secret_?key_?base"),
    (Secret.KEY, r"fs_azure_(?:account|sas)_\w{1,200}"),
    # GITHUB_TOKEN  hub_token  AWS_SESSION_TOKEN  _authToken  X-Vault-Token  csrftoken  GITLAB_PAT  slurm_jwt
    (Secret.TOKEN, rf"(?:^|_)(?:(?:{'|'.join(_GLUED_TOKENS)})?token|jwt|bearer)"),
    # Authorization: …  Proxy-Authorization: …  Cookie: …  Set-Cookie: …
    (Secret.HEADER, r"(?:^|_)(?:authorization|(?:set_)?cookie)"),
    # _auth=YWxp…        "auth": "YWxp…"
    (Secret.BASIC, r"(?:^|_)auth"),
)
_ENDING = (
    r"_?(?:\d{1,3}|_v\d|_?b64|_?base64|_value|_raw|_plain(?:text)?|_prod|_dev|_staging|_old|_new|_enc(?:rypted)?)?"
)
_SEVERAL = re.compile(
    "|".join(f"(?P<row{at}>{pattern}{_ENDING}$)" for at, (_, pattern) in enumerate(_ROWS)),
    re.ASCII,
)
_JOINTS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|[-.]", re.ASCII)
# WANDB_KEY  FOO_PASS  GITLAB_PAT: variables of the environment
_VARIABLE = re.compile(r"(?:-D)?[A-Z][A-Z0-9]{0,30}(?:_[A-Z0-9]{1,30}){0,6}_(?P<last>KEY|PASS|PAT)", re.ASCII)
_NO_KEYS = frozenset("CACHE SORT PRIMARY PARTITION PUBLIC FOREIGN HASH MAP STORE GROUP ROUTING INDEX SHARD".split())


def secret_of(name: str) -> Secret | None:
    """Return what kind of secret has such a name; None: it is no secret."""
    joined = _JOINTS.sub("_", name).lower().rstrip("_")
    match = _SEVERAL.search(joined)
    if match is not None and match.lastgroup is not None:
        kind = _ROWS[int(match.lastgroup.removeprefix("row"))][0]
        return None if kind is Secret.TOKEN and _before(joined) in _OF_LANGUAGE else kind
    return Secret.PASSWORD if name in ("-pass", "--pass") else _of_variable(name)


def _before(joined: str) -> str:
    return joined.rpartition("token")[0].rstrip("_").rpartition("_")[2]


def _of_variable(name: str) -> Secret | None:
    match = _VARIABLE.fullmatch(name.lstrip("-"))
    if match is None:
        return None
    if match["last"] == "KEY":
        return None if name.split("_")[-2] in _NO_KEYS else Secret.LONG
    return Secret.PASSWORD
