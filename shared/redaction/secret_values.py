"""Where the value of a secret name begins and ends: `=`, `: `, an option's next word; quoted, escaped, or plain."""

import re
from typing import NamedTuple

from shared.redaction.secret_names import Secret


class SecretSpan(NamedTuple):
    """A part of a text."""

    start: int
    end: int


_CLOSING = r"(?:\\u0022|&quot;|\x1b\[[0-9;]{0,8}m|[\\\"'\]]){0,6}"
_ASSIGNED = re.compile(
    # token=x  "token": "x"  token := x  'token' => 'x'  token%3Dx  password is: x  environ["TOKEN"] = "x"
    # token: str = "x"                   "name": "TOKEN", "value": "x"
    rf"{_CLOSING}(?:\s{{0,3}}:\s{{0,3}}(?:str|string|bytes|SecretStr|Optional\[str\])(?:\s?\|\s?None)?\s{{0,3}}=(?!=)"
    r"|\s{1,3}(?:is|was)\s?[:=]|\s{0,3},?\s{1,20}[\\\"']{0,4}value[\\\"']{0,4}\s{0,3}[:=]"
    r"|,[\\\"']{1,4}value[\\\"']{1,4}:|\s{0,3}(?:=>|:=|={1,2}|:(?!:))|%(?:25)?3[aAdD])\s{0,3}(?:%2[27])?"
)
# --token x        '--token', 'x'        password 'x'        ("x-api-key", "x")
_SPACED = re.compile(r"[\"']?(?:\s{0,3}\\\r?\n\s{0,20}|\s{1,3})(?!--|-[a-z]{2,20}(?:\s|$)|<<|<\(|\|)")
_LISTED = re.compile(r"[\\\"']{1,4},\s{0,3}(?=b?[\\\"'])")
# token "S" expired        Token(value=S)        token -> S        {token,<<"S">>}        not token "Llama2"
_RANDOM_NEXT = re.compile(
    r"(?:[\s\\(\[{<]|<-|->|,<<|value=){1,6}(?=[\\\"'`“„«]{0,2}"
    r"(?:(?=[\w+/=~-]{0,80}\d)(?=[\w+/=~-]{0,80}[a-z])(?=[\w+/=~-]{0,80}[A-Z])[\w+/=~-]{9,400}"
    r"|(?=[0-9a-f]{0,30}[a-f])(?=[0-9a-f]{0,30}\d)[0-9a-f]{16,400})(?:[\\\"'`”“»)\]}>,;\s]|$))",
    re.ASCII,
)
_QUOTED_NEXT = re.compile(r"\s{1,2}(?=[\"'][^\s\"']{1,200}[\"'])")
# set_token("x")        .withPassword('x')
_SETTER_CALL = re.compile(r"\.?(?:set|with)(?:_|[A-Z])")
_ARGUMENT = re.compile(r"\(\s{0,2}(?=b?[\"'])")
_SETTERS = ("setenv ", "ENV ", "ARG ", "configure set ", "config set ")

# "x"  b'x'  \"x\"  SecretStr('x')  """x"""
_OPEN = re.compile(r"(?:[A-Za-z_][\w.]{0,40}\()?[bBrRuUfF]{0,2}(\\{0,3})(\"\"\"|'''|[\"'`])")
# ["x"]  ("alice", "x")  {"v": "x"}
_LIST = re.compile(r"[\[({](?=b?[\"'])")
_CLOSED_BY = {"[": "]", "(": ")", "{": "}"}
_PLAIN_END = re.compile(
    r"\s|[\"'`](?=[\s,;:)\]}]|$)|[,;](?=\s|$|[\"']|[\w.-]{1,64}\s?[=:])|[)\]}](?=\s|$|[,;)\]}])|</|%26|%22"
    r"|&(?=[\w.-]{1,64}=)|\\[nrt\"]"
)
_QUERY_END = re.compile(r"[\s&\"'<>]|%26")
_LINE_END = re.compile(r"[\r\n]")
# Bearer x        Digest username="x", response="…"        AWS4-HMAC-SHA256 Credential=…
_SCHEME = re.compile(r"([A-Za-z][\w-]{1,20})\s{1,3}(?=\S)")
_ONE_WORD = frozenset({"bearer", "basic", "token", "apikey", "splunk", "negotiate", "pat", "key"})
_WORD = re.compile(r"[^\s\"',]{1,8000}")


_MOST_UNSURE = 400
"""Of a value that may turn out to be no secret, so that many such names in one text do not cost the square of it."""


def value_after(text: str, name: SecretSpan, kind: Secret) -> SecretSpan | None:
    """Return where the value of the name at `name` is; None if none follows."""
    before = text[max(0, name.start - 14) : name.start]
    if before.endswith("<") and text.startswith(">", name.end):
        end = text.find("<", name.end + 1)
        return SecretSpan(name.end + 1, len(text) if end < 0 else end)
    sign = _ASSIGNED.match(text, name.end) or _loose_sign(text, name, before, kind)
    if sign is None or sign.end() >= len(text):
        return None
    start = sign.end()
    if kind is Secret.HEADER:
        return _of_header(text, start, before[-1:])
    in_query = before[-1:] in ("?", "&")
    if kind not in (Secret.BASIC, Secret.LONG):
        return _value_at(text, start, in_query=in_query)
    value = _value_at(text[start : start + _MOST_UNSURE], 0, in_query=in_query)
    return SecretSpan(start, start + value.end)


def _value_at(text: str, start: int, *, in_query: bool) -> SecretSpan:
    quoted = _quoted(text, start)
    if quoted is not None:
        return quoted
    stop = (_QUERY_END if in_query else _PLAIN_END).search(text, start)
    return SecretSpan(start, len(text) if stop is None else stop.start())


def _loose_sign(text: str, name: SecretSpan, before: str, kind: Secret) -> re.Match[str] | None:
    """A value without `=` or `:`: an option's next word, the next element of a list, a quoted word."""
    if text.startswith("-", name.start) and before[-1:] in ("", " ", "\t", "\n", '"', "'", "`", "("):
        return _LISTED.match(text, name.end) or _SPACED.match(text, name.end)
    if _SETTER_CALL.match(text, name.start):
        return _ARGUMENT.match(text, name.end)
    if before.endswith(_SETTERS):
        return _SPACED.match(text, name.end)
    if before.rstrip("b\"'\\").endswith(("(", "[")):
        return _LISTED.match(text, name.end)
    quoted = _QUOTED_NEXT.match(text, name.end) if kind is Secret.PASSWORD else None
    return quoted or (_RANDOM_NEXT.match(text, name.end) if kind is not Secret.HEADER else None)


def _quoted(text: str, start: int) -> SecretSpan | None:
    """Return a quoted value with its quotes, or a list of such; to the end of the line where it is not closed."""
    several = _LIST.match(text, start)
    if several is not None:
        end = text.find(_CLOSED_BY[several[0]], several.end())
        return SecretSpan(start, end if end >= 0 else _end_of_line(text, start))
    opening = _OPEN.match(text, start)
    if opening is None:
        return None
    mark = opening[1] + opening[2]
    at = text.find(mark, opening.end())
    while at >= 0 and not opening[1] and _is_escaped(text, at):
        at = text.find(mark, at + 1)
    if at >= 0:
        return SecretSpan(start, at + len(mark))
    return SecretSpan(start, _end_of_line(text, start))


def _is_escaped(text: str, at: int) -> bool:
    before = text[max(0, at - 16) : at]
    return (len(before) - len(before.rstrip("\\"))) % 2 == 1


def _of_header(text: str, start: int, before: str) -> SecretSpan:
    """Return what follows the scheme: one word, or all up to the quote that ends the header, or the line's end."""
    quoted = _quoted(text, start)
    if quoted is not None:
        opening = _OPEN.match(text, start)
        inside = start if opening is None else opening.end()
        scheme = _SCHEME.match(text, inside)
        return (
            SecretSpan(scheme.end(), quoted.end - 1) if scheme is not None and scheme.end() < quoted.end - 1 else quoted
        )
    scheme = _SCHEME.match(text, start)
    if scheme is not None:
        start = scheme.end()
        word = _WORD.match(text, start)
        if scheme[1].lower() in _ONE_WORD and word is not None:
            return SecretSpan(start, word.end())
    end = text.find(before, start) if before in ('"', "'") and before else -1
    return SecretSpan(start, end if end >= 0 else _end_of_line(text, start))


def _end_of_line(text: str, start: int) -> int:
    end = _LINE_END.search(text, start)
    return len(text) if end is None else end.start()


# None  ***  [REDACTED]  <unset>  get_token()  tokens[i]  $TOKEN  ${TOKEN}  %(token)s  os.environ["TOKEN"]  args.token
_NO_SECRET = re.compile(
    r"(?i)[\"'`\\]{0,6}(?:none|null|nil|true|false|undefined|unset|empty|\*{3,}|\[?<?redacted>?\]?|<(?:un)?set>"
    r"|\$(?-i:[A-Z_][A-Z0-9_]{0,80}|\{\w{1,80}\}?)|\$\([^)]{0,200}\)|\{\{?[\w .]{1,80}\}?\}|%\(\w{1,80}\)s|%s"
    r"|[a-z_][\w.]{0,60}(?:\(|\[\w{1,20})"
    r"|(?:self|args|cfg|config|conf|os|settings|opts?|kwargs|getpass|hparams)\.[\w.]{1,80}(?:[\[(][^\s]{0,80})?)?[\"'`\\),;]{0,6}"
)
# 50256  2.34  12.5k  </s>  <|endoftext|>  [PAD]: what a tokenizer's words and counts look like
_NUMBER_OR_MARK = re.compile(
    r"[\"'\[(]{0,2}(?:-?\d{0,9}(?:[.,]\d{1,9})?(?:[eE][+-]?\d{1,3})?(?:ms|[kKMBGTs%]|/s)?|<[^<>\s]{0,40}>|\[[A-Z_0-9]{1,24}\])[\"'\])},;]{0,3}"
)
_BASE64 = re.compile(
    r"[\"'\\]{0,4}(?=[A-Za-z0-9+/=_-]{0,40}[0-9A-Z=])(?=[A-Za-z0-9+/=_-]{0,40}[a-z])[A-Za-z0-9+/_-]{8,}={0,2}[\"'\\]{0,4}"
)
_RANDOM = re.compile(r"[\"'\\]{0,4}(?=\S{0,80}\d)(?=\S{0,80}[A-Za-z])[\w+/=.~-]{16,}[\"'\\]{0,4}")


_SHORTEST_TOKEN = 5
"""`token: the` is prose."""


def is_secret(value: str, name: str, kind: Secret) -> bool:
    """Is this value worth hiding? Not nothing at all, nor a variable's name, nor a number of tokens."""
    if not value or _NO_SECRET.fullmatch(value[:400]) or value.rstrip(",)") == name.rpartition(".")[2]:
        return False
    if kind is Secret.TOKEN:
        return (len(value) >= _SHORTEST_TOKEN or not value.isalpha()) and _NUMBER_OR_MARK.fullmatch(value[:80]) is None
    if kind is Secret.BASIC:
        return value.startswith(("(", "[")) or _BASE64.fullmatch(value) is not None
    if kind is Secret.LONG:
        return _RANDOM.fullmatch(value) is not None and not value.startswith("/")
    return not (name.lower() == "pwd" and value.startswith(("/", "~", ".")))
