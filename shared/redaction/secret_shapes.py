"""Secrets recognised by their own shape, or by the program whose option they are.

Above each row is a made-up text that it must match. A pattern is tried only if one of its hints occurs in the text,
which is all that an ordinary line costs; group 1 is hidden. Shapes are those of services' own documents
and of detect-secrets (https://github.com/Yelp/detect-secrets, detect_secrets/plugins).
"""

import re

from shared.redaction.secret_options import OF_ADDRESSES, OF_PROGRAMS, Shape


def _shape(hints: str, pattern: str, *, of_option: bool = False) -> Shape:
    return Shape(tuple(hints.split("|")), re.compile(pattern), of_option)


def _prefixed(prefixes: str, rest: str) -> Shape:
    """Tokens that begin with one of `prefixes`, which name the service."""
    hints = tuple(prefixes.split())
    return Shape(hints, re.compile(rf"(?<![A-Za-z0-9])((?:{'|'.join(map(re.escape, hints))}){rest})"))


_TOKENS = (
    # hf_abcdefghijklmnopqr  npm_…  gsk_…  r8_…
    _prefixed("hf_ api_org_ npm_ gsk_ r8_ rpa_ lin_api_ fw_", r"[A-Za-z0-9]{16,255}"),
    # ghp_…  github_pat_…  dckr_pat_…  shpat_…  glsa_…
    _prefixed("ghp_ gho_ ghu_ ghs_ ghr_ github_pat_ dckr_pat_ dckr_oat_ glsa_ sntrys_ sntryu_ figd_", r"[\w-]{12,255}"),
    _prefixed("shpat_ shpss_ shpca_ shppa_ wandb_v1_ tgp_v1_ whsec_ pplx- xai- tskey- PMAK- NRAK-", r"[\w-]{16,255}"),
    # glpat-…  xoxb-…  xapp-…  nvapi-…  GOCSPX-…  CFPAT-…  sq0csp-…
    _prefixed("glpat- gldt- glrt- glcbt- glptt- glft- glimt- glagent- glsoat-", r"[\w.-]{12,255}"),
    _prefixed(
        "xoxa- xoxb- xoxe- xoxe. xoxo- xoxp- xoxr- xoxs- xapp- nvapi- GOCSPX- CFPAT- sq0csp- sq0atp-", r"[\w.-]{10,255}"
    ),
    # sk-proj-Ab3…  sk-ant-api03-…        not sk-learn
    _shape("sk-", r"(?<![A-Za-z0-9])(sk-(?=[\w-]{0,80}\d)[\w-]{12,255})"),
    # sk_live_…  rk_test_…
    _shape("k_live_|k_test_", r"(?<![A-Za-z0-9])([srp]k_(?:live|test)_[0-9A-Za-z]{10,255})"),
    # pypi-AgEIcHlwaS5vcmc…        not pypi-simple
    _shape("pypi-", r"(?<![A-Za-z0-9])(pypi-(?=[\w-]{0,40}[A-Z])[\w-]{12,1000})"),
    # AIzaSy…        ya29.a0Af…        1//0gAbC…
    _shape("AIza|ya29.|1//0", r"(?<![A-Za-z0-9])(AIza[\w-]{12,60}|ya29\.[\w-]{20,2000}|1//0[\w-]{20,200})"),
    # AKIAEXAMPLEEXAMPLE12        IQoJb3JpZ2lu…
    _shape(
        "AKIA|ASIA|ABIA|ACCA|A3T", r"(?<![A-Za-z0-9])((?:A3T[A-Z0-9]|AKIA|ASIA|ABIA|ACCA)[0-9A-Z]{16})(?![A-Za-z0-9])"
    ),
    _shape("FwoG|FQoG|IQoJ", r"(?<![A-Za-z0-9])((?:FwoG|FQoG|IQoJ)[A-Za-z0-9+/]{60,4000}={0,2})"),
    # abc8Q~…: a client secret of Azure's
    _shape("Q~", r"(?<![\w~.-])([\w~.-]{3}\dQ~[\w~.-]{31,34})(?![\w~.-])"),
    # SG.abc….def…        SK0123…: SendGrid, Twilio        key-0123…, 0123…-us12: Mailgun, Mailchimp
    _shape("SG.", r"(?<![A-Za-z0-9])(SG\.[\w-]{16,64}\.[\w-]{16,64})"),
    _shape("SK|key-|-us", r"(?<![A-Za-z0-9])((?:SK|key-)[0-9a-f]{32}|[0-9a-f]{32}-us\d{1,2})(?![A-Za-z0-9])"),
    # dop_v1_…  dapi0123…-2  pul-0123…  hvs.CAES…  ATATT3…  AKCp…  cmVmdGtu…  tskey
    _shape("dop_v1_|doo_v1_|dor_v1_|dapi|pul-", r"(?<![A-Za-z0-9])((?:do[opr]_v1_|dapi|pul-)[0-9a-f]{32,64}(?:-\d)?)"),
    _shape("hvs.|hvb.|hvr.", r"(?<![A-Za-z0-9])(hv[sbr]\.[\w-]{16,500})"),
    _shape(
        "ATATT3|ATCTT3|AKC|cmVmdGtu|LTAI",
        r"(?<![A-Za-z0-9])((?:AT[AC]TT3|AKC|cmVmdGtu|LTAI)(?=\w{0,60}\d)[\w=-]{16,400})",
    ),
    # AGE-SECRET-KEY-1QQP…
    _shape("AGE-SECRET-KEY-", r"(AGE-SECRET-KEY-1[0-9A-Za-z]{20,100})"),
    # eyJhbGciOi….eyJzdWIi….c2ln: a JSON web token; eyJhcGlf…: other JSON in base64, as Neptune's
    _shape(
        "eyJ", r"(?<![A-Za-z0-9])(eyJ[\w-]{8,2000}\.[\w-]{4,4000}(?:\.[\w-]{0,1000}){0,3}|eyJ[\w+/-]{40,4000}={0,2})"
    ),
    # 123456789:AAE…: a bot of Telegram's
    _shape(":AA", r"(?<![A-Za-z0-9])(\d{8,10}:AA[\w-]{32,34})(?![\w-])"),
)

_ADDRESSES = (
    # https://alice:hunter2@registry.example.com/v2        redis://:p@ss@cache        not tcp://node1:29500
    _shape("://", r"://([^\s/:@\[\]\"'<>]{0,200}:[^\s/\"<>]{1,400})@"),
    # postgres://u:p/w0rd@db        not http://node:8080/@scope/package
    _shape("://", r"://([^\s/:@\[\]\"'<>*]{0,200}:(?!\d{1,5}(?:[/?#,;)\]}\"'\s|]|$))[^\s\"'<>]{1,300})@"),
    # https://0123abcd@o1.ingest.example.com/2        git+https://Tok3n@git.example.com        not https://alice@…
    _shape("://", r"(?i:https?)://((?=[^\s/@:]{0,60}\d)[^\s/:@\"'<>*]{8,400}|[^\s/:@\"'<>*]{16,400})@"),
    # https%3A%2F%2Falice%3Ahunter2%40host
    _shape("%3A%2F%2F|%3a%2f%2f", r"(?i)%3a%2f%2f([^\s/@%]{0,200}%3a[^\s@]{1,300}?)%40"),
    # https:\/\/alice:hunter2@host, as some write slashes in JSON
    _shape(r":\/\/", r":\\/\\/([^\s/:@\[\]\"'<>]{0,200}:[^\s/\"<>]{1,400})@"),
    # alice:hunter2@tcp(db:3306)/x
    _shape("@tcp(|@unix(", r"(?<![^\s\"'=])[\w.-]{1,64}:([^\s]{1,200}?)@(?:tcp|unix)\("),
    # ?X-Amz-Signature=0f3c…        &sig=aB%2F…: the URL alone gives access to the file
    _shape(
        "ignature=|&sig=|?sig=|;sig=",
        r"(?i)(?:[?&;](?:[\w-]{0,40}signature|sig)|[\w-]{2,40}-signature)=([\w%/+=.-]{8,500})",
    ),
    # https://hooks.slack.com/services/T0/B0/abc        https://discord.com/api/webhooks/1/abc
    _shape(
        "hooks.slack.com/|/api/webhooks/",
        r"(?:hooks\.slack\.com/(?:services|workflows|triggers)|/api/webhooks)/([\w/-]{8,200})",
    ),
)

_OPTIONS = (
    # bearer 0123…        not bearer authentication
    _shape(
        "earer |EARER ",
        r"(?i)\bbearer[ \t]{1,3}((?=[\w.~+/=-]{0,100}\d)[\w.~+/=-]{8,2000}|[\w.~+/=-]{24,2000}"
        r"|[\w~+/=-]{8,2000}\.[\w-]{2,200})",
    ),
    # machine host login alice password hunter2        password hunter2
    _shape("password", r"(?i)\b(?:login|user|account)\s{1,9}[^\s]{1,200}\s{1,9}password\s{1,9}(?!is\b)([^\s]{1,200})"),
    _shape("password", r"(?im)^[ \t]{0,9}password[ \t]{1,9}((?=\S{0,80}[\dA-Z!@#$%^&*_=+-])\S{1,200})[ \t]{0,9}$"),
    # curl -u alice:hunter2        wget --proxy-user=alice:hunter2
    _shape(
        "curl|wget|http -a",
        r"(?<![^\s\"'`])(?:-u|-U|-a|--user|--proxy-user)[ =]?[\"']?[^\s:\"'/]{1,100}:([^\s\"']{1,200})",
        of_option=True,
    ),
    # mysql -u root -phunter2        sshpass -p hunter2        docker login -u alice -p hunter2
    _shape("mysql|mariadb", r"(?<!\S)-p(?!ort)[\"']?([^\s=\"'-][^\s]{0,200})", of_option=True),
    _shape("sshpass", r"sshpass\s{1,3}(?:-v\s)?-p\s{0,3}[\"']?([^\s\"']{1,200})"),
    _shape(
        " login",
        r"(?:docker|podman|nerdctl|buildah|skopeo|crane|oras|az|oc|(?:helm|apptainer|singularity) registry)"
        r" login\b[^\n]{0,200}? -p[ =]?[\"']?([^\s\"']{1,2000})",
    ),
    # redis-cli -a hunter2  ldapsearch -w hunter2  ipmitool -P hunter2  zip -P hunter2  7z -phunter2  mongosh -p hunter2
    _shape("redis|ldap|mongo", r"(?<!\S)(?:-a|-w|-p) {1,3}[\"']?([^\s\"'-][^\s\"']{0,200})", of_option=True),
    _shape("ipmi|zip |sqlcmd|bcp ", r"(?<!\S)-P {1,3}[\"']?([^\s\"'-][^\s\"']{0,200})", of_option=True),
    _shape("7z |7za |unrar |rar a |rar x ", r"(?<!\S)-h?p[\"']?([^\s\"'-][^\s\"']{0,200})", of_option=True),
    # smbclient -U alice%hunter2        openssl … -passin pass:hunter2
    _shape(
        "smb|winexe|rpcclient", r"(?<!\S)(?:-U|--user)[ =]?[\"']?[^\s%\"']{1,100}%([^\s\"']{1,200})", of_option=True
    ),
    _shape("pass:", r"(?<![A-Za-z0-9])pass:([^\s\"']{1,200})"),
    # echo hunter2 | sudo -S id        echo alice:hunter2 | chpasswd
    _shape(
        "sudo|chpasswd|--password-stdin|--stdin",
        r"(?:echo|printf) {1,3}(?:-n |[\"']%s(?:\\n)?[\"'] )?[\"']?([^\s|\"']{1,200})[\"']? {0,3}\| {0,3}"
        r"(?:sudo -S|(?:sudo )?chpasswd|[^|\n]{1,200}--(?:password-)?stdin)",
    ),
    # wandb.login(key="0123…")        vault login hvs…        requirepass hunter2
    _shape("login(", r"login\([^()\n]{0,200}?\bkey {0,2}= {0,2}[\"']([^\"'\s]{8,200})[\"']"),
    _shape("vault login", r"vault login {1,3}(?:-method=\S{1,40} {1,3})?([^\s-][^\s=]{7,500})(?!\S)"),
    _shape("requirepass|masterauth", r"(?:requirepass|masterauth) {1,3}[\"']?([^\s\"']{1,400})"),
    # https://maps.example.com/v1?key=AbC123…
    _shape("?key=|&key=", r"[?&]key=((?=[\w-]{0,80}\d)[\w-]{12,200})"),
    # kubectl create secret generic x --from-literal=user=hunter2        vault login hvs…
    _shape("from-literal", r"--from-literal[= ][\"']?[\w.-]{1,200}=([^\s]{1,2000})"),
    # HTTPBasicAuth("alice", "hunter2")        --basic-auth alice:hunter2
    _shape(
        "asicAuth(|asic_auth(",
        r"(?i)basic_?auth\(\s{0,2}b?[\"'][^\"'\n]{0,200}[\"'],\s{0,3}b?([\"'][^\"'\n]{1,200}[\"'])",
    ),
    _shape("-auth ", r"(?<!\S)--?(?:basic-)?auth {1,3}[\"']?[^\s:\"'/]{1,100}:([^\s\"']{1,200})"),
    # API key: 0123…        [sudo] password for alice: hunter2
    _shape(
        " key| Key| KEY",
        r"(?i)\b(?:api|secret|access|private|account|auth) key {0,2}[:=] {0,2}[\"']?((?=\S{0,80}\d)[^\s\"']{8,400})",
    ),
    _shape("assword for ", r"[Pp]assword for [^\s]{1,80}: {1,2}(\S{1,200})"),
    # … IDENTIFIED BY 'hunter2'
    _shape("DENTIFIED BY|dentified by", r"(?i)identified by(?: password)? {1,3}[\"']([^\"'\n]{1,200})"),
)

SHAPES = (*OF_ADDRESSES, *_ADDRESSES, *_TOKENS, *_OPTIONS, *OF_PROGRAMS)
